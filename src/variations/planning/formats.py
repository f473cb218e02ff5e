"""A plan as plain records, and its output for the terminal, as Markdown, CSV, or one JSON document."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from variations.configuration.foreign import filled
from variations.configuration.tasks import named
from variations.planning.measuring import telling
from variations.planning.price import Bill, Price
from variations.planning.rows import PAPERS, Planned
from variations.store.atomic import json_text
from variations.store.differences import differences
from variations.sweeping.local import on_gpus
from variations.sweeping.outcomes import of_rows
from variations.system.errors import UserError
from variations.system.quantities import duration, hours_name, hours_text, scientific
from variations.tables import text
from variations.tables.footnotes import UNEVEN
from variations.tasks.base import Size


@dataclass(frozen=True)
class PlanLine:
    """A row of the plan, counted and, with `price`, measured."""

    row: Planned
    price: Price | None = None
    size: Size | None = None
    """None for a quoted system, or where data are missing."""
    uncounted: str | None = None
    """Why it could not be counted."""

    @property
    def state(self) -> str:
        """`to train`, `finished`, `refused`, `copied from SWEEP/ROW`, `quoted`, or `tests the checkpoint of ROW`."""
        if self.row.config is None:
            return "quoted"
        if self.row.launches and not self.row.left:
            if any(run.state == "refused" for run in self.row.launches):
                return "refused"
            sources = sorted({run.source for run in self.row.launches if run.source})
            return f"copied from {', '.join(sources)}" if sources else "finished"
        return f"tests the checkpoint of {self.row.reuses}" if self.row.reuses else "to train"

    @property
    def memory(self) -> int | None:
        """Bytes of weights, gradients, optimiser state and the activations of one batch; None: not counted."""
        if self.size is None or self.size.activations is None or self.row.config is None:
            return None
        from variations.tasks.counting import state_bytes

        return state_bytes(self.row.config, self.size.parameters) + self.size.activations

    @property
    def further(self) -> Mapping[str, str]:
        """Further counts of its task, with their headings."""
        sizes: Mapping[str, str] = named(self.row.config.task).sizes if self.row.config is not None else {}
        return sizes

    @property
    def device(self) -> str:
        """`CPU` or `GPU`."""
        return "GPU" if self.row.config is not None and on_gpus(self.row.config.trainer.accelerator) else "CPU"

    @property
    def changes(self) -> str:
        """Changes from its base row; for a base row, its main settings."""
        config, base = self.row.config, self.row.base
        if config is None or base is not None:
            if config is None or base is None:
                return ""
            return differences(filled(asdict(base)), filled(asdict(config)))
        return str(named(config.task).settings(config))


_COUNTED: dict[str, Size] = {}


def line(row: Planned, vocabulary: int | None, price: Price | None = None) -> PlanLine:
    """Count a row, with `vocabulary` sub-words or its own.

    Counting memory takes some seconds, so it is left out of the list of all rows, and rows that differ only in rates
    and names are counted once.
    """
    config = row.config
    if config is None:
        return PlanLine(row)
    key = repr((telling(config), config.trainer.max_steps, config.variation.published, vocabulary, bool(row.launches)))
    try:
        if key not in _COUNTED:
            _COUNTED[key] = named(config.task).size(config, memory=bool(row.launches), vocabulary=vocabulary)
    except UserError as error:
        return PlanLine(row, price, uncounted=str(error))
    return PlanLine(row, price, _COUNTED[key])


def record(line: PlanLine) -> dict[str, Any]:
    """Return a line as plain data; numbers are not rounded."""
    definition, config = line.row.definition, line.row.config
    values: dict[str, Any] = {"table": line.row.table}
    values |= {name: getattr(definition, name) for name in ("row", "id", "group", "label")}
    values |= {"changes": line.changes, "state": line.state, "steps": config and config.trainer.max_steps}
    size = line.size
    values |= {"parameters": size and size.parameters, "flops": size and size.flops}
    values |= {key: size and size.further.get(key) for key in line.further}
    if not line.row.launches:
        return values
    cost = line.price and line.price.cost
    parts = ("start", "updates", "validation", "saving", "test")
    return values | {
        "runs": len(line.row.launches),
        "runs_left": len(line.row.left),
        "activation_bytes_counted": size and size.activations,
        "memory_bytes_counted": line.memory,
        "memory_bytes": cost and cost.memory,
        "memory_room_bytes": cost and cost.room,
        "fits": cost and cost.fits,
        "seconds": cost and cost.seconds(),
        "training_seconds": cost and cost.training,
        **{f"{name}_seconds": cost and getattr(cost, name) for name in parts},
        "device_hours": cost and cost.hours(),
        "disk_bytes": cost and cost.disk,
        "exact": cost and cost.exact,
        "part_of_updates": cost and cost.part,
        "fault": line.uncounted or (line.price and line.price.fault),
    }


# Cells ----------------------------------------------------------------------------------------------------------------

LEFT = ("group", "row", "label", "changes", "reproduced", "state")
"""Text columns, left-aligned."""
SILENT = ("group", "state")
"""Columns that are printed without a heading."""
RANKS = {
    **dict.fromkeys(("group", "row", "changes", "memory", "time a run", "runs left", "state"), 0),
    **{"hours a run": 1, "parameters": 2, "steps": 3, "disk": 4, "FLOPs": 5, "label": 7},
}
"""A narrow terminal leaves out the columns of the highest rank first; a task's own counts have rank 6."""


