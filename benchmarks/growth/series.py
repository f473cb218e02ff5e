"""Measurements along an axis: fitted and counted exponents, tables, and the figure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from variations.figures.canvas import colour, dress, new
from variations.planning.complexity.report import large_end

COLUMNS = 4
"""Panels side by side."""
BEYOND = 0.25
"""A measured exponent that exceeds the counted one by more is named in the report."""
MB = 1e6


@dataclass
class Line:
    """One thing measured at each value x of an axis.

    Attributes:
        name: form of the model or part of the preparation; empty if an axis has one line.
        seconds: at each x, one sample per round.
        peak: at each x, the bytes by which a fresh process grew.
        work: at each x, what time should be proportional to (FLOPs, pairs).
        held: at each x, the bytes that are counted without running anything; empty if they cannot be counted.
    """

    name: str
    seconds: dict[int, list[float]] = field(default_factory=dict)
    peak: dict[int, float] = field(default_factory=dict)
    work: dict[int, float] = field(default_factory=dict)
    held: dict[int, float] = field(default_factory=dict)

    @property
    def time(self) -> dict[int, float]:
        """Median seconds at each x."""
        return {x: median(samples) for x, samples in self.seconds.items()}


@dataclass
class Axis:
    """Lines along one axis.

    Attributes:
        name: the symbol in tables.
        title: above the panels.
        what: one sentence on what was timed.
        unit: the unit of the work, and its size: `("GFLOP", 1e9)`.
    """

    name: str
    title: str
    what: str
    unit: tuple[str, float] = ("GFLOP", 1e9)
    lines: list[Line] = field(default_factory=list)


def exponent(values: Mapping[int, float]) -> float:
    """p of value ~ x^p, by least squares of logarithms over the large end of x; NaN without two values, all above 0."""
    xs = large_end(list(values))
    if len(xs) < 2 or min(values[x] for x in xs) <= 0:
        return math.nan
    slope, _ = np.polyfit(np.log(xs), np.log([values[x] for x in xs]), 1)
    return float(slope)


def summary(axes: Sequence[Axis]) -> list[str]:
    """All exponents in one table, and a sentence on those that are larger than counted."""
    lines = [
        "| along | fitted over | time, measured | counted | memory, measured | counted |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    beyond = []
    for axis in axes:
        for line in axis.lines:
            xs = large_end(list(line.seconds))
            name = f"{axis.title}, {line.name}" if line.name else axis.title
            time, work, peak, held = (exponent(v) for v in (line.time, line.work, line.peak, line.held))
            cells = " | ".join(map(_rounded, (time, work, peak, held)))
            lines.append(f"| {name} | {xs[0]:,} to {xs[-1]:,} | {cells} |")
            beyond += [f"{name}: time {_rounded(time)} for {_rounded(work)}"] if time > work + BEYOND else []
            beyond += [f"{name}: memory {_rounded(peak)} for {_rounded(held)}"] if peak > held + BEYOND else []
    told = "; ".join(beyond) or "none"
    return [*lines, "", f"Measured exponents that exceed the counted ones by more than {BEYOND}: {told}.", ""]


def table(axis: Axis) -> list[str]:
    """Every point of one axis."""
    unit, one = axis.unit
    several = len(axis.lines) > 1
    rounds = max(len(samples) for line in axis.lines for samples in line.seconds.values())
    held = any(line.held for line in axis.lines)
    counted = any(line.work != {x: float(x) for x in line.work} for line in axis.lines)
    heads = [axis.name, *["of"] * several, *[unit] * counted, "seconds"]
    heads += [*["lowest to highest"] * (rounds > 1), f"{unit}/s", "MB", *["MB, counted"] * held]
    lines = [f"### {axis.title[0].upper()}{axis.title[1:]}", "", axis.what, "", f"| {' | '.join(heads)} |"]
    lines.append("|---:|" + "---|" * several + "---:|" * (len(heads) - 1 - several))
    for line in axis.lines:
        for x, samples in line.seconds.items():
            work = line.work[x] / one
            cells = [f"{x:,}", *[line.name] * several, *[f"{work:,.4g}"] * counted, f"{line.time[x]:.3g}"]
            cells += [f"{min(samples):.3g} to {max(samples):.3g}"] * (rounds > 1)
            rate = work / line.time[x]
            cells += [f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}", f"{line.peak[x] / MB:,.0f}"]
            cells += [f"{line.held[x] / MB:,.0f}"] if held else []
            lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def picture(axes: Sequence[Axis]) -> Any:
    """Time above memory for each axis, on logarithmic axes; call it inside `canvas.style`."""
    groups = [axes[start : start + COLUMNS] for start in range(0, len(axes), COLUMNS)]
    columns = min(COLUMNS, len(axes))
    figure, panels = new(2.9 * columns, 4.9 * len(groups), 2 * len(groups), columns)
    for number, group in enumerate(groups):
        for row, (label, scale, measured, counted) in enumerate(_ROWS):
            start = (2 * number + row) * columns
            for column, panel in enumerate(panels[start : start + columns]):
                if column >= len(group):
                    panel.set_visible(False)
                    continue
                _draw(panel, group[column], scale, measured, counted)
                if not row:
                    panel.set_title(group[column].title)
                if not column:
                    panel.set_ylabel(label)
    figure.suptitle("Points: measured. Dashes: counted. Legend: exponent measured (counted).", fontsize=9)
    return figure


_ROWS: list[tuple[str, float, Callable[[Line], Mapping[int, float]], Callable[[Line], Mapping[int, float]]]] = [
    ("milliseconds", 1e3, lambda line: line.time, lambda line: line.work),
    ("peak memory, MB", 1 / MB, lambda line: line.peak, lambda line: line.held),
]


def _draw(
    panel: Any,
    axis: Axis,
    scale: float,
    measured: Callable[[Line], Mapping[int, float]],
    counted: Callable[[Line], Mapping[int, float]],
) -> None:
    from matplotlib.ticker import LogFormatter

    for number, line in enumerate(axis.lines):
        values, theory = measured(line), counted(line)
        xs = list(values)
        p, q = exponent(values), exponent(theory)
        label = f"{line.name} {_rounded(p)}".strip() + ("" if math.isnan(q) else f" ({_rounded(q)})")
        look = {"color": colour(number), "marker": "o", "ms": 3.5, "lw": 0.8}
        panel.plot(xs, [values[x] * scale for x in xs], label=label, **look)
        if theory:  # only the slope is compared, so the line goes through the last point
            factor = values[xs[-1]] / theory[xs[-1]] * scale
            panel.plot(xs, [theory[x] * factor for x in xs], color=colour(number), ls=(0, (4, 3)), lw=1.2)
    values = sorted({x for line in axis.lines for x in measured(line)})
    panel.set(xscale="log", yscale="log")
    shown = values[(len(values) - 1) % 2 :: 2] if len(values) > 4 else values  # every other one, including the largest
    panel.set_xticks(shown, [_short(x) for x in shown], minor=False)
    panel.set_xticks([], minor=True)
    panel.yaxis.set_major_formatter(LogFormatter())
    panel.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))
    low, high = panel.get_ylim()
    panel.set_ylim(low, high * (high / low) ** (0.14 * len(axis.lines)))  # space for the legend
    panel.legend(fontsize=7, loc="upper left", handlelength=1.2, borderaxespad=0.1, labelspacing=0.2)
    dress(panel)


def _rounded(value: float) -> str:
    return "–" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"  # no negative zero


def _short(x: int) -> str:
    return f"{x / 1e6:.3g}M" if x >= 1_000_000 else f"{x / 1e3:.3g}k" if x >= 10_000 else str(x)
