"""The interface of decoding to a model and its cache; hypotheses, and the length penalty in their scores.

Rows: a cache has R rows, one hypothesis each, and B sentences. The rows of a sentence are consecutive, best first,
and equally many for each sentence, so data of a sentence need not be stored for each of its rows.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence."""

    tokens: list[int]
    """Ids without the start symbol and EOS."""
    score: float
    """log P / lp(|Y|), natural logarithm; hypotheses are ranked by it."""
    log_probability: float
    """log P(Y | X), including EOS if `finished`; -inf if the model allows no output."""
    finished: bool
    """Whether EOS was generated within the length limit."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(|Y|) = ((5 + |Y|) / 6)^alpha, where |Y| counts EOS (Wu et al. 2016, equation 14), or the largest float."""
    try:
        return float(((5 + length) / 6) ** alpha)
    except OverflowError:  # decode.alpha=100 and more than 7,000 tokens
        return sys.float_info.max


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


PAD, BOS, EOS, UNK = 0, 1, 2, 3
"""Default ids, those of every vocabulary of this project."""


class Cache(Protocol):
    """Keys and values of all positions so far, and other state that a model keeps between steps."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Replace row i by row `rows[i]`, for all i at once, in place.

        Rows are dropped, reordered and duplicated such that every sentence has equally many consecutive rows.

        Args:
            rows: (R',) int64, each in [0, R).
            sentences: (B',) int64, the current sentences to which the rows belong; None: all, in order.
        """
        ...


class Decodable(Protocol):
    """A sequence-to-sequence model that can be decoded one position at a time."""

    @property
    def start_id(self) -> int:
        """The first input token."""
        ...

    def start_cache(self, source: Tensor) -> Cache:
        """Encode a batch, once.

        Args:
            source: (B, S) int64, padded at the end.

        Returns:
            A cache of B rows, one per sentence, at position 0.
        """
        ...

    def decode_step(self, tokens: Tensor, cache: Any) -> Tensor:  # each model has its own kind of cache
        """Append one position to every row of the cache.

        Args:
            tokens: (R,) int64, the token at this position of each row. Rows whose hypothesis has ended or is
                impossible may have any id of the vocabulary; their logits are not used.
            cache: the cache of those R rows, advanced by one position.

        Returns:
            (R, V) logits of the next token, in any floating type.
        """
        ...
