"""Is a difference between two systems more than chance? Paired tests over items, and over items and seeds together.

A measure is a function of sums over items (the sentences of a test set, say): BLEU of ten counts, a mean of one value
and 1. So a test with n resamples is one matrix product. Shapes: S items, n resamples, K seeds; what each item adds to a
system's sums is an (S, k) array, and `aggregate` turns sums, (..., k), into the measure, (...).

Random draws are those of `sacrebleu.significance` with the same seed, so that its p-values can be reproduced
(`p_sacrebleu`). Our own `p` differs for the bootstrap: sacreBLEU compares |d*| - mean |d*| with |d|, which is in
effect one-sided and calls twice as many chance differences significant as the level says; we compare |d* - mean d*|.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.tasks.base import Restarts

Items = NDArray[Any]
"""What each item adds to a system's sums, (S, k)."""
Floats = NDArray[np.float64]
Aggregate = Callable[[NDArray[Any]], Floats]
"""The measure of sums over items, (..., k) to (...)."""

SEED = 12345
"""sacreBLEU's own default seed."""
CHUNK = 500
"""Resamples drawn at once; bounds memory to some 12 MB per 3,000 items."""
KEPT = 4_000_000
"""Numbers of items times resamples that are drawn once for a whole table (32 MB); more are drawn anew for each use."""
TOGETHER = 64
"""Runs whose sums are resampled in one product of matrices."""
TIE = 1e-9
"""Two differences count as equal, up to rounding, if they differ by less than this."""


@dataclass(frozen=True)
class Comparison:
    """A system against its base on one test set, in the measure's unit."""

    difference: float
    """System minus base (means over seeds where there are several)."""
    low: float
    high: float
    """Confidence interval of the difference at `level`."""
    p: float
    """Two-sided probability of so large a difference by chance; of one seed on each side, at least 1 / (n + 1)."""
    method: str
    """`bootstrap`, `randomisation`, `seeds` or `restarts`."""
    n: int
    seed: int
    level: float = 0.95
    p_sacrebleu: float | None = None
    """The p-value `sacrebleu --paired-bs` or `--paired-ar` prints for the same n and seed."""
    seeds: tuple[int, int] = (1, 1)
    """Numbers of seeds of the system and of the base, or of restarts if they are a source of chance."""
    variance: tuple[str, ...] = ("items",)
    """The sources of chance accounted for: `items`, `seeds`, `restarts`."""

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at this level."""
        return self.p < 1 - self.level


def _check(*systems: Items) -> int:
    """The common number of items S. Raises ValueError if it differs between systems, UndefinedError if it is one."""
    if len({len(items) for items in systems}) != 1:
        raise ValueError("the systems were not scored on the same items")
    if len(systems[0]) == 1:
        raise UndefinedError("a single one has no spread")
    return len(systems[0])


def _resamples(items: int, n: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How often each item is drawn in each resample: blocks of (at most CHUNK, S), n rows in all."""
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        drawn = rng.choice(items, size=(rows, items), replace=True)
        drawn += items * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items).astype(np.float64)


def _swaps(items: int, n: int, rng: np.random.Generator) -> Iterator[Floats]:
    """1 where an item is swapped: blocks of (at most CHUNK, S), n rows in all."""
    for start in range(0, n, CHUNK):
        yield rng.integers(2, size=(min(CHUNK, n - start), items), dtype=bool).astype(np.float64)


Draw = Callable[[int, int, np.random.Generator], Iterator[Floats]]


def _by(draw: Draw, items: int, n: int, seed: int) -> Iterable[Floats]:
    """The blocks of `_resamples` or `_swaps` for a seed. All runs of a table share them, and they are kept if few."""
    return _kept(draw, items, n, seed) if items * n <= KEPT else draw(items, n, np.random.default_rng(seed))


@lru_cache(maxsize=2)
def _kept(draw: Draw, items: int, n: int, seed: int) -> tuple[Floats, ...]:
    return tuple(draw(items, n, np.random.default_rng(seed)))


class UndefinedError(ValueError):
    """Chance in the items cannot be estimated; the message says why: a single item, or 0/0 for some that are drawn."""


def _finite(draws: Floats) -> Floats:
    if not np.isfinite(draws).all():
        raise UndefinedError("the measure is not a number for some of the draws")
    return draws


def _spread(difference: float, draws: Floats) -> Floats:
    """The draws around zero. Raises UndefinedError if they are all alike, though the systems differ."""
    if abs(difference) > TIE and np.abs(draws).max() < TIE:
        raise UndefinedError("all of them differ alike, which shows no spread")
    return draws


