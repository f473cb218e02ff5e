"""The cost of a run, computed from measurements."""

from typing import Any

import pytest

from variations.configuration.compose import compose_run
from variations.planning.cost import preparation, run_cost
from variations.planning.formats import size
from variations.system.quantities import duration

STEPS = ["trainer.max_steps=1000", "trainer.val_every=300", "trainer.val_bleu=50"]


def test_updates_validations_checkpoints_and_the_test_add_up(values: dict[str, Any]) -> None:
    cost = run_cost(compose_run(STEPS), values, room=4_000)
    assert (cost.updates, cost.validation) == (500, 4 * 3)  # at 300, 600, 900 and 1000
    assert cost.saving == pytest.approx(4 * 3 + 4 * 1)  # each time weights and two moments, plus the best weights
    assert cost.training == pytest.approx(528)
    assert cost.test == 30
    assert cost.seconds() == pytest.approx(7 + 528 + 30)
    assert cost.hours() == pytest.approx(565 / 3600)
    assert cost.hours(0.5) == pytest.approx((565 - 264) / 3600)
    assert cost.fits is True


def test_disk_counts_the_checkpoints_that_stay(values: dict[str, Any]) -> None:
    assert run_cost(compose_run(STEPS), values, None).disk == 8_000_000  # 2 × 3, plus 2 best
    averaged = [*STEPS, "recipe.average=5", "recipe.average_every=10"]
    assert run_cost(compose_run(averaged), values, None).disk == 13_000_000
    once = [*STEPS, "trainer.val_every=1000"]
    assert run_cost(compose_run(once), values, None).disk == 4_000_000
    assert run_cost(compose_run([*STEPS, "recipe.ema=0.9"]), values, None).disk == 10_000_000
    assert run_cost(compose_run([*STEPS, "recipe.optimizer=sgd"]), values, None).disk == 4_000_000


def test_a_limit_of_minutes_ends_the_training(values: dict[str, Any]) -> None:
    cost = run_cost(compose_run([*STEPS, "trainer.max_minutes=2"]), values, None)
    assert (cost.training, cost.test) == (pytest.approx(120), 30)
    whole = run_cost(compose_run(STEPS), values, None)
    assert cost.part == pytest.approx(120 / whole.training)
    assert whole.part == 1


def test_memory_beyond_the_machine_does_not_fit(values: dict[str, Any]) -> None:
    assert run_cost(compose_run(STEPS), values, room=2_999).fits is False
    assert run_cost(compose_run(STEPS), values, room=None).fits is None


def test_what_was_estimated_from_parts_is_not_exact(values: dict[str, Any]) -> None:
    assert run_cost(compose_run(STEPS), values, None).exact
    assert not run_cost(compose_run(STEPS), values | {"share": 0.1}, None).exact
    assert not run_cost(compose_run(STEPS), values | {"invented": True}, None).exact


def test_preparation_of_a_corpus_of_which_a_part_was_read(values: dict[str, Any]) -> None:
    assert preparation(values) == 0
    assert preparation(values | {"read": 0.1}) == 50


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.14159, "3 s"), (41.2, "41 s"), (200, "3 min 20 s"), (18_600, "5 h 10 min"), (400_000, "4 d 15 h")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_in_words() -> None:
    assert [size(n) for n in (12, 31e6, 2.14e9, 3.3e12)] == ["12 B", "31 MB", "2.1 GB", "3.3 TB"]
