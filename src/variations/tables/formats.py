"""A table as terminal output, Markdown, LaTeX (booktabs), CSV or JSON."""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from variations.store.atomic import json_text
from variations.system.markdown import escaped
from variations.tables import text as drawn
from variations.tables.breakdown import break_down
from variations.tables.footnotes import notes_of
from variations.tables.grid import lay_out
from variations.tables.line import COSTS, Line, Table
from variations.tables.table import document
from variations.tables.text import Cell, Column, Grid

NARROW = 8
"""Largest number of columns of a LaTeX table that is not scaled to the width of the text."""
PAPER = 4
"""Largest rank of the columns of a LaTeX table if they are not chosen: further measures and costs are left out."""


@dataclass(frozen=True)
class Look:
    """What is shown of a table, where it is drawn."""

    columns: Sequence[str] | None = None
    """Keys of the columns; None: all, in LaTeX those of a rank up to PAPER, and tables of measures part by part."""
    caption: str | None = None
    """In place of the title."""

    def grids(self, table: Table, *, rank: int | None = None) -> list[Grid]:
        """The tables to draw. Raises UserError if there is no such column."""
        whole = lay_out(table)
        if self.caption is not None:
            whole = replace(whole, title=self.caption)
        if self.columns is not None:
            return [drawn.select(whole, self.columns)]
        if rank is not None:
            whole = drawn.select(whole, [column.key for column in whole.columns if column.rank <= rank])
        return [whole, *break_down(table, whole.notes)]


WHOLE = Look()


def render(table: Table, format_: str, look: Look = WHOLE) -> str:
    """The table in one of FORMATS, ending in a newline; CSV and JSON contain all of it.

    Raises:
        KeyError: There is no such format.
        UserError: The table has no such column.
    """
    return FORMATS[format_](table, look)


def terminal(table: Table, look: Look = WHOLE, *, width: int | None = None, colour: bool = False) -> str:
    """The table, and tables of measures part by part, as drawn by `text.terminal`."""
    return drawn.terminal(look.grids(table), width=width, colour=colour)


def markdown(table: Table, look: Look = WHOLE) -> str:
    """A pipe table, then the notes as a list; parts of measures have further tables."""
    return "\n".join(_markdown(grid) for grid in look.grids(table))


def _markdown(grid: Grid) -> str:
    plain = [*grid.remarks, *(f"Without a result: {gap}" for gap in grid.gaps)]
    notes = [f"{drawn.raised((mark,))} {escaped(text)}." for mark, text in grid.notes]
    below = [f"- {line}" for line in (*notes, *map(escaped, plain))]
    return (
        "\n".join([f"**{escaped(grid.title)}**", "", *drawn.pipe_table(grid), *([""] if below else []), *below]) + "\n"
    )


def latex(table: Table, look: Look = WHOLE) -> str:
    """A `table` with booktabs rules, or if it is wide a `table*`; its first line names the packages that it needs.

    The input is UTF-8.
    Its label is `tab:<sweep>`; tables of measures part by part are `tab:<sweep>:2` and so on.
    """
    name = f"tab:{table.sweep.name}"
    first, *further = look.grids(table, rank=PAPER)
    return "\n".join([_latex(first, name), *(_latex(grid, f"{name}:{i}") for i, grid in enumerate(further, 2))])


def _latex(grid: Grid, label: str) -> str:
    wide = len(grid.columns) > NARROW
    environment = "table*" if wide else "table"

    def cell(item: Cell | Column) -> str:
        text = item.title if isinstance(item, Column) else item.text
        return latex_escape(text) + (_exponent(",".join(item.marks)) if item.marks else "")

    def line(items: Sequence[Cell | Column]) -> str:
        text = " & ".join(map(cell, items)) + " \\\\"
        return f"{{}}{text}" if text.lstrip().startswith(("[", "*")) else text  # else it belongs to the command above

    lines = [
        "% needs \\usepackage{booktabs}" + ("\\usepackage{graphicx}" if wide else ""),
        f"\\begin{{{environment}}}",
        "\\centering",
        "\\setlength{\\tabcolsep}{3pt}" if wide else "\\small",
        f"\\caption{{{latex_escape(grid.title)}}}",
        f"\\label{{{label}}}",
        *(["\\resizebox{\\linewidth}{!}{%"] if wide else []),
        f"\\begin{{tabular}}{{{''.join('r' if column.right else 'l' for column in grid.columns)}}}",
        "\\toprule",
        line(grid.columns),
        "\\midrule",
    ]
    for index, row in enumerate(grid.rows):
        if index and grid.groups[index] != grid.groups[index - 1]:
            lines.append("\\midrule")
        lines.append(line(row))
    lines += ["\\bottomrule", "\\end{tabular}" + ("}" if wide else ""), ""]
    notes = [*drawn.footnotes(grid, lambda mark: f"\0{mark}\0"), *(f"Without a result: {gap}" for gap in grid.gaps)]
    lines += [f"\\par\\raggedright\\footnotesize {_latex_note(note)}" for note in notes]
    return "\n".join([*lines, f"\\end{{{environment}}}"]) + "\n"


