"""Measurements of runs during training, prepared for drawing: rows, their seeds, and curves over any cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from variations.configuration.tasks import DEFAULT, named
from variations.store.atomic import is_number
from variations.store.ledger import RunFolder
from variations.store.row_files import label_of

COSTS = ("step", "tokens", "seconds", "flops")
"""Keys of a line of metrics that measure the training so far; `tokens` are source and target tokens together."""


DRAWN_OF_AVERAGED = "current weights are drawn, and their moving average is tested."
"""What is said of rows that are `averaged`, after `The` or `Of …, the`."""


@dataclass(frozen=True)
class TracedRow:
    """A row of a sweep, or a single run, with the lines of metrics of every seed that has any."""

    name: str
    label: str
    base: str | None = None
    """Name of its base row."""
    metrics: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    task: str = DEFAULT
    caveats: tuple[str, ...] = ()
    """Why its results are not those of its file and of a whole training, or why it counts as not trained."""
    uncompared: str | None = None
    """Why it cannot be compared with its base row."""
    other_losses: str | None = None
    """Why at least its losses cannot be compared with those of its base row."""
    other_objective: str | None = None
    """Why even its training loss cannot be compared with that of its base row."""
    mixed: bool = False
    """Whether its seeds were not trained or not validated alike."""
    averaged: bool = False
    """Whether the moving average of its weights is tested; measurements during training are of the current weights."""

    def label_of(self, metric: str) -> str:
        """The task's label for a recorded quantity."""
        found = named(self.task).curves.get(metric)
        return found.label if found else metric


@dataclass(frozen=True)
class Curve:
    """Mean over seeds at the steps that every seed measured, and the lowest and highest seed there."""

    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    seeds: int
    tails: list[tuple[list[float], list[float]]]
    """Curves of single seeds from the last common step on."""


def run_row(folder: RunFolder) -> TracedRow:
    """One run as a row by itself. Raises UserError if there is none or its files are damaged."""
    config = folder.config()
    label = label_of(config, folder.row)
    lines = [with_tokens(line) for line in folder.measurements.read()]
    result = folder.result()
    seed = int(config.get("seed", folder.seed))  # a copy or a link may have another name than seed<k>
    metrics = {seed: lines} if lines else {}
    task = config.get("task") or DEFAULT
    results = {seed: result} if result else {}
    return TracedRow(folder.row, label, None, metrics, results, task, averaged=is_averaged(config))


def is_averaged(config: Mapping[str, Any]) -> bool:
    """Whether a run of this configuration keeps a moving average of its weights."""
    return bool((config.get("recipe") or {}).get("ema"))


def with_tokens(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line of metrics with `tokens`, the sum of source and target tokens."""
    sides: list[Any] = [line.get("source_tokens"), line.get("target_tokens")]
    return dict(line) | ({"tokens": sum(sides)} if all(map(is_number, sides)) else {})


def curve(row: TracedRow, x: str, y: str) -> Curve | None:
    """The curve of `y` over `x`, averaged over seeds at common steps only, without interpolation.

    None if nothing can be drawn: no seed has a value, or the seeds share no step and none has two.
    """
    points = {seed: _points(lines, x, y) for seed, lines in row.metrics.items()}
    points = {seed: found for seed, found in points.items() if found}
    if not points:
        return None
    steps = sorted(set.intersection(*(set(found) for found in points.values())))
    columns = [[found[step] for found in points.values()] for step in steps]
    last = steps[-1] if steps else -1
    tails = []
    for found in points.values():
        rest = [found[step] for step in sorted(found) if step >= last]
        if len(rest) > 1:
            tails.append(([a for a, _ in rest], [b for _, b in rest]))
    ys = [[b for _, b in column] for column in columns]
    means = [fmean(a for a, _ in column) for column in columns]
    if not means and not tails:
        return None
    return Curve(means, [fmean(v) for v in ys], [min(v) for v in ys], [max(v) for v in ys], len(points), tails)


def mean_filter(values: Sequence[float], window: int) -> list[float]:
    """Centred moving average over `window` values (made odd); near an end, over as many on both sides as exist."""
    half = window // 2
    found = []
    for i in range(len(values)):
        reach = min(half, i, len(values) - 1 - i)
        found.append(fmean(values[i - reach : i + reach + 1]))
    return found


def _points(lines: Sequence[Mapping[str, Any]], x: str, y: str) -> dict[float, tuple[float, float]]:
    wanted = [line for line in lines if all(is_number(line.get(key)) for key in ("step", x, y))]
    return {line["step"]: (line[x], line[y]) for line in wanted}
