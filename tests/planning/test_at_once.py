"""The number of parallel runs: from measured rates, limited by cores, rows and memory, reported in one line."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run
from variations.planning import at_once, measuring
from variations.planning.at_once import Rate, best, candidates, fastest, largest, tried
from variations.planning.measuring import Measured, Shape
from variations.planning.price import bill
from variations.planning.probe import wait_for_all
from variations.planning.rows import plan_rows
from variations.store.ledger import RunFolder
from variations.system import processes
from variations.tasks.translation.config import TranslationConfig

TRAIN = Path(__file__).resolve().parents[2] / "src" / "train.py"
ROWS = ["trainer.max_steps=1000", "trainer.val_bleu=0"]


@pytest.fixture
def timed(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[int, float]], list[Shape]]:
    """Set an update's seconds by the number of parallel runs; return a list that collects the measured shapes."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(measuring, "_place", lambda shape, key: tmp_path / "plan" / f"{key}.json")

    def make(seconds: dict[int, float]) -> list[Shape]:
        asked: list[Shape] = []

        def answer(shape: Shape, limit: float) -> Measured:
            asked.append(shape)
            if shape.at_once not in seconds:
                return Measured(fault="it was killed", exhausted=True)
            return Measured(values | {"update_seconds": seconds[shape.at_once]})

        monkeypatch.setattr(measuring, "_measure", answer)
        return asked

    return make


@pytest.fixture
def config() -> TranslationConfig:
    return compose_run(ROWS)


@pytest.mark.parametrize(
    ("most", "numbers"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 4, 8]), (12, [1, 2, 4, 8, 12])]
)
def test_powers_of_two_and_the_most_are_tried(most: int, numbers: list[int]) -> None:
    assert candidates(most) == numbers


def test_most_rows_an_hour_win_and_fewer_at_once_among_equals() -> None:
    assert best([Rate(1, 600, 10), Rate(2, 900, 14), Rate(4, 1000, 13)]) == 2
    assert best([Rate(1, 600, 10), Rate(2, 900, 10)]) == 1
    assert best([Rate(1, 600, 10)]) == 1


def test_a_core_for_each_and_no_more_than_there_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 16)
    monkeypatch.setattr(at_once, "cores", lambda: 16)
    one, four = compose_run([]), compose_run(["trainer=ddp", "trainer.devices=4"])
    assert [largest(one, runs) for runs in (1, 3, 40)] == [1, 3, 16]
    assert largest(four, 40) == 4  # each run has four processes
    assert [largest(one, 40, gpus) for gpus in (1, 4, 32)] == [16, 4, 1]
    assert largest(one, 6, gpus=4) == 2


def test_ever_more_are_tried_until_they_do_less_together(timed: Any, config: TranslationConfig) -> None:
    asked = timed({1: 0.1, 2: 0.12, 4: 0.4, 8: 0.1})
    rates, end = tried(config, 8, (), lambda shape: measuring._measure(shape, 1.0))
    assert [(rate.at_once, rate.steps) for rate in rates] == [(1, pytest.approx(600)), (2, 1000), (4, 600)]
    assert (best(rates), end, [shape.at_once for shape in asked]) == (2, "", [1, 2, 4])
    # A whole run: 7 s of startup, 1000 updates, 5 validations of 3 s, each saving 4 MB, and 30 s of test.
    assert rates[0].rows == pytest.approx(3600 / (7 + 100 + 5 * 3 + 5 * 4 + 30))


def test_memory_that_runs_out_ends_it(timed: Any, config: TranslationConfig) -> None:
    timed({1: 0.1, 2: 0.1})
    rates, end = tried(config, 8, (), lambda shape: measuring._measure(shape, 1.0))
    assert ([rate.at_once for rate in rates], end) == ([1, 2], "4 at once: memory ran out")


def test_a_gpu_is_filled_no_further_than_its_memory(config: TranslationConfig, values: dict[str, Any]) -> None:
    asked = []

    def measure(shape: Shape) -> Measured:
        asked.append((shape.at_once, shape.gpu, shape.busy))
        return Measured(values | {"update_seconds": 0.1, "memory_bytes": 4e9, "room_bytes": 20e9})

    rates, end = tried(config, 8, ["3", "5"], measure)  # 4.6 GB each, including CUDA's own memory
    assert ([rate.at_once for rate in rates], end) == ([1, 2, 4], "no memory for more")
    assert asked == [(1, "3", 2), (2, "3", 4), (4, "3", 8)]


def test_less_training_is_no_gain(timed: Any) -> None:
    timed({1: 0.1, 2: 0.4})
    limited = compose_run([*ROWS, "trainer.max_minutes=0.1"])
    rates, _ = tried(limited, 2, (), lambda shape: measuring._measure(shape, 1.0))
    assert best(rates) == 1


