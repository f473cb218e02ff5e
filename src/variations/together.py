"""Several runs of a sweep at once on this machine, each in a process of its own.

Small models do not scale over cores: two runs on one core each get further than two runs in turn on both. A run that
is killed, or takes its process down, is a failed run and not the end of the sweep.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from variations.errors import ExitCode, RunFailedError
from variations.experiments.ledger import latest
from variations.outcomes import Outcome, announce


@dataclass
class _Process:
    outcome: Outcome
    popen: subprocess.Popen[str]
    started: float = field(default_factory=time.monotonic)


def run_together(outcomes: Sequence[Outcome], at_once: int, extra_folder: str | None = None) -> None:
    """Run every pending job, `at_once` at a time, with this machine's threads divided among them.

    Args:
        outcomes: The sweep's jobs in order; those that are not pending are left alone.
        at_once: Processes at a time.
        extra_folder: A further folder of configuration files, as `--config-dir` gives it.

    Raises:
        KeyboardInterrupt: The user stopped the sweep; runs in progress have saved themselves.
    """
    waiting = [(index, outcome) for index, outcome in enumerate(outcomes) if outcome.state == "pending"]
    threads = max(1, _cores() // at_once)
    running: list[_Process] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                index, outcome = waiting.pop(0)
                announce(index, len(outcomes), outcome.job)
                running.append(_Process(outcome, _start(outcome, threads, extra_folder)))
            time.sleep(0.1)
            for process in [process for process in running if process.popen.poll() is not None]:
                running.remove(process)
                _end(process)
    except KeyboardInterrupt:
        for process in running:  # Ctrl-C reached them too; they are saving
            process.popen.wait()
            _end(process)
        raise


def _script() -> str:
    """The command that the user started."""
    return str(Path(sys.argv[0]).resolve())


def _start(outcome: Outcome, threads: int, extra_folder: str | None) -> subprocess.Popen[str]:
    folder = [] if extra_folder is None else ["--config-dir", extra_folder]
    process = subprocess.Popen(
        [sys.executable, _script(), *folder, *outcome.job.overrides],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Through a pipe a run shows lines, not a bar: several bars on one terminal would write over each other.
    threading.Thread(target=_forward, args=(process,), daemon=True).start()
    return process


def _forward(process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        sys.stderr.write(line)


def _end(process: _Process) -> None:
    code, seconds = process.popen.returncode, time.monotonic() - process.started
    if code == ExitCode.OK:
        process.outcome.end("finished", None, seconds)
    elif code == ExitCode.INTERRUPTED:
        process.outcome.end("interrupted", None, seconds)
    else:
        folder = latest(process.outcome.job.folder)
        status = folder.status() if folder is not None else None
        ended = f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}"
        reason = status.reason if status is not None and status.state == "failed" and status.reason else ended
        process.outcome.end("failed", RunFailedError(reason), seconds)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
