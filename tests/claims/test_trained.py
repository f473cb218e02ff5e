"""Which rows count as trained."""

import math

import pytest

from variations.claims.trained import last_fall, untrained


def test_the_fall_is_that_of_the_perplexity_in_the_last_fifth():
    curve = [(80, math.log(10.0)), (100, math.log(9.0))]
    assert last_fall(curve) == pytest.approx(0.1)


def test_the_loss_at_four_fifths_is_interpolated():
    assert last_fall([(0, 1.0), (60, 0.4), (100, 0.0)]) == pytest.approx(1 - math.exp(-0.2))


def test_a_rise_is_below_zero():
    assert last_fall([(80, 1.0), (100, 1.1)]) < 0


@pytest.mark.parametrize("curve", [[], [(100, 1.0)], [(90, 1.0), (100, 0.5)]])
def test_nothing_is_said_of_a_curve_that_does_not_reach_back(curve):
    assert last_fall(curve) is None
    assert untrained(curve, 50.0, {}) is None


def test_a_row_is_not_trained_below_a_dictionary():
    flat = [(80, 1.0), (100, 1.0)]
    baselines = {"copy of the source": 0.1, "word-by-word dictionary": 13.5}
    assert untrained(flat, 13.0, baselines) == "not above the word-by-word dictionary (13.5 BLEU)"
    assert untrained(flat, 14.0, baselines) is None


def test_a_row_whose_perplexity_falls_by_more_than_five_percent_is_not_trained():
    assert untrained([(80, 0.1), (100, 0.0)], 90.0, {}) == (
        "dev perplexity fell by 10 % in the last fifth of its steps"
    )
    assert untrained([(80, 0.04), (100, 0.0)], 90.0, {}) is None
