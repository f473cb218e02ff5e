"""The exponents p and q of work ~ n^p · d^q beside those of Table 1: on the terminal, as Markdown or JSON, and a plot.

It imports no torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from variations.figures.canvas import colour, dress, linestyle, new
from variations.tables import text
from variations.tables.text import Grid, pipe_table, plain_grid

Cell = tuple[int, int]
"""(n, d)."""


@dataclass(frozen=True)
class Exponents:
    """A least-squares fit of log work to log n and log d, over the large end of a grid."""

    n: float
    d: float
    n_error: float | None
    """Standard error; None if there are too few cells."""
    d_error: float | None
    cells: int


@dataclass(frozen=True)
class Claim:
    """A row of Table 1."""

    label: str
    work: str
    sequential: str
    path: str
    formula: Callable[[int, int, int, int], float]
    """The work as a function of n, d, k and r."""


CLAIMS = {
    "self_attention": Claim("Self-attention", "O(n²·d)", "O(1)", "O(1)", lambda n, d, k, r: n * n * d),
    "recurrent": Claim("Recurrent", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    "convolution": Claim("Convolutional", "O(k·n·d²)", "O(1)", "O(log_k n)", lambda n, d, k, r: k * n * d * d),
    "separable": Claim("Separable convolution", "O(k·n·d + n·d²)", "–", "–", lambda n, d, k, r: k * n * d + n * d * d),
    "restricted": Claim("Self-attention, restricted", "O(r·n·d)", "O(1)", "O(n/r)", lambda n, d, k, r: r * n * d),
}
"""Vaswani et al. 2017, Table 1; the separable convolution is only in the text of section 4, and only with its work."""


def large_end(values: Sequence[int]) -> list[int]:
    """The upper half of the values, but at least three if possible: there the leading term dominates."""
    ordered = sorted(set(values))
    return ordered[-max(len(ordered) // 2, min(3, len(ordered))) :]


def exponents(work: Mapping[Cell, float]) -> Exponents:
    """Fit over the large end of both axes.

    Raises:
        ValueError: n or d takes a single value there.
    """
    ns, ds = (large_end([cell[axis] for cell in work]) for axis in (0, 1))
    if len(ns) < 2 or len(ds) < 2:
        raise ValueError("an exponent needs at least two values of n and two of d")
    cells = [cell for cell in work if cell[0] in ns and cell[1] in ds]
    columns = np.array([[1.0, math.log(n), math.log(d)] for n, d in cells])
    values = np.array([math.log(work[cell]) for cell in cells])
    found, *_ = np.linalg.lstsq(columns, values, rcond=None)
    free = len(cells) - 3
    errors: list[float | None] = [None, None]
    if free > 0:
        variance = float(((values - columns @ found) ** 2).sum()) / free
        errors = [float(e) for e in np.sqrt(np.diag(np.linalg.inv(columns.T @ columns))[1:] * variance)]
    return Exponents(float(found[1]), float(found[2]), errors[0], errors[1], len(cells))


if TYPE_CHECKING:
    from variations.planning.complexity.measure import Point

TITLE = "Table 1 of “Attention Is All You Need”, measured"
HEADS = ("layer", "work (paper)", "sequential", "longest path", "paper's n, d", "FLOPs n, d", "time n", "time d")


@dataclass(frozen=True)
class Fit:
    """One layer's row."""

    layer: str
    paper: Exponents
    """The exponents of the paper's formula over the same cells."""
    flops: Exponents
    time: Exponents


@dataclass(frozen=True)
class Report:
    """Everything that is printed."""

    lines: list[Fit]
    points: "list[Point]"
    settings: dict[str, Any]
    """Sizes, rounds, hardware."""
    command: str


