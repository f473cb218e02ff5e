"""A plan for the terminal, as Markdown, CSV, or one JSON document."""

import csv
import io
from collections.abc import Callable
from typing import Any

from variations.planning.lines import Line, record, remarks, sums, titles, totals
from variations.planning.price import Bill
from variations.planning.words import duration
from variations.planning.words import size as bytes_
from variations.store.atomic import json_text

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
    "memory",
    "time a run",
    "runs left",
    "hours",
    "disk",
    "",
)
LEFT = (0, 1, 2, 3, 8, 17)


def _cells(item: Line) -> list[str]:
    size = item.count
    printed = "" if item.published is None else f"{item.published:g}"
    cells = [item.group or "", item.row, item.label, item.changes]
    if size is None:
        return [*cells, "", "", "", printed, *[""] * 9, item.state]
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
        *_costs(item),
        _state(item),
    ]


def _costs(item: Line) -> list[str]:
    """Memory, time, runs left, hours, disk."""
    cost = item.price.cost if item.price else None
    runs = f"{item.left} of {len(item.launches)}" if item.launches else ""
    if cost is None:
        return [bytes_(item.memory.total) if item.memory else "", "", runs if item.price else "", "", ""]
    about = "" if cost.exact else "~"
    hours = f"{about}{cost.hours():.2g} {item.device}"
    return [bytes_(cost.memory), f"{about}{duration(cost.seconds)}", runs, hours, bytes_(cost.disk)]


def _state(item: Line) -> str:
    words = [] if item.state == "to train" else [item.state]
    price = item.price
    if price is not None and (price.exhausted or (price.cost is not None and price.cost.fits is False)):
        words.append("will not fit")
    elif price is not None and price.fault is not None:
        words.append("not measured")
    return ", ".join(words)


def _columns(lines: list[Line]) -> list[int]:
    """Columns that have anything to say."""
    cells = [_cells(item) for item in lines]
    return [i for i in range(len(HEADINGS)) if any(row[i] for row in cells)]


def terminal(lines: list[Line], bill: Bill | None = None, *, width: int | None = None, colour: bool = False) -> str:
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
    for text in sums(bill, lines) if bill else []:
        console.print(Text(text, style="bold"), soft_wrap=width is None)
    for text in remarks(lines):
        console.print(Text(text), soft_wrap=width is None)
    return "\n".join(row.rstrip() for row in file.getvalue().rstrip().split("\n")) + "\n"


def markdown(
    lines: list[Line], bill: Bill | None = None, *, command: str = "python src/plan.py format=markdown"
) -> str:
    """Return a document of pipe tables that names the command that wrote it."""
    told = "times are predictions" if bill else "nothing here is measured"
    out = ["# Rows and their sizes", "", f"Written by `{command}`; {told}.", ""]
    for title, part in titles(lines):
        shown = _columns(part)
        out += [f"## {title}", "", f"| {' | '.join(HEADINGS[i] for i in shown)} |"]
        out.append(f"|{'|'.join(':---' if i in LEFT else '---:' for i in shown)}|")
        out += [f"| {' | '.join(_escaped(_cells(item)[i]) for i in shown)} |" for item in part]
        out.append("")
    told_last = [*(sums(bill, lines) if bill else []), *remarks(lines)]
    return "\n".join([*out, *(f"- {text}" for text in told_last)]) + "\n"


def _escaped(text: str) -> str:
    for sign in "\\|*_<":
        text = text.replace(sign, f"\\{sign}")
    return text


def comma_separated(lines: list[Line], bill: Bill | None = None) -> str:
    """Return one line a row, numbers unrounded; totals are not in it."""
    records: list[dict[str, Any]] = [record(item) for item in lines]
    file = io.StringIO()
    writer = csv.DictWriter(file, max(map(list, records), key=len), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def json_document(lines: list[Line], bill: Bill | None = None) -> str:
    """Return one JSON document."""
    found = {"schema": 1, "rows": [record(item) for item in lines], "remarks": remarks(lines)}
    if bill is not None:
        found |= {"totals": totals(bill, lines), "remarks": [*sums(bill, lines), *remarks(lines)]}
    return json_text(found) + "\n"


FORMATS: dict[str, Callable[..., str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "csv": comma_separated,
    "json": json_document,
}
