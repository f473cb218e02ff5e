"""BLEU as a function of sums over sentences, so that a test set can be resampled without counting n-grams again.

The BLEU of any set of sentences is a function of ten summed counts, in sacreBLEU's order: hypothesis length, reference
length, matches of 1- to 4-grams, totals of 1- to 4-grams. Shapes: S sentences; a system's counts are an (S, 10) array.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from variations.system.errors import DataError
from variations.tasks.translation.scoring.gleu import MAX_ORDER, ngrams

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a") -> Counts:
    """Sufficient statistics of BLEU, (S, 10): a row for each sentence, columns as in the module's docstring.

    `tokenize` names a sacreBLEU tokenisation; `none` for text that is tokenised already.
    Raises DataError when the sides differ in length or are empty.
    """
    from sacrebleu.metrics.bleu import BLEU

    if len(hypotheses) != len(references) or not references:
        raise DataError(
            "A test of significance needs as many hypotheses as references, and at least one; there are "
            f"{len(hypotheses)} and {len(references)}."
        )
    tokens = BLEU(tokenize=tokenize).tokenizer
    pairs = zip(hypotheses, references, strict=True)
    rows = [_row(tokens(ours.rstrip()), tokens(theirs.rstrip())) for ours, theirs in pairs]
    return np.array(rows, dtype=np.int64)


@lru_cache(maxsize=20_000)
def _reference(line: str) -> Counter[tuple[str, ...]]:
    """N-grams of a tokenised reference, which all rows and seeds of a table share."""
    return ngrams(line.split())


def _row(hypothesis: str, reference: str) -> list[int]:
    words, theirs = hypothesis.split(), _reference(reference)
    matches = [0] * (MAX_ORDER + 1)
    for ngram, count in ngrams(words).items():
        if ngram in theirs:
            matches[len(ngram)] += min(count, theirs[ngram])
    totals = [max(len(words) - order, 0) for order in range(MAX_ORDER)]
    return [len(words), len(reference.split()), *matches[1:], *totals]


def bleu(sums: NDArray[np.number]) -> Floats:
    """BLEU in percent of summed counts (..., 10) -> (...), with sacreBLEU's default smoothing `exp`.

    An order without matches counts as 1 / 2^k matches, k the number of such orders so far (NIST's rule). BLEU is 0
    where nothing matches at all, or where some order has no n-grams.
    """
    counts = np.asarray(sums, dtype=np.float64)
    ours, theirs, matches, totals = counts[..., 0], counts[..., 1], counts[..., 2:6], counts[..., 6:10]
    halvings = np.cumsum(matches == 0, axis=-1)
    smoothed = np.where(matches == 0, 0.5**halvings, matches)
    valid = (totals > 0).all(axis=-1) & (matches > 0).any(axis=-1)
    precisions = smoothed / np.where(totals > 0, totals, 1)
    shortness = np.where(ours > 0, theirs / np.where(ours > 0, ours, 1), 1.0)
    penalty = np.exp(np.minimum(0.0, 1.0 - shortness))
    score: Floats = np.where(valid, 100 * penalty * np.exp(np.log(precisions).mean(axis=-1)), 0.0)
    return score