def _share(extreme: NDArray[np.bool_]) -> float:
    """(c + 1) / (n + 1), a p-value that is valid for any n (Edgington 1986)."""
    return float((extreme.sum() + 1) / (len(extreme) + 1))


def _interval(difference: float, draws: Floats, level: float) -> tuple[float, float]:
    """The symmetric interval (Hall 1988) of a difference whose `draws` are centred on zero.

    It leaves out zero exactly if `_share` of as large draws is below 1 - level, so it agrees with p and the mark.
    """
    shares = (np.arange(len(draws)) + 1) / (len(draws) + 1)  # p if 0, 1, … draws are as large as the difference
    fewer = int(np.count_nonzero(shares < 1 - level)) - 1
    largest = np.sort(np.abs(draws))[::-1]
    half = float(largest[max(fewer, 0)])
    if fewer < 0 or half >= abs(difference) - TIE:  # too few draws for any to be significant; a tie counts against it
        half = max(half, abs(difference))
    return difference - half, difference + half


def _judged(difference: float, draws: Floats, level: float) -> tuple[float, float, float]:
    """The ends of the interval of a difference, and its p; `draws` are centred on zero."""
    return *_interval(difference, draws, level), _share(np.abs(draws) >= abs(difference) - TIE)


def _by_students_t(difference: float, variance: float, freedom: float, level: float) -> tuple[float, float, float]:
    """The ends of the interval of a difference, and its p, by Student's t with `freedom` degrees of freedom.

    `variance` is that of the difference. Raises UndefinedError if it is zero, though the systems differ.
    """
    from scipy.special import stdtr, stdtrit  # the distribution and its quantiles, without all of scipy.stats

    error = math.sqrt(variance)
    if error < TIE:
        if abs(difference) > TIE:
            raise UndefinedError("all of them differ alike, which shows no spread")
        return difference, difference, 1.0
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return difference - half, difference + half, float(2 * stdtr(freedom, -abs(difference) / error))


class Resampled:
    """Scores of runs on test sets drawn with replacement, the same ones for all runs. Each run is scored once."""

    def __init__(self, aggregate: Aggregate, n: int, seed: int) -> None:
        self.aggregate = aggregate
        self.n = n
        self.seed = seed
        self._known: dict[int, tuple[Items, Floats]] = {}
        """By `id` of a run's items, which are kept so that no others take their place."""

    def of(self, runs: Sequence[Items], n: int) -> Floats:
        """(K, n): of each run its score on the first n test sets, at most those drawn."""
        new = list({id(run): run for run in runs if id(run) not in self._known}.values())
        for start in range(0, len(new), TOGETHER):
            group = new[start : start + TOGETHER]
            scores = _scores(_resamples, group, self.aggregate, self.n, self.seed)
            self._known |= {id(run): (run, own) for run, own in zip(group, scores, strict=True)}
        return np.stack([self._known[id(run)][1][:n] for run in runs])


def _scores(draw: Draw, runs: Sequence[Items], aggregate: Aggregate, n: int, seed: int) -> Floats:
    """(K, n): what `aggregate` makes of each run's items (S, k), weighted by each of n draws."""
    items = _check(*runs)
    stacked = np.concatenate(runs, axis=1).astype(np.float64)  # (S, K·k)
    blocks = [aggregate((drawn @ stacked).reshape(len(drawn), len(runs), -1)) for drawn in _by(draw, items, n, seed)]
    return _finite(np.concatenate(blocks).T)


def paired_tests(
    systems: Sequence[Items],
    bases: Sequence[Items],
    aggregate: Aggregate,
    *,
    n: int = 1000,
    seed: int = SEED,
    level: float = 0.95,
    resampled: Resampled | None = None,
) -> list[tuple[Comparison, Comparison]]:
    """`paired_bootstrap` and `paired_randomisation` of each system against its base, for all of them together.

    `resampled`: the scores of some of them, of at least n draws.
    """
    resampled = resampled or Resampled(aggregate, n, seed)
    resampled.of([*systems, *bases], 0)
    swapped = _swapped(systems, bases, aggregate, n, seed)
    return [
        (
            _bootstrap(system, base, resampled, n, level),
            _randomisation(_difference(system, base, aggregate), draws, seed, level),
        )
        for system, base, draws in zip(systems, bases, swapped, strict=True)
    ]


def paired_bootstrap(
    system: Items, base: Items, aggregate: Aggregate, *, n: int = 1000, seed: int = SEED, level: float = 0.95
) -> Comparison:
    """Paired bootstrap resampling (Koehn 2004): n test sets drawn with replacement, the same ones for both systems.

    `system`, `base`: (S, k), of the same items. `p` asks how often a resampled difference, centred
    on zero, is as large as the observed one. The interval is symmetric, and leaves out zero if and only if p is below
    1 - level.
    """
    return _bootstrap(system, base, Resampled(aggregate, n, seed), n, level)