def _grids(lines: Sequence[PlanLine]) -> list[text.Grid]:
    """A grid for each table of papers or sweeps, without empty columns."""
    found = []
    for title, part in _tables(lines):
        cells = [_cells(line) for line in part]
        headings = dict.fromkeys(heading for row in cells for heading in row)
        columns = {heading: [row.get(heading, "") for row in cells] for heading in headings}
        grid = text.plain_grid(title, {heading: c for heading, c in columns.items() if any(c)}, LEFT)
        for column in grid.columns:
            column.rank = RANKS.get(column.title, 6)
            if column.title == "hours a run":
                column.title = f"{hours_name(line.device for line in part if line.price)} a run"
            column.title = "" if column.title in SILENT else column.title
        found.append(grid)
    return found


def _cells(line: PlanLine) -> dict[str, str]:
    definition, counted, price = line.row.definition, line.size, line.price
    cost = price.cost if price else None
    about = "~" if cost and not cost.exact else ""
    bytes_ = cost.memory if cost else line.memory
    words = [line.state] if line.state != "to train" else []
    if price is not None and (price.exhausted or (cost is not None and cost.fits is False)):
        words.append("will not fit")
    elif price is not None and price.fault is not None:
        words.append("not measured")
    if line.uncounted is not None:
        words.append("not counted")
    further = {heading: counted and counted.further.get(key) for key, heading in line.further.items() if heading}
    return {
        "group": definition.group or "",
        "row": definition.row,
        "label": definition.label,
        "changes": line.changes,
        "parameters": f"{counted.parameters:,}" if counted else "",
        **{heading: _word(value) for heading, value in further.items()},
        "steps": f"{line.row.config.trainer.max_steps:,}" if line.row.config else "",
        "FLOPs": scientific(counted.flops) if counted else "",
        "memory": size(bytes_) if bytes_ else "",
        "time a run": f"{about}{duration(cost.seconds())}" if cost else "",
        "hours a run": f"{about}{hours_text(cost.hours())}" if cost else "",
        "runs left": f"{len(line.row.left)} of {len(line.row.launches)}" if line.row.launches else "",
        "disk": size(cost.disk) if cost else "",
        "state": ", ".join(words),
    }


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if value else ""


