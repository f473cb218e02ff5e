"""chrF of single sentences."""

from collections.abc import Sequence

NAME = "chrF"


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF2 of each hypothesis against its reference, 0 to 100.

    chrF and not BLEU, since most sentences of a young model share no 4-gram with their reference.
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return [
        metric.sentence_score(hypothesis, [reference]).score
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
