"""The total time of many runs on a few devices."""

import pytest

from variations.planning import price, rows
from variations.planning.price import Path, Piece, longest_first


def test_one_place_does_all_in_turn_base_row_first() -> None:
    found = longest_first([Piece("long", 5), Piece("base", 1, first=True), Piece("short", 2)], 1)
    assert found == Path(8, ["base", "long", "short"])


def test_the_longest_start_first() -> None:
    pieces = [Piece("a", 2), Piece("b", 3), Piece("c", 4), Piece("d", 3)]
    assert longest_first(pieces, 2) == Path(6, ["b", "d"])
    assert longest_first(pieces, 4) == Path(4, ["c"])
    assert longest_first(pieces, 99).seconds == 4


def test_rows_that_test_a_checkpoint_wait_for_it() -> None:
    pieces = [Piece("learned", 10, first=True), Piece("uniform", 1, after="learned"), Piece("other", 3)]
    assert longest_first(pieces, 2) == Path(11, ["learned", "uniform"])
    assert longest_first(pieces, 1).seconds == 14


def test_a_leader_that_is_not_to_be_run_is_not_waited_for() -> None:
    assert longest_first([Piece("uniform", 1, after="learned")], 3) == Path(1, ["uniform"])


@pytest.mark.parametrize("places", [1, 7])
def test_nothing_takes_no_time(places: int) -> None:
    assert longest_first([], places) == Path(0.0, [])


@pytest.mark.slow
def test_a_plan_runs_as_many_at_once_as_the_sweep_allows_and_the_gpus_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """On GPUs `sweep.at_once` is a limit, too; `auto` without GPUs is a CPU."""

    def at_once(gpus: int, *words: str) -> int:
        monkeypatch.setattr(price, "visible_gpus", lambda kind: [] if kind == "cpu" else ["0"] * gpus)
        monkeypatch.setattr(rows, "on_gpus", lambda kind: kind != "cpu" and gpus > 0)
        found = rows.plan_rows(["sweep=quickstart", "rows=[transformer]", *words])
        return price._places(found)

    assert at_once(8, "trainer=gpu", "sweep.at_once=null") == 8
    assert at_once(8, "trainer=gpu", "sweep.at_once=2") == 2
    assert at_once(8, "trainer=ddp", "sweep.at_once=null") == 4
    assert at_once(0, "trainer.accelerator=auto", "sweep.at_once=3") == 3
