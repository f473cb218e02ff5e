"""A table as terminal output, Markdown, LaTeX (booktabs), CSV, JSON or a fragment of HTML."""

import csv
import io
from collections.abc import Callable

from variations.experiments.atomic import json_text
from variations.experiments.grid import Cell, Column, Grid, lay_out
from variations.experiments.table import COSTS, Table, document


def render(table: Table, format_: str) -> str:
    """The table in one of FORMATS, ending in a newline. Raises KeyError for another name."""
    return FORMATS[format_](table)


def terminal(table: Table, *, width: int | None = None, colour: bool = False) -> str:
    """Box drawing by rich. Without `width` the table is as wide as it needs to be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = lay_out(table)
    drawn = RichTable(title=grid.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in grid.columns:
        drawn.add_column(
            Text(_superscripts(column.title, column.marks)),
            justify="right" if column.right else "left",
            vertical="bottom",
        )
    for index, row in enumerate(grid.rows):
        following = grid.groups[index + 1] if index + 1 < len(grid.rows) else grid.groups[index]
        cells = [Text(_superscripts(cell.text, cell.marks), no_wrap=column.right) for cell, column in _pairs(row, grid)]
        drawn.add_row(*cells, end_section=following != grid.groups[index])
    file = io.StringIO()
    console = Console(
        file=file,
        width=width or 1000,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        legacy_windows=False,
    )
    console.print(drawn)
    for line in _notes(grid, lambda mark: _superscripts("", (mark,))):
        console.print(Text(line), soft_wrap=width is None)
    for gap in grid.gaps:
        console.print(Text(f"No result: {gap}", style="yellow"), soft_wrap=width is None)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n")) + "\n"


def markdown(table: Table) -> str:
    """A pipe table, then the notes as a list."""
    grid = lay_out(table)

    def cell(item: Cell | Column) -> str:
        text = item.title if isinstance(item, Column) else item.text
        escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
        escaped = escaped.replace("<", "&lt;").replace("\n", " ")
        return escaped + (f"<sup>{','.join(item.marks)}</sup>" if item.marks else "")

    lines = [f"**{grid.title}**", ""]
    lines.append(f"| {' | '.join(cell(column) for column in grid.columns)} |")
    lines.append(f"|{'|'.join('---:' if column.right else ':---' for column in grid.columns)}|")
    lines += [f"| {' | '.join(cell(item) for item in row)} |" for row in grid.rows]
    notes = [f"- {line}" for line in _notes(grid, lambda mark: f"<sup>{mark}</sup>")]
    gaps = [f"- No result: {gap}" for gap in grid.gaps]
    return "\n".join([*lines, "", *notes, *gaps]) + "\n"


def latex(table: Table) -> str:
    """A `table` with booktabs rules; needs `\\usepackage{booktabs}` and UTF-8 input."""
    grid = lay_out(table)

    def cell(item: Cell | Column) -> str:
        text = item.title if isinstance(item, Column) else item.text
        return latex_escape(text) + (f"$^{{\\mathrm{{{','.join(item.marks)}}}}}$" if item.marks else "")

    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        "\\small",
        f"\\caption{{{latex_escape(grid.title)}}}",
        f"\\begin{{tabular}}{{{''.join('r' if column.right else 'l' for column in grid.columns)}}}",
        "\\toprule",
        " & ".join(cell(column) for column in grid.columns) + " \\\\",
        "\\midrule",
    ]
    for index, row in enumerate(grid.rows):
        if index and grid.groups[index] != grid.groups[index - 1]:
            lines.append("\\midrule")
        lines.append(" & ".join(cell(item) for item in row) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}", ""]
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
    header += [f"{key}.measured_minus_published" for key in published]
    header += [*COSTS, "provenance", "notes", "missing"]
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
        values += [figure.difference if figure else None for figure in figures]
        values += [line.costs.get(key) for key in COSTS]
        notes = list(dict.fromkeys([*line.notes, *(note for figure in figures if figure for note in figure.notes)]))
        values += [definition.provenance, "; ".join(notes), "; ".join(line.gaps)]
        writer.writerow(values)
    return file.getvalue()


def json_document(table: Table) -> str:
    """One JSON document; see `table.document`."""
    return json_text(document(table)) + "\n"


def html_fragment(table: Table) -> str:
    """A `<table>` with its notes, every value escaped, without style."""
    from variations.experiments.templates import environment

    return str(environment().get_template("table.html").render(grid=lay_out(table))) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
    "json": json_document,
    "html": html_fragment,
}


def latex_escape(text: str) -> str:
    """Text that LaTeX prints as it stands; mathematical signs become mathematics."""
    return "".join(_LATEX.get(character, character) for character in text)


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
    "…": "\\ldots{}",
    "\n": " ",
}


def _latex_note(note: str) -> str:
    parts = note.split("\0")
    return "".join(f"$^{{\\mathrm{{{part}}}}}$" if i % 2 else latex_escape(part) for i, part in enumerate(parts))


def _notes(grid: Grid, mark: Callable[[str], str]) -> list[str]:
    return [f"{mark(letter)} {text}." for letter, text in grid.notes] + grid.remarks


def _pairs(row: list[Cell], grid: Grid) -> list[tuple[Cell, Column]]:
    return list(zip(row, grid.columns, strict=True))


_RAISED = str.maketrans("abcdefghijklmnopqrstuvwxyz,", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖqʳˢᵗᵘᵛʷˣʸᶻ˒")


def _superscripts(text: str, marks: tuple[str, ...]) -> str:
    return text + ",".join(marks).translate(_RAISED)
