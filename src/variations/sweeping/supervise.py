"""Supervises one run in a job of a cluster: stores its output, forwards signals, and reports how it ended.

The supervisor does no work itself and imports no torch, so it survives a run that is killed or out of memory.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from variations.store.ledger import RunFolder
from variations.system import processes
from variations.system.errors import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
"""Variables that would make a run act as one of several ranks."""
SAVED = (ExitCode.INTERRUPTED, ExitCode.PREEMPTED, ExitCode.TERMINATED)
"""The run has saved and ended at the request of a signal."""


def run(
    folder: Path,
    changes: Mapping[str, str] | None = None,
    *,
    key: str | None = None,
    log: str = "log.txt",
    give_up: Callable[[], bool] = lambda: False,
) -> int:
    """Execute the run in `folder` in its own process and wait until it ends.

    Args:
        folder: The run's folder.
        changes: Further environment variables.
        key: The run's in the pool.
        log: File in the folder to which its output is appended.
        give_up: Called every second; once it returns True, the run is asked to end, and killed after a while.

    Returns:
        Its exit code; negative: the signal that ended it.
    """
    with _signals() as received:
        process = start(folder, changes, key=key, log=log)
        received.pass_to(process)
        return settled(_wait(process, give_up), received.last)


def start(
    folder: Path, changes: Mapping[str, str] | None = None, *, key: str | None = None, log: str = "log.txt"
) -> "subprocess.Popen[bytes]":
    """Start the run in `folder`; on Linux it ends with the thread that calls this."""
    place = {processes.PARENT: str(os.getpid()), "PYTHONUNBUFFERED": "1", **(changes or {})}
    variables = {key: value for key, value in processes.environment(place).items() if key not in RANK}
    command = [sys.executable, "-P", "-m", "variations.commands.run", str(folder), *([key] if key else [])]
    with (folder / log).open("ab") as output:
        return subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def settled(code: int, asked: int | None) -> int:
    """Return the exit code; a run that a signal ended before it could handle it counts as if it had handled it."""
    return 128 + asked if asked is not None and code == -asked else code


def uses_gpus(folder: Path) -> bool:
    """Return whether the run in `folder` requests GPUs."""
    trainer = RunFolder(folder).config().get("trainer") or {}
    return trainer.get("accelerator") == "gpu"


def _wait(process: "subprocess.Popen[bytes]", give_up: Callable[[], bool]) -> int:
    deadline = float("inf")
    while True:
        try:
            return process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            if deadline == float("inf") and give_up():
                process.terminate()
                deadline = time.monotonic() + processes.GRACE_SECONDS
            elif time.monotonic() > deadline:
                process.kill()


class _Received:
    """Signals so far, for a process that may not have been started yet."""

    def __init__(self) -> None:
        self.last: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def pass_to(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        if self.last is not None:
            process.send_signal(self.last)

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.last = number
        if self._process is not None:
            self._process.send_signal(number)


@contextmanager
def _signals() -> Iterator[_Received]:
    received = _Received()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield received
        return
    previous: dict[signal.Signals, Any] = {number: signal.signal(number, received.handle) for number in SIGNALS}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