def _bootstrap(system: Items, base: Items, resampled: Resampled, n: int, level: float) -> Comparison:
    _check(system, base)
    ours, theirs = resampled.of([system, base], n)
    draws, difference = ours - theirs, _difference(system, base, resampled.aggregate)
    as_sacrebleu = _share(np.abs(draws) - np.abs(draws).mean() > abs(difference))
    draws = _spread(difference, draws - draws.mean())
    judged = _judged(difference, draws, level)
    return Comparison(difference, *judged, "bootstrap", n, resampled.seed, level, as_sacrebleu)


def _difference(system: Items, base: Items, aggregate: Aggregate) -> float:
    return float(aggregate(system.sum(0)) - aggregate(base.sum(0)))


def paired_randomisation(
    system: Items, base: Items, aggregate: Aggregate, *, n: int = 10_000, seed: int = SEED, level: float = 0.95
) -> Comparison:
    """Paired approximate randomisation (Riezler and Maxwell 2005): outputs swapped item by item at random.

    n random swaps show what chance does if the systems do not differ; the interval has the width of that.
    """
    (draws,) = _swapped([system], [base], aggregate, n, seed)
    return _randomisation(_difference(system, base, aggregate), draws, seed, level)


def _swapped(systems: Sequence[Items], bases: Sequence[Items], aggregate: Aggregate, n: int, seed: int) -> Floats:
    """(K, n): how far each system and its base differ after each of n random swaps."""
    items, found = _check(*systems, *bases), []
    for start in range(0, len(systems), TOGETHER):
        ours, theirs = systems[start : start + TOGETHER], bases[start : start + TOGETHER]
        gap = np.concatenate([base - system for system, base in zip(ours, theirs, strict=True)], axis=1)
        gap = gap.astype(np.float64)  # (S, K·k)
        first = np.stack([system.sum(0) for system in ours])  # (K, k)
        total = first + np.stack([base.sum(0) for base in theirs])
        blocks = []
        for swaps in _by(_swaps, items, n, seed):
            mixed = (swaps @ gap).reshape(len(swaps), *first.shape) + first
            blocks.append(np.abs(aggregate(mixed) - aggregate(total - mixed)))
        found.append(_finite(np.concatenate(blocks).T))
    return np.concatenate(found)


def _randomisation(difference: float, draws: Floats, seed: int, level: float) -> Comparison:
    judged, as_sacrebleu = _judged(difference, draws, level), _share(draws > abs(difference))
    return Comparison(difference, *judged, "randomisation", len(draws), seed, level, as_sacrebleu)


def across_seeds(
    system: Sequence[Items],
    base: Sequence[Items],
    aggregate: Aggregate,
    *,
    n: int = 1000,
    seed: int = SEED,
    level: float = 0.95,
    resampled: Resampled | None = None,
) -> Comparison:
    """Difference of mean scores over seeds, with the chance in both seeds and items.

    `system`, `base`: (S, k) for each seed, all of the same items; the numbers of seeds may differ. The variance of the
    difference is the sum of two parts: that which a bootstrap of the items (the same n for all runs) shows, and that
    which seeds add. Seeds are not drawn with replacement: three runs yield only ten samples, whose variance is too
    small by a third. The part of the variance between runs that is due to the items (a seed is lucky on *these*) is
    subtracted, so that it is not counted twice. Interval and p are Student's t, with the degrees of freedom ν of
    Satterthwaite (1946): a variance known from three runs is itself uncertain.

    The variance of seeds is pooled over both sides, as in the two-sample t-test, so that one side may have a single
    seed; with one seed on both sides only items count, and `variance` of the result says so. Seeds of the two sides
    are taken as unrelated. `resampled` is as for `paired_tests`.

    Raises ValueError when a side has no run or the numbers of items differ; its subclass UndefinedError, as all tests
    do, if there is a single item or the measure is not a number for some draws.
    """
    if not system or not base:
        raise ValueError("a comparison across seeds needs at least one run on each side")
    items, runs = _check(*system, *base), (len(system), len(base))
    resampled = resampled or Resampled(aggregate, n, seed)
    sides = [resampled.of(side, n) for side in (system, base)]
    scores = [_observed(side, aggregate) for side in (system, base)]
    difference = float(scores[0].mean() - scores[1].mean())
    draws = sides[0].mean(0) - sides[1].mean(0)
    if sum(runs) > 2:
        judged = _by_students_t(difference, *_variance_with_seeds(draws, scores, sides, items - 1), level)
        return Comparison(difference, *judged, "seeds", n, seed, level, None, runs, ("items", "seeds"))
    judged = _judged(difference, _spread(difference, draws - draws.mean()), level)
    return Comparison(difference, *judged, "seeds", n, seed, level, None, runs)


