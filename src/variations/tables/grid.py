"""A table laid out: columns, cells as text, and footnote marks, before any format draws it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from variations.tables.footnotes import star_text
from variations.tables.line import NOT_TRAINED, Figure, Line, Table
from variations.tables.text import Cell, Column, Grid
from variations.tasks.base import Measure

RECALLED = "written from memory of the publication, not read again"


class Notebook:
    """Hands out footnote marks: the same text gets the same mark."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}

    def mark(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Marks of `texts`, new ones in alphabetical order."""
        return tuple(self.marks.setdefault(text, _letters(len(self.marks))) for text in texts)

    def notes(self) -> list[tuple[str, str]]:
        """`(mark, text)` in order."""
        return [(mark, text) for text, mark in self.marks.items()]


def lay_out(table: Table) -> Grid:
    """The columns that have anything to say, published figures before measured ones."""
    book = Notebook()
    lines = table.lines
    columns: list[tuple[Column, list[Cell]]] = []

    def add(
        key: str, title: str, cells: Sequence[Cell], *, right: bool = True, marks: tuple[str, ...] = (), rank: int = 0
    ) -> None:
        if any(cell.text for cell in cells):
            columns.append((Column(title, right, marks, rank, key), list(cells)))

    def plain(key: str, title: str, text: Callable[[Any], str], value: Callable[[Line], Any], rank: int) -> None:
        found = [value(line) for line in lines]
        add(key, title, [Cell("" if v is None else text(v), value=v) for v in found], rank=rank)

    groups = [line.row.definition.group or "" for line in lines]
    add("group", "", [Cell(group, value=group or None) for group in groups], right=False)
    add("row", "row", [Cell(line.label, book.mark(line.notes), line.label) for line in lines], right=False)
    plain("parameters", "parameters", millions, lambda line: line.row.parameters, 4)
    _published(table, "params_millions", "parameters, published (M)", add, book)
    for key in _published_keys(table):
        _published(table, key, f"{table.task.published(key).label}, published", add, book)
        differences = [Cell(delta(value), value=value) for value in (line.published_delta.get(key) for line in lines)]
        add(f"published_delta.{key}", "Δ base, published", differences, rank=2)
    for measure in table.columns:
        primary = measure is table.primary
        cells = [_measured(line, measure, book, primary=primary) for line in lines]
        add(measure.key, measure.label, cells, rank=0 if primary else 5)
        if primary:
            _differences(table, add, book)
        _against_published(table, measure.key, add, book)
    add("seeds", "seeds", [Cell(line.seeds, value=len(line.row.finished)) for line in lines], rank=2)
    plain("steps", "steps", lambda value: f"{value:,.0f}", lambda line: line.costs.get("steps"), 6)
    plain("seconds", "time", duration, lambda line: line.costs.get("seconds"), 5)
    plain("flops", "FLOPs", scientific, lambda line: line.costs.get("flops"), 6)
    _hours(table, add)
    return Grid(
        f"{table.sweep.name}: published and measured" if _published_keys(table) else f"{table.sweep.name}: measured",
        [column for column, _ in columns],
        [[cells[i] for _, cells in columns] for i in range(len(lines))],
        [line.row.definition.group for line in lines],
        [*_starred(table), *book.notes()],
        table.remarks,
        table.gaps,
    )


def _published_keys(table: Table) -> list[str]:
    keys = dict.fromkeys(key for line in table.lines for key in line.published)
    return [key for key in keys if key != "params_millions" and not table.part(key)]


def _published(table: Table, key: str, title: str, add: Callable[..., None], book: Notebook) -> None:
    figures = [line.published.get(key) for line in table.lines]
    present = [figure for figure in figures if figure is not None]
    common = _common([_figure_notes(figure) for figure in present])
    cells = []
    for figure in figures:
        if figure is None:
            cells.append(Cell(""))
        else:
            marks = book.mark(n for n in _figure_notes(figure) if n not in common)
            cells.append(Cell(_as_printed(figure.value), marks, figure.value))
    add(f"published.{key}", title, cells, marks=book.mark(common), rank=4 if key == "params_millions" else 1)


def _against_published(table: Table, key: str, add: Callable[..., None], book: Notebook) -> None:
    """The column measured - published, where some row's figures were taken on the same text."""
    pairs = [next((f for f in line.published.values() if f.measure == key), None) for line in table.lines]
    cells = [
        Cell(delta(figure.difference), book.mark(figure.notes), figure.difference)
        if figure and figure.difference is not None
        else Cell("")
        for figure in pairs
    ]
    add(f"against_published.{key}", "measured − published", cells)


def _figure_notes(figure: Figure) -> list[str]:
    # The caveats of a comparison are marked at the difference; here are those of the figure itself.
    reasons = list(figure.notes) if figure.difference is None else []
    return ([RECALLED] if figure.recalled else []) + reasons


def _common(notes: Sequence[Sequence[str]]) -> list[str]:
    return [note for note in notes[0] if all(note in others for others in notes)] if notes else []


def _measured(line: Line, measure: Measure, book: Notebook, *, primary: bool) -> Cell:
    if found := line.measured.get(measure.key):
        digits = measure.digits
        spread = f" ± {found.sd:.{digits}f}" if found.sd is not None else ""
        wanted = len(line.row.runs)
        partial = [f"mean of {found.n} of {wanted} seeds"] if primary and found.n < wanted else []
        return Cell(f"{found.mean:.{digits}f}{spread}", book.mark(partial), found.mean)
    if not primary:
        return Cell("")
    states = dict.fromkeys("missing" if run.state == "absent" else run.state for run in line.row.runs)
    return Cell(", ".join("not measured" if state == "finished" else state for state in states) or "no seed")


def _differences(table: Table, add: Callable[..., None], book: Notebook) -> None:
    """Columns of the difference from the base row: value and mark, interval, p, and seeds that agree."""
    lines, level = table.lines, table.significance.level
    tests = [line.test.across if line.test else None for line in lines]
    add("delta", "Δ base", [_delta_cell(line, table.primary.key, book) for line in lines])
    intervals = [
        Cell(_interval(line), value=test.low if test else None) for line, test in zip(lines, tests, strict=True)
    ]
    add("ci", f"{100 * level:g} % CI", intervals, rank=1)
    chances = [line.test.p if line.test else None for line in lines]
    add("p", "p", [Cell("" if p is None else f"{p:.3f}", value=p) for p in chances], rank=1)
    if any(line.test and len(line.test.seeds) > 1 for line in lines):
        note = "seeds in which both paired bootstrap and approximate randomisation find this difference at this level"
        agreeing = [line.test.agreeing_seeds if line.test else None for line in lines]
        texts = [f"{line.test.agreeing_seeds}/{len(line.test.seeds)}" if line.test else "" for line in lines]
        cells = [Cell(text, value=count_) for text, count_ in zip(texts, agreeing, strict=True)]
        add("agreeing_seeds", f"seeds with p < {1 - level:.3g}", cells, marks=book.mark([note]), rank=6)


def _delta_cell(line: Line, key: str, book: Notebook) -> Cell:
    if line.base is None:
        return Cell("base" if line.row.runs else "")
    found = line.delta.get(key)
    if found is None:
        return Cell(line.untested if line.untested and NOT_TRAINED in line.untested else "")
    spread = f" ± {found.sd:.2f}" if found.sd is not None else ""
    star = ("*",) if line.test and line.test.significant else ()
    reasons = [line.untested] if line.untested else []
    if 0 < found.n < len(line.row.finished):
        reasons.append(f"over the {found.n} seed{'s' if found.n > 1 else ''} that the base row has too")
    return Cell(f"{delta(found.mean)}{spread}", (*star, *book.mark(reasons)), found.mean)


def _interval(line: Line) -> str:
    return f"[{delta(line.test.across.low)}, {delta(line.test.across.high)}]" if line.test else ""


def _starred(table: Table) -> list[tuple[str, str]]:
    """The mark of significance with what it says, if it occurs."""
    return [("*", star_text(table))] if any(line.test and line.test.significant for line in table.lines) else []


def _hours(table: Table, add: Callable[..., None]) -> None:
    """Device-hours, the device in the heading where all rows used the same kind, else in each cell."""
    kinds = {line.hours[1] for line in table.lines if line.hours}
    common = next(iter(kinds)) if len(kinds) == 1 else None
    texts = [
        f"{line.hours[0]:.3g}{'' if common else ' ' + line.hours[1]}" if line.hours else "" for line in table.lines
    ]
    cells = [
        Cell(text, value=line.hours[0] if line.hours else None) for text, line in zip(texts, table.lines, strict=True)
    ]
    add("device_hours", f"{common or 'device'}-hours", cells, rank=6)


def delta(value: float | None, digits: int = 2) -> str:
    """A signed number: `+1.20`, `−0.30`, `0.00`; empty for None."""
    if value is None:
        return ""
    text = f"{abs(value):.{digits}f}"
    return text if float(text) == 0 else f"{'+' if value > 0 else '−'}{text}"


def millions(count_: int | None) -> str:
    """`65.13M`, `2.57M`, `812K`."""
    if count_ is None:
        return ""
    return f"{count_ / 1e6:.2f}M" if count_ >= 1e6 else f"{count_ / 1e3:.0f}K" if count_ >= 1e4 else f"{count_:,}"


def scientific(value: float) -> str:
    """`3.3e18`."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def duration(seconds: float) -> str:
    """`42 s`, `3 min 20 s`, `5 h 12 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _as_printed(value: float) -> str:
    return scientific(value) if abs(value) >= 1e6 else f"{value:g}"


def _letters(index: int) -> str:
    """a … z, aa, ab, …"""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for length in count(1):
        if index < len(alphabet) ** length:
            return "".join(alphabet[index // len(alphabet) ** place % 26] for place in reversed(range(length)))
        index -= len(alphabet) ** length
    raise AssertionError("unreachable")
