"""Measurements of a run as columns, read as they are appended."""

import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Self

from variations.configuration.tasks import named, names
from variations.store.atomic import read_stored, stored_path, unpacked
from variations.store.measurements import value_of
from variations.system.errors import UserError, read_fault

AXES = ("step", "target_tokens", "tokens", "seconds", "flops")
"""Quantities for the x axis of curves, in the order of the menu; `tokens` are source and target tokens together."""
NO_METRICS = frozenset({*AXES, "source_tokens", "padded_tokens", "epoch"})
NUMBERS = frozenset({int, float})
"""What JSON's numbers become; `is_number` of each would take as long as reading it."""
PEEK = 32 * 1024


class Metrics:
    """metrics.jsonl of one run.

    A file that was replaced (by a resumed run) is read again; a last line without its newline is left for the next
    time; a damaged line is skipped and listed in `damaged`. A record's file is gzipped, and read as a whole each time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self.costs: dict[str, list[float | None]] = {name: [] for name in AXES}
        self.scalars: dict[str, tuple[list[int], list[float]]] = {}
        """For each metric its lines, counted from 0, and values."""
        self.lists: dict[str, tuple[list[int], list[list[float]]]] = {}
        """The same for κ and α."""
        self.damaged: list[int] = []
        """Numbers, from 1, of the lines that are not JSON objects."""
        self._offset = 0
        self._lines = 0
        self._last = b""
        """The last line that was read."""
        self._identity: tuple[int, int] | None = None

    @property
    def lines(self) -> int:
        """Number of measurements so far."""
        return len(self.costs["step"])

    def update(self) -> None:
        """Read the lines appended since the last call; a missing file counts as empty. UserError: it is damaged."""
        path = stored_path(self.path) or self.path
        try:
            with path.open("rb") as raw, io.BytesIO(unpacked(path, raw)) if path.suffix == ".gz" else raw as file:
                stat = os.fstat(raw.fileno())
                same = self._identity == (stat.st_dev, stat.st_ino) and stat.st_size >= self._offset
                if not (same and self._at_last_line(file)):
                    self._forget()
                    self._identity = (stat.st_dev, stat.st_ino)
                    file.seek(0)
                data = file.read()
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise UserError(f"{path} cannot be read ({read_fault(error, path)})") from error
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        if whole:
            self._last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
        for line in whole.splitlines():
            self._lines += 1
            if line.strip():
                self._add(line)

    def _at_last_line(self, file: BufferedIOBase) -> bool:
        """Whether the last line is where it was read, since numbers of inodes come back; the file is then behind it."""
        file.seek(self._offset - len(self._last))
        return file.read(len(self._last)) == self._last

    def _add(self, text: bytes) -> None:
        line = _object(text)
        if line is None:
            self.damaged.append(self._lines)
            return
        index = self.lines
        for name in AXES:
            self.costs[name].append(_cost(line, name))
        for key, value in line.items():
            if key in NO_METRICS:
                continue
            if type(value) in NUMBERS:
                places, values = self.scalars.setdefault(key, ([], []))
                places.append(index)
                values.append(float(value))
            elif isinstance(value, list) and value and NUMBERS.issuperset(map(type, value)):
                places, rows = self.lists.setdefault(key, ([], []))
                places.append(index)
                rows.append(list(map(float, value)))


@dataclass
class Glance:
    """What a run has measured."""

    values: dict[str, float] = field(default_factory=dict)
    """Of each scalar the last value."""
    costs: dict[str, float] = field(default_factory=dict)
    """Numbers of the last line that curves are drawn against."""
    branched: bool = False
    """Whether κ and α were recorded."""

    @classmethod
    def of(cls, metrics: Metrics) -> Self:
        """From all measurements."""
        last = {name: column[-1] for name, column in metrics.costs.items() if column}
        return cls(
            {key: values[-1] for key, (_, values) in metrics.scalars.items()},
            {name: cost for name, cost in last.items() if cost is not None},
            any(key.endswith((".kappa", ".alpha")) for key in metrics.lists),
        )


def glance(path: Path) -> Glance:
    """What was measured, from the ends of a file, without reading a long one whole."""
    try:
        parts = _ends(path) if path.is_file() else [read_stored(path)]
    except OSError:
        return Glance()
    last: dict[str, Any] = {}
    values: dict[str, Any] = {}
    keys: set[str] = set()
    for text in (text for part in parts for text in part.splitlines()):
        if (line := _object(text)) is not None:
            last = line
            keys.update(line)
            values.update({key: value for key, value in line.items() if type(value) in NUMBERS})
    return Glance(
        {key: float(value) for key, value in values.items() if key not in NO_METRICS},
        {key: cost for key in AXES if (cost := _cost(last, key)) is not None},
        any(key.endswith((".kappa", ".alpha")) for key in keys),
    )


def _ends(path: Path) -> list[bytes]:
    """The lines in the first and last PEEK bytes of a file, at least one of each; all lines of a short file."""
    with path.open("rb") as file:
        head = file.read(PEEK) + file.readline()
        size, back = file.seek(0, 2), PEEK
        while (start := size - back) > len(head):
            file.seek(start)
            tail = file.read().partition(b"\n")[2]
            if b"\n" in tail:
                return [head, tail]
            back *= 2
        file.seek(len(head))
        return [head, file.read()]


def ordered(metrics: set[str], tasks: Iterable[str]) -> list[str]:
    """Metrics in the order of the menu: first those that the tasks name, then the others by name."""
    known = [named(task) for task in tasks if task in names()]  # a package may have been removed
    first = dict.fromkeys(key for task in known for key in (*task.curves, "train/loss"))
    return [*(key for key in first if key in metrics), *sorted(metrics - set(first))]


def curve_labels(tasks: Iterable[str]) -> dict[str, str]:
    """What the tasks call what their runs measure, by its key; where they differ, all their words."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        for key, recorded in named(task).curves.items() if task in names() else ():
            found.setdefault(key, []).append(recorded.label)
    return {key: " or ".join(dict.fromkeys(words)) for key, words in found.items()}


def thinned(places: Sequence[int], limit: int) -> list[int]:
    """At most `limit` of the places, but both ends: every second, fourth, eighth … from the first on, and the last.

    Of two runs that were measured at the same steps but not equally long, the common part keeps common steps.
    """
    apart = 1
    while 2 + (len(places) - 2) // apart > max(limit, 2):
        apart *= 2
    return [*places[:-1:apart], *places[-1:]]


def rounded(value: float | None, digits: int) -> float | None:
    """`value` rounded to a number of significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


_JSON = json.JSONDecoder(parse_constant=lambda name: None)
"""NaN and Infinity are no JSON, and count as nothing measured."""


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = value_of(text, _JSON)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _cost(line: Mapping[str, Any], name: str) -> float | None:
    if name == "tokens":
        sides = [line.get("source_tokens"), line.get("target_tokens")]
        return float(sum(sides)) if NUMBERS.issuperset(map(type, sides)) else None  # type: ignore[arg-type]
    value = line.get(name)
    return float(value) if type(value) in NUMBERS else None  # type: ignore[arg-type]
