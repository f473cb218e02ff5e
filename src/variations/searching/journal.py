"""The journal of a study: Optuna's file of one line an operation, which stays readable when a write fails.

A full disk, or a process that was killed, may leave half a line; a line after it would make the journal unreadable.
Importing this module imports Optuna.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock


class Journal(JournalFileBackend):
    """The journal at `path`, which is made if it is missing.

    Raises:
        OSError: It cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, JournalFileSymlinkLock(str(path))
        super().__init__(str(path), self.lock)
        if not self._is_whole():
            with self._alone():
                self._drop_half_a_line()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations, after the last whole line. Raises OSError if they cannot be written."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with self._alone():
            self._drop_half_a_line()
            try:
                with self.path.open("ab") as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                self._drop_half_a_line()  # a whole line stays, because other processes may have read it
                raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.lock.acquire()
        try:
            yield
        finally:
            self.lock.release()

    def _drop_half_a_line(self) -> None:
        if not self._is_whole():
            with self.path.open("rb+") as file:
                file.truncate(file.read().rfind(b"\n") + 1)

    def _is_whole(self) -> bool:
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"