def lines(points: "Sequence[Point]", k: int, r: int) -> list[Fit]:
    """Fit each layer. Raises ValueError if the grid has a single n or d."""
    found = []
    for layer in dict.fromkeys(point.layer for point in points):
        own = [point for point in points if point.layer == layer]
        paper = {(p.n, p.d): CLAIMS[layer].formula(p.n, p.d, k, r) for p in own}
        flops = {(p.n, p.d): float(p.flops) for p in own}
        seconds = {(p.n, p.d): p.seconds for p in own}
        found.append(Fit(layer, exponents(paper), exponents(flops), exponents(seconds)))
    return found


def _grid(report: Report) -> Grid:
    """A row for each layer."""
    rows = []
    for line in report.lines:
        claim, (paper, flops) = CLAIMS[line.layer], (f"{fit.n:.2f}, {fit.d:.2f}" for fit in (line.paper, line.flops))
        times = [_with_error(line.time.n, line.time.n_error), _with_error(line.time.d, line.time.d_error)]
        rows.append([claim.label, claim.work, claim.sequential, claim.path, paper, flops, *times])
    return plain_grid(TITLE, dict(zip(HEADS, zip(*rows, strict=True), strict=True)), HEADS)


def notes(report: Report) -> list[str]:
    """How to read the table, and what it was measured on."""
    s = report.settings
    ns, ds = (large_end([getattr(p, axis) for p in report.points]) for axis in ("n", "d"))
    return [
        "Exponents p, q of work ~ n^p · d^q: least squares of logarithms over the large end, "
        f"n {ns[0]} to {ns[-1]} and d {ds[0]} to {ds[-1]}; ± is the standard error of the fit.",
        "Counted FLOPs follow shapes through the layer and are exact; times are medians over "
        f"{s['rounds']} interleaved rounds of one forward pass on one sequence, {s['hardware']}.",
        f"Widths: k = {s['kernel']}, r = {s['neighbourhood']}, {s['heads']} heads; the recurrent layer is "
        f"{'a GRU' if s['recurrent'] == 'gru' else 'an LSTM'}. Attention consists of scores and weighted sum"
        + (", with its projections, another O(n·d²)." if s["projections"] else " without projections, as in Table 1."),
        "Measured exponents lie below the counted ones where a layer is too small to fill the machine, or where work "
        "that FLOPs do not count (softmax, memory traffic, the start of each step) still matters.",
        *_unrestricted(report),
        *above(report.lines),
        *crossing(report.points),
    ]


def _unrestricted(report: Report) -> list[str]:
    """Lengths at which restricted attention sees every position; empty if there are none."""
    r = report.settings["neighbourhood"]
    whole = sorted({point.n for point in report.points if point.layer == "restricted" and point.n <= r})
    return (
        [f"At n = {', '.join(map(str, whole))}, all positions are within r, so nothing is restricted."] if whole else []
    )


def above(fits: Sequence[Fit]) -> list[str]:
    """Where time grows faster than FLOPs; empty if nowhere."""
    found = [
        f"{CLAIMS[fit.layer].label}, {axis} ({time:.2f} for {flops:.2f})"
        for fit in fits
        for axis, time, error, flops in (
            ("n", fit.time.n, fit.time.n_error, fit.flops.n),
            ("d", fit.time.d, fit.time.d_error, fit.flops.d),
        )
        if error is not None and time - flops > 2 * error
    ]
    return [f"By more than two standard errors above the counted ones: {'; '.join(found)}."] if found else []


def crossing(points: "Sequence[Point]") -> list[str]:
    """Whether self-attention is faster than recurrence for n < d, as section 4 says; empty if one was not measured."""
    times = {(p.layer, p.n, p.d): p.seconds for p in points}
    pairs = sorted({(p.n, p.d) for p in points})
    try:
        faster = {(n, d): times["self_attention", n, d] < times["recurrent", n, d] for n, d in pairs}
    except KeyError:
        return []
    counts = []
    for words, chosen in (
        ("n < d", [faster[n, d] for n, d in pairs if n < d]),
        ("n ≥ d", [faster[n, d] for n, d in pairs if n >= d]),
    ):
        counts.append(f"in {sum(chosen)} of {len(chosen)} cells with {words}")
    return [f"Self-attention took less time than recurrence {counts[0]} and {counts[1]}."]


