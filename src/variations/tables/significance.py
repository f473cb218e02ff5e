"""Is a difference between two systems more than chance? Paired tests over items, and over items and seeds together.

Shapes are those of `resampling`. sacreBLEU's p-values are reproduced as `p_sacrebleu`. Our own `p` differs for the
bootstrap: sacreBLEU compares |d*| - mean |d*| with |d|, which is in effect one-sided and calls twice as many chance
differences significant as the level says; we compare |d* - mean d*|.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.tables.resampling import (
    SEED,
    Aggregate,
    Floats,
    Items,
    NoSpreadError,
    Resampled,
    UndefinedError,
    check,
    finite,
    resampled_sums,
    swapped,
)
from variations.tasks.base import Restarts

TIE = 1e-9
"""Two differences, or a p and its level, count as equal, up to rounding, if they differ by less than this."""


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
    freedom: float | None = None
    """Degrees of freedom of Student's t, if the interval is of this kind."""
    paired: bool = False
    """Whether each seed of the system belongs to one of the base, because both test the same trained network."""

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at this level."""
        return bool(_below(self.p, self.level))


def _below(p: float | Floats, level: float) -> bool | NDArray[np.bool_]:
    """Whether p is below 1 - level, and not equal to it: 1 - 0.99 is a little more than 0.01 in floating point."""
    return p < 1 - level - TIE


def _spread(difference: float, draws: Floats) -> Floats:
    """The draws around zero. Raises NoSpreadError if they are all alike, though the systems differ."""
    if abs(difference) > TIE and np.abs(draws).max() < TIE:
        raise NoSpreadError
    return draws


def refuse_constant(found: Comparison) -> None:
    """Raise UndefinedError if the interval has no width: it would look certain, but tells nothing of other items."""
    if found.high - found.low < TIE:
        raise UndefinedError("the difference does not vary at all")


def _share(extreme: NDArray[np.bool_]) -> float:
    """(c + 1) / (n + 1), a p-value that is valid for any n (Edgington 1986)."""
    return float((extreme.sum() + 1) / (len(extreme) + 1))


def _interval(difference: float, draws: Floats, level: float) -> tuple[float, float]:
    """The symmetric interval (Hall 1988) of a difference whose `draws` are centred on zero.

    It leaves out zero exactly if `_share` of as large draws is below 1 - level, so it agrees with p and the mark.
    """
    shares = (np.arange(len(draws)) + 1) / (len(draws) + 1)  # p if 0, 1, … draws are as large as the difference
    fewer = int(np.count_nonzero(_below(shares, level))) - 1
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

    `variance` is that of the difference. Raises NoSpreadError if it is zero, though the systems differ.
    """
    from scipy.special import stdtr, stdtrit  # the distribution and its quantiles, without all of scipy.stats

    error = math.sqrt(variance)
    if error < TIE:
        if abs(difference) > TIE:
            raise NoSpreadError
        return difference, difference, 1.0
    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return difference - half, difference + half, float(2 * stdtr(freedom, -abs(difference) / error))