def comma_separated(table: Table) -> str:
    """One line for each row, unrounded: mean, sd and n of every measure, published figures, costs, notes."""
    told = zip(table.lines, notes_of(table), strict=True)
    rows, file = [_flat(table, line, notes) for line, notes in told], io.StringIO()
    writer = csv.DictWriter(file, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _flat(table: Table, line: Line, notes: Sequence[str]) -> dict[str, Any]:
    """A row by CSV column; all rows of a table have the same columns."""
    published = list(dict.fromkeys(key for each in table.lines for key in each.published))
    definition, test = line.row.definition, line.test
    values: dict[str, Any] = {key: getattr(definition, key) for key in ("group", "row", "label")}
    values |= {"base": line.base, "changes": line.changes}
    values |= {"seeds_finished": len(line.row.finished), "seeds_wanted": len(line.row.runs)}
    values["parameters"] = line.row.parameters
    figures = {key: line.published.get(key) for key in published}
    values |= {f"published.{key}": figure and figure.value for key, figure in figures.items()}
    for key in (measure.key for measure in table.measures):
        found, difference = line.measured.get(key), line.delta.get(key)
        values |= {f"{key}.mean": found and found.mean, f"{key}.sd": found and found.sd}
        values |= {f"{key}.n": found.n if found else 0, f"{key}.difference_from_base": difference and difference.mean}
    values |= {"test.measure": test and test.measure, "test.low": test and test.across.low}
    values |= {"test.high": test and test.across.high, "test.p": test and test.p}
    values |= {"test.significant": test and test.significant, "test.seeds": test and len(test.seeds)}
    values["not_tested"] = None if test else line.untested
    values |= {f"{key}.measured_minus_published": figure and figure.difference for key, figure in figures.items()}
    values |= {key: line.costs.get(key) for key in COSTS}
    values |= dict(zip(("device_hours", "device"), line.hours or (None, None), strict=True))
    texts = {"provenance": definition.provenance, "notes": "; ".join(notes), "missing": "; ".join(line.gaps)}
    return values | texts


def json_document(table: Table) -> str:
    """One JSON document; see `table.document`."""
    return json_text(document(table)) + "\n"


FORMATS: dict[str, Callable[[Table, Look], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": lambda table, _: comma_separated(table),
    "json": lambda table, _: json_document(table),
}


def latex_escape(text: str) -> str:
    """Text escaped for LaTeX; mathematical signs become mathematics."""
    return "".join(_LATEX.get(character) or _greek(character) or character for character in text)


def _greek(character: str) -> str | None:
    """`$\\beta$` and the like, for labels of a user's rows; None for other letters."""
    match = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?([A-Z]+)", unicodedata.name(character, ""))
    if match is None:
        return None
    name = {"LAMDA": "lambda"}.get(match[3], match[3].lower())
    if match[1] == "SMALL":
        return "$o$" if name == "omicron" else f"$\\{name}$"
    return f"$\\mathrm{{{_LATIN[name]}}}$" if name in _LATIN else f"$\\{name.capitalize()}$"


_GREEK = ["alpha", "beta", "epsilon", "zeta", "eta", "iota", "kappa", "mu", "nu", "omicron", "rho", "tau", "chi"]
_LATIN = dict(zip(_GREEK, "ABEZHIKMNOPTX", strict=True))
"""Greek capitals that look like Latin ones, for which LaTeX has no command."""


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "|": "\\textbar{}",
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
