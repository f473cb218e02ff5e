"""A decoded sequence and its score."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence."""

    tokens: list[int]
    """Without the start symbol and without EOS."""
    score: float
    """log P / lp(|Y|), natural logarithm; what hypotheses are ranked by."""
    log_probability: float
    """log P(Y | X), EOS included when `finished`; -inf when the model left no possible output."""
    finished: bool
    """Whether EOS was generated within the length limit."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(|Y|) = ((5 + |Y|) / 6)^alpha, where |Y| counts EOS (Wu et al. 2016, equation 14)."""
    return float(((5 + length) / 6) ** alpha)


def hypotheses_from_lists(
    tokens: Sequence[Sequence[int]],
    words: Sequence[int],
    scores: Sequence[float],
    log_probabilities: Sequence[float],
    finished: Sequence[bool],
) -> list[Hypothesis]:
    """The possible ones among n rows of a search, in the order given; at least one, empty if none is possible."""
    found = [
        Hypothesis(list(row[:count]), score, log_probability, ended)
        for row, count, score, log_probability, ended in zip(
            tokens, words, scores, log_probabilities, finished, strict=True
        )
        if log_probability > float("-inf")
    ]
    return found or [Hypothesis([], float("-inf"), float("-inf"), False)]
