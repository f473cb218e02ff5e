"""Verdicts for hand-made intervals; intervals checked against textbook values."""

import math

import numpy as np
import pytest
from scipy import stats

from variations.tables.claims.rule import (
    VERDICTS,
    Finding,
    bearing,
    correlation_interval,
    detectable,
    t_interval,
    verdict,
)


def finding(low, high, seeds=(3, 3)):
    return Finding((low + high) / 2, low, high, seeds)


@pytest.mark.parametrize(
    ("expect", "low", "high", "found"),
    [
        ("better", 0.1, 2.0, "supports"),
        ("better", -0.1, 2.0, "open"),
        ("better", -0.9, 0.4, "contradicts"),  # an effect of half a point or more is excluded
        ("better", 0.1, 0.4, "contradicts"),  # certain, but too small to count as an effect
        ("better", -3.0, -1.0, "contradicts"),
        ("worse", -2.0, -0.1, "supports"),
        ("worse", -2.0, 0.1, "open"),
        ("worse", -0.4, 0.9, "contradicts"),
        ("worse", 1.0, 3.0, "contradicts"),
        ("same", -0.4, 0.4, "supports"),
        ("same", -0.6, 0.4, "open"),
        ("same", 0.3, 0.9, "open"),
        ("same", 0.6, 0.9, "contradicts"),
        ("same", -0.9, -0.6, "contradicts"),
        ("sooner", 0.1, 0.6, "supports"),
        ("same order", -0.2, 0.4, "contradicts"),
    ],
)
def test_an_interval_supports_contradicts_or_leaves_open(expect, low, high, found):
    assert bearing(expect, finding(low, high), margin=0.5) == found


@pytest.mark.parametrize("expect", ["better", "worse", "same"])
@pytest.mark.parametrize("seeds", [(2, 3), (3, 2), (1, 1)])
def test_fewer_than_three_seeds_conclude_nothing(expect, seeds):
    assert bearing(expect, finding(5, 6, seeds), margin=0.5) == "open"


def test_a_margin_of_zero_and_an_interval_beside_its_effect_are_refused():
    with pytest.raises(ValueError, match="margin"):
        bearing("same", finding(-1, 1), margin=0)
    with pytest.raises(ValueError, match="does not contain"):
        bearing("same", Finding(2.0, -1.0, 1.0, (3, 3)), margin=0.5)


@pytest.mark.parametrize(
    ("bearings", "found"),
    [
        ([], "untested here"),
        (["open", "open"], "undecided"),
        (["supports"], "reproduced"),
        (["supports", "supports"], "reproduced"),
        (["supports", "open"], "partly"),
        (["supports", "contradicts", "contradicts"], "partly"),
        (["contradicts", "open"], "not reproduced"),
        (["contradicts", "open", "open"], "undecided"),
    ],
)
def test_comparisons_give_one_verdict(bearings, found):
    assert verdict(bearings) == found
    assert found in VERDICTS


@pytest.mark.parametrize(
    ("bearings", "found"),
    [
        (["contradicts", "supports"], "reproduced"),
        (["contradicts", "contradicts"], "not reproduced"),
        (["contradicts", "open"], "undecided"),
    ],
)
def test_where_one_comparison_is_enough_all_must_fail(bearings, found):
    assert verdict(bearings, any_one=True) == found


def test_the_interval_over_seeds_is_that_of_the_two_sample_t_test():
    row, base = [91.2, 92.8, 91.9], [90.1, 90.9, 89.8, 90.4]
    found = t_interval(row, base)
    theirs = stats.ttest_ind(row, base).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.effect == pytest.approx(1.6666667)
    assert found.seeds == (3, 4)


def test_one_run_on_each_side_has_an_infinite_interval():
    found = t_interval([2.0], [1.0])
    assert (found.effect, found.low, found.high) == (1.0, -math.inf, math.inf)
    assert detectable(found) == math.inf


def test_power_of_three_seeds_a_side():
    """A true difference of that size is found in four of five experiments with two samples of three."""
    size = detectable(t_interval([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]))  # whose standard deviation is 1
    row, base = np.random.default_rng(0).normal(size=(2, 100_000, 3))
    found = stats.ttest_ind(row + size, base, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / 100_000) ** 0.5)


def test_power_follows_the_interval_s_own_degrees_of_freedom():
    # t tables list 1.960 (0.975) and 0.842 (0.8) for infinitely many; chance in many items has almost so many.
    found = Finding(0.0, -1.96, 1.96, (3, 3), freedom=1e6)
    assert detectable(found) == pytest.approx(1.960 + 0.842, abs=1e-3)


def test_the_interval_of_a_rank_correlation():
    # Fisher's z of 0.5 is 0.5493; with n = 19 its standard error is √(1.06/16) = 0.2574.
    low, high = correlation_interval(0.5, 19)
    assert (low, high) == pytest.approx(
        (math.tanh(0.5493 - 1.96 * 0.2574), math.tanh(0.5493 + 1.96 * 0.2574)), abs=1e-3
    )
    assert correlation_interval(1.0, 3) == (-1.0, 1.0)
    assert correlation_interval(1.0, 10)[1] == 1.0
