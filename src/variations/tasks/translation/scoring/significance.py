"""Is a difference in BLEU more than chance? Paired tests over sentences, and over sentences and seeds together.

BLEU of any resampled test set is a function of ten summed counts per sentence, so a test with n resamples is one matrix
product. Shapes: S sentences, n resamples, K seeds; a system's counts are an (S, 10) array in sacreBLEU's order
[hypothesis length, reference length, matches of 1- to 4-grams, totals of 1- to 4-grams].

Random draws are those of `sacrebleu.significance` with the same seed, so that its p-values can be reproduced
(`p_sacrebleu`). Our own `p` differs for the bootstrap: sacreBLEU compares |d*| - mean |d*| with |d|, which is in
effect one-sided and calls twice as many chance differences significant as the level says; we compare |d* - mean d*|.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from variations.errors import DataError
from variations.tasks.translation.scoring.gleu import MAX_ORDER, ngrams

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

SEED = 12345
"""sacreBLEU's own default seed."""
CHUNK = 500
"""Resamples drawn at once; bounds memory to some 12 MB per 3,000 sentences."""
TIE = 1e-9
"""BLEU points below which two differences are the same up to rounding."""


@dataclass(frozen=True)
class Comparison:
    """A system against its base on one test set, in BLEU points."""

    difference: float
    """System minus base (means over seeds where there are several)."""
    low: float
    high: float
    """Confidence interval of the difference at `level`."""
    p: float
    """Two-sided probability of so large a difference by chance; at least 1 / (n + 1)."""
    method: str
    """`bootstrap`, `randomisation` or `seeds`."""
    n: int
    seed: int
    level: float = 0.95
    p_sacrebleu: float | None = None
    """The p-value `sacrebleu --paired-bs` or `--paired-ar` prints for the same n and seed."""
    seeds: tuple[int, int] = (1, 1)
    """How many seeds of the system and of the base took part."""
    variance: tuple[str, ...] = ("sentences",)
    """The sources of chance accounted for: `sentences`, `seeds`."""

    @property
    def significant(self) -> bool:
        """Whether chance alone is an unlikely explanation at this level."""
        return self.p < 1 - self.level


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


def _check(*systems: Counts) -> int:
    """The common number of sentences S; ValueError when the systems were scored on different test sets."""
    references = {(len(counts), int(counts[:, 1].sum())) for counts in systems}
    if len(references) != 1:
        raise ValueError("the systems were not scored on the same references")
    return len(systems[0])


