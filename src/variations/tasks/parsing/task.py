"""The task parsing. Importing it imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variations.configuration.rules import Fault, Rules, switched_off
from variations.configuration.schema import RunConfig
from variations.store.atomic import read_object
from variations.store.inputs import missing
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.base import Drawing, Place, Recorded, Samples, Size
from variations.tasks.parsing import stored
from variations.tasks.parsing.config import ParsingConfig
from variations.tasks.parsing.faults import RULES
from variations.tasks.parsing.measures import Measures
from variations.tasks.scored import Scored, ToScore
from variations.tasks.sequences.task import SequenceTask

if TYPE_CHECKING:
    from variations.tasks.parsing.experiment import ParsingExperiment
    from variations.tasks.parsing.module import ParsingData

SAMPLES = 20
"""Number of trees of a set that are shown."""


class Parsing(SequenceTask, Measures):
    """From a sentence to its constituency tree (see `tasks/task.py` for each member)."""

    name = "parsing"
    schema: type[RunConfig] = ParsingConfig
    rules: Rules = RULES
    incidental: Sequence[str] = ("data.cache", "data.workers", "decode.attention")
    drawn = "predicted tree over its gold tree, brackets that differ marked"
    shown: Mapping[str, str] = {"dev/ppl": "dev ppl {:.2f}", "dev/f1": "dev F1 {:.1f}"}
    curves: Mapping[str, Recorded] = {
        "dev/f1": Recorded("dev F1 (greedy, in training)", higher_is_better=True),
        "dev/nll": Recorded("dev loss, nats per symbol", logarithmic=True),
        "dev/ppl": Recorded("dev perplexity per symbol", logarithmic=True),
        "train/nll": Recorded("training loss, nats per symbol", logarithmic=True),
    }

    def without_effect(self, flat: Mapping[str, Any]) -> Mapping[str, Fault]:
        """As for other sequences; and the seed of generated trees, if trees are read."""
        off = super().without_effect(flat)
        if flat.get("data.kind") == "toy":
            return off
        return {**off, **switched_off(["data.seed"], "data.kind", "only data=trees_toy is generated from a seed")}

    def own_text(self, config: Mapping[str, Any]) -> bool:
        """Whether the trees come from a folder, which has the whole treebank or its sample."""
        return (config.get("data") or {}).get("kind") in ("treebank", "sample")

    def unusable_files(self, configs: Sequence[ParsingConfig]) -> list[Fault]:
        """Treebanks with missing files, and missing files of further trees, each reported once."""
        from variations.tasks.parsing.treebank import extra_files, find

        found: dict[str, Fault] = {}
        for data in (config.data for config in configs):
            split = None
            try:
                if data.kind != "toy" and data.root is not None and Path(data.root).expanduser().is_dir():
                    split = find(Path(data.root).expanduser(), data.kind)
            except DataError as error:
                found[f"data.root={data.root}"] = Fault(("data.root",), str(error))
            try:
                extra_files(data.extra or (), split)
            except DataError as error:
                found[f"data.extra={data.extra}"] = Fault(("data.extra",), str(error))
        return list(found.values())

    def data(self, config: ParsingConfig) -> "ParsingData":
        """The treebank with its vocabularies."""
        from variations.tasks.parsing.module import ParsingData

        return ParsingData(config)

    def experiment(self, config: ParsingConfig, data: Any, device: str) -> "ParsingExperiment":
        """The network, trained by maximum likelihood with label smoothing."""
        from variations.tasks.parsing.experiment import ParsingExperiment

        return ParsingExperiment(config, data, device)

    def network(self, config: ParsingConfig, folder: RunFolder) -> Any:
        """The network for the run's own vocabularies."""
        from variations.models import build
        from variations.tasks.parsing.config import WORDS
        from variations.tasks.parsing.words import Vocabulary

        path = folder.path / WORDS
        if not path.exists():
            raise missing(folder, WORDS)
        return build(config, Vocabulary.read(path).size)

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """That parameters are counted before the treebank, whose words and symbols may be other ones, is read."""
        counted = (
            "Parameters: counted with data.vocabulary and model.target_vocabulary rows; a treebank with fewer words or "
            "symbols makes the network smaller, and one with more word shapes than data.vocabulary makes it larger."
        )
        return [*([counted] if any(tables.values()) else []), *super().size_remarks(tables)]

    def changed_inputs(self, config: ParsingConfig, folder: RunFolder) -> list[str]:
        """Files of the treebank that are no longer those of the run."""
        from variations.tasks.parsing.module import CARD, changed_files, current_files

        path = folder.path / CARD
        if not path.is_file():
            return []
        try:
            now = current_files(config)
        except DataError as error:
            return [str(error)]
        card = read_object(path) or {}
        if not isinstance(card.get("files"), Mapping):
            return [f"{path} is damaged, so it is not known whether the treebank is still that of the run."]
        return changed_files(card, now)

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """The first trees of each set."""
        shown = {name: stored.lines(folder, name)[:SAMPLES] for name in stored.sets(folder)}
        return {name: Samples(("predicted", "gold"), trees) for name, trees in shown.items() if trees}

    def drawings(self, folder: RunFolder, part: str, line: int | None = None) -> Sequence[Drawing]:
        """Each predicted tree over its gold tree."""
        from variations.tasks.parsing.picture import drawings

        return drawings(folder, part, line)

    def score(self, asked: ToScore) -> Scored:
        """EVALB's report on bracketed trees, one per line."""
        from variations.tasks.parsing.scoring import scored

        return scored(asked)

    lengths = (25, 63)  # the means of the treebank's free sample, EOS included

    def testing(self, experiment: Any, folder: RunFolder, place: Place, limit: float) -> tuple[float, float]:
        """Outputs are forced to the length of the gold trees, which are also scored in place of predicted ones."""
        from variations.tasks.parsing import scores
        from variations.tasks.sequences.timing import Timing

        config, data = experiment.config, experiment.data

        def scoring() -> None:
            for name in config.decode.sets:
                gold = getattr(data.corpus, name)[: config.trainer.limit_test]
                scores.compare(gold, gold)

        sets = [{"dev": data.dev_tokens, "test": data.test_tokens}[name] for name in config.decode.sets]
        return Timing(experiment, place, limit).testing(sets, scoring)


TASK = Parsing()
