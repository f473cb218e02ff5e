"""A grid of cells as text: drawn on the terminal by rich, or as a Markdown pipe table."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from variations.configuration.suggestions import did_you_mean
from variations.system.errors import UserError
from variations.system.markdown import escaped


@dataclass(frozen=True)
class Cell:
    """Text and the marks (*, a, b, …) of its footnotes."""

    text: str
    marks: tuple[str, ...] = ()
    value: float | str | None = None
    """The value by which a sorted view orders cells; None: last."""


@dataclass
class Column:
    """A heading, and the alignment and rank of its column."""

    title: str
    right: bool = True
    marks: tuple[str, ...] = ()
    rank: int = 0
    """A narrow terminal leaves out the columns of the highest rank first; never those of rank 0."""
    key: str = ""
    """Its contents: `row`, `published.dev_bleu`, `test.bleu`, `delta`, …"""
    of: tuple[str, str] | None = None
    """Key and name of what it compares; the title says it only where no column of that stands directly before."""


@dataclass
class Grid:
    """A laid-out table. `groups` has each row's group letter, for rules between groups."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    groups: list[str | None]
    notes: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    about: dict[str, list[set[str]]] = field(default_factory=dict)
    """Of a remark about columns, sets of their keys: it stays only if at least one column of every set is shown. Other
    remarks are about the whole table."""
    named: dict[str, dict[str, str]] = field(default_factory=dict)
    """Keys and names of the columns with whose names a remark begins, as in `test BLEU, dev BLEU: …`."""


Marked = TypeVar("Marked", Cell, Column)

DIFFERENCES = ("delta", "ci", "p", "agreeing_seeds")
"""Keys of the columns of a table that compare rows with their base rows in the sweep's measure."""


def select(grid: Grid, keys: Sequence[str]) -> Grid:
    """The columns with these keys, in this order after the rows' names, with the notes and remarks about them.

    Letters of notes are given anew, without gaps. Differences name what they compare, unless they directly follow it.

    Raises:
        UserError: There is no such column, or none is named.
    """
    index = {column.key: i for i, column in enumerate(grid.columns)}
    if not keys:
        raise UserError(f"columns=[] names no column: leave it out for all, or choose from {', '.join(index)}.")
    if unknown := [key for key in keys if key not in index]:
        faults = [f"'{key}'.{_why(key) or _near(key, [*index])}" for key in unknown]
        these = f" {faults[0]} " if len(faults) == 1 else "".join(f"\n  - {fault}" for fault in faults) + "\n"
        raise UserError(f"columns: this table has no column{these}Its columns are {', '.join(index)}.")
    shown = [index[key] for key in dict.fromkeys(["row", *keys] if "row" not in keys else keys)]
    columns = [grid.columns[i] for i in shown]
    for place, column in enumerate(columns):
        before = columns[place - 1] if place else Column("")
        if column.of and column.of[0] != before.key and column.of != before.of:
            columns[place] = replace(column, title=f"{column.title} ({column.of[1]})")
    published = any(column.key.startswith("published") for column in columns)
    letters = (mark for mark, _ in grid.notes if mark != "*")
    notes = {mark: (mark if mark == "*" else next(letters), text) for mark, text in used_notes(grid, shown)}

    def lettered(item: Marked) -> Marked:
        return replace(item, marks=tuple(notes[mark][0] for mark in item.marks))

    return replace(
        grid,
        title=grid.title if published else grid.title.replace(": published and measured", ": measured"),
        columns=[lettered(column) for column in columns],
        rows=[[lettered(row[i]) for i in shown] for row in grid.rows],
        notes=[*notes.values()],
        remarks=[
            _of_shown(text, grid.named.get(text, {}), keys)
            for text in grid.remarks
            if all(columns.intersection(keys) for columns in grid.about.get(text, ()))
        ],
    )


def _of_shown(remark: str, named: Mapping[str, str], keys: Sequence[str]) -> str:
    """A remark that names of its columns only the shown ones."""
    shown = [name for key, name in named.items() if key in keys]
    return ", ".join(shown) + remark.removeprefix(", ".join(named.values()))


def _near(key: str, columns: Sequence[str]) -> str:
    """The column that may be meant: a score of the test set by its name alone, or one that is spelled alike."""
    return f" Did you mean 'test.{key}'?" if f"test.{key}" in columns else did_you_mean(key, columns)


def _why(key: str) -> str | None:
    """Why a table may lack a column of differences."""
    if key not in DIFFERENCES:
        return None
    seeds = " over several seeds" if key in ("p", "agreeing_seeds") else ""
    appears = f" It appears once a row and its base row are finished, trained and compared{seeds}"
    return f"{appears}; differences in a loss are not tested."


def plain_grid(title: str, columns: Mapping[str, Sequence[str]], left: Sequence[str]) -> Grid:
    """A grid without marks and groups, from headings with their cells; columns in `left` are left-aligned."""
    rows = [[Cell(text) for text in row] for row in zip(*columns.values(), strict=True)]
    headings = [Column(name, right=name not in left) for name in columns]
    return Grid(title, headings, rows, [None] * len(rows))


def footnotes(grid: Grid, mark: Callable[[str], str]) -> list[str]:
    """The marked notes, each after its mark as formatted by `mark`, then the others."""
    return [f"{mark(letter)} {text}." for letter, text in grid.notes] + grid.remarks


# Markdown -------------------------------------------------------------------------------------------------------------


