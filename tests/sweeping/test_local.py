"""Runs in local processes: how many at once, on which GPU, with how many threads, and how they end."""

import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from variations.store.process_identity import Process
from variations.sweeping.local import LocalPool
from variations.sweeping.pool import Ended, PooledRun
from variations.system import processes
from variations.system.errors import UserError

CHILD = textwrap.dedent(
    """
    import os, sys, time
    from pathlib import Path
    place = Path(sys.argv[1])
    names = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RANK", "VARIATIONS_PARENT")
    (place / "sees").write_text(" ".join(os.environ.get(name, "-") for name in names))
    print("a line of", place.name)
    time.sleep({"slow": 60}.get(place.name, 0.05))
    sys.exit(3 if place.name == "fails" else 0)
    """
)


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the interpreter with a program that executes the script above instead of a run."""
    script, program = tmp_path / "child.py", tmp_path / "program"
    script.write_text(CHILD)
    program.write_text(f'#!/bin/sh\n[ "$3" = variations.commands.run ] && exec {sys.executable} {script} "$4"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


Make = Callable[..., LocalPool]


@pytest.fixture
def make(child: None) -> Iterator[Make]:
    made: list[LocalPool] = []

    def pool(*arguments: object, **named: object) -> LocalPool:
        made.append(LocalPool(*arguments, **named))  # type: ignore[arg-type]
        return made[-1]

    yield pool
    for one in made:
        for own in one.own:
            own.popen.kill()
            own.popen.wait()


def run(place: Path, name: str, devices: int = 1) -> PooledRun:
    (place / name).mkdir()
    return PooledRun(place / name, name, devices)


def all_ended(pool: LocalPool) -> list[Ended]:
    found: list[Ended] = []
    while pool.own or pool.adopted:
        found += pool.ended()
        time.sleep(0.01)
    return found


def seen(place: Path, name: str) -> list[str]:
    while not (place / name / "sees").exists() or not (place / name / "sees").read_text():
        time.sleep(0.01)
    return (place / name / "sees").read_text().split()


def test_a_run_s_output_goes_to_its_log_and_its_code_is_told(make: Make, tmp_path: Path) -> None:
    pool = make(2)
    (tmp_path / "log.txt").touch()
    for name in ("good", "fails"):
        pool.submit(run(tmp_path, name))
    assert pool.room() == 0
    assert sorted((ended.run.name, ended.code) for ended in all_ended(pool)) == [("fails", 3), ("good", 0)]
    assert pool.room() == 2
    assert (tmp_path / "good" / "log.txt").read_text() == "a line of good\n"


def test_a_killed_run_says_so(make: Make, tmp_path: Path) -> None:
    pool = make()
    key = pool.submit(run(tmp_path, "slow"))
    process = Process.from_key(key)
    assert process is not None and pool.alive(key) is True
    os.kill(process.pid, signal.SIGKILL)
    (ended,) = all_ended(pool)
    assert (ended.code, pool.alive(key)) == (-9, False)
    assert "SIGKILL" in ended.reason


def test_runs_share_the_cores_and_get_nothing_of_a_surrounding_rank(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    pool = make(2)
    pool.submit(run(tmp_path, "slow"))
    assert seen(tmp_path, "slow")[1:] == ["3", "-", str(os.getpid())]
    assert make(1).threads() is None  # alone: torch's default
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert make(2).threads() == 2


def test_each_run_has_a_gpu_of_its_own(make: Make, tmp_path: Path) -> None:
    pool = make(gpus=["4", "5"])
    assert pool.room() == 2
    for name in ("one", "other"):
        pool.submit(run(tmp_path, name))
    assert pool.room() == 0
    assert [seen(tmp_path, name)[0] for name in ("one", "other")] == ["4", "5"]


def test_a_run_of_another_sweep_keeps_its_gpu(make: Make, tmp_path: Path) -> None:
    other, pool = make(gpus=["0"]), make(gpus=["0", "1"])
    elsewhere = run(tmp_path, "slow")
    pool.adopt(elsewhere, other.submit(elsewhere))
    seen(tmp_path, "slow")
    assert pool.room() == 1
    pool.submit(run(tmp_path, "here"))
    assert seen(tmp_path, "here")[0] == "1"
    assert pool.room() == 0


def test_a_run_of_which_no_gpu_is_known_takes_one(make: Make, tmp_path: Path) -> None:
    pool = make(gpus=["0", "1"])
    pool.adopt(run(tmp_path, "elsewhere"), Process.of().key)
    assert pool.room() == 1


def test_the_cores_are_shared_by_the_runs_that_fit_the_gpus(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 16)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert make(8, gpus=["0"]).threads() is None  # one run at a time
    assert make(8, gpus=["0", "1"]).threads() == 8
    assert make(2, gpus=["0", "1"], per_gpu=4).threads() == 8


def test_a_signal_without_a_name_is_told_by_its_number(make: Make, tmp_path: Path) -> None:
    pool = make(1)
    process = Process.from_key(pool.submit(run(tmp_path, "slow")))
    seen(tmp_path, "slow")
    assert process is not None
    os.kill(process.pid, signal.SIGRTMIN + 1)
    (ended,) = all_ended(pool)
    assert ended.reason == f"ended by signal {int(signal.SIGRTMIN) + 1}"


def test_several_runs_share_a_gpu_and_one_run_may_take_several(make: Make, tmp_path: Path) -> None:
    pool = make(gpus=["0", "1"], per_gpu=2)
    assert pool.room() == 4
    for number in range(4):
        pool.submit(run(tmp_path, f"n{number}"))
    assert sorted(seen(tmp_path, f"n{number}")[0] for number in range(4)) == ["0", "0", "1", "1"]
    assert make(3, gpus=["0", "1"], per_gpu=2).room() == 3
    wide = make(gpus=["0", "1", "2"], devices=2)
    assert wide.room() == 1
    wide.submit(run(tmp_path, "wide", devices=2))
    assert (seen(tmp_path, "wide")[0], wide.room()) == ("0,1", 0)
    with pytest.raises(UserError, match="there are 1 GPUs here"):
        make(gpus=["0"], devices=2)


def test_an_adopted_run_takes_room_until_it_is_gone_and_is_not_stopped(make: Make, tmp_path: Path) -> None:
    first, second = make(), make()
    key = first.submit(run(tmp_path, "slow"))
    second.adopt(first.own[0].run, key)
    assert second.room() == 0
    second.stop()
    assert first.own[0].popen.poll() is None
    first.own[0].popen.kill()
    (ended,) = all_ended(second)
    assert (ended.run.name, ended.code) == ("slow", None)


def test_stop_asks_as_ctrl_c_would_and_waits(make: Make, tmp_path: Path) -> None:
    pool = make()
    pool.submit(run(tmp_path, "slow"))
    seen(tmp_path, "slow")
    pool.stop()
    assert [ended.code for ended in pool.ended()] == [-signal.SIGINT]


@pytest.mark.slow
def test_a_row_takes_no_module_from_the_folder_it_is_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('taken from the current folder')\n")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    pool = LocalPool()
    pool.submit(PooledRun(folder, "row"))
    (ended,) = all_ended(pool)
    assert ended.code == 2
    assert "config.yaml" in (folder / "log.txt").read_text()
