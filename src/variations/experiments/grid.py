"""A table laid out: columns, cells as text, and footnote marks, before any format draws it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from variations.experiments.footnotes import test_names
from variations.experiments.measures import published_kind
from variations.experiments.table import Figure, Line, Table

RECALLED = "written from memory of the publication, not read again"


@dataclass(frozen=True)
class Cell:
    """Text and the marks (*, †, a, b, …) of its footnotes."""

    text: str
    marks: tuple[str, ...] = ()


@dataclass
class Column:
    """A heading and how its cells are set."""

    title: str
    right: bool = True
    marks: tuple[str, ...] = ()
    rank: int = 0
    """A narrow terminal leaves out the columns of the highest rank first; never those of rank 0."""


@dataclass
class Grid:
    """What a format draws. `groups` holds each row's group letter, for rules between groups."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    groups: list[str | None]
    notes: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


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
        title: str, cells: Sequence[Cell], *, right: bool = True, marks: tuple[str, ...] = (), rank: int = 0
    ) -> None:
        if any(cell.text for cell in cells):
            columns.append((Column(title, right, marks, rank), list(cells)))

    def plain(title: str, text: Callable[[Line], str], rank: int = 0) -> None:
        add(title, [Cell(text(line)) for line in lines], rank=rank)

    add("", [Cell(line.row.definition.group or "") for line in lines], right=False)
    add("row", [Cell(line.label, book.mark(line.notes)) for line in lines], right=False)
    plain("parameters", lambda line: millions(line.row.parameters), rank=4)
    _published(table, "params_millions", "parameters, published (M)", add, book)
    for key in _published_keys(table):
        _published(table, key, f"{published_kind(key).label}, published", add, book)
        differences = [Cell(delta(line.published_delta.get(key))) for line in lines]
        add("Δ base, published", differences, rank=3)
    for measure in table.measures:
        primary = measure is table.primary
        cells = [_measured(line, measure.key, book, primary=primary) for line in lines]
        add(measure.label, cells, rank=0 if primary else 5)
        if primary:
            _differences(table, add, book)
        _against_published(table, measure.key, add, book)
    plain("seeds", lambda line: line.seeds, rank=3)
    plain("steps", lambda line: f"{line.costs['steps']:,.0f}" if "steps" in line.costs else "", rank=6)
    plain("time", lambda line: duration(line.costs["seconds"]) if "seconds" in line.costs else "", rank=2)
    plain("FLOPs", lambda line: scientific(line.costs["flops"]) if "flops" in line.costs else "", rank=6)
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
    return [key for key in keys if key != "params_millions"]


def _published(table: Table, key: str, title: str, add: Callable[..., None], book: Notebook) -> None:
    figures = [line.published.get(key) for line in table.lines]
    present = [figure for figure in figures if figure is not None]
    common = _common([_figure_notes(figure) for figure in present])
    cells = []
    for figure in figures:
        if figure is None:
            cells.append(Cell(""))
        else:
            cells.append(
                Cell(_as_printed(figure.value), book.mark(n for n in _figure_notes(figure) if n not in common))
            )
    add(title, cells, marks=book.mark(common), rank=4 if key == "params_millions" else 0)


def _against_published(table: Table, key: str, add: Callable[..., None], book: Notebook) -> None:
    """The column measured - published, where some row's figures were taken on the same text."""
    pairs = [next((f for f in line.published.values() if f.measure == key), None) for line in table.lines]
    cells = [
        Cell(delta(figure.difference), book.mark(figure.notes))
        if figure and figure.difference is not None
        else Cell("")
        for figure in pairs
    ]
    add("measured − published", cells)


def _figure_notes(figure: Figure) -> list[str]:
    # The caveats of a comparison stand at the difference; here stands what holds for the figure itself.
    reasons = list(figure.notes) if figure.difference is None else []
    return ([RECALLED] if figure.recalled else []) + reasons


def _common(notes: Sequence[Sequence[str]]) -> list[str]:
    return [note for note in notes[0] if all(note in others for others in notes)] if notes else []


def _measured(line: Line, key: str, book: Notebook, *, primary: bool) -> Cell:
    if found := line.measured.get(key):
        digits = decimals(key)
        spread = f" ± {found.sd:.{digits}f}" if found.sd is not None else ""
        wanted = len(line.row.runs)
        partial = [f"mean of {found.n} of {wanted} seeds"] if primary and found.n < wanted else []
        return Cell(f"{found.mean:.{digits}f}{spread}", book.mark(partial))
    if not primary:
        return Cell("")
    states = dict.fromkeys("missing" if run.state == "absent" else run.state for run in line.row.runs)
    return Cell(", ".join("not measured" if state == "finished" else state for state in states) or "no seed")


def _differences(table: Table, add: Callable[..., None], book: Notebook) -> None:
    """Columns of the difference from the base row: value and mark, interval, p, and seeds that agree."""
    lines, level = table.lines, table.significance.level
    add("Δ base", [_delta_cell(line, table.primary.key, book) for line in lines])
    add(f"{100 * level:g} % CI", [Cell(_interval(line)) for line in lines], rank=1)
    add("p", [Cell(f"{line.test.across.p:.3f}" if line.test else "") for line in lines], rank=1)
    if any(line.test and len(line.test.seeds) > 1 for line in lines):
        note = "seeds in which both paired bootstrap and approximate randomisation find this difference at this level"
        cells = [Cell(f"{line.test.agreeing_seeds}/{len(line.test.seeds)}" if line.test else "") for line in lines]
        add(f"seeds with p < {1 - level:.3g}", cells, marks=book.mark([note]), rank=6)


def _delta_cell(line: Line, key: str, book: Notebook) -> Cell:
    if line.base is None:
        return Cell("base" if line.row.runs else "")
    found = line.delta.get(key)
    if found is None:
        return Cell("")
    spread = f" ± {found.sd:.2f}" if found.sd is not None else ""
    star = ("*" if line.test.counts_seeds else "†",) if line.test and line.test.significant else ()
    reasons = [line.untested] if line.untested else []
    if 0 < found.n < len(line.row.finished):
        reasons.append(f"over the {found.n} seed{'s' if found.n > 1 else ''} that the base row has too")
    return Cell(f"{delta(found.mean)}{spread}", (*star, *book.mark(reasons)))


def _interval(line: Line) -> str:
    return f"[{delta(line.test.across.low)}, {delta(line.test.across.high)}]" if line.test else ""


def _starred(table: Table) -> list[tuple[str, str]]:
    """The marks of significance that occur, with what they say."""
    tests = [line.test for line in table.lines if line.test and line.test.significant]
    used = {"*" if test.counts_seeds else "†" for test in tests}
    return [(mark, text) for mark, text in test_names(table).items() if mark in used]


def _hours(table: Table, add: Callable[..., None]) -> None:
    """Device-hours, the device in the heading where all rows used the same kind, else in each cell."""
    kinds = {line.hours[1] for line in table.lines if line.hours}
    common = next(iter(kinds)) if len(kinds) == 1 else None
    texts = [
        f"{line.hours[0]:.3g}{'' if common else ' ' + line.hours[1]}" if line.hours else "" for line in table.lines
    ]
    cells = [Cell(text) for text in texts]
    add(f"{common or 'device'}-hours", cells, rank=6)


def decimals(key: str) -> int:
    """Digits after the point in which a measure is customarily printed."""
    return 3 if key == "dev_nll" else 2


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
