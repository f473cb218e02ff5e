"""A plan for the terminal, as Markdown, CSV, or one JSON document."""

import csv
import io
from collections.abc import Callable
from typing import Any

from variations.experiments.atomic import json_text
from variations.planning.lines import Line, record, remarks, titles

HEADINGS = (
    "",
    "row",
    "label",
    "changes",
    "vocabulary",
    "parameters",
    "with 40,960 rows",
    "printed (M)",
    "reproduced",
    "κ, α",
    "steps",
    "FLOPs",
    "",
)
LEFT = (0, 1, 2, 3, 8, 12)


def _cells(item: Line) -> list[str]:
    size = item.count
    printed = "" if item.published is None else f"{item.published:g}"
    cells = [item.group or "", item.row, item.label, item.changes]
    if size is None:
        return [*cells, "", "", "", printed, "", "", "", "", item.state]
    return [
        *cells,
        f"{size.vocabulary:,}",
        f"{size.parameters:,}",
        f"{size.parameters_t2t:,}" if size.parameters_t2t and item.full_size else "",
        printed,
        {True: "yes", False: "no", None: ""}[item.reproduced(t2t=True)],
        f"{size.branch_weights}" if size.branch_weights else "",
        f"{item.steps:,}",
        f"{size.flops:.2g}",
        "" if item.state == "to train" else item.state,
    ]


def _columns(lines: list[Line]) -> list[int]:
    """Columns that have anything to say."""
    cells = [_cells(item) for item in lines]
    return [i for i in range(len(HEADINGS)) if any(row[i] for row in cells)]


def terminal(lines: list[Line], *, width: int | None = None, colour: bool = False) -> str:
    """Draw one table after the other with rich; `width` None: as wide as need be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    console = Console(file=file, width=width or 400, force_terminal=colour, no_color=not colour, highlight=False)
    for title, part in titles(lines):
        shown = _columns(part)
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for i in shown:
            left = i in LEFT
            table.add_column(Text(HEADINGS[i]), justify="left" if left else "right", vertical="bottom")
        for item in part:
            cells = _cells(item)
            table.add_row(*(Text(cells[i], no_wrap=i not in LEFT) for i in shown))
        console.print(table)
    for text in remarks(lines):
        console.print(Text(text), soft_wrap=width is None)
    return "\n".join(row.rstrip() for row in file.getvalue().rstrip().split("\n")) + "\n"


def markdown(lines: list[Line], command: str = "python src/plan.py format=markdown") -> str:
    """Return a document of pipe tables that names the command that wrote it."""
    out = ["# Rows and their sizes", "", f"Written by `{command}`; nothing here is measured.", ""]
    for title, part in titles(lines):
        shown = _columns(part)
        out += [f"## {title}", "", f"| {' | '.join(HEADINGS[i] for i in shown)} |"]
        out.append(f"|{'|'.join(':---' if i in LEFT else '---:' for i in shown)}|")
        out += [f"| {' | '.join(_escaped(_cells(item)[i]) for i in shown)} |" for item in part]
        out.append("")
    return "\n".join([*out, *(f"- {text}" for text in remarks(lines))]) + "\n"


def _escaped(text: str) -> str:
    for sign in "\\|*_<":
        text = text.replace(sign, f"\\{sign}")
    return text


def comma_separated(lines: list[Line]) -> str:
    """Return one line a row, numbers unrounded."""
    records: list[dict[str, Any]] = [record(item) for item in lines]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def json_document(lines: list[Line]) -> str:
    """Return one JSON document."""
    return json_text({"schema": 1, "rows": [record(item) for item in lines], "remarks": remarks(lines)}) + "\n"


FORMATS: dict[str, Callable[[list[Line]], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "csv": comma_separated,
    "json": json_document,
}