def pipe_table(grid: Grid) -> list[str]:
    """The lines of a pipe table, without title and notes."""

    def cell(text: str, marks: tuple[str, ...]) -> str:
        return escaped(text) + raised(marks)

    lines = [f"| {' | '.join(cell(column.title, column.marks) for column in grid.columns)} |"]
    lines.append(f"|{'|'.join('---:' if column.right else ':---' for column in grid.columns)}|")
    return lines + [f"| {' | '.join(cell(item.text, item.marks) for item in row)} |" for row in grid.rows]


def raised(marks: tuple[str, ...]) -> str:
    """Marks of footnotes in Markdown."""
    return f"<sup>{','.join(marks)}</sup>".replace("*", "\\*") if marks else ""


# Terminal -------------------------------------------------------------------------------------------------------------


def terminal(grids: Sequence[Grid], *, width: int | None = None, colour: bool = False) -> str:
    """Grids drawn by rich: as wide as needed, or within `width`, if necessary without the least important columns."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(
        file=file,
        width=width or 1000,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        legacy_windows=False,
    )
    for grid in grids:
        _print(console, grid, width)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n")) + "\n"


def _print(console: Any, grid: Grid, width: int | None) -> None:
    from rich.text import Text

    shown = list(range(len(grid.columns))) if width is None else _fitting(grid, width)
    hidden = [column.title for i, column in enumerate(grid.columns) if i not in shown]
    console.print(_drawn(grid, shown, _widths(grid, shown, width)))
    notes = footnotes(replace(grid, notes=used_notes(grid, shown)), lambda mark: _superscripts("", (mark,)))
    if hidden:
        notes.append(f"A wider terminal, or format=markdown, also shows: {'; '.join(hidden)}.")
    for line in notes:
        console.print(Text(line), soft_wrap=width is None)
    for gap in grid.gaps:
        console.print(Text(f"Without a result: {gap}", style="yellow"), soft_wrap=width is None)
    if grid.notes or grid.remarks:
        console.print()


def _drawn(grid: Grid, shown: list[int], widths: Mapping[int, int]) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=Text(grid.title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for i in shown:
        column = grid.columns[i]
        title = Text(_superscripts(column.title, column.marks))
        side: Literal["left", "right"] = "right" if column.right else "left"
        drawn.add_column(title, justify=side, vertical="bottom", width=widths[i])
    for index, row in enumerate(grid.rows):
        following = grid.groups[index + 1] if index + 1 < len(grid.rows) else grid.groups[index]
        cells = [Text(_superscripts(row[i].text, row[i].marks), no_wrap=grid.columns[i].right) for i in shown]
        drawn.add_row(*cells, end_section=following != grid.groups[index])
    return drawn


def _fitting(grid: Grid, width: int) -> list[int]:
    """Indices of the columns to show: numbers are never cut, so whole columns are left out, the highest rank first."""
    shown = list(range(len(grid.columns)))
    while sum(_narrowest(grid, i) + 3 for i in shown) > width and any(grid.columns[i].rank for i in shown):
        shown.remove(max(shown, key=lambda i: (grid.columns[i].rank, i)))
    return shown


def _widths(grid: Grid, shown: list[int], width: int | None) -> dict[int, int]:
    """Widths of the columns: each starts at its narrowest, then takes what it can use of the space left, labels first.

    Rich by itself would narrow the widest column first, even one of numbers, and cut the table off at the right.
    """
    found = {i: _narrowest(grid, i) for i in shown}
    room = 100_000 if width is None else width - sum(found.values()) - 3 * len(shown) + 1
    for i in shown:
        if room < 0 and not grid.columns[i].right:  # labels may wrap at any blank if nothing else can shrink
            less = min(-room, found[i] - max(len(word) for row in grid.rows for word in row[i].text.split() or [""]))
            found[i] -= less
            room += less
    for i in sorted(shown, key=lambda i: (grid.columns[i].right, i)):
        texts = [_superscripts(item.text, item.marks) for item in (row[i] for row in grid.rows)]
        wish = max(map(len, [_superscripts(grid.columns[i].title, grid.columns[i].marks), *texts]))
        more = max(0, min(room, wish - found[i]))
        found[i] += more
        room -= more
    return found


def used_notes(grid: Grid, shown: Sequence[int]) -> list[tuple[str, str]]:
    """The notes whose marks are in some column of these indices."""
    used = {mark for i in shown for marks in _marks(grid, i) for mark in marks}
    return [note for note in grid.notes if note[0] in used]


def _marks(grid: Grid, index: int) -> list[tuple[str, ...]]:
    """Marks in a column: the heading's and each cell's."""
    return [grid.columns[index].marks, *(row[index].marks for row in grid.rows)]


def _narrowest(grid: Grid, index: int) -> int:
    column, cells = grid.columns[index], [row[index] for row in grid.rows]
    heading = [len(word) for word in _superscripts(column.title, column.marks).split()]
    texts = [len(_superscripts(cell.text, cell.marks)) for cell in cells]
    if not column.right:  # labels wrap between words
        texts = [min(18, text) for text in texts]
        texts += [len(word) for cell in cells for word in cell.text.split()]
    return max([*heading, *texts], default=1)


_RAISED = str.maketrans("abcdefghijklmnopqrstuvwxyz,", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖqʳˢᵗᵘᵛʷˣʸᶻ˒")


def _superscripts(text: str, marks: tuple[str, ...]) -> str:
    return text + ",".join(marks).translate(_RAISED)
