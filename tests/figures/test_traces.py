"""Seeds merge into one curve without invented values, and filters keep the right values."""

import pytest

from variations.figures.traces import TracedRow, curve, mean_filter, with_tokens


def test_a_curve_is_the_mean_over_seeds_at_common_steps_with_the_range_around_it():
    metrics = {
        1: [{"step": 10, "seconds": 1.0, "y": 2.0}, {"step": 20, "seconds": 2.0, "y": 4.0}],
        2: [{"step": 10, "seconds": 3.0, "y": 6.0}, {"step": 20, "seconds": 6.0, "y": 5.0}],
    }
    found = curve(TracedRow("r", "R", metrics=metrics), "seconds", "y")
    assert found is not None
    assert (found.x, found.y, found.low, found.high) == ([2.0, 4.0], [4.0, 4.5], [2.0, 4.0], [6.0, 5.0])
    assert (found.seeds, found.tails) == (2, [])


def test_a_seed_that_went_further_goes_on_alone_from_the_last_common_step():
    metrics = {
        1: [{"step": s, "y": float(s)} for s in (10, 20, 30)],
        2: [{"step": 10, "y": 0.0}, {"step": 20, "y": None}, {"step": 30, "z": 1.0}],
    }
    found = curve(TracedRow("r", "R", metrics=metrics), "step", "y")
    assert found is not None
    assert (found.x, found.y) == ([10.0], [5.0])
    assert found.tails == [([10, 20, 30], [10.0, 20.0, 30.0])]


def test_nothing_measured_gives_no_curve():
    assert curve(TracedRow("r", "R", metrics={1: [{"step": 10}]}), "step", "y") is None
    assert curve(TracedRow("r", "R"), "step", "y") is None


def test_seeds_with_one_measurement_each_at_different_steps_give_no_curve():
    metrics = {1: [{"step": 10, "y": 1.0}], 2: [{"step": 20, "y": 2.0}]}
    assert curve(TracedRow("r", "R", metrics=metrics), "step", "y") is None


def test_tokens_are_source_and_target_together_and_absent_when_one_is():
    assert with_tokens({"source_tokens": 3, "target_tokens": 4})["tokens"] == 7
    assert "tokens" not in with_tokens({"source_tokens": 3})


@pytest.mark.parametrize(
    ("window", "expected"),
    [(1, [0, 3, 6, 0, 3]), (3, [0, 3, 3, 3, 3]), (5, [0, 3, 2.4, 3, 3]), (4, [0, 3, 2.4, 3, 3])],
)
def test_the_mean_filter_is_centred_and_narrows_at_both_ends(window, expected):
    assert mean_filter([0, 3, 6, 0, 3], window) == pytest.approx(expected)