def size(count: float) -> str:
    """`310 MB`, `2.1 GB`; decimal units, as disks have them."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}" if count < 10 * unit else f"{count / unit:.0f} {name}"
    return f"{count:.0f} B"


# Sentences ------------------------------------------------------------------------------------------------------------


def _tables(lines: Sequence[PlanLine]) -> list[tuple[str, list[PlanLine]]]:
    """The lines by table, each with its title, in order."""
    tables: dict[str, list[PlanLine]] = {}
    for line in lines:
        tables.setdefault(line.row.table, []).append(line)
    return [
        (f"{PAPERS[t]} ({t})" if t in PAPERS else t or ("one run" if len(found) == 1 else "a grid"), found)
        for t, found in tables.items()
    ]


def _sums(bill: Bill | None, lines: Sequence[PlanLine]) -> list[str]:
    """The totals of what is left, and the obstacles; without a bill, runs and FLOPs of several runs alone."""
    runs, left = sum(len(line.row.launches) for line in lines), sum(len(line.row.left) for line in lines)
    if not runs:
        return []
    alike: dict[tuple[bool, str], list[tuple[str, str]]] = {}  # reasons begin with the folder
    for line in lines:
        for run in line.row.launches:
            if run.state == "refused":
                named_run, reason = f"{line.row.definition.row}, seed {run.seed}", str(run.reason)
                rest = re.sub(rf"^.*?/seed{run.seed}(?=[-/ ])", "", reason)
                alike.setdefault((run.blocks, rest), []).append((named_run, reason))
    refused = [
        f"{'; '.join(name for name, _ in group)} will be refused{', and no run of the sweep will start' * blocks}: "
        f"{group[0][1]}.{' The same holds for the others.' * (len(group) > 1)}"
        for (blocks, _), group in alike.items()
    ]
    finished = runs - left - sum(map(len, alike.values()))
    if not left:
        all_of_them = "the run is" if runs == 1 else f"all {runs} runs are"
        return refused or [f"Nothing is left to do: {all_of_them} finished."]
    done = f" ({finished} finished)" if finished else ""
    if bill is None:
        flops = sum(
            line.size.flops * (1 - run.done)
            for line in lines
            if line.size and not line.row.reuses
            for run in line.row.left
        )
        said = [*refused, f"Left: {left} run{'s' * (left > 1)}{done}, {scientific(flops)} FLOPs in all."]
        return said if runs > 1 else []
    hours = hours_name(line.device for line in lines if line.row.left)
    if bill.cores and hours == "process-hours":
        each = f"{bill.cores:g} core{'' if bill.cores == 1 else 's'} each"
        hours += f" ({hours_text(bill.hours * bill.cores)} core-hours, {each})"
    priced = any(price.cost for price in bill.prices)
    total = (
        f"{duration(bill.seconds)} one after the other, {hours_text(bill.hours)} {hours}, "
        f"{size(bill.disk)} of checkpoints"
        if priced
        else "whose cost is not known"
    )
    said = [*refused, f"Left: {left} run{'s' * (left > 1)}{done}, {total}."]
    if left > 1 and priced:
        tables = {line.row.table for line in lines}
        table = f"{tables.pop()}/" if len(tables) == 1 else ""  # which the plan's own rows do not repeat
        critical = [name.removeprefix(table) for name in bill.path.critical]
        chain = " → ".join(critical[:4]) + (f" → … ({len(critical)} runs)" if len(critical) > 4 else "")
        one = (
            f"{chain} ends last"
            if len(critical) == 1
            else f"The longest chain, which decides when the sweep ends: {chain}"
        )
        said.append(f"With {bill.places} at a time: {duration(bill.path.seconds)}. {one}.")
    if bill.preparation:
        said.append(f"Preparing the whole corpus, once: {duration(bill.preparation)}, in addition to the runs.")
    for line in lines:
        price, cost = line.price, line.price and line.price.cost
        lower = f"; {named(line.row.config.task).smaller}." if line.row.config is not None else "."
        if price is not None and price.fault is not None:
            no_room = f"will not fit, memory ran out ({price.fault}){lower}"
            said.append(
                f"{line.row.definition.row}: "
                + (no_room if price.exhausted else f"could not be measured: {price.fault}")
            )
        elif cost and cost.fits is False:
            need = f"it needs {size(cost.memory)}, and {size(cost.room or 0)} are available"
            said.append(f"{line.row.definition.row}: will not fit: {need}{lower}")
    return said


def _bases(lines: Sequence[PlanLine]) -> list[str]:
    """Sentences for each table that has rows which are not compared with its first row."""
    said = []
    planned = {line.row.definition.row for line in lines}
    for _, part in _tables(lines):
        found: dict[str, list[str]] = {}
        for line in part:
            base = line.row.definition.base
            if line.row.base is not None and base not in (None, part[0].row.definition.row):
                found.setdefault(str(base), []).append(line.row.definition.row)
        said += [
            f"{base}, the base row of {', '.join(rows)}, is not among these rows: name it, too, to compare them."
            for base, rows in found.items()
            if base not in planned
        ]
        each = [f"{base} (of {', '.join(rows)})" for base, rows in found.items() if base in planned]
        said += [f"Base rows other than {part[0].row.definition.row}: {'; '.join(each)}."] if each else []
    return said


def _limited(lines: Sequence[PlanLine]) -> list[str]:
    """A sentence for each limit `trainer.max_minutes` that ends trainings early, or may do so."""
    found: dict[str, list[str]] = {}
    for line in lines:
        limit = line.row.config.trainer.max_minutes if line.row.config is not None and line.row.launches else None
        cost = line.price.cost if line.price else None
        if limit is not None and (cost is None or cost.part < 1):
            part = f"{100 * min(cost.part, 0.99):.0f} %" if cost else ""
            ends = f"leaves time for about {part} of the updates" if cost else "may end trainings early"
            found.setdefault(f"trainer.max_minutes={limit:g} {ends}", []).append(line.row.definition.row)
    return [f"{', '.join(rows)}: {text}; steps and FLOPs are those of all updates." for text, rows in found.items()]


def _uneven(lines: Sequence[PlanLine]) -> list[str]:
    """A sentence for each task if a row's updates were measured to be slow for their FLOPs."""
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        cost = line.price and line.price.cost
        if cost and cost.updates and line.size and line.size.flops and line.row.config is not None:
            of_task = found.setdefault(line.row.config.task, {})
            of_task[line.row.definition.row] = cost.updates / cost.part / line.size.flops
    spreads = {max(rows, key=rows.__getitem__): max(rows.values()) / min(rows.values()) for rows in found.values()}
    return [
        f"A FLOP takes up to {spread:,.0f} times as long in {row} as in another row, because other work disturbed the "
        "measurement or its operations are slow: measure again with fresh=true when the machine is quiet."
        for row, spread in spreads.items()
        if spread >= UNEVEN
    ]


