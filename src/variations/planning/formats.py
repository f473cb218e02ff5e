"""A plan as records of plain data, and these for the terminal, as Markdown, CSV, or one JSON document."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from variations.planning.count import Count, Memory, count, memory
from variations.planning.price import Bill, Price
from variations.planning.rows import PAPERS, Planned
from variations.store.atomic import json_text
from variations.store.rows import differences

BASE_KEYS = {"N": "N", "d_model": "d_model", "d_ff": "d_ff", "h": "heads", "dropout": "P_drop"}


@dataclass(frozen=True)
class Line:
    """A row of the plan, counted and, if `price` is there, measured."""

    row: Planned
    price: Price | None = None
    count: Count | None = None
    """None for a quoted system."""
    memory: Memory | None = None
    """None in the list of all rows of both papers."""

    @property
    def state(self) -> str:
        """`to train`, `finished`, `quoted`, `waits for parsing`, or `tests the checkpoint of ROW`."""
        if self.row.config is None:
            return "quoted"
        if self.row.launches and not self.row.left:
            return "finished"
        if not self.row.trainable:
            return f"waits for {self.row.config.variation.task}"
        return f"tests the checkpoint of {self.row.reuses}" if self.row.reuses else "to train"

    @property
    def published(self) -> float | None:
        """Parameters in millions, as printed."""
        printed: float | None = self.row.definition.published.get("params_millions")
        return printed

    def reproduced(self, *, t2t: bool) -> bool | None:
        """Whether our count rounds to the printed one; None where there is nothing to compare."""
        ours = self.count and (self.count.parameters_t2t if t2t else self.count.parameters)
        return round(ours / 1e6) == self.published if ours and self.full_size and self.published is not None else None

    @property
    def full_size(self) -> bool:
        """Whether widths are the paper's own, so that sizes may be compared."""
        config = self.row.config
        return config is not None and config.recipe.scale.width == config.recipe.scale.depth == 1

    @property
    def device(self) -> str:
        """`CPU` or `GPU`."""
        return "CPU" if self.row.config is None or self.row.config.trainer.accelerator == "cpu" else "GPU"

    @property
    def changes(self) -> str:
        """What it changes in its base row; the main settings of a base row."""
        config, base = self.row.config, self.row.base
        if config is None or base is not None:
            return differences(asdict(base), asdict(config)) if config is not None and base is not None else ""
        settings = [f"{word} {getattr(config.model, key):g}" for key, word in BASE_KEYS.items()]
        return ", ".join([*settings, f"ε_ls {config.recipe.label_smoothing:g}"])


def line(row: Planned, vocabulary: int | None, price: Price | None = None) -> Line:
    """Count a row, with `vocabulary` sub-words or its own."""
    if row.config is None:
        return Line(row)
    return Line(row, price, count(row.config, vocabulary), memory(row.config, vocabulary) if row.launches else None)


def record(line: Line) -> dict[str, Any]:
    """Return a line as plain data; numbers are not rounded."""
    definition, config = line.row.definition, line.row.config
    values: dict[str, Any] = {"table": line.row.table}
    values |= {name: getattr(definition, name) for name in ("row", "id", "group", "label")}
    values |= {"changes": line.changes, "state": line.state, "steps": config and config.trainer.max_steps}
    values |= {name: line.count and getattr(line.count, name) for name in Count.__dataclass_fields__}
    values |= {"published_params_millions": line.published}
    values |= {"reproduced": line.reproduced(t2t=False), "reproduced_t2t": line.reproduced(t2t=True)}
    if not line.row.launches:
        return values
    cost, counted = line.price and line.price.cost, line.memory
    parts = ("start", "updates", "validation", "saving", "test")
    return values | {
        "runs": len(line.row.launches),
        "runs_left": len(line.row.left),
        "activation_bytes_counted": counted and counted.activations,
        "memory_bytes_counted": counted and counted.total,
        "memory_bytes": cost and cost.memory,
        "memory_room_bytes": cost and cost.room,
        "fits": cost and cost.fits,
        "seconds": cost and cost.seconds(),
        "training_seconds": cost and cost.training,
        **{f"{name}_seconds": cost and getattr(cost, name) for name in parts},
        "device_hours": cost and cost.hours(),
        "disk_bytes": cost and cost.disk,
        "exact": cost and cost.exact,
        "fault": line.price and line.price.fault,
    }


# Cells ----------------------------------------------------------------------------------------------------------------

HEADINGS = (
    *("", "row", "label", "changes", "vocabulary", "parameters", "with 40,960 rows", "printed (M)", "reproduced"),
    *("κ, α", "steps", "FLOPs", "memory", "time a run", "runs left", "hours", "disk", ""),
)
LEFT = (0, 1, 2, 3, 8, 17)


