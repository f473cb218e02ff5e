"""A translation network and its tests (Vaswani et al. 2017, section 5)."""

import time
from typing import Any

import torch

from variations.store.atomic import write_text
from variations.store.ledger import RunFolder
from variations.tasks.base import Place
from variations.tasks.sequences.experiment import SequenceExperiment, perplexity
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data import fingerprints, multi30k
from variations.tasks.translation.data.corpora import seen_before, tokenised
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.inspection.stored import store_maps
from variations.tasks.translation.scoring.bleu import as_dict, moses, sacre_bleu
from variations.tasks.translation.scoring.gleu import sentence_gleu
from variations.tasks.translation.scoring.ladder import score_all


class TranslationExperiment(SequenceExperiment):
    """The network, its loss, and its tests (see `tasks/base.py` for each member).

    Args:
        config: The run's configuration.
        data: Its corpus, after `setup`.
        device: `cpu` or `cuda`.
    """

    config: TranslationConfig
    data: TranslationData

    def __init__(self, config: TranslationConfig, data: TranslationData, device: str = "cpu") -> None:
        super().__init__(config, data, data.subwords, data.subwords.size, device)
        self.translated: tuple[list[str], list[str]] = ([], [])
        """Translations of the latest validation, and their references."""

    def validate(self, place: Place) -> dict[str, float]:
        """`dev/nll` (nats per sub-word with EOS, no label smoothing), `dev/ppl`, and `dev/bleu` of greedy translations.

        It draws no random numbers.
        """
        metrics, limit = self.dev_loss(place), self.config.trainer.val_bleu
        if limit and place.rank == 0:  # which writes the metrics
            dev = self.data.encoded("dev").first(limit)
            with place.precision():
                found = self.translator(beam=1, nbest=1).translate(dev.sources, ids=dev.ids, progress=False)
            self.translated = ([line.outputs[0].text for line in found], dev.references)
            metrics["dev/bleu"] = sacre_bleu(*self.translated).value
        return metrics

    def dev_scores(self) -> list[float]:
        """GLEU of each dev sentence translated in the latest validation, Moses-tokenised, in percent."""
        tokenise = moses(self.config.data.target)
        pairs = [(tokenise(hyp).split(), tokenise(ref).split()) for hyp, ref in zip(*self.translated, strict=True)]
        return [100 * sentence_gleu(hypothesis, reference) for hypothesis, reference in pairs]

    def test(self, folder: RunFolder, place: Place) -> dict[str, Any]:
        """Translate and score the sets of `decode.sets`, store the text, and measure the losses of dev and test set."""
        data = self.data
        began = time.monotonic()
        scores = {name: self._translate_and_score(folder, place, name) for name in self.config.decode.sets}
        seconds = time.monotonic() - began
        with place.precision(), torch.inference_mode():
            store_maps(folder, self.network, data.subwords, self.config.decode.attention)
        dev, measured = self.dev_loss(place), {*scores, "dev"}
        total, tokens, words = self._test_loss(place)
        return {
            "scores": scores,
            "loss": {
                "dev_nll": dev["dev/nll"],
                "dev_ppl": dev["dev/ppl"],
                "test_nll": total / max(1, tokens),
                "test_ppl": perplexity(total / max(1, tokens)),
                "test_ppl_per_word": perplexity(total / max(1, words)),
            },
            "vocabulary": data.subwords.size,
            "dropped_pairs": data.train_tokens.dropped,
            "decoding_seconds": seconds,
            "remarks": [
                *(text for name, text in seen_before(data.corpus) if name in measured),
                *(text for name, text in tokenised(data.corpus).items() if name in measured),
                *self.remarks(),
            ],
        } | self._facts()

    def _facts(self) -> dict[str, Any]:
        """What a reader of the result must know of the texts: sources that were cut, and texts under a foreign name."""
        found: dict[str, Any] = {"cut": self.cut} if self.cut else {}
        if self.config.data.kind == "multi30k":
            other = multi30k.others(fingerprints.texts(self.data.corpus, self.config.decode.sets))
            found |= {"not_of_multi30k": other} if other else {}
        return found

    def _translate_and_score(self, folder: RunFolder, place: Place, name: str) -> dict[str, dict[str, Any]]:
        trainer, translator = self.config.trainer, self.translator(nbest=1)
        text = self.data.encoded(name).first(trainer.limit_test)
        with place.precision(), torch.inference_mode():
            found = translator.translate(text.sources, ids=text.ids, progress=trainer.progress)
        self.tell_cuts(name, found)
        hypotheses = [line.outputs[0].text for line in found]
        folder.hypotheses.mkdir(exist_ok=True)
        for suffix, lines in (("hyp", hypotheses), ("ref", text.references), ("src", text.sources)):
            write_text(folder.hypotheses / f"{name}.{suffix}", "".join(f"{line}\n" for line in lines))
        return as_dict(score_all(hypotheses, text.references, self.config.data.target))

    def _test_loss(self, place: Place) -> tuple[float, int, int]:
        """Total negative log-likelihood of the test references in nats, their sub-words and their words."""
        test = self.data.encoded("test")
        total, tokens = self.loss_of(test.pairs, place)
        references = test.first(self.config.trainer.limit_test).references
        return total, tokens, sum(len(line.split()) for line in references)