def markdown(report: Report, plot: str | None = None) -> str:
    """The table with its command and notes; `plot` is the name of a plot in the same folder."""
    out = [f"# {TITLE}", "", "```console", report.command, "```", ""]
    out += [*pipe_table(_grid(report)), "", *(f"- {note}" for note in notes(report))]
    if plot is not None:
        out += ["", f"![Time of one layer against n and against d]({plot})"]
    out += ["", "Milliseconds of one layer:", "", *pipe_table(_milliseconds(report.points))]
    return "\n".join(out) + "\n"


def _milliseconds(points: "Sequence[Point]") -> Grid:
    columns: dict[str, list[str]] = {"n": [], "d": []}
    for n, d in dict.fromkeys((p.n, p.d) for p in points):
        columns["n"].append(str(n))
        columns["d"].append(str(d))
    for p in points:  # layer by layer within each cell
        columns.setdefault(CLAIMS[p.layer].label, []).append(f"{1000 * p.seconds:.3g}")
    return plain_grid("", columns, ())


def document(report: Report) -> dict[str, Any]:
    """All numbers, not rounded."""
    return {
        "schema": 1,
        "command": report.command,
        "settings": report.settings,
        "layers": [
            {
                "layer": line.layer,
                "paper": {key: getattr(CLAIMS[line.layer], key) for key in ("label", "work", "sequential", "path")},
                "exponents": {name: asdict(getattr(line, name)) for name in ("paper", "flops", "time")},
                "cells": [
                    {"n": p.n, "d": p.d, "flops": p.flops, "seconds": p.seconds, "samples": p.samples}
                    for p in report.points
                    if p.layer == line.layer
                ],
            }
            for line in report.lines
        ],
        "notes": notes(report),
    }


def terminal(report: Report, *, colour: bool, width: int | None) -> str:
    """The table for a terminal; as wide as needed if `width` is None."""
    grid = _grid(report)
    grid.remarks = notes(report)
    return text.terminal([grid], width=width, colour=colour)


def plot(points: "Sequence[Point]", fits: Sequence[Fit]) -> Any:
    """Time against n at the largest d, and against d at the largest n, on logarithmic axes; call it inside `style`."""
    n_max, d_max = max(p.n for p in points), max(p.d for p in points)
    figure, panels = new(9.2, 4.6, 1, 2, sharey=True)
    for number, line in enumerate(fits):
        own = [point for point in points if point.layer == line.layer]
        along_n = {p.n: p.seconds for p in own if p.d == d_max}
        along_d = {p.d: p.seconds for p in own if p.n == n_max}
        look = {"color": colour(number), "ls": linestyle(number), "marker": "o", "ms": 3.5, "lw": 1.6}
        for panel, along, fit in zip(panels, (along_n, along_d), (line.time.n, line.time.d), strict=True):
            label = f"{CLAIMS[line.layer].label}: {fit:.2f}"
            panel.plot(sorted(along), [1000 * along[x] for x in sorted(along)], label=label, **look)
    for panel, axis, other in zip(panels, ("n", "d"), (f"d = {d_max}", f"n = {n_max}"), strict=True):
        name = "sequence length n" if axis == "n" else "width d"
        panel.set(xscale="log", yscale="log", xlabel=f"{name} ({other})")
        values = sorted({getattr(point, axis) for point in points})
        panel.set_xticks(values, [str(value) for value in values], minor=False)
        panel.set_xticks([], minor=True)
        panel.legend(title=f"exponent of {axis}", fontsize=8, title_fontsize=8, loc="upper left")
        dress(panel)
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, high * 12)  # room for the legends
    panels[0].set_ylabel("milliseconds of one layer")
    return figure


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.2f}" if error is None else f"{value:.2f} ± {error:.2f}"
