"""The plan as lines of plain data: words, counts, and how they compare with the printed ones."""

from dataclasses import asdict, dataclass
from typing import Any

from variations.planning.count import Count, Memory, count, memory
from variations.planning.price import Bill, Price
from variations.planning.remaining import Launch
from variations.planning.rows import PAPERS, Planned
from variations.planning.words import duration, size
from variations.store.rows import differences

BASE_KEYS = {"N": "N", "d_model": "d_model", "d_ff": "d_ff", "h": "heads", "dropout": "P_drop"}


@dataclass(frozen=True)
class Line:
    """A row of the plan."""

    table: str
    row: str
    id: str | None
    group: str | None
    label: str
    changes: str
    """What it changes in its base row; the main settings of a base row."""
    state: str
    """`to train`, `quoted`, `waits for parsing`, or `tests the checkpoint of ROW`."""
    published: float | None
    """Parameters in millions, as printed."""
    steps: int | None = None
    full_size: bool = True
    """Whether widths are the paper's own, so that sizes may be compared."""
    count: Count | None = None
    memory: Memory | None = None
    """Counted; None in the list of all rows of both papers."""
    price: Price | None = None
    """None where nothing was measured."""
    launches: tuple[Launch, ...] = ()
    device: str = "CPU"

    @property
    def left(self) -> int:
        """Runs that the launch would do."""
        return sum(launch.left for launch in self.launches)

    def reproduced(self, *, t2t: bool) -> bool | None:
        """Whether our count rounds to the printed one; None where there is nothing to compare."""
        ours = self.count and (self.count.parameters_t2t if t2t else self.count.parameters)
        if not ours or self.published is None or not self.full_size:
            return None
        return round(ours / 1e6) == self.published


def line(planned: Planned, vocabulary: int | None, price: Price | None = None) -> Line:
    """Count a row and put its changes and its cost in words."""
    definition, config = planned.definition, planned.config
    printed = definition.published.get("params_millions")
    words = (planned.table, definition.row, definition.id, definition.group, definition.label)
    if config is None:
        return Line(*words, changes="", state="quoted", published=printed)
    state = "to train"
    if config.variation.task != "translation":
        state = f"waits for {config.variation.task}"
    elif config.variation.reuse and config.sweep.reuse:
        state = f"tests the checkpoint of {config.variation.reuse}"
    if planned.launches and not any(launch.left for launch in planned.launches):
        state = "finished"
    return Line(
        *words,
        changes=_changes(planned),
        state=state,
        published=printed,
        steps=config.trainer.max_steps,
        full_size=config.recipe.scale.width == config.recipe.scale.depth == 1,
        count=count(config, vocabulary),
        memory=memory(config, vocabulary) if planned.launches else None,
        price=price,
        launches=planned.launches,
        device="CPU" if config.trainer.accelerator == "cpu" else "GPU",
    )


def _changes(planned: Planned) -> str:
    config = planned.config
    if config is None:
        return ""
    if planned.base is not None:
        return differences(asdict(planned.base), asdict(config))
    settings = [f"{word} {getattr(config.model, key):g}" for key, word in BASE_KEYS.items()]
    return ", ".join([*settings, f"ε_ls {config.recipe.label_smoothing:g}"])


def titles(lines: list[Line]) -> list[tuple[str, list[Line]]]:
    """Group lines by table, each with its title, in order."""
    tables: dict[str, list[Line]] = {}
    for item in lines:
        tables.setdefault(item.table, []).append(item)
    return [(f"{PAPERS[t]} ({t})" if t in PAPERS else t or "one run", found) for t, found in tables.items()]


def record(item: Line) -> dict[str, Any]:
    """Return a line as plain data; numbers are not rounded."""
    apart = ("count", "full_size", "published", "memory", "price", "launches", "device")
    values = {key: value for key, value in asdict(item).items() if key not in apart}
    sizes = asdict(item.count) if item.count else {}
    names = ("vocabulary", "parameters", "parameters_t2t", "branch_weights", "flops")
    values |= {name: sizes.get(name) for name in names}
    values["published_params_millions"] = item.published
    values |= {"reproduced": item.reproduced(t2t=False), "reproduced_t2t": item.reproduced(t2t=True)}
    if item.launches:
        values |= _measured(item)
    return values


def _measured(item: Line) -> dict[str, Any]:
    cost, counted = item.price and item.price.cost, item.memory
    parts = ("start", "updates", "validation", "saving", "test")
    return {
        "runs": len(item.launches),
        "runs_left": item.left,
        "activation_bytes_counted": counted and counted.activations,
        "memory_bytes_counted": counted and counted.total,
        "memory_bytes": cost and cost.memory,
        "memory_room_bytes": cost and cost.room,
        "fits": cost and cost.fits,
        "seconds": cost and cost.seconds,
        "training_seconds": cost and cost.training,
        **{f"{name}_seconds": cost and getattr(cost, name) for name in parts},
        "device_hours": cost and cost.hours(),
        "disk_bytes": cost and cost.disk,
        "exact": cost and cost.exact,
        "fault": item.price and item.price.fault,
    }


