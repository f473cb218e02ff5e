"""From measured differences to a verdict: pure functions, fixed before the runs that they judge.

One comparison gives an interval of the difference between two rows, at 95 %, over the seeds of both. It then *supports*
the claim, *contradicts* it, or leaves it *open*:

| the claim expects | supports | contradicts |
|---|---|---|
| `better` | the interval lies above 0, its upper end not below the margin | it lies below the margin |
| `worse` | the interval lies below 0, its lower end not above minus the margin | it lies above minus the margin |
| `same` | it lies within ± the margin | it lies beyond + or - the margin |
| `sooner` | as `better`, of the share of the base row's budget that is saved | as `better` |
| `same order` | as `better`, of Spearman's rank correlation with the published differences | as `better` |

The margin is the smallest difference that counts as an effect. If a difference is certainly below it, the claim is
contradicted, because an effect was claimed. With fewer than SEEDS seeds on either side, or a row that was not trained
(`untrained` of the task), the comparison is open. If a run reports the best of several restarts, these count as seeds.

Several comparisons give one verdict (`verdict`). Only signs are tested: the sizes of the papers' differences depend on
their corpus, and are printed beside ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Expectation = Literal["better", "worse", "same", "sooner", "same order"]
Bearing = Literal["supports", "contradicts", "open"]
Verdict = Literal["reproduced", "partly", "not reproduced", "undecided", "untested here"]

EXPECTATIONS: tuple[Expectation, ...] = ("better", "worse", "same", "sooner", "same order")
VERDICTS: tuple[Verdict, ...] = ("reproduced", "partly", "not reproduced", "undecided", "untested here")

SEEDS = 3
"""Smallest number of seeds of each row from which conclusions are drawn."""
LEVEL = 0.95
"""Level of the intervals."""
POWER = 0.8
"""Power for the smallest detectable difference (`detectable`)."""
MARGINS = {"score": 0.5, "nll": 0.01, "saving": 0.15, "rho": 0.5}
"""Smallest effects: points of BLEU and its relatives; nats of loss per sub-word (1 % of perplexity); the lowest of
the 15 to 40 % that the Weighted paper claims; a correlation."""


@dataclass(frozen=True)
class Finding:
    """The measured effect of one comparison.

    `effect` is positive if the row is better than its base row, also where lower values are better. For
    `sooner` it is the share of the base row's budget that is saved, for `same order` a correlation.
    """

    effect: float
    low: float
    high: float
    """Interval of the effect at LEVEL."""
    seeds: tuple[int, int]
    """Numbers of seeds of the row and of its base row, or of restarts: trainings that differ only by chance."""
    restarts: bool = False
    """Whether they are restarts."""
    freedom: float | None = None
    """Degrees of freedom of the interval; None: one less for each row than it has seeds."""


def bearing(expect: Expectation, finding: Finding, margin: float) -> Bearing:
    """Whether a comparison supports or contradicts a claim that `expect`s something.

    Args:
        expect: One of EXPECTATIONS.
        finding: The measured effect.
        margin: The smallest effect, above 0, in the units of the finding.

    Raises:
        ValueError: The margin is not above 0, or the interval does not contain the effect.
    """
    if not margin > 0:
        raise ValueError(f"a margin must be above 0, not {margin}")
    if not finding.low <= finding.effect <= finding.high:
        raise ValueError(f"an interval from {finding.low} to {finding.high} does not contain {finding.effect}")
    if min(finding.seeds) < SEEDS:
        return "open"
    low, high = finding.low, finding.high
    if expect == "worse":
        low, high = -high, -low
    if expect == "same":
        return "supports" if -margin < low and high < margin else _beyond(low, high, margin)
    if high < margin:
        return "contradicts"
    return "supports" if low > 0 else "open"


def _beyond(low: float, high: float, margin: float) -> Bearing:
    return "contradicts" if low > margin or high < -margin else "open"


def verdict(bearings: Sequence[Bearing], *, any_one: bool = False) -> Verdict:
    """The verdict on a claim from its comparisons.

    - no comparison has runs: untested here;
    - all support: reproduced; some support: partly;
    - none supports: not reproduced if at least half contradict, else undecided.

    Args:
        bearings: The bearing of each comparison, at the scales that have runs of one.
        any_one: One supporting comparison is enough, and only if all contradict is the claim not reproduced.
    """
    if not bearings:
        return "untested here"
    supports, contradicts = bearings.count("supports"), bearings.count("contradicts")
    if any_one:
        if supports:
            return "reproduced"
        return "not reproduced" if contradicts == len(bearings) else "undecided"
    if supports:
        return "reproduced" if supports == len(bearings) else "partly"
    return "not reproduced" if 2 * contradicts >= len(bearings) else "undecided"


def detectable(finding: Finding) -> float:
    """The smallest true difference that this comparison would have shown with probability POWER.

    SE is the standard error that gives this interval by Student's t. A true difference of d · SE leads to a noncentral
    t with noncentrality d; it is shown if t exceeds the critical value. Infinite without degrees of freedom.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    degrees = sum(finding.seeds) - 2 if finding.freedom is None else finding.freedom
    if degrees <= 0:
        return float("inf")
    wide = float(t.ppf((1 + LEVEL) / 2, degrees))
    needed = brentq(lambda d: nct.sf(wide, degrees, d) - POWER, 0.0, 10 * wide)
    return float((finding.high - finding.low) / 2 / wide * needed)


def t_interval(row: Sequence[float], base: Sequence[float]) -> Finding:
    """Difference of two means over seeds, row minus base, by the two-sample t-test with pooled variance.

    The two sides are assumed to be independent: the same seed gives different networks different weights. For BLEU,
    `significance.across_seeds` adds the chance in sentences to the same test. With a single run on both sides,
    the interval is infinite.

    Raises:
        ValueError: A side is empty.
    """
    from statistics import fmean

    from scipy.stats import t

    if not row or not base:
        raise ValueError("a comparison needs at least one run on each side")
    effect, seeds = fmean(row) - fmean(base), (len(row), len(base))
    degrees = len(row) + len(base) - 2
    if degrees < 1:
        return Finding(effect, float("-inf"), float("inf"), seeds)
    squares = sum((value - fmean(side)) ** 2 for side in (row, base) for value in side)
    error = (squares / degrees * (1 / len(row) + 1 / len(base))) ** 0.5
    half = float(t.ppf((1 + LEVEL) / 2, degrees)) * error
    return Finding(effect, effect - half, effect + half, seeds)


def correlation_interval(rho: float, n: int) -> tuple[float, float]:
    """Interval of Spearman's ρ over n rows: Fisher's z with the standard error √(1.06 / (n - 3)) (Fieller et al. 1957).

    From -1 to 1 if n < 4; ρ = ±1 is moved inward by 1e-12 so that z exists.
    """
    from math import atanh, sqrt, tanh
    from statistics import NormalDist

    if n < 4:
        return -1.0, 1.0
    z = atanh(max(-1 + 1e-12, min(1 - 1e-12, rho)))
    half = NormalDist().inv_cdf((1 + LEVEL) / 2) * sqrt(1.06 / (n - 3))
    return min(rho, tanh(z - half)), max(rho, tanh(z + half))
