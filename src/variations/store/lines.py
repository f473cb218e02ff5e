"""Files of one JSON object a line, such as metrics.jsonl."""

import json
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from variations.store.atomic import json_text, read_stored, stored_path, usable
from variations.system.errors import UserError, read_fault


def read(path: Path, having: str = "") -> list[dict[str, Any]]:
    """All lines of the file (plain or gzipped) in which the text `having` occurs; others are not parsed.

    A last line cut off by a kill is ignored. No file: no lines.

    Raises:
        UserError: another line is damaged.
    """
    file = stored_path(path)
    if file is None:
        return []
    try:
        lines = read_stored(path).decode("utf-8", errors="replace").split("\n")
    except OSError as error:
        raise UserError(f"Cannot read {file}: {read_fault(error, file)}{_advice(file)}.") from error
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if having not in line or not line.strip():
            continue
        try:
            found.append(_object(line))
        except ValueError as error:
            if number == len(lines):  # no newline after it: the write was cut off
                break
            raise UserError(f"{file}, line {number}: {error}{_advice(file) or '; delete that line'}.") from error
    return found


def _advice(file: Path) -> str:
    return "; record the run again" if file.suffix == ".gz" else ""


def _object(line: str) -> dict[str, Any]:
    """The JSON object of a line. Raises ValueError if it is none that a run writes."""
    try:
        value = usable(json.loads(line))
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg})") from error
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict) or not isinstance(value.get("step", 0), int | float):
        raise ValueError("not a JSON object with a number as its step")
    return value


def write(file: FileIO, lines: Sequence[Mapping[str, Any]]) -> None:
    """Append `lines` to the unbuffered `file`. NaN and infinities are stored as null."""
    text = "".join(json_text(dict(line), indent=None) + "\n" for line in lines).encode()
    while text:  # on a nearly full disk, the system may write only a part before it refuses
        text = text[file.write(text) :]


def drop_half_line(path: Path) -> None:
    """Remove a last line that a kill cut off."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        data = file.read()
        if data and not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)