def _resamples(sentences: int, n: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each sentence is drawn in each resample: blocks of (at most CHUNK, S), n rows in all."""
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        drawn = rng.choice(sentences, size=(rows, sentences), replace=True)
        drawn += sentences * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def _share(extreme: NDArray[np.bool_]) -> float:
    """(c + 1) / (n + 1), as a p-value that keeps its level for any n (Edgington 1986)."""
    return float((extreme.sum() + 1) / (len(extreme) + 1))


def _interval(draws: Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_bootstrap(
    system: Counts,
    base: Counts,
    *,
    n: int = 1000,
    seed: int = SEED,
    level: float = 0.95,
    score: Callable[[NDArray[np.number]], Floats] = bleu,
) -> Comparison:
    """Paired bootstrap resampling (Koehn 2004): n test sets drawn with replacement, the same ones for both systems.

    `system`, `base`: (S, 10) counts on the same references, or those that another `score` is a function of: the second
    column must depend on the references alone. The interval holds percentiles of the resampled
    differences; `p` asks how often a difference, centred on zero, is as large as the observed one.
    """
    sentences, rng = _check(system, base), np.random.default_rng(seed)
    blocks = [score(drawn @ system) - score(drawn @ base) for drawn in _resamples(sentences, n, rng)]
    draws = np.concatenate(blocks)
    difference = float(score(system.sum(0)) - score(base.sum(0)))
    p = _share(np.abs(draws - draws.mean()) >= abs(difference) - TIE)
    theirs = _share(np.abs(draws) - np.abs(draws).mean() > abs(difference))
    return Comparison(difference, *_interval(draws, level), p, "bootstrap", n, seed, level, theirs)


def paired_randomisation(
    system: Counts, base: Counts, *, n: int = 10_000, seed: int = SEED, level: float = 0.95
) -> Comparison:
    """Paired approximate randomisation (Riezler and Maxwell 2005): outputs swapped sentence by sentence at random.

    The p-value comes from n random swaps; the interval, which this test has none of, from 1,000 bootstrap resamples.
    """
    sentences, rng = _check(system, base), np.random.default_rng(seed)
    total, gap = system.sum(0) + base.sum(0), (base - system).astype(np.float64)
    blocks = []
    for start in range(0, n, CHUNK):
        swapped = rng.integers(2, size=(min(CHUNK, n - start), sentences), dtype=bool)
        mixed = swapped.astype(np.float64) @ gap + system.sum(0)
        blocks.append(np.abs(bleu(mixed) - bleu(total - mixed)))
    draws = np.concatenate(blocks)
    difference = float(bleu(system.sum(0)) - bleu(base.sum(0)))
    p, theirs = _share(draws >= abs(difference) - TIE), _share(draws > abs(difference))
    interval = paired_bootstrap(system, base, seed=seed, level=level)
    return Comparison(difference, interval.low, interval.high, p, "randomisation", n, seed, level, theirs)


def across_seeds(
    system: Sequence[Counts], base: Sequence[Counts], *, n: int = 1000, seed: int = SEED, level: float = 0.95
) -> Comparison:
    """Difference of mean BLEU over seeds, with the chance in both seeds and sentences.

    `system`, `base`: (S, 10) counts for each seed, all on the same references; the numbers of seeds may differ. Each of
    the n draws is the sum of two parts: what a bootstrap of the sentences (the same ones for all runs) does to the
    difference of means, and a normal deviation with the variance that seeds add. Seeds are not drawn with replacement:
    three runs yield only ten samples, whose variance is too small by a third. What the variance between runs owes to
    the sentences (a seed is lucky on *these*) is taken off, so that nothing counts twice. The sum is divided by
    √(χ²_ν/ν), which makes Student's t of a normal, with the degrees of freedom ν of Satterthwaite (1946): a variance
    known from three runs is itself uncertain.

    The variance of seeds is pooled over both sides, as in the two-sample t-test, so that one side may have a single
    seed; with one seed on both sides only sentences count, and `variance` of the result says so. Seeds of the two sides
    are taken as unrelated. Raises ValueError when a side has no run or the references differ.
    """
    if not system or not base:
        raise ValueError("a comparison across seeds needs at least one run on each side")
    sentences, rng = _check(*system, *base), np.random.default_rng(seed)
    runs = (len(system), len(base))
    sides = [_bleu_by_seed(side, sentences, n, seed) for side in (system, base)]
    difference = float(_observed(system).mean() - _observed(base).mean())

    draws = sides[0].mean(0) - sides[1].mean(0)
    draws = draws - draws.mean()
    degrees = sum(runs) - 2
    if degrees:
        draws = _with_seeds(draws, [_observed(system), _observed(base)], sides, sentences - 1, rng)

    low, high = _interval(difference + draws, level)
    p = _share(np.abs(draws) >= abs(difference) - TIE)
    sources = ("sentences", "seeds") if degrees else ("sentences",)
    return Comparison(difference, low, high, p, "seeds", n, seed, level, None, runs, sources)


def _observed(side: Sequence[Counts]) -> Floats:
    """(K,) BLEU of each run on the whole test set."""
    return bleu(np.stack([counts.sum(0) for counts in side]))


def _bleu_by_seed(side: Sequence[Counts], sentences: int, n: int, seed: int) -> Floats:
    """(K, n) BLEU of each run on each resampled test set; equal `seed` gives equal test sets."""
    stacked = np.concatenate(side, axis=1)  # (S, K·10)
    blocks = [
        bleu((drawn @ stacked).reshape(len(drawn), len(side), -1))
        for drawn in _resamples(sentences, n, np.random.default_rng(seed))
    ]
    return np.concatenate(blocks).T


def _with_seeds(
    draws: Floats, observed: Sequence[Floats], resampled: Sequence[Floats], sentences: int, rng: np.random.Generator
) -> Floats:
    """(n,) draws of the difference due to sentences (`sentences` degrees of freedom), widened by what seeds add.

    For either side, `observed` is (K,) and `resampled` (K, n). In a two-way layout of seeds and sentences, the variance
    between runs is that of the seeds plus that of the interaction; the latter shows as the runs' deviations from their
    mean change from one resampled test set to the next.
    """
    degrees = sum(len(scores) for scores in observed) - 2
    share = sum(1 / len(scores) for scores in observed) / degrees
    between = share * sum(float(((scores - scores.mean()) ** 2).sum()) for scores in observed)
    interaction = share * sum(float((scores - scores.mean(0)).var(axis=1).sum()) for scores in resampled)
    added, known = max(between - interaction, 0.0), float(draws.var())
    uncertain = known**2 / max(sentences, 1) + between**2 / degrees
    if uncertain == 0:
        return draws
    freedom = max((known + added) ** 2 / uncertain, degrees)
    wider = draws + rng.normal(0.0, np.sqrt(added), len(draws))
    return np.asarray(wider / np.sqrt(rng.chisquare(freedom, len(draws)) / freedom))
