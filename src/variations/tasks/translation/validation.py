"""Dev loss, perplexity and BLEU of a network in training."""

from typing import Any

from variations.tasks.base import Place
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.scoring.bleu import moses, sacre_bleu
from variations.tasks.translation.scoring.gleu import sentence_gleu


class Validation:
    """Measures the weights as they are; draws no random numbers.

    Args:
        config: The run's configuration.
        data: Its corpus, set up.
        loss: The loss and the perplexity of the dev set.
        greedy: A search with beam 1 over the present weights.
    """

    def __init__(self, config: TranslationConfig, data: TranslationData, loss: Any, greedy: Any) -> None:
        self.config, self.data, self.loss, self.greedy = config, data, loss, greedy
        self.translated: tuple[list[str], list[str]] = ([], [])
        """Translations of the latest validation, and their references."""

    def __call__(self, place: Place) -> dict[str, float]:
        """`dev/nll` (nats per sub-word, unsmoothed, EOS counted), `dev/ppl`, and `dev/bleu` of greedy translations."""
        metrics: dict[str, float] = self.loss(place)
        if self.config.trainer.val_bleu and place.rank == 0:  # metrics are written there
            metrics["dev/bleu"] = self._bleu(place)
        return metrics

    def _bleu(self, place: Place) -> float:
        sources, references = self.data.corpus.dev.read()
        limit = self.config.trainer.val_bleu
        with place.precision():
            found = self.greedy().translate(sources[:limit], progress=False)
        self.translated = ([line.outputs[0].text for line in found], list(references[:limit]))
        return sacre_bleu(*self.translated).value

    def sentences(self) -> list[float]:
        """GLEU of each sentence translated by the latest validation, Moses-tokenised, in percent."""
        tokenise = moses(self.config.data.target)
        pairs = [(tokenise(hyp).split(), tokenise(ref).split()) for hyp, ref in zip(*self.translated, strict=True)]
        return [100 * sentence_gleu(hypothesis, reference) for hypothesis, reference in pairs]
