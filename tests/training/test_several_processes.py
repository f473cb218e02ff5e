"""The processes of one run: signals that they do not follow."""

import signal
import subprocess
import sys
import time

import pytest

from variations.system import processes

DEAF = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"


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