def test_the_choice_is_told_in_one_line_and_not_measured_again(
    timed: Any, config: TranslationConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "cores", lambda: 2)
    asked = timed({1: 0.1, 2: 0.12})
    assert [fastest(config, 4), fastest(config, 4)] == [2, 2]
    assert len(asked) == 2
    told = capsys.readouterr().err.splitlines()
    assert told == ["at_once: 2 (1 at once 600 steps/min, 20.9 rows/h; 2 at once 1,000 steps/min, 37.5 rows/h)"] * 2
    assert fastest(config, 1) == 1
    assert capsys.readouterr().err == "at_once: 1 (of 1 run, on 2 cores)\n"


def test_a_busy_machine_is_told_of_once(
    timed: Any, config: TranslationConfig, load: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    load[0] = 4.9
    timed({1: 0.1, 2: 0.12})
    fastest(config, 4)
    told = capsys.readouterr().err
    assert told.count("was busy in the last minute (load 4.9). Times") == 1
    load[0] = 0.0
    fastest(config, 4)  # which repeats what was measured then
    again = capsys.readouterr().err
    assert "in the last minute" not in again
    assert again.count("was busy when some of these times were measured (load 4.9). Times") == 1


def test_what_cannot_be_measured_runs_one_at_a_time(
    timed: Any, config: TranslationConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "cores", lambda: 2)
    timed({})
    assert fastest(config, 4) == 1
    assert capsys.readouterr().err == "at_once: 1 (more could not be measured; 1 at once: memory ran out)\n"


def test_threads_are_divided_as_the_pool_divides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    config = compose_run([])
    assert [Shape(config, k).threads for k in (1, 2, 4, 6)] == [None, 3, 1, 1]
    assert Shape(config, 2, gpu="0", busy=4).threads == 1
    assert len({Shape(config, 2).key(), Shape(config, 2, gpu="0", busy=4).key(), Shape(config, 1).key()}) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert Shape(config, 2).threads == 2


@pytest.mark.slow
def test_a_plan_takes_the_number_that_the_launch_would(
    timed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(at_once, "cores", lambda: 2)
    words = ["sweep=quickstart", "rows=[transformer,weighted]", "sweep.at_once=auto", f"runs={tmp_path}"]
    asked = timed({1: 0.1, 2: 0.12})
    assert bill(plan_rows(words), None, 1.0, fresh=False).places == 2
    assert [(shape.config.model.kind, shape.at_once) for shape in asked] == [
        ("transformer", 1),
        ("transformer", 2),
        ("weighted", 2),
    ]
    assert "at_once: 2 (" in capsys.readouterr().err


def test_those_who_meet_wait_for_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100, 200))
    monkeypatch.setattr(os, "getpid", lambda: next(numbers))
    came: list[str] = []

    def come(name: str) -> None:
        wait_for_all(tmp_path, "training", 2)
        came.append(name)

    first = threading.Thread(target=come, args=("first",))
    first.start()
    first.join(timeout=0.2)
    assert came == []
    come("second")
    first.join(timeout=30)
    assert sorted(came) == ["first", "second"]


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.skipif(processes.cores() < 2, reason="one core: nothing to choose")
def test_a_sweep_measures_first_and_then_runs_so_many_at_once(tmp_path: Path) -> None:
    words = ["data=toy", "data.train_pairs=400", "data.vocabulary=200", f"data.cache={tmp_path / 'cache'}", "size=tiny"]
    words += ["recipe=quick", "recipe.batch_tokens=256", "trainer.max_steps=4", "trainer.val_bleu=4"]
    words += ["trainer.limit_test=8", "logger=none", "sweep.at_once=auto", f"runs={tmp_path / 'runs'}"]
    line = [sys.executable, str(TRAIN), "--multirun", *words]
    free = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    told = []
    for seeds in ("seed=1,2", "seed=1,2", "seed=1,3"):
        done = subprocess.run([*line, seeds], capture_output=True, text=True, env=free, timeout=400, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        told.append([text for text in done.stderr.splitlines() if text.startswith("at_once: ")])
    first, nothing_left, again = told
    assert len(first) == 1 and "1 at once " in first[0] and "; 2 at once " in first[0]
    assert (nothing_left, again) == ([], first)
    chosen = int(first[0].split()[1])
    for seed in (1, 2, 3):
        (folder,) = (tmp_path / "runs" / "grid").glob(f"*/seed{seed}")
        result = RunFolder(folder).result()
        assert result is not None
        assert chosen == 1 or result["hardware"]["threads"] == processes.cores() // chosen