def across_restarts(
    system: Restarts, base: Restarts, aggregate: Aggregate, *, n: int = 1000, seed: int = SEED, level: float = 0.95
) -> Comparison:
    """Difference of two runs that report one of R restarts each, with the chance in both restarts and items.

    As `across_seeds`, for one reported network on each side: the variance is that which a bootstrap of the items shows,
    and that between restarts. Networks of different groups are independent, so their variances add up. Reporting the
    best restart in training instead of an arbitrary one makes a result, if anything, less variable, so the interval is
    conservative; groups in which some restarts fail widen it most. Raises ValueError if the numbers of items differ,
    or a side has a single restart.
    """
    reported = [_of_chosen(side, side.order[:, 0]) for side in (system, base)]
    items, rng = _check(*reported), np.random.default_rng(seed)
    difference = float(aggregate(reported[0].sum(0)) - aggregate(reported[1].sum(0)))
    draws = np.concatenate(
        [aggregate(drawn @ reported[0]) - aggregate(drawn @ reported[1]) for drawn in _resamples(items, n, rng)]
    )
    variances = [_between_restarts(side, aggregate) for side in (system, base)]  # (G) each
    degrees = [side.order.shape[1] - 1 for side in (system, base)]
    known = float(_finite(draws).var())
    variance = known + float(sum(v.sum() for v in variances))
    uncertain = known**2 / (items - 1) + sum(
        float((v**2).sum()) / freedom for v, freedom in zip(variances, degrees, strict=True)
    )
    freedom = variance**2 / uncertain if uncertain > 0 else 1.0  # Satterthwaite 1946; without variance of no effect
    judged = _by_students_t(difference, variance, freedom, level)
    counts = (len(system.items), len(base.items))
    return Comparison(difference, *judged, "restarts", n, seed, level, None, counts, ("items", "restarts"))


def _of_chosen(side: Restarts, chosen: NDArray[Any]) -> Items:
    """(S, k): each item's value in the restart that was chosen for the item's group (G)."""
    picked: Items = side.items[chosen[side.group], np.arange(side.items.shape[1])]
    return picked


def _between_restarts(side: Restarts, aggregate: Aggregate) -> Floats:
    """(G) variance of the measure when each restart in turn is reported in one group, and the others stay."""
    if side.order.shape[1] < 2:
        raise ValueError("a single restart has no spread")
    reported = side.order[:, 0]
    total = _of_chosen(side, reported).sum(0)
    variances = []
    for group, best in enumerate(reported):
        of_restarts = side.items[:, side.group == group].sum(1)  # (R, k)
        variances.append(aggregate(total - of_restarts[best] + of_restarts).var(ddof=1))
    return np.array(variances)


def _observed(side: Sequence[Items], aggregate: Aggregate) -> Floats:
    """(K,) score of each run on the whole test set."""
    return aggregate(np.stack([of_run.sum(0) for of_run in side]))


def _variance_with_seeds(
    draws: Floats, observed: Sequence[Floats], resampled: Sequence[Floats], items: int
) -> tuple[float, float]:
    """The variance of the difference due to items and seeds, and its degrees of freedom.

    `draws` (n,) are the differences on resampled items, which have `items` degrees of freedom. For either side,
    `observed` is (K,) and `resampled` (K, n). In a two-way layout of seeds and items, the variance between runs is that
    of the seeds plus that of the interaction; the latter shows as the runs' deviations from their mean change from one
    resampled test set to the next.
    """
    degrees = sum(len(scores) for scores in observed) - 2
    share = sum(1 / len(scores) for scores in observed) / degrees
    between = share * sum(float(((scores - scores.mean()) ** 2).sum()) for scores in observed)
    interaction = share * sum(float((scores - scores.mean(0)).var(axis=1).sum()) for scores in resampled)
    known = float(draws.var())
    variance = known + max(between - interaction, 0.0)
    uncertain = known**2 / items + between**2 / degrees
    return variance, max(variance**2 / uncertain, degrees) if uncertain > 0 else degrees


def ranks(values: Sequence[float]) -> Floats:
    """Ranks from 1, equal values sharing the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    below = (array[:, None] > array[None, :]).sum(1)
    equal = (array[:, None] == array[None, :]).sum(1)
    return np.asarray(below + (equal + 1) / 2)


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation: Pearson's of the ranks, which is right with ties too. None where undefined.

    Raises:
        ValueError: The sides differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values cannot be correlated with {len(second)}")
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])
