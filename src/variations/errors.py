"""Faults that a user can mend, and the exit codes that scripts can rely on."""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    FAILED = 1
    """A run, or a row of a sweep, failed."""
    USAGE = 2
    """The configuration or the input is wrong; nothing was started."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C; the run can be continued by the same command."""


class UserError(Exception):
    """Something the user can mend. The message says what is wrong, where, the valid choices, and what to do."""

    exit_code = ExitCode.USAGE


class RunFailure(UserError):
    """A run that had started and could not go on (a loss that is not finite, a full disk, a lost process)."""

    exit_code = ExitCode.FAILED


class ConfigError(UserError):
    """All faults of one configuration, reported together."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        heading = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        super().__init__(f"{heading} in the configuration:\n" + "\n".join(f"  - {fault}" for fault in self.faults))


class DataError(UserError):
    """A corpus that cannot be used as it is: the message names file and line."""