def totals(found: Bill, lines: list[Line]) -> dict[str, Any]:
    """Return the sums of what is left as plain data."""
    return {
        "runs": sum(len(item.launches) for item in lines),
        "runs_left": sum(item.left for item in lines),
        "seconds": found.seconds,
        "device_hours": found.hours,
        "disk_bytes": found.disk,
        "preparation_seconds": found.preparation,
        "places": found.places,
        "critical_path_seconds": found.path.seconds,
        "critical_path": found.path.critical,
        "unknown": found.unknown,
    }


def sums(found: Bill, lines: list[Line]) -> list[str]:
    """Return the totals, and what stands against them, in sentences."""
    runs, left = sum(len(item.launches) for item in lines), sum(item.left for item in lines)
    device = "GPU" if any(item.device == "GPU" for item in lines) else "CPU"
    if not left:
        return [f"Nothing is left to be done: {'the run is' if runs == 1 else f'all {runs} runs are'} finished."]
    done = f" ({runs - left} finished)" if left < runs else ""
    said = [
        f"Left: {left} run{'s' * (left > 1)}{done}, {duration(found.seconds)} one after the other, "
        f"{found.hours:.2g} {device}-hours, {size(found.disk)} of checkpoints."
    ]
    if left > 1:
        path = found.path
        chain = " → ".join(path.critical[:4]) + (f" → … ({len(path.critical)} runs)" if len(path.critical) > 4 else "")
        said.append(f"With {found.places} at a time: {duration(path.seconds)}. The end waits for {chain}.")
    if found.preparation:
        said.append(f"Preparing the whole corpus, once: {duration(found.preparation)}, beside the runs.")
    for item in lines:
        said += [f"{item.row}: {text}" for text in _against(item)]
    return said


def _against(item: Line) -> list[str]:
    """What keeps a row from being run here, or its cost from being known."""
    price = item.price
    if price is None:
        return []
    if price.exhausted:
        return [f"will not fit, memory ran out ({price.fault}); lower trainer.tokens_per_batch."]
    if price.fault is not None:
        return [f"could not be measured: {price.fault}"]
    cost = price.cost
    if cost is not None and cost.fits is False:
        room = size(cost.room or 0)
        return [f"will not fit: it needs {size(cost.memory)}, there are {room}; lower trainer.tokens_per_batch."]
    return []


def remarks(lines: list[Line]) -> list[str]:
    """Conventions, and how many printed counts come out."""
    found = []
    if any(item.count and item.count.parameters_t2t for item in lines):
        found.append(
            "Parameters: biases in attention and FFN, one matrix for both embeddings and the output, no output bias. "
            "The second count has the 40,960 embedding rows and 32 task vectors of the code behind Vaswani et al."
        )
    for title, part in titles(lines):
        compared = [item for item in part if item.reproduced(t2t=True) is not None]
        if compared:
            plain = sum(item.reproduced(t2t=False) or False for item in compared)
            padded = sum(item.reproduced(t2t=True) or False for item in compared)
            found.append(
                f"{title}: {padded} of {len(compared)} printed counts are the second count rounded, {plain} the first."
            )
    if any(item.count for item in lines):
        found.append(
            "FLOPs: of the whole training, 3 × 2 × multiply-accumulates of matrix products, for batches without "
            "padding and sentences of 30 sub-words. The papers' own figures are hours times sustained speed."
        )
    if any(item.memory for item in lines) and not any(item.price for item in lines):
        found.append(
            "Memory: weights, gradients, Adam's moments, and what a forward pass over one batch of sentences of "
            "30 sub-words keeps. Counted, nothing is measured."
        )
    return found + _how(lines)


def _how(lines: list[Line]) -> list[str]:
    costs = [item.price.cost for item in lines if item.price is not None and item.price.cost is not None]
    if not costs:
        return []
    found = [
        "Time: of one run from start to scores, from some real updates, decoding and saving on this machine as it is "
        "now; memory: the largest that was seen; disk: checkpoints that stay."
    ]
    if any(not cost.exact for cost in costs):
        found.append(
            "~: reckoned from parts of batches (whole ones are too slow or too large here) or from invented lengths."
        )
    if any(cost.devices > 1 for cost in costs):
        found.append("One device was measured; what devices exchange is not in the times.")
    return found
