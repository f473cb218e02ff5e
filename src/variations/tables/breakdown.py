"""Measures that are parts of another, such as the errors of single tasks: one in each line, rows side by side."""

from collections.abc import Sequence

from variations.tables.grid import Notebook, delta, recalled
from variations.tables.line import Line, Table
from variations.tables.text import Cell, Column, Grid, used_notes
from variations.tasks.base import Measure

ABREAST = 4
"""Number of the sweep's rows in one grid."""


def break_down(table: Table, notes: Sequence[tuple[str, str]] = ()) -> list[Grid]:
    """Grids of a few rows each, published figures beside measured ones; empty if no measure has parts.

    `notes`: those of the table above, whose marks these grids share and continue.
    """
    keys = {part.key: key for line in table.lines for key in line.published if (part := table.part(key))}
    parts = {measure.key: measure for measure in table.measures if measure.part_of}
    parts |= {key: table.task.measure(key) for key in keys}
    wanted = [
        line for line in table.lines if parts.keys() & line.measured.keys() or line.published.keys() & keys.values()
    ]
    if not wanted:
        return []
    order = [measure.key for measure in table.task.columns(table.primary)]
    listed = sorted(parts.values(), key=lambda part: order.index(part.key) if part.key in order else len(order))
    book = Notebook(notes)
    blocks = list(_blocks(wanted))
    grids = []
    for number, block in enumerate(blocks, 1):
        columns: list[tuple[Column, list[Cell]]] = [
            (Column("part", right=False, key="part"), [Cell(part.label, value=part.label) for part in listed])
        ]
        for line in block:
            columns += _of_line(line, listed, keys, book)
        title = f"{table.sweep.name}: {_whole(table, listed)}, part by part"
        title += f" ({number} of {len(blocks)})" if len(blocks) > 1 else ""
        rows = [[cells[at] for _, cells in columns] for at in range(len(listed))]
        grids.append(Grid(title, [column for column, _ in columns], rows, [None] * len(rows)))
    for grid in grids:
        grid.notes = book.notes()
        grid.notes = used_notes(grid, range(len(grid.columns)))
    return grids


def _blocks(lines: list[Line]) -> list[list[Line]]:
    """At most ABREAST lines of one group each."""
    found: list[list[Line]] = []
    for line in lines:
        group = line.row.definition.group
        if not found or len(found[-1]) == ABREAST or found[-1][0].row.definition.group != group:
            found.append([])
        found[-1].append(line)
    return found


def _whole(table: Table, parts: list[Measure]) -> str:
    return " and ".join(table.task.measure(key).label for key in dict.fromkeys(part.part_of for part in parts))


def _of_line(line: Line, parts: list[Measure], keys: dict[str, str], book: Notebook) -> list[tuple[Column, list[Cell]]]:
    """The columns of a row that are not empty: published, measured, and their difference.

    Published figures beside measured ones bear all marks, those of the comparison, or why there is none, included.
    """
    figures = [line.published.get(keys.get(part.key, "")) for part in parts]
    found = [line.measured.get(part.key) for part in parts]
    published, marks = book.printed(figures, [f.caveats if f and any(found) else recalled(f) for f in figures])
    measured = [Cell(mean.text(part.digits) if mean else "") for mean, part in zip(found, parts, strict=True)]
    differences = [Cell(delta(f.difference, part.digits) if f else "") for f, part in zip(figures, parts, strict=True)]
    name, label = line.row.definition.row, line.label
    columns = [
        (Column(f"{label}: published", marks=marks, key=f"{name}.published"), published),
        (Column("measured" if any(figures) else f"{label}: measured", key=f"{name}.measured"), measured),
        (Column("difference", rank=1, key=f"{name}.difference"), differences),
    ]
    return [(column, cells) for column, cells in columns if any(cell.text for cell in cells)]