def _cells(line: Line) -> list[str]:
    definition, found, price = line.row.definition, line.count, line.price
    cost = price.cost if price else None
    about = "~" if cost and not cost.exact else ""
    bytes_ = cost.memory if cost else line.memory and line.memory.total
    words = [line.state] if line.state != "to train" else []
    if price is not None and (price.exhausted or (cost is not None and cost.fits is False)):
        words.append("will not fit")
    elif price is not None and price.fault is not None:
        words.append("not measured")
    return [
        definition.group or "",
        definition.row,
        definition.label,
        line.changes,
        f"{found.vocabulary:,}" if found else "",
        f"{found.parameters:,}" if found else "",
        f"{found.parameters_t2t:,}" if found and found.parameters_t2t and line.full_size else "",
        "" if line.published is None else f"{line.published:g}",
        {True: "yes", False: "no", None: ""}[line.reproduced(t2t=True)],
        f"{found.branch_weights}" if found and found.branch_weights else "",
        f"{line.row.config.trainer.max_steps:,}" if line.row.config else "",
        f"{found.flops:.2g}" if found else "",
        size(bytes_) if bytes_ else "",
        f"{about}{duration(cost.seconds())}" if cost else "",
        f"{len(line.row.left)} of {len(line.row.launches)}" if price and line.row.launches else "",
        f"{about}{cost.hours():.2g} {line.device}" if cost else "",
        size(cost.disk) if cost else "",
        ", ".join(words),
    ]


def duration(seconds: float) -> str:
    """`4.1 s`, `41 s`, `3 min 20 s`, `5 h 10 min`, `3 d 4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 100 * 60:
        return "{} min {:02d} s".format(*divmod(round(seconds), 60))
    if seconds < 100 * 3600:
        return "{} h {:02d} min".format(*divmod(round(seconds / 60), 60))
    return "{} d {:02d} h".format(*divmod(round(seconds / 3600), 24))


def size(count: float) -> str:
    """`310 MB`, `2.1 GB`; decimal units, as disks have them."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}" if count < 10 * unit else f"{count / unit:.0f} {name}"
    return f"{count:.0f} B"


# Sentences ------------------------------------------------------------------------------------------------------------


