"""BLEU as a function of sums over sentences, so that a test set can be resampled without counting n-grams again.

The BLEU of any set of sentences is a function of ten summed counts, in sacreBLEU's order: hypothesis length, reference
length, matches of 1- to 4-grams, totals of 1- to 4-grams. Shapes: S sentences; a system's counts are an (S, 10) array.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from variations.system.errors import DataError
from variations.tasks.translation.scoring.gleu import MAX_ORDER

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = -1
"""The number of all words that do not occur in the references."""


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a") -> Counts:
    """Sufficient statistics of BLEU, (S, 10): a row for each sentence, columns as in the module's docstring.

    `tokenize` is `13a` (sacreBLEU's), or `none` for tokenised text.
    Raises DataError when the sides differ in length or are empty.
    """
    if len(hypotheses) != len(references) or not references:
        raise DataError(
            "A test of significance needs as many hypotheses as references, and at least one; there are "
            f"{len(hypotheses)} and {len(references)}."
        )
    return _references(tuple(references), tokenize).counts(hypotheses)


@lru_cache(maxsize=8)
def _references(lines: tuple[str, ...], tokenize: str) -> "_References":
    """The references of a test set, which all rows and seeds of a table share."""
    return _References(lines, tokenize)


class _Words(dict[str, list[int]]):
    """The numbers of the words in a piece of text without spaces, by sacreBLEU's tokenisation.

    Neither tokenisation looks across a space, so a line is tokenised piece by piece, and each distinct piece once.
    """

    def __init__(self, tokenize: str) -> None:
        from sacrebleu.metrics.bleu import BLEU

        super().__init__()
        self.numbers: dict[str, int] = {}
        self.complete = False
        """Whether new words are UNKNOWN from now on."""
        self._tokens = {"13a": BLEU(tokenize="13a").tokenizer, "none": str}[tokenize]

    def __missing__(self, piece: str) -> list[int]:
        words = self._tokens(piece).split()
        if not self.complete:
            for word in words:
                self.numbers.setdefault(word, len(self.numbers))
        found = self[piece] = [self.numbers.get(word, UNKNOWN) for word in words]
        return found

    def of(self, lines: Sequence[str]) -> tuple[Counts, Counts]:
        """Number and sentence of each word of all lines, (W) each."""
        words: list[int] = []
        ends = []
        for line in lines:
            for piece in line.split():
                words += self[piece]
            ends.append(len(words))
        return np.array(words, dtype=np.int64), np.repeat(np.arange(len(lines)), np.diff(ends, prepend=0))


class _References:
    """References, and how often each of their n-grams occurs in its sentence.

    For each order, `ngrams` has a sorted key for each different n-gram of each sentence: the index of its first n - 1
    words among the keys of the order below (for n = 1: the sentence), times the number of words, plus the last word.
    """

    def __init__(self, lines: Sequence[str], tokenize: str) -> None:
        self.words = _Words(tokenize)
        words, sentences = self.words.of(lines)
        self.words.complete = True
        self.lengths = np.bincount(sentences, minlength=len(lines))  # (S)
        self.ngrams: list[tuple[Counts, Counts, Counts]] = []
        """Keys, how often each occurs, and in which sentence."""
        starts, places = np.arange(len(words)), sentences
        for order in range(MAX_ORDER):
            starts, keys = self._keys(words, sentences, starts, places, order)
            found, places, often = np.unique(keys, return_inverse=True, return_counts=True)
            of_sentence = np.zeros(len(found), dtype=np.int64)
            of_sentence[places] = sentences[starts]
            self.ngrams.append((found, often, of_sentence))

    def _keys(
        self, words: Counts, sentences: Counts, starts: Counts, places: Counts, order: int
    ) -> tuple[Counts, Counts]:
        """Starts and keys of the n-grams at `starts`, with the indices `places`, that can be extended by one word."""
        inside = starts + order < len(words)
        starts, places = starts[inside], places[inside]
        last = starts + order
        goes_on = (sentences[last] == sentences[starts]) & (words[last] != UNKNOWN)
        return starts[goes_on], places[goes_on] * len(self.words.numbers) + words[last[goes_on]]

    def counts(self, hypotheses: Sequence[str]) -> Counts:
        """BLEU's counts of each sentence, (S, 10)."""
        words, sentences = self.words.of(hypotheses)
        lengths = np.bincount(sentences, minlength=len(hypotheses))
        columns = [lengths, self.lengths]
        starts, places = np.arange(len(words)), sentences
        for order, (known, often, of_sentence) in enumerate(self.ngrams):
            starts, keys = self._keys(words, sentences, starts, places, order)
            places = np.searchsorted(known, keys)
            there = np.append(known, UNKNOWN)[places] == keys
            starts, places = starts[there], places[there]
            matches = np.minimum(np.bincount(places, minlength=len(known)), often)
            columns.append(np.bincount(of_sentence, weights=matches, minlength=len(hypotheses)).astype(np.int64))
        columns += [np.maximum(lengths - order, 0) for order in range(MAX_ORDER)]
        return np.stack(columns, axis=1)


def bleu(sums: NDArray[np.number], *, smooth: bool = True) -> Floats:
    """BLEU in percent of summed counts (..., 10) -> (...), with sacreBLEU's default smoothing `exp`, or with none.

    An order without matches counts as 1 / 2^k matches, k the number of such orders so far (NIST's rule). BLEU is 0
    if nothing matches at all, if some order has no n-grams, or without smoothing if some order has no matches.
    """
    counts = np.asarray(sums, dtype=np.float64)
    ours, theirs, matches, totals = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    halvings = np.cumsum(matches == 0, axis=-1)
    smoothed = np.where(matches == 0, 0.5**halvings, matches)
    matched = (matches > 0).any(axis=-1) if smooth else (matches > 0).all(axis=-1)
    valid = (totals > 0).all(axis=-1) & matched
    precisions = smoothed / np.where(totals > 0, totals, 1)
    shortness = np.where(ours > 0, theirs / np.where(ours > 0, ours, 1), 1.0)
    penalty = np.exp(np.minimum(0.0, 1.0 - shortness))
    score: Floats = np.where(valid, 100 * penalty * np.exp(np.log(precisions).mean(axis=-1)), 0.0)
    return score
