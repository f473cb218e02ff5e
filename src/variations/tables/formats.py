"""A table as terminal output, Markdown, LaTeX (booktabs), CSV or JSON."""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from variations.store.atomic import json_text
from variations.tables.breakdown import break_down
from variations.tables.grid import Cell, Column, Grid, lay_out
from variations.tables.table import COSTS, Line, Table, document

NARROW = 8
"""Columns up to which a LaTeX table is set in its natural width; a wider one is scaled to the line."""


def render(table: Table, format_: str) -> str:
    """The table in one of FORMATS, ending in a newline. Raises KeyError for another name."""
    return FORMATS[format_](table)


def terminal(table: Table, *, width: int | None = None, colour: bool = False) -> str:
    """Drawn by rich: as wide as it needs to be, or within `width`, if need be without the least telling columns."""
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
    for grid in [lay_out(table), *break_down(table)]:
        _print(console, grid, width)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n")) + "\n"


def _print(console: Any, grid: Grid, width: int | None) -> None:
    from rich.text import Text

    shown = list(range(len(grid.columns))) if width is None else _fitting(grid, width)
    hidden = [column.title for i, column in enumerate(grid.columns) if i not in shown]
    console.print(_drawn(grid, shown, _widths(grid, shown, width)))
    used = {mark for i in shown for marks in _marks(grid, i) for mark in marks}
    seen = replace(grid, notes=[note for note in grid.notes if note[0] in used])
    notes = _notes(seen, lambda mark: _superscripts("", (mark,)))
    if hidden:
        notes.append(f"A wider terminal, or format=markdown, also shows: {', '.join(hidden)}.")
    for line in notes:
        console.print(Text(line), soft_wrap=width is None)
    for gap in grid.gaps:
        console.print(Text(f"No result: {gap}", style="yellow"), soft_wrap=width is None)
    if grid.notes or grid.remarks:
        console.print()


def _drawn(grid: Grid, shown: list[int], widths: Mapping[int, int]) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(title=grid.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
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
    """Indices of the columns to show: numbers are never cut off, so whole columns go, the highest rank first."""
    shown = list(range(len(grid.columns)))
    while sum(_narrowest(grid, i) + 3 for i in shown) > width and any(grid.columns[i].rank for i in shown):
        shown.remove(max(shown, key=lambda i: (grid.columns[i].rank, i)))
    return shown


def _widths(grid: Grid, shown: list[int], width: int | None) -> dict[int, int]:
    """Columns at their narrowest, then each in turn, labels first, with what room is left up to all it can use.

    Rich alone would narrow the widest column first, be it one of numbers, and cut the table off at the right.
    """
    found = {i: _narrowest(grid, i) for i in shown}
    room = 100_000 if width is None else width - sum(found.values()) - 3 * len(shown) + 1
    for i in shown:
        if room < 0 and not grid.columns[i].right:  # labels break at any blank where nothing else can give way
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


def markdown(table: Table) -> str:
    """A pipe table, then the notes as a list; parts of measures in tables of their own."""
    return "\n".join(_markdown(grid) for grid in [lay_out(table), *break_down(table)])


def _markdown(grid: Grid) -> str:
    def cell(item: Cell | Column) -> str:
        text = item.title if isinstance(item, Column) else item.text
        escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
        escaped = escaped.replace("<", "&lt;").replace("\n", " ")
        return escaped + _raised(item.marks)

    lines = [f"**{grid.title}**", ""]
    lines.append(f"| {' | '.join(cell(column) for column in grid.columns)} |")
    lines.append(f"|{'|'.join('---:' if column.right else ':---' for column in grid.columns)}|")
    lines += [f"| {' | '.join(cell(item) for item in row)} |" for row in grid.rows]
    notes = [f"- {line}" for line in _notes(grid, lambda mark: _raised((mark,)))]
    gaps = [f"- No result: {gap}" for gap in grid.gaps]
    below = [*notes, *gaps]
    return "\n".join([*lines, *([""] if below else []), *below]) + "\n"


def _raised(marks: tuple[str, ...]) -> str:
    return f"<sup>{','.join(marks)}</sup>".replace("*", "\\*") if marks else ""


def latex(table: Table) -> str:
    """A `table` with booktabs rules; its first line says which packages it needs, beside UTF-8 input."""
    return "\n".join(_latex(grid) for grid in [lay_out(table), *break_down(table)])


def _latex(grid: Grid) -> str:
    wide = len(grid.columns) > NARROW

    def cell(item: Cell | Column) -> str:
        text = item.title if isinstance(item, Column) else item.text
        return latex_escape(text) + (_exponent(",".join(item.marks)) if item.marks else "")

    lines = [
        "% needs \\usepackage{booktabs}" + ("\\usepackage{graphicx}" if wide else ""),
        "\\begin{table}",
        "\\centering",
        "\\setlength{\\tabcolsep}{3pt}" if wide else "\\small",
        f"\\caption{{{latex_escape(grid.title)}}}",
        *(["\\resizebox{\\linewidth}{!}{%"] if wide else []),
        f"\\begin{{tabular}}{{{''.join('r' if column.right else 'l' for column in grid.columns)}}}",
        "\\toprule",
        " & ".join(cell(column) for column in grid.columns) + " \\\\",
        "\\midrule",
    ]
    for index, row in enumerate(grid.rows):
        if index and grid.groups[index] != grid.groups[index - 1]:
            lines.append("\\midrule")
        lines.append(" & ".join(cell(item) for item in row) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}" + ("}" if wide else ""), ""]
    notes = [*_notes(grid, lambda mark: f"\0{mark}\0"), *(f"No result: {gap}" for gap in grid.gaps)]
    lines += [f"\\par\\footnotesize {_latex_note(note)}" for note in notes]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