def _tables(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """The lines by table, each with its title, in order."""
    tables: dict[str, list[Line]] = {}
    for line in lines:
        tables.setdefault(line.row.table, []).append(line)
    return [(f"{PAPERS[t]} ({t})" if t in PAPERS else t or "one run", found) for t, found in tables.items()]


def _sums(bill: Bill, lines: Sequence[Line]) -> list[str]:
    """The totals of what is left, and what stands against them."""
    runs, left = sum(len(line.row.launches) for line in lines), sum(len(line.row.left) for line in lines)
    if not left:
        return [f"Nothing is left to be done: {'the run is' if runs == 1 else f'all {runs} runs are'} finished."]
    done = f" ({runs - left} finished)" if left < runs else ""
    device = "GPU" if any(line.device == "GPU" for line in lines) else "CPU"
    said = [
        f"Left: {left} run{'s' * (left > 1)}{done}, {duration(bill.seconds)} one after the other, "
        f"{bill.hours:.2g} {device}-hours, {size(bill.disk)} of checkpoints."
    ]
    if left > 1:
        critical = bill.path.critical
        chain = " → ".join(critical[:4]) + (f" → … ({len(critical)} runs)" if len(critical) > 4 else "")
        said.append(f"With {bill.places} at a time: {duration(bill.path.seconds)}. The end waits for {chain}.")
    if bill.preparation:
        said.append(f"Preparing the whole corpus, once: {duration(bill.preparation)}, beside the runs.")
    lower = "; lower trainer.tokens_per_batch."
    for line in lines:
        price, cost = line.price, line.price and line.price.cost
        if price is not None and price.fault is not None:
            no_room = f"will not fit, memory ran out ({price.fault}){lower}"
            said.append(
                f"{line.row.definition.row}: "
                + (no_room if price.exhausted else f"could not be measured: {price.fault}")
            )
        elif cost and cost.fits is False:
            need = f"it needs {size(cost.memory)}, there are {size(cost.room or 0)}"
            said.append(f"{line.row.definition.row}: will not fit: {need}{lower}")
    return said


def _remarks(lines: Sequence[Line]) -> list[str]:
    """Conventions, and how many printed counts come out."""
    counts = [line.count for line in lines if line.count]
    costs = [line.price.cost for line in lines if line.price and line.price.cost]
    compared = []
    for title, part in _tables(lines):
        both = [(line.reproduced(t2t=True), line.reproduced(t2t=False)) for line in part]
        if both := [pair for pair in both if pair[0] is not None]:
            padded, plain = (sum(bool(pair[i]) for pair in both) for i in (0, 1))
            compared.append(
                f"{title}: {padded} of {len(both)} printed counts are the second count rounded, {plain} the first."
            )
    told = [
        (
            any(found.parameters_t2t for found in counts),
            "Parameters: biases in attention and FFN, one matrix for both embeddings and the output, no output bias. "
            "The second count has the 40,960 embedding rows and 32 task vectors of the code behind Vaswani et al.",
        ),
        *((True, text) for text in compared),
        (
            bool(counts),
            "FLOPs: of the whole training, 3 × 2 × multiply-accumulates of matrix products, for batches without "
            "padding and sentences of 30 sub-words. The papers' own figures are hours times sustained speed.",
        ),
        (
            any(line.memory for line in lines) and not any(line.price for line in lines),
            "Memory: weights, gradients, Adam's moments, and what a forward pass over one batch of sentences of "
            "30 sub-words keeps. Counted, nothing is measured.",
        ),
        (
            bool(costs),
            "Time: of one run from start to scores, from some real updates, decoding and saving on this machine as it "
            "is now; memory: the largest that was seen; disk: checkpoints that stay.",
        ),
        (
            any(not cost.exact for cost in costs),
            "~: reckoned from parts of batches (whole ones are too slow or too large here) or from invented lengths.",
        ),
        (
            any(cost.devices > 1 for cost in costs),
            "One device was measured; what devices exchange is not in the times.",
        ),
    ]
    return [text for applies, text in told if applies]


# Formats --------------------------------------------------------------------------------------------------------------


def terminal(lines: Sequence[Line], bill: Bill | None = None, *, width: int | None = None) -> str:
    """Draw one table after the other with rich, in colour within `width`, else plain and as wide as need be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    console = Console(file=file, width=width or 400, force_terminal=bool(width), no_color=not width, highlight=False)
    for title, part in _tables(lines):
        cells = [_cells(line) for line in part]
        shown = [i for i in range(len(HEADINGS)) if any(row[i] for row in cells)]
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for i in shown:
            table.add_column(Text(HEADINGS[i]), justify="left" if i in LEFT else "right", vertical="bottom")
        for row in cells:
            table.add_row(*(Text(row[i], no_wrap=i not in LEFT) for i in shown))
        console.print(table)
    for text in _sums(bill, lines) if bill else []:
        console.print(Text(text, style="bold"), soft_wrap=width is None)
    for text in _remarks(lines):
        console.print(Text(text), soft_wrap=width is None)
    return "\n".join(row.rstrip() for row in file.getvalue().rstrip().split("\n")) + "\n"


def markdown(
    lines: Sequence[Line], bill: Bill | None = None, *, command: str = "python src/plan.py format=markdown"
) -> str:
    """Return a document of pipe tables that names the command that wrote it."""
    told = "times are predictions" if bill else "nothing here is measured"
    out = ["# Rows and their sizes", "", f"Written by `{command}`; {told}.", ""]
    for title, part in _tables(lines):
        cells = [[_escaped(cell) for cell in _cells(line)] for line in part]
        shown = [i for i in range(len(HEADINGS)) if any(row[i] for row in cells)]
        out += [f"## {title}", "", f"| {' | '.join(HEADINGS[i] for i in shown)} |"]
        out.append(f"|{'|'.join(':---' if i in LEFT else '---:' for i in shown)}|")
        out += [f"| {' | '.join(row[i] for i in shown)} |" for row in cells] + [""]
    out += [f"- {text}" for text in [*(_sums(bill, lines) if bill else []), *_remarks(lines)]]
    return "\n".join(out) + "\n"


def _escaped(text: str) -> str:
    for sign in "\\|*_<":
        text = text.replace(sign, f"\\{sign}")
    return text


def comma_separated(lines: Sequence[Line], bill: Bill | None = None) -> str:
    """Return one line a row, numbers unrounded; totals are not in it."""
    records, file = [record(line) for line in lines], io.StringIO()
    writer = csv.DictWriter(file, max(map(list, records), key=len), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


def json_document(lines: Sequence[Line], bill: Bill | None = None) -> str:
    """Return one JSON document."""
    found: dict[str, Any] = {"schema": 1, "rows": [record(line) for line in lines], "remarks": _remarks(lines)}
    if bill is not None:
        found["remarks"] = [*_sums(bill, lines), *_remarks(lines)]
        found["totals"] = {
            "runs": sum(len(line.row.launches) for line in lines),
            "runs_left": sum(len(line.row.left) for line in lines),
            "seconds": bill.seconds,
            "device_hours": bill.hours,
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
