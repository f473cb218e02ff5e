"""The identity of a process, and whether it still runs. A process number alone is not enough: systems reuse them.

A process is identified by its machine (and container), its number there, and its start time. Systems other than Linux
leave the time out.
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
    """A process on any machine."""

    pid: int
    host: str
    place: str
    """Identifies the machine since its last boot, and the container: the scope of process numbers."""
    born: int
    """Start time of the process in clock ticks since boot; 0: unknown."""

    @classmethod
    def of(cls, pid: int | None = None) -> Self:
        """Return process `pid` of this machine, by default this one."""
        pid = os.getpid() if pid is None else pid
        return cls(pid, socket.gethostname(), here(), _born(pid) or 0)

    @property
    def key(self) -> str:
        """The process as one word: `1234@host/place/born`."""
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
        """Return whether it runs and is not a zombie; None for a process of another machine."""
        if self.place != here():
            return None
        if not Path("/proc/self/stat").exists():
            return answers(self.pid)
        return _born(self.pid) == self.born


@functools.cache
def here() -> str:
    """Return an identifier of this machine since its last boot, and of this container."""
    facts = [socket.gethostname()]
    try:
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        facts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 (no path, but the name of a namespace)
    except OSError:
        facts.append("")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _born(pid: int) -> int | None:
    """Start time of a running process in clock ticks; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def answers(pid: int) -> bool:
    """Return whether a process with that number exists on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
