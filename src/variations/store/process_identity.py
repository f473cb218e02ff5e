"""Which process is meant, and whether it still is: a number alone is given to another process one day.

A process is named by its machine (and container), its number there, and the time it was born. Elsewhere than on Linux
the time is left out.
"""

import functools
import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Process:
    """A process anywhere."""

    pid: int
    host: str
    place: str
    """Machine since its last start, and container: where numbers of processes mean the same."""
    born: int
    """Clock ticks from the machine's start to the process's; 0: unknown."""

    @classmethod
    def of(cls, pid: int | None = None) -> Self:
        """Return process `pid` of this machine, by default this one."""
        pid = os.getpid() if pid is None else pid
        return cls(pid, socket.gethostname(), here(), _born(pid) or 0)

    @property
    def key(self) -> str:
        """The process in one word: `1234@host/place/born`."""
        return f"{self.pid}@{self.host}/{self.place}/{self.born}"

    @classmethod
    def from_key(cls, key: str) -> Self | None:
        """Return the process that `key` names; None if it names none."""
        pid, at, rest = key.partition("@")
        parts = rest.split("/")
        if not at or len(parts) != 3 or not pid.isdigit() or not parts[2].isdigit():
            return None
        return cls(int(pid), parts[0], parts[1], int(parts[2]))

    def alive(self) -> bool | None:
        """Return whether it is there and not merely waiting to be buried; None for a process of another machine."""
        if self.place != here():
            return None
        if not Path("/proc/self/stat").exists():
            return answers(self.pid)
        return _born(self.pid) == self.born


@functools.cache
def here() -> str:
    """Return a word for this machine since its last start, and this container."""
    facts = [socket.gethostname()]
    try:
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        facts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 (no path, but the name of a namespace)
    except OSError:
        facts.append("")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _born(pid: int) -> int | None:
    """Start of a living process in clock ticks; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def answers(pid: int) -> bool:
    """Return whether the system knows a process of that number here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
