"""Faults that a user can mend, and the exit codes that scripts can rely on."""

import signal
from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    """A run, or a row of a sweep, failed."""
    USAGE = 2
    """The configuration or the input is wrong; nothing was started."""
    HELD = 75
    """Another process is at the run (EX_TEMPFAIL of sysexits.h); it goes on."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C (SIGINT); the run can be continued by the same command, as after the other two signals."""
    PREEMPTED = 140
    """Stopped by SIGUSR2, which a cluster sends before it takes the machine away."""
    UNREAD = 141
    """Whoever read the output has gone, as `head` does: what SIGPIPE gives."""
    TERMINATED = 143
    """Stopped by SIGTERM."""


class UserError(Exception):
    """Something the user can mend. The message says what is wrong, where, the valid choices, and what to do."""

    exit_code = ExitCode.USAGE


class RunFailedError(UserError):
    """A run that had started and could not go on (a loss that is not finite, a full disk, a lost process)."""

    exit_code = ExitCode.FAILED


class InUseError(UserError):
    """Another process is at the run."""

    exit_code = ExitCode.HELD


class TakenOverError(InUseError):
    """This process held the run's lease, was silent too long, and has lost it: it must write nothing more."""


class ConfigError(UserError):
    """All faults of one configuration, reported together."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        heading = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__(f"{heading} in the configuration:\n" + "\n".join(f"  - {fault}" for fault in self.faults))


class DataError(UserError):
    """A corpus that cannot be used as it is: the message names file and line."""


class Pruned(Exception):  # noqa: N818 - no error
    """The search to which a run belongs has given it up: neither a failure nor a result."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped a run; what was saved is continued by the same command."""

    def __init__(self, received: signal.Signals = signal.SIGINT, text: str | None = None) -> None:
        super().__init__(text or f"Stopped by {received.name}; the same command continues the run.")
        self.received = received
        self.exit_code = ExitCode(128 + received)
