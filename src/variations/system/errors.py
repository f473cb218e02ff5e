"""Errors that a user can fix, and the exit codes that scripts can rely on."""

import signal
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    """A run, or a row of a sweep, failed."""
    USAGE = 2
    """The configuration or the input is wrong; nothing was started."""
    HELD = 75
    """Another process is executing the run and continues (EX_TEMPFAIL of sysexits.h)."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C (SIGINT). After this or another signal, the same command continues the run."""
    PREEMPTED = 140
    """Stopped by SIGUSR2, which a cluster sends before it takes the machine away."""
    UNREAD = 141
    """The reader of the output has closed it, as `head` does: the code of a process that SIGPIPE ended."""
    TERMINATED = 143
    """Stopped by SIGTERM."""


class UserError(Exception):
    """Something the user can fix. The message says what is wrong, where, the valid choices, and what to do."""

    exit_code = ExitCode.USAGE


class RunFailedError(UserError):
    """A run that had started and could not continue (a loss that is not finite, a full disk, a lost process)."""

    exit_code = ExitCode.FAILED


class NotContinuedError(UserError):
    """A run's inputs or checkpoints are not those with which it was trained; `force` begins a new attempt beside it."""


class InUseError(UserError):
    """Another process is executing the run."""

    exit_code = ExitCode.HELD


class TakenOverError(InUseError):
    """This process has lost the run's lease, because it did not renew it in time: it must not write any more."""


class ConfigError(UserError):
    """All faults of one configuration, reported together."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        heading = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__(f"{heading} in the configuration:\n" + "\n".join(f"  - {fault}" for fault in self.faults))


class DataError(UserError):
    """A corpus that cannot be used as it is: the message names file and line."""


class Pruned(Exception):  # noqa: N818 - no error
    """The search to which a run belongs has pruned it: neither a failure nor a result."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped a run; the same command continues it from what was saved."""

    def __init__(self, received: signal.Signals = signal.SIGINT, text: str | None = None) -> None:
        super().__init__(text or f"Stopped by {received.name}; the same command continues the run.")
        self.received = received
        self.exit_code = ExitCode(128 + received)


def by_ctrl_c(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or arose while Ctrl-C was being handled, as in a library that was half-way."""
    pending, seen = [error], set[int]()
    while pending:
        if isinstance(found := pending.pop(), KeyboardInterrupt):
            return True
        if id(found) not in seen:
            seen.add(id(found))
            pending += [other for other in (found.__cause__, found.__context__) if other is not None]
    return False


def read_fault(error: Exception, path: Path) -> str:
    """Why `path` cannot be read, without the path itself, which the sentence around it names."""
    return (getattr(error, "strerror", None) or str(error)).removeprefix(f"{path} is damaged: ")


def yaml_fault(error: Exception) -> str:
    """What is wrong in YAML: `line 6, column 1: could not find expected ':'`; a tab, which it forbids, by its name."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    if "\\t" in problem:
        problem = "a tab; indent with spaces"
    elif "cannot start any token" in problem:
        problem = "a tab or another character with which no text may start: indent with spaces, and quote such text"
    elif "mapping values are not allowed" in problem:
        problem += ": check the indentation of this line, and quote text that contains a colon and a space"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
