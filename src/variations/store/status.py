"""The contents of a run's status.json, and whether the process named there is still running."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from variations.store import lease
from variations.store.process_identity import Process, answers
from variations.system.errors import UserError

STATES = ("running", "finished", "failed", "interrupted", "pruned")
DELETE_IT = "; delete it, and start the run again: it continues from its checkpoints"
"""Advice for a status.json that is damaged."""


@dataclass
class Status:
    """Contents of status.json. Times are UTC in ISO 8601."""

    state: str
    reason: str | None = None
    started: str | None = None
    updated: str | None = None
    pid: int | None = None
    host: str | None = None
    process: str | None = None
    """A unique name of the same process (`Process.key`)."""
    attempt: int = 1
    step: int | None = None
    epoch: int | None = None
    checkpoint: int | None = None
    """Step of the latest checkpoint that was written."""
    command: str | None = None
    failures: int = 0
    """How often the run has failed in all."""
    copied: str | None = None
    """Name of the run that this one is a copy of (`sweep.shares`)."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further facts a caller stored."""

    @classmethod
    def parse(cls, stored: Mapping[str, Any], path: Path) -> Self:
        """The status that was read from `path`. Raises UserError if its state is unknown."""
        if stored.get("state") not in STATES:
            raise UserError(f"{path} has state {stored.get('state')!r}; known: {', '.join(STATES)}{DELETE_IT}.")
        known = {item.name for item in fields(cls)} - {"extra"}
        for name, (wanted, kind) in _TYPES.items():
            if (value := stored.get(name)) is not None and not isinstance(value, wanted):
                raise UserError(f"{path}: {name} is {value!r:.60}, not {kind}{DELETE_IT}.")
        extra = {key: value for key, value in stored.items() if key not in known}
        return cls(**{key: value for key, value in stored.items() if key in known}, extra=extra)

    def process_alive(self, folder: Path) -> bool:
        """Whether the process is running; if it is on another machine, whether it renewed the lease lately.

        One of this machine that holds the lease of another folder, of which this one is a copy, does not run this one.

        Args:
            folder: The run's folder.
        """
        process = Process.from_key(self.process or "")
        if process is not None and (alive := process.alive()) is not None:
            return alive and not lease.copied(folder)
        if self.host == socket.gethostname() and not (self.pid and answers(self.pid)):
            return False
        # An older status gives the process's number alone, which another process may have now.
        if process is None and self.host == socket.gethostname() and lease.read(folder) is None:
            return True
        return not lease.silent(folder, folder / "status.json")


_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    item.name: ((int, float), "a number") if "int" in str(item.type) else (str, "text")
    for item in fields(Status)
    if item.name != "extra"
}
"""By entry of status.json: its type, and what that is called in messages."""