def comma_separated(table: Table) -> str:
    """One line a row, numbers unrounded: mean, sd and n of every measure, published figures, costs, notes."""
    published = list(dict.fromkeys(key for line in table.lines for key in line.published))
    measures = [measure.key for measure in table.measures]
    header = ["group", "row", "label", "base", "changes", "seeds_finished", "seeds_wanted", "parameters"]
    header += [f"published.{key}" for key in published]
    for key in measures:
        header += [f"{key}.mean", f"{key}.sd", f"{key}.n", f"{key}.difference_from_base"]
    header += ["test.measure", "test.low", "test.high", "test.p", "test.significant", "test.seeds", "not_tested"]
    header += [f"{key}.measured_minus_published" for key in published]
    header += [*COSTS, "device_hours", "device", "provenance", "notes", "missing"]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for line in table.lines:
        definition = line.row.definition
        values: list[object] = [definition.group, definition.row, definition.label, line.base, line.changes]
        values += [len(line.row.finished), len(line.row.runs), line.row.parameters]
        figures = [line.published.get(key) for key in published]
        values += [figure.value if figure else None for figure in figures]
        for key in measures:
            found, difference = line.measured.get(key), line.delta.get(key)
            values += [found.mean, found.sd, found.n] if found else [None, None, 0]
            values.append(difference.mean if difference else None)
        values += _test_values(line)
        values += [figure.difference if figure else None for figure in figures]
        values += [*(line.costs.get(key) for key in COSTS), *(line.hours or (None, None))]
        notes = list(dict.fromkeys([*line.notes, *(note for figure in figures if figure for note in figure.notes)]))
        values += [definition.provenance, "; ".join(notes), "; ".join(line.gaps)]
        writer.writerow(values)
    return file.getvalue()


def _test_values(line: Line) -> list[object]:
    if line.test is None:
        return [*[None] * 6, line.untested]
    found = line.test.across
    test = line.test
    return [test.measure, found.low, found.high, test.p, test.significant, len(test.seeds), None]


def json_document(table: Table) -> str:
    """One JSON document; see `table.document`."""
    return json_text(document(table)) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
    "json": json_document,
}


def latex_escape(text: str) -> str:
    """Text that LaTeX prints as it stands; mathematical signs become mathematics."""
    return "".join(_LATEX.get(character) or _greek(character) or character for character in text)


def _greek(character: str) -> str | None:
    """`$\\beta$` and the like, for the labels of one's own rows; None for other letters."""
    match = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?([A-Z]+)", unicodedata.name(character, ""))
    if match is None:
        return None
    name = {"LAMDA": "lambda"}.get(match[3], match[3].lower())
    if match[1] == "SMALL":
        return "$o$" if name == "omicron" else f"$\\{name}$"
    return f"$\\mathrm{{{_LATIN[name]}}}$" if name in _LATIN else f"$\\{name.capitalize()}$"


_GREEK = ["alpha", "beta", "epsilon", "zeta", "eta", "iota", "kappa", "mu", "nu", "omicron", "rho", "tau", "chi"]
_LATIN = dict(zip(_GREEK, "ABEZHIKMNOPTX", strict=True))
"""Capitals that LaTeX has no command for, as they look like Latin ones."""


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "±": "$\\pm$",
    "−": "$-$",
    "×": "$\\times$",
    "→": "$\\rightarrow$",
    "Δ": "$\\Delta$",
    "κ": "$\\kappa$",
    "α": "$\\alpha$",
    "ε": "$\\epsilon$",
    "ρ": "$\\rho$",
    "…": "\\ldots{}",
    "≤": "$\\leq$",
    "≥": "$\\geq$",
    "≠": "$\\neq$",
    "≈": "$\\approx$",
    "·": "$\\cdot$",
    "√": "$\\surd$",
    "∞": "$\\infty$",
    "\n": " ",
}


def _latex_note(note: str) -> str:
    parts = note.split("\0")
    return "".join(_exponent(part) if i % 2 else latex_escape(part) for i, part in enumerate(parts))


def _exponent(marks: str) -> str:
    return f"$^{{\\mathrm{{{marks}}}}}$"


def _notes(grid: Grid, mark: Callable[[str], str]) -> list[str]:
    return [f"{mark(letter)} {text}." for letter, text in grid.notes] + grid.remarks


_RAISED = str.maketrans("abcdefghijklmnopqrstuvwxyz,", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖqʳˢᵗᵘᵛʷˣʸᶻ˒")


def _superscripts(text: str, marks: tuple[str, ...]) -> str:
    return text + ",".join(marks).translate(_RAISED)
