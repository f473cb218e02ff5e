"""The measurements of a run: metrics.jsonl, one JSON object a line."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from variations.store import fence
from variations.store.atomic import DEEPEST, json_text, read_stored, replaced, stored_path, usable
from variations.system.errors import UserError, read_fault

LARGEST = 1 << 30
"""The largest file that the dashboard reads, in bytes: a million lines, which take several times that memory."""


class Measurements:
    """The lines of a run's metrics.jsonl, oldest first. Only the holder of the run's lease writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tail_checked = False
        self._file: FileIO | None = None
        """Opened by the holder of the run's lease."""

    def append(self, values: Mapping[str, Any]) -> None:
        """Append one line, unbuffered. NaN and infinities are stored as null.

        Raises:
            TakenOverError: another process has taken over the run.
        """
        fence.check(self.path.parent)
        if self._file is not None:
            _write(self._file, [values])
            return
        if not self._tail_checked:
            self._tail_checked = True
            _drop_half_line(self.path)
        with self.path.open("ab", buffering=0) as file:
            _write(file, [values])

    def sync(self) -> None:
        """Flush all lines so far to the disk, before a checkpoint that covers them is written."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, having: str = "") -> list[dict[str, Any]]:
        """All lines of the file (plain or gzipped) in which the text `having` occurs; others are not parsed.

        A last line cut off by a kill is ignored. No file: no lines.

        Raises:
            UserError: another line is damaged.
        """
        file = stored_path(self.path)
        if file is None:
            return []
        try:
            lines = read_stored(self.path).split(b"\n")
        except OSError as error:
            raise UserError(f"Cannot read {file}: {read_fault(error, file)}{_advice(file)}.") from error
        found: list[dict[str, Any]] = []
        wanted = having.encode()
        for number, line in enumerate(lines, start=1):
            if wanted not in line or not line.strip():
                continue
            try:
                found.append(_object(line))
            except ValueError as error:
                if number == len(lines):  # no newline after it: the write was cut off
                    break
                raise UserError(f"{file}, line {number}: {error}{_advice(file) or '; delete that line'}.") from error
        return found

    def curve(self, key: str) -> list[tuple[float, float]]:
        """(step, value) of each line that measured `key`, oldest first; empty where they cannot be read."""
        try:
            measured = self.read(having=f'"{key}"')  # a long run has a thousand others
        except (OSError, UserError):
            return []
        points = [(line.get("step"), line.get(key)) for line in measured if isinstance(line, dict)]
        return [(x, y) for x, y in points if isinstance(x, int | float) and isinstance(y, int | float)]

    def fingerprint(self) -> list[Any]:
        """Number of bytes of the file, and their SHA-256, which a checkpoint has."""
        data = self._bytes()
        return [len(data), hashlib.sha256(data).hexdigest()]

    def refuse_lost(self, fingerprint: Any) -> None:
        """Check that the file begins with what it contained when it had `fingerprint`. None passes.

        Raises:
            UserError: It does not; the run would continue with a gap in its measurements.
        """
        match fingerprint:
            case [int(size), str(sha256)] if hashlib.sha256(self._bytes()[:size]).hexdigest() != sha256:
                raise UserError(
                    f"{self.path} lacks measurements that this run had at its last checkpoint, or they were changed: "
                    "restore the file, or train the run again as a new attempt (force=true)."
                )

    def truncate(self, step: int) -> None:
        """Replace the file by a copy of its lines up to and including `step`, to which this process appends.

        Lines that an interrupted run wrote after its last checkpoint are dropped. Since this is another file, a former
        holder that still has the old one open no longer writes to it.
        """
        kept = [line for line in self.read() if line.get("step", 0) <= step]
        self.close()
        with replaced(self.path) as temporary:
            self._file = temporary.open("xb", buffering=0)
            _write(self._file, kept)

    def _bytes(self) -> bytes:
        return self.path.read_bytes() if self.path.is_file() else b""


def _advice(file: Path) -> str:
    return "; record the run again" if file.suffix == ".gz" else ""


def value_of(line: bytes, decoder: json.JSONDecoder = json.JSONDecoder()) -> Any:  # noqa: B008 - it has no state
    """The JSON value of a line. An integer beyond 64 bits becomes a float.

    Args:
        line: Without its newline.
        decoder: Reads what orjson refuses, and says what is wrong with it; orjson is several times as fast.

    Raises:
        ValueError: It is not JSON, or nothing that a run writes.
    """
    if line.count(b"[") + line.count(b"{") <= DEEPEST:  # so it is not nested more deeply either
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(line)
    try:
        return usable(decoder.decode(line.decode("utf-8", errors="replace")))
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg})") from error
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line. Raises ValueError if it is none that a run writes."""
    value = value_of(line)
    if not isinstance(value, dict) or not isinstance(value.get("step", 0), int | float):
        raise ValueError("not a JSON object with a number as its step")
    return value


def _write(file: FileIO, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append `lines` to the unbuffered `file`."""
    text = "".join(json_text(dict(line), indent=None) + "\n" for line in lines).encode()
    while text:  # on a nearly full disk, the system may write only a part before it refuses
        text = text[file.write(text) :]


def _drop_half_line(path: Path) -> None:
    """Remove a last line that a kill cut off."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        data = file.read()
        if data and not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)
