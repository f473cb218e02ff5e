"""A cache of what was read from a run store, in the user's cache folder, for the next start of the dashboard.

Values are stored by name in an SQLite file, each with a checksum and a mark of the code that made it: a value that is
damaged, or was made by other code, counts as missing. The reader must check whether a value is still that of the files.
The file may be deleted at any time: a damaged one is deleted, and if it cannot be written, nothing is cached.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds to wait for another process that writes to the file."""
FOR_NOW = (
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
"""Errors after which the file is left as it is; after any other error it is deleted."""


class Memory:
    """Values by name. Several processes may use one file."""

    def __init__(self, path: Path | None) -> None:
        """Store values in the file `path`; with None, nothing is stored."""
        self.path = path

    @classmethod
    def of(cls, root: Path, cache_folder: Path) -> "Memory":
        """The memory of the run store at `root`."""
        return cls(cache_folder / "dashboard" / f"{sha256(os.fsencode(root)).hexdigest()[:16]}.sqlite")

    def load(self, start: str) -> dict[str, Any]:
        """Values whose names begin with `start`, by the rest of the name."""
        first = os.fsencode(start)
        chosen = (first, first + b"\xff")
        query = "SELECT name, value FROM known WHERE name BETWEEN ? AND ?"
        found: list[tuple[Any, Any]] = self._with(lambda file: file.execute(query, chosen).fetchall(), [])
        values = ((os.fsdecode(name), value) for name, value in found)
        return {name[len(start) :]: kept for name, value in values if (kept := _unpacked(name, value)) is not None}

    def save(self, values: Mapping[str, Any], gone: Iterable[str] = ()) -> bool:
        """Store those of `values` that JSON can represent, and delete those named in `gone`; False if that failed."""

        def write(file: sqlite3.Connection) -> bool:
            packed = [(os.fsencode(name), data) for name, value in values.items() if (data := _packed(name, value))]
            file.executemany("DELETE FROM known WHERE name = ?", [(os.fsencode(name),) for name in gone])
            file.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", packed)
            return True

        return self._with(write, False)

    def _with(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """The result of `work`, in one transaction; `otherwise` if the file cannot be used."""
        if self.path is None:
            return otherwise
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # configurations may contain private data
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as file, file:
                file.execute("PRAGMA synchronous=OFF")  # what a power cut damages is read again
                file.execute("CREATE TABLE IF NOT EXISTS known (name BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
                return work(file)
        except OSError:
            return otherwise
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in FOR_NOW:
                with suppress(OSError):
                    self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
                    self.path.unlink()
            return otherwise


def _packed(name: str, value: Any) -> bytes | None:
    """A value in JSON; None if JSON cannot represent it exactly."""
    try:
        text = json.dumps([code(), name, value])
        return zlib.compress(text.encode(), 1) if json.loads(text)[2] == value else None  # with a checksum
    except (TypeError, ValueError):
        return None


def _unpacked(name: str, data: Any) -> Any:
    try:
        made_by, own, value = json.loads(zlib.decompress(data))
    except (TypeError, ValueError, zlib.error):
        return None
    return value if (made_by, own) == (code(), name) else None


@cache
def code() -> str:
    """A mark that changes with any source file of this package."""
    root = Path(__file__).parents[1]
    files = ((path, path.stat()) for path in sorted(root.rglob("*.py")))
    facts = [f"{path.relative_to(root)} {found.st_size} {found.st_mtime_ns}" for path, found in files]
    return sha256("\n".join(facts).encode()).hexdigest()[:16]
