"""The processes of a data-parallel run: whose failure ends the others, and what is told of it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from variations.system import processes

DEAF = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
Process = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def process() -> Process:
    return lambda code: subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.slow
def test_the_failure_of_any_rank_ends_the_others(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    ranks = [process("import time; time.sleep(60)"), process("raise SystemExit(3)")]
    began = time.monotonic()
    try:
        assert processes._watch(ranks, []) == 3
    finally:
        ranks[0].kill()
        ranks[0].wait()
    assert time.monotonic() - began < 30


def test_processes_that_do_not_follow_a_second_ctrl_c_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.3)
    deaf = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    try:
        assert deaf.stdout.readline() == b"ready\n"
        with processes._passed_on([deaf]) as received:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            begun = time.monotonic()
            assert processes._watch([deaf], received) == 130
        assert 0.3 <= time.monotonic() - begun < 30
        assert deaf.poll() is None  # `run_ranks` ends it
    finally:
        deaf.kill()
        deaf.wait()


def test_a_preemption_and_one_more_signal_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.1)
    slow = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    assert processes._watch([slow], [signal.SIGUSR2, signal.SIGTERM]) == 0


def test_a_rank_is_known_by_what_started_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lightning removes WORLD_SIZE at the end of a training, before the reason of a failure is written."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for name, value in {processes.PARENT: "1", processes.LEASE: "2", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert processes.is_rank() and processes.global_rank() == 1
    processes.write_reason(tmp_path, "no memory")
    processes.write_reason(tmp_path, "a later reason")
    assert processes.reason_of(tmp_path, 1) == "rank 1: no memory"
    assert processes.reason_of(tmp_path, -9) == "one of its processes was ended by SIGKILL"
    assert processes.reason_of(tmp_path / "none", 4) == "one of its processes ended with code 4"
    monkeypatch.delenv(processes.LEASE)
    assert not processes.is_rank() and processes.global_rank() == 0