def _remarks(lines: Sequence[PlanLine]) -> list[str]:
    """Conventions."""
    costs = [line.price.cost for line in lines if line.price and line.price.cost]
    tasks = dict.fromkeys(line.row.config.task for line in lines if line.row.config is not None)
    counted = [
        remark
        for task in tasks
        for remark in named(task).size_remarks(
            {
                title: [line.size for line in part if line.size and line.row.config and line.row.config.task == task]
                for title, part in _tables(lines)
            }
        )
    ]
    blank = [
        line.row.definition.row
        for line in lines
        if line.size and line.row.launches and line.memory is None and line.price is None
    ]
    told = [
        *((True, remark) for remark in counted),
        *((line.uncounted is not None, f"{line.row.definition.row}: not counted: {line.uncounted}") for line in lines),
        (
            any(line.memory for line in lines) and not any(line.price for line in lines),
            "Memory: weights, gradients, optimiser state, and the activations of one batch; counted, not measured.",
        ),
        (
            bool(blank),
            f"{', '.join(blank)}: memory cannot be counted from shapes alone; a plan that measures has it.",
        ),
        (
            bool(costs),
            "Time: one run from start to scores, estimated from some real updates, a test and a checkpoint that "
            "were measured on this machine. Memory: the peak. Disk: checkpoints that are kept.",
        ),
        *((True, remark) for remark in (*_limited(lines), *_uneven(lines))),
        (
            any(not cost.exact for cost in costs),
            "~: estimated from parts of batches (whole ones are too slow or too large here) or from assumed lengths.",
        ),
        (
            any(cost.devices > 1 for cost in costs),
            "Measured on one device; communication between devices is not included.",
        ),
    ]
    rows = [line.row for line in lines if line.row.launches and not line.row.reuses]
    configs = {row.definition.row: row.config for row in rows if row.config is not None}
    return [*_bases(lines), *of_rows(configs), *(remark for applies, remark in told if applies)]


# Formats --------------------------------------------------------------------------------------------------------------


def terminal(lines: Sequence[PlanLine], bill: Bill | None = None, *, width: int | None = None) -> str:
    """All tables, in colour within `width`; without a width, plain and as wide as needed."""
    grids = _grids(lines)
    grids[-1].remarks = [*_sums(bill, lines), *_remarks(lines)]
    return text.terminal(grids, width=width, colour=width is not None)


def markdown(
    lines: Sequence[PlanLine], bill: Bill | None = None, *, command: str = "python src/plan.py format=markdown"
) -> str:
    """Return a document of pipe tables, with the command that wrote it."""
    told = "times are predictions" if bill else "counted, not measured"
    out = ["# Rows and their sizes", "", f"Written by `{command}`; {told}.", ""]
    for grid in _grids(lines):
        out += [f"## {grid.title}", "", *text.pipe_table(grid), ""]
    return "\n".join([*out, *(f"- {remark}" for remark in [*_sums(bill, lines), *_remarks(lines)])]) + "\n"


def comma_separated(lines: Sequence[PlanLine], bill: Bill | None = None) -> str:
    """Return one line for each row, with unrounded numbers and without totals."""
    records, file = [record(line) for line in lines], io.StringIO()
    writer = csv.DictWriter(file, dict.fromkeys(key for each in records for key in each), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def json_document(lines: Sequence[PlanLine], bill: Bill | None = None) -> str:
    """Return one JSON document."""
    remarks = [*_sums(bill, lines), *_remarks(lines)]
    found: dict[str, Any] = {"schema": 1, "rows": [record(line) for line in lines], "remarks": remarks}
    if bill is not None:
        found["totals"] = {
            "runs": sum(len(line.row.launches) for line in lines),
            "runs_left": sum(len(line.row.left) for line in lines),
            "seconds": bill.seconds,
            "device_hours": bill.hours,
            "cores_each": bill.cores,
            "disk_bytes": bill.disk,
            "preparation_seconds": bill.preparation,
            "places": bill.places,
            "critical_path_seconds": bill.path.seconds,
            "critical_path": bill.path.critical,
            "unknown": bill.unknown,
        }
    return json_text(found) + "\n"


FORMATS: dict[str, Callable[..., str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "csv": comma_separated,
    "json": json_document,
}