def paired_tests(
    systems: Sequence[Items],
    bases: Sequence[Items],
    aggregate: Aggregate,
    *,
    n: int = 1000,
    seed: int = SEED,
    level: float = 0.95,
    resampled: Resampled | None = None,
) -> list[tuple[Comparison, Comparison] | NoSpreadError]:
    """`paired_bootstrap` and `paired_randomisation` of each system against its base, for all of them together.

    `resampled`: the scores of some of them, of at least n draws. A pair whose items all differ alike has no tests of
    its own, but may take part in one over several.
    """
    resampled = resampled or Resampled(aggregate, n, seed)
    resampled.of([*systems, *bases], 0)
    found: list[tuple[Comparison, Comparison] | NoSpreadError] = []
    mixed = swapped(systems, bases, aggregate, n, seed)
    for system, base, draws in zip(systems, bases, mixed, strict=True):
        try:
            bootstrap = _bootstrap(system, base, resampled, n, level)
        except NoSpreadError as error:
            found.append(error)
        else:
            found.append((bootstrap, _randomisation(_difference(system, base, aggregate), draws, seed, level)))
    return found


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
    check(system, base)
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
    (draws,) = swapped([system], [base], aggregate, n, seed)
    return _randomisation(_difference(system, base, aggregate), draws, seed, level)


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
    fixed_base: bool = False,
    paired: bool = False,
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
    are taken as unrelated, unless they are `paired`: then the k-th runs of both sides test the same trained network,
    and the variance of seeds is that of the K differences, with K - 1 degrees of freedom. With `fixed_base`, the base
    has no chance of its own, as a system without random numbers. `resampled` is as for `paired_tests`.

    Raises ValueError when a side has no run or the numbers of items differ; its subclass UndefinedError, as all tests
    do, if there is a single item or the measure is not a number for some draws.
    """
    if not system or not base:
        raise ValueError("a comparison across seeds needs at least one run on each side")
    if paired and len(system) != len(base):
        raise ValueError(f"{len(system)} and {len(base)} runs are no pairs")
    items, runs = check(*system, *base), (len(system), len(base))
    resampled = resampled or Resampled(aggregate, n, seed)
    sides = [resampled.of(side, n) for side in (system, base)]
    scores = [_observed(side, aggregate) for side in (system, base)]
    difference = float(scores[0].mean() - scores[1].mean())
    draws = sides[0].mean(0) - sides[1].mean(0)
    if paired:
        scores, sides = [scores[0] - scores[1]], [sides[0] - sides[1]]  # (K,), (K, n)
    elif fixed_base:
        scores, sides = scores[:1], sides[:1]
    if sum(len(side) - 1 for side in scores) > 0:
        variance, freedom = _variance_with_seeds(draws, scores, sides, items - 1)
        judged = _by_students_t(difference, variance, freedom, level)
        sources = ("items", "seeds")
        return Comparison(difference, *judged, "seeds", n, seed, level, None, runs, sources, freedom, paired)
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
    items = check(*reported)
    difference = float(aggregate(reported[0].sum(0)) - aggregate(reported[1].sum(0)))
    k = reported[0].shape[1]
    sums = resampled_sums(np.concatenate(reported, axis=1), n, seed)
    draws = np.concatenate([aggregate(both[:, :k]) - aggregate(both[:, k:]) for both in sums])
    variances = [_between_restarts(side, aggregate) for side in (system, base)]  # (G) each
    degrees = [side.order.shape[1] - 1 for side in (system, base)]
    known = float(finite(draws).var())
    variance = known + float(sum(v.sum() for v in variances))
    parts = [(v, freedom) for side, freedom in zip(variances, degrees, strict=True) for v in side.tolist()]
    freedom = _satterthwaite(variance, [(known, items - 1), *parts]) or 1.0  # without variance, it has no effect
    judged = _by_students_t(difference, variance, freedom, level)
    counts = (len(system.items), len(base.items))
    return Comparison(difference, *judged, "restarts", n, seed, level, None, counts, ("items", "restarts"), freedom)


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

    `draws` (n,) are the differences on resampled items, which have `items` degrees of freedom. For each side that has
    seeds, `observed` is (K,) and `resampled` (K, n). In a two-way layout of seeds and items, the variance between runs
    is that of the seeds plus that of the interaction; the latter shows as the runs' deviations from their mean change
    from one resampled test set to the next.
    """
    degrees = sum(len(scores) - 1 for scores in observed)
    share = sum(1 / len(scores) for scores in observed) / degrees
    between = share * sum(float(((scores - scores.mean()) ** 2).sum()) for scores in observed)
    interaction = share * sum(float((scores - scores.mean(0)).var(axis=1).sum()) for scores in resampled)
    known = float(draws.var())
    variance = known + max(between - interaction, 0.0)
    return variance, max(_satterthwaite(variance, [(known, items), (between, degrees)]), degrees)


def _satterthwaite(variance: float, parts: Sequence[tuple[float, int]]) -> float:
    """Degrees of freedom of a variance that is made of independent `parts` with theirs (Satterthwaite 1946).

    0 if all parts are 0.
    """
    uncertain = math.fsum(part**2 / freedom for part, freedom in parts)  # the same in any order
    return variance**2 / uncertain if uncertain > 0 else 0.0
