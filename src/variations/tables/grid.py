"""A table laid out: columns, cells as text, and footnote marks, before any format draws it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from variations.store.atomic import is_number
from variations.system.quantities import duration, hours_name, hours_text, scientific
from variations.system.rounding import ROUNDING, decimal, whole
from variations.tables.chance import p_text
from variations.tables.footnotes import about, named, star_text
from variations.tables.line import NOT_TRAINED, RECALLED, Figure, Line, Table
from variations.tables.text import Cell, Column, Grid
from variations.tasks.base import Measure

AGREEING = (
    "seeds for which both paired bootstrap and approximate randomisation find a significant difference with the sign "
    "of Δ base"
)


class Notebook:
    """Hands out footnote marks, in addition to the `known` ones: the same text gets the same mark."""

    def __init__(self, known: Sequence[tuple[str, str]] = ()) -> None:
        self.marks: dict[str, str] = {text: mark for mark, text in known if mark != "*"}

    def mark(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Marks of `texts`, new ones in alphabetical order."""
        return tuple(self.marks.setdefault(text, _letters(len(self.marks))) for text in texts)

    def notes(self) -> list[tuple[str, str]]:
        """`(mark, text)` in order."""
        return [(mark, text) for text, mark in self.marks.items()]

    def shared(self, texts: Sequence[Sequence[str] | None]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
        """Marks for the `texts` of each cell of a column (None: it is empty), and for the heading what all share."""
        given = [each for each in texts if each is not None]
        common = [text for text in (given[0] if given else []) if all(text in each for each in given)]
        marks = [self.mark(text for text in each or () if text not in common) for each in texts]
        return marks, self.mark(common)

    def printed(
        self, figures: Sequence[Figure | None], told: Sequence[Sequence[str] | None], digits: int | None = None
    ) -> tuple[list[Cell], tuple[str, ...]]:
        """Cells of published figures, marked with what is `told` of each, and marks for the heading: what all share.

        With at least `digits` decimals; None: as these figures have.
        """
        marks, heading = self.shared(told)
        digits = _decimals([figure.value for figure in figures if figure]) if digits is None else digits
        cells = [
            Cell(_as_printed(figure.value, digits), own, figure.value) if figure else Cell("")
            for figure, own in zip(figures, marks, strict=True)
        ]
        return cells, heading


def recalled(*figures: Figure | None) -> list[str] | None:
    """The caveat of a number that was made of these figures, if some was quoted from memory; None if any is missing."""
    return None if None in figures else [RECALLED] if any(figure and figure.recalled for figure in figures) else []


def lay_out(table: Table) -> Grid:
    """The columns that are not empty, published figures before measured ones."""
    return _Layout(table).grid()


class _Layout:
    """The columns of a table, as they are added from left to right."""

    def __init__(self, table: Table) -> None:
        self.table, self.lines, self.book = table, table.lines, Notebook()
        self.columns: list[tuple[Column, list[Cell]]] = []
        printed = dict.fromkeys(key for line in self.lines for key in line.published)
        self.printed = [key for key in printed if key != "params_millions" and not table.part(key)]

    def add(self, key: str, title: str, cells: Sequence[Cell], **look: Any) -> None:
        """A column, unless it is empty; `look` as in `Column`."""
        if any(cell.text for cell in cells):
            self.columns.append((Column(title, key=key, **look), list(cells)))

    def values(
        self, key: str, title: str, text: Callable[[Any], str], value: Callable[[Line], Any], rank: int, **look: Any
    ) -> None:
        """A column of values, each formatted by `text`; None is an empty cell. `look` as in `Column`."""
        found = [value(line) for line in self.lines]
        self.add(key, title, [Cell("" if v is None else text(v), value=v) for v in found], rank=rank, **look)

    def grid(self) -> Grid:
        """The whole table."""
        lines, table = self.lines, self.table
        groups = [line.row.definition.group or "" for line in lines]
        self.add("group", "", [Cell(group, value=group or None) for group in groups], right=False)
        names = [Cell(line.label, self.book.mark(line.notes), line.label) for line in lines]
        self.add("row", "row", names, right=False)
        self.values("parameters", "parameters", millions, lambda line: line.row.parameters, 4)
        self._published("params_millions", "parameters, published (M)", 4)
        for key in self.printed:
            self._published(key, f"{table.task.published(key).label}, published", 2)
            self._published_delta(key)
        for measure in table.columns:
            primary = measure is table.primary
            cells = [self._measured(line, measure, primary=primary) for line in lines]
            self.add(measure.key, measure.label, cells, rank=0 if primary else 5)
            if primary:
                self._differences()
            self._against_published(measure, 3 if primary else 5)
        self.add("seeds", "seeds", [Cell(line.seeds, value=len(line.row.finished)) for line in lines], rank=1)
        self.values("steps", "steps", whole, lambda line: line.costs.get("steps"), 6)
        self.values("seconds", "time", duration, lambda line: line.costs.get("seconds"), 5)
        self.values("flops", "FLOPs", scientific, lambda line: line.costs.get("flops"), 6)
        self._hours()
        starred = any(line.test and line.test.significant for line in lines)
        return Grid(
            f"{table.sweep.name}: {'published and measured' if self.printed else 'measured'}",
            [column for column, _ in self.columns],
            [[cells[i] for _, cells in self.columns] for i in range(len(lines))],
            [line.row.definition.group for line in lines],
            [*([("*", star_text(table))] if starred else []), *self.book.notes()],
            table.remarks,
            table.gaps,
            about(table),
            named(table),
        )

    def _published(self, key: str, title: str, rank: int) -> None:
        """Figures that are compared bear the marks of the comparison at the difference, others here."""
        figures = [line.published.get(key) for line in self.lines]
        told = [f.caveats if f and f.difference is None else recalled(f) for f in figures]
        cells, marks = self.book.printed(figures, told, self._digits(key))
        self.add(f"published.{key}", title, cells, marks=marks, rank=rank)

    def _digits(self, key: str) -> int:
        """Decimals of a published figure: those of the whole sweep, however few of its rows are shown."""
        rows = self.table.sweep.of or self.table.sweep.rows
        return _decimals([float(row.published[key]) for row in rows if is_number(row.published.get(key))])

    def _published_delta(self, key: str) -> None:
        figures = {line.row.definition.row: line.published.get(key) for line in self.lines}
        digits = max(2, self._digits(key))
        pairs = [(line.published.get(key), figures.get(line.base or "")) for line in self.lines]
        differences = [line.published_delta.get(key) for line in self.lines]
        marks, heading = self.book.shared([recalled(*pair) for pair in pairs])
        cells = [Cell(delta(value, digits), own, value) for value, own in zip(differences, marks, strict=True)]
        of = f"published.{key}", self.table.task.published(key).label
        self.add(f"published_delta.{key}", "Δ base, published", cells, marks=heading, rank=3, of=of)

    def _against_published(self, measure: Measure, rank: int) -> None:
        """The column measured − published, if figures of some row were measured on the same text."""
        found = [next((f for f in line.published.values() if f.measure == measure.key), None) for line in self.lines]
        compared = [figure if figure and figure.difference is not None else None for figure in found]
        marks, heading = self.book.shared([recalled(figure) for figure in compared])
        cells = [
            Cell(delta(f.difference, measure.digits), (*own, *self.book.mark(f.notes)), f.difference) if f else Cell("")
            for f, own in zip(compared, marks, strict=True)
        ]
        of = (measure.key, measure.label)
        self.add(f"against_published.{measure.key}", "measured − published", cells, marks=heading, rank=rank, of=of)

    def _measured(self, line: Line, measure: Measure, *, primary: bool) -> Cell:
        if found := line.measured.get(measure.key):
            wanted = len(line.row.runs if primary else line.row.finished)  # the first column marks unfinished seeds
            told = [f"mean of {found.n} of {wanted} seeds"] if found.n < wanted else []
            if not primary and (apart := line.uncompared_in.get(measure.key)):  # the first column says it at Δ base
                told.append(apart)
            return Cell(found.text(measure.digits), self.book.mark(told), found.mean)
        if not primary:
            return Cell("")
        states = dict.fromkeys("missing" if run.state == "absent" else run.state for run in line.row.runs)
        return Cell(", ".join("not measured" if state == "finished" else state for state in states) or "–")

    def _differences(self) -> None:
        """Columns of the difference from the base row: value and mark, interval, p, and seeds that agree."""
        lines, level, primary = self.lines, self.table.significance.level, self.table.primary
        digits, of = primary.digits, (primary.key, primary.label)
        if any(line.base for line in lines):
            self.add("delta", "Δ base", [self._delta(line) for line in lines], of=of)
        intervals = [
            Cell(f"[{delta(test.low, digits)}, {delta(test.high, digits)}]", value=test.low) if test else Cell("")
            for test in (line.test and line.test.across for line in lines)
        ]
        self.add("ci", f"{100 * level:g} % CI", intervals, rank=1, of=of)
        self.values("p", "p", p_text, lambda line: line.test and line.test.p, 2, of=of)
        if any(line.test and len(line.test.seeds) > 1 for line in lines):
            cells = [
                Cell(f"{test.agreeing_seeds}/{len(test.seeds)}", value=test.agreeing_seeds) if test else Cell("")
                for test in (line.test for line in lines)
            ]
            marks = self.book.mark([AGREEING])
            self.add("agreeing_seeds", f"seeds with p < {1 - level:.3g}", cells, marks=marks, rank=6, of=of)

    def _delta(self, line: Line) -> Cell:
        if line.base is None:
            return Cell("base" if line.row.runs else "")
        found, digits = line.delta.get(self.table.primary.key), self.table.primary.digits
        if found is None:
            if line.untested and NOT_TRAINED in line.untested:
                return Cell(line.untested)
            return Cell("–", self.book.mark([line.untested])) if line.untested else Cell("")
        spread = f" ± {decimal(found.sd, digits)}" if found.sd is not None else ""
        star = ("*",) if line.test and line.test.significant else ()
        reasons = [line.untested] if line.untested else []
        if line.base != self.lines[0].row.definition.row:
            labels = {other.row.definition.row: other.label for other in self.lines}
            reasons.insert(0, f"the difference from {labels[line.base]}")
        if 0 < found.n < len(line.row.finished):
            reasons.append(f"over the {found.n} seed{'s' if found.n > 1 else ''} in common with the base row")
        return Cell(f"{delta(found.mean, digits)}{spread}", (*star, *self.book.mark(reasons)), found.mean)

    def _hours(self) -> None:
        """Device-hours; each cell names its device unless all rows used the same."""
        kinds = {line.hours[1] for line in self.lines if line.hours}
        cells = [
            Cell(f"{hours_text(spent[0], 3)}{' ' + spent[1] if len(kinds) > 1 else ''}", value=spent[0])
            if (spent := line.hours)
            else Cell("")
            for line in self.lines
        ]
        self.add("device_hours", hours_name(kinds), cells, rank=6)


def delta(value: float | None, digits: int = 2) -> str:
    """A signed number: `+1.20`, `−0.30`; empty for None. Only zero has no sign: `+0.00` is above it, `0.00` is not.

    The dashboard's `V.signed` follows the same rule.
    """
    if value is None:
        return ""
    sign = "" if abs(value) < ROUNDING else "+" if value > 0 else "−"
    return sign + decimal(abs(value), digits)


def millions(count_: int | None) -> str:
    """`65.13M`, `2.57M`, `812K`."""
    if count_ is None:
        return ""
    return f"{count_ / 1e6:.2f}M" if count_ >= 999_500 else f"{count_ / 1e3:.0f}K" if count_ >= 1e4 else f"{count_:,}"


def _decimals(values: Sequence[float]) -> int:
    """Decimals to which the paper prints a column: those of seven in ten of its figures, else 0.

    A number in a file has lost the zeros at its end: 5.00 among figures such as 4.92 is read as 5.0.
    """
    found = Counter(map(_places, values))
    digits, shared = max(found.items(), key=lambda item: item[1], default=(0, 0))
    return digits if 10 * shared >= 7 * len(values) else 0


def _as_printed(value: float, digits: int) -> str:
    """The figure, with at least `digits` decimals; none of its own digits are cut off."""
    if abs(value) >= 1e6:
        mantissa, exponent = f"{value:.14e}".split("e")
        return f"{float(mantissa)}e{int(exponent)}"
    return _shortest(value) if _places(value) >= digits else f"{value:.{digits}f}"


def _shortest(value: float) -> str:
    """A number as it stands in a file, without zeros at its end."""
    return f"{value:.15g}"


def _places(value: float) -> int:
    """Decimals of the shortest form of a number."""
    return len(_shortest(value).partition(".")[2])


def _letters(index: int) -> str:
    """a … z, aa, ab, …"""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for length in count(1):
        if index < len(alphabet) ** length:
            return "".join(alphabet[index // len(alphabet) ** place % 26] for place in reversed(range(length)))
        index -= len(alphabet) ** length
    raise AssertionError("unreachable")
