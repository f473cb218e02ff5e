"""The task translation. Importing it imports no torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variations.configuration.rules import Fault, Rules
from variations.configuration.schema import RunConfig
from variations.store.ledger import RunFolder
from variations.system.errors import ConfigError
from variations.tasks.base import Asked, Place, Recorded, Rehearsal, Samples, TestedRun
from variations.tasks.scored import Scored, ToScore
from variations.tasks.sequences.task import UNSCALED, SequenceTask
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.faults import RULES
from variations.tasks.translation.measures import Measures

if TYPE_CHECKING:
    from variations.tasks.translation.data.module import TranslationData
    from variations.tasks.translation.experiment import TranslationExperiment


class Translation(SequenceTask, Measures):
    """From text in one language to text in another (see `tasks/task.py` for each member)."""

    name = "translation"
    schema: type[RunConfig] = TranslationConfig
    rules: Rules = RULES
    incidental: Sequence[str] = ("data.root", "data.cache", "data.workers", "decode.attention")
    shown: Mapping[str, str] = {"dev/ppl": "dev ppl {:.2f}", "dev/bleu": "dev BLEU {:.1f}"}
    curves: Mapping[str, Recorded] = {
        "dev/bleu": Recorded("dev BLEU (greedy, in training)", higher_is_better=True),
        "dev/nll": Recorded("dev loss, nats per sub-word", logarithmic=True),
        "dev/ppl": Recorded("dev perplexity per sub-word", logarithmic=True),
        "train/nll": Recorded("training loss, nats per sub-word", logarithmic=True),
    }

    def scaled_sizes(self, config: Mapping[str, Any]) -> str | None:
        """As for other sequences, but not for rows of their paper's own size."""
        return None if self.scale(config) == UNSCALED else super().scaled_sizes(config)

    def own_text(self, config: Mapping[str, Any]) -> bool:
        """Whether the corpus is the user's own folder."""
        return (config.get("data") or {}).get("kind") == "folder"

    def unusable_files(self, configs: Sequence[TranslationConfig]) -> list[Fault]:
        """Files that a folder lacks, and pairs of a user's corpus whose numbers of lines differ, each reported once."""
        from variations.tasks.translation.data.corpora import missing_files
        from variations.tasks.translation.data.textfiles import unequal_files

        keys = ("data.root", "data.train", "data.dev", "data.test", "data.source", "data.target")
        if missing := dict.fromkeys(text for config in configs if (text := missing_files(config.data))):
            return [Fault(keys, text) for text in missing]
        corpora = dict.fromkeys(
            (c.data.root, (c.data.train, c.data.dev, c.data.test), c.data.source, c.data.target)
            for c in configs
            if c.data.kind == "folder" and c.data.root is not None
        )
        return [
            Fault(("data.root", "data.train", "data.dev", "data.test"), text)
            for root, stems, source, target in corpora
            for text in unequal_files(Path(str(root)).expanduser(), stems, source, target)
        ]

    def data(self, config: TranslationConfig) -> "TranslationData":
        """The corpus with its sub-words."""
        from variations.tasks.translation.data.module import TranslationData

        return TranslationData(config)

    def experiment(self, config: TranslationConfig, data: Any, device: str) -> "TranslationExperiment":
        """The network, trained by maximum likelihood with label smoothing."""
        from variations.tasks.translation.experiment import TranslationExperiment

        return TranslationExperiment(config, data, device)

    def network(self, config: TranslationConfig, folder: RunFolder) -> Any:
        """The network for the run's own vocabulary."""
        from variations.models import build
        from variations.tasks.translation.data.subwords import subwords_of

        return build(config, subwords_of(config, folder).size)

    def changed_inputs(self, config: TranslationConfig, folder: RunFolder) -> list[str]:
        """Texts that have changed since the run."""
        from variations.tasks.translation.data.fingerprints import changed_texts

        return changed_texts(config, folder)

    def foreseen(self, config: TranslationConfig) -> list[str]:
        """That scores will be of text which looks tokenised already."""
        from variations.tasks.translation.data.corpora import at_first_sight

        return [text.rstrip(".") for text in at_first_sight(config.data)]

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """The first translations of each set."""
        from variations.tasks.translation.samples import samples

        return samples(folder)

    def pictures(self, folder: RunFolder, experiment: Any) -> Mapping[str, Path]:
        """Attention of one test sentence, every layer and head."""
        from variations.tasks.translation.samples import attention_pictures

        return attention_pictures(folder, experiment.network, experiment.data.subwords)

    def attended(
        self, folder: RunFolder, config: TranslationConfig, network: Any, asked: Asked
    ) -> Iterator[tuple[str, Any]]:
        """Every layer and head for one sentence."""
        from variations.tasks.translation.data.subwords import subwords_of
        from variations.tasks.translation.inspection.drawn import attention_figures

        return attention_figures(folder, network, subwords_of(config, folder), config, asked)

    verbs: Mapping[str, str] = {"translate": "variations.tasks.translation.translate:VERB"}

    def score(self, asked: ToScore) -> Scored:
        """The ladder of scores on lines of text."""
        from variations.tasks.translation.scoring.report import scored

        return scored(asked)

    def answering(
        self, folder: RunFolder, config: TranslationConfig, network: Any, **search: Any
    ) -> Callable[[Sequence[str]], list[str]]:
        """Translations by beam search; `search` overrides keys of the run's `decode`."""
        import torch

        from variations.configuration.faults import check
        from variations.tasks.translation.data.subwords import subwords_of
        from variations.tasks.translation.translate import BeamConfig, TranslateConfig, translator_of

        asked = BeamConfig(**search)
        if faults := check(asked):
            raise ConfigError([fault.text for fault in faults])
        translator = translator_of(TranslateConfig(decode=asked), network, subwords_of(config, folder), config)

        def best(lines: Sequence[str]) -> list[str]:
            with torch.inference_mode():
                return [found.outputs[0].text for found in translator.translate(lines, progress=False)]

        return best

    def rehearsal(self, config: TranslationConfig) -> Rehearsal:
        """The corpus, its first pairs, or invented lengths if it is not on this machine."""
        from variations.tasks.translation.rehearsal import rehearsal

        return rehearsal(config)

    def testing(self, experiment: Any, folder: RunFolder, place: Place, limit: float) -> tuple[float, float]:
        """Outputs are forced to the length of the references, which are also scored in place of translations."""
        from variations.tasks.sequences.timing import Timing
        from variations.tasks.translation.scoring.ladder import score_all

        config, data = experiment.config, experiment.data

        def scoring() -> None:
            if hasattr(data, "corpus"):  # lengths that are invented have no text
                sets = data.corpus.sets()
                for name in config.decode.sets:
                    references = sets[name].read()[1][: config.trainer.limit_test]
                    score_all(references, references, config.data.target)

        sets = [data.tokens(name) for name in config.decode.sets]
        return Timing(experiment, place, limit).testing(sets, scoring)

    def untrained(self, runs: Sequence[TestedRun]) -> str | None:
        """By the fall of the dev loss at the end, and by the BLEU of baselines that need no training."""
        from variations.tasks.translation.trained import why_untrained

        return why_untrained(runs)

    def unjudged(self, runs: Sequence[TestedRun]) -> str | None:
        """Some run has too few validations, or no run's texts can be read."""
        from variations.tasks.translation.trained import unjudged

        return unjudged(runs)

    def past_its_best(self, runs: Sequence[TestedRun]) -> str | None:
        """By the rise of the dev perplexity above its lowest value."""
        from variations.tasks.translation.trained import past_its_best

        return past_its_best([run.curve("dev/nll") for run in runs])

    def record(self, run: TestedRun) -> Mapping[str, Any]:
        """Texts, or BLEU's counts if the text may not be published, and the BLEU of baselines."""
        from variations.tasks.translation.trained import record

        return record(run.folder, run.config)


TASK = Translation()
