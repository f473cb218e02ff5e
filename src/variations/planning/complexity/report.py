"""Table 1 as measured: on the terminal, as Markdown or JSON, and a log-log plot."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from variations.figures.canvas import colour, dress, linestyle, new
from variations.planning.complexity.fit import CLAIMS, Exponents, exponents, large_end

if TYPE_CHECKING:
    from variations.planning.complexity.measure import Point

HEADS = ("layer", "work (paper)", "sequential", "longest path", "paper's n, d", "FLOPs n, d", "time n", "time d")


@dataclass(frozen=True)
class Line:
    """One layer's row."""

    layer: str
    paper: Exponents
    """What the paper's formula gives over the same cells."""
    flops: Exponents
    time: Exponents


@dataclass(frozen=True)
class Report:
    """Everything that is printed."""

    lines: list[Line]
    points: "list[Point]"
    settings: dict[str, Any]
    """Sizes, rounds, hardware."""
    command: str


def lines(points: "Sequence[Point]", k: int, r: int) -> list[Line]:
    """Fit each layer. Raises ValueError if the grid has a single n or d."""
    found = []
    for layer in dict.fromkeys(point.layer for point in points):
        own = [point for point in points if point.layer == layer]
        paper = {(p.n, p.d): CLAIMS[layer].formula(p.n, p.d, k, r) for p in own}
        flops = {(p.n, p.d): float(p.flops) for p in own}
        seconds = {(p.n, p.d): p.seconds for p in own}
        found.append(Line(layer, exponents(paper), exponents(flops), exponents(seconds)))
    return found


def cells(line: Line) -> list[str]:
    """A row of the table as text."""
    claim = CLAIMS[line.layer]
    pairs = [f"{fit.n:.2f}, {fit.d:.2f}" for fit in (line.paper, line.flops)]
    times = [_with_error(line.time.n, line.time.n_error), _with_error(line.time.d, line.time.d_error)]
    return [claim.label, claim.work, claim.sequential, claim.path, *pairs, *times]


def notes(report: Report) -> list[str]:
    """How to read the table, and what it was measured on."""
    s = report.settings
    ns, ds = (large_end([getattr(p, axis) for p in report.points]) for axis in ("n", "d"))
    return [
        "Exponents p, q of work ~ n^p · d^q: least squares of logarithms over the large end, "
        f"n {ns[0]} to {ns[-1]} and d {ds[0]} to {ds[-1]}; ± is the standard error of the fit.",
        "Counted FLOPs follow shapes through the layer and are exact; times are medians over "
        f"{s['rounds']} interleaved rounds of one forward pass of one sequence, {s['hardware']}.",
        f"Widths: k = {s['kernel']}, r = {s['neighbourhood']}, {s['heads']} heads; the recurrent layer is "
        f"{'a GRU' if s['recurrent'] == 'gru' else 'an LSTM'}. Attention is scores and weighted sum"
        + (", with its projections, another O(n·d²)." if s["projections"] else " without projections, as in Table 1."),
        "Measured exponents lie below the counted ones where a layer is too small to fill the machine, or where work "
        "that FLOPs do not count (softmax, memory traffic, the start of each step) still weighs.",
        *crossing(report.points),
    ]


def crossing(points: "Sequence[Point]") -> list[str]:
    """Whether self-attention beats recurrence where n < d, as section 4 says; nothing if one was not measured."""
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
    """The table with its command and notes; `plot` is the name of a picture beside it."""
    text = ["# Table 1 of “Attention Is All You Need”, measured", "", "```console", report.command, "```", ""]
    text += [f"| {' | '.join(HEADS)} |", "|---|---|---|---|---|---|---|---|"]
    text += [f"| {' | '.join(cells(line))} |" for line in report.lines]
    text += ["", *(f"- {note}" for note in notes(report))]
    if plot is not None:
        text += ["", f"![Time of one layer against n and against d]({plot})"]
    text += ["", "Milliseconds of one layer:", "", *_milliseconds(report.points)]
    return "\n".join(text) + "\n"


def _milliseconds(points: "Sequence[Point]") -> list[str]:
    layers = list(dict.fromkeys(point.layer for point in points))
    times = {(p.layer, p.n, p.d): 1000 * p.seconds for p in points}
    rows = [f"| n | d | {' | '.join(CLAIMS[layer].label for layer in layers)} |", "|---:|---:|" + "---:|" * len(layers)]
    for n, d in dict.fromkeys((p.n, p.d) for p in points):
        rows.append(f"| {n} | {d} | {' | '.join(f'{times[layer, n, d]:.3g}' for layer in layers)} |")
    return rows


def document(report: Report) -> dict[str, Any]:
    """All numbers, not rounded."""
    return {
        "schema": 1,
        "command": report.command,
        "settings": report.settings,
        "layers": [
            {
                "layer": line.layer,
                "paper": _claim(line.layer),
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


def _claim(layer: str) -> dict[str, str]:
    claim = CLAIMS[layer]
    return {"label": claim.label, "work": claim.work, "sequential": claim.sequential, "path": claim.path}


def terminal(report: Report, *, colour: bool, width: int | None) -> str:
    """The table for a terminal; `width` None is as wide as needed."""
    import io

    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in HEADS:
        table.add_column(head, no_wrap=True)
    for line in report.lines:
        table.add_row(*cells(line))
    buffer = io.StringIO()
    console = Console(file=buffer, force_terminal=colour, width=width or 140, highlight=False)
    console.print(table)
    for note in notes(report):
        console.print(note, markup=False, soft_wrap=width is None)
    return buffer.getvalue()


def plot(points: "Sequence[Point]", fits: Sequence[Line]) -> Any:
    """Time against n at the largest d, and against d at the largest n, on logarithmic axes; call it inside `style`."""
    n_max, d_max = max(p.n for p in points), max(p.d for p in points)
    figure, panels = new(9.2, 4.6, 1, 2, sharey=True)
    for number, line in enumerate(fits):
        own = [point for point in points if point.layer == line.layer]
        along_n = {p.n: p.seconds for p in own if p.d == d_max}
        along_d = {p.d: p.seconds for p in own if p.n == n_max}
        look = {"color": colour(number), "ls": linestyle(number), "marker": "o", "ms": 3.5, "lw": 1.6}
        for panel, along, fit in zip(panels, (along_n, along_d), (line.time.n, line.time.d), strict=True):
            _draw(panel, along, f"{CLAIMS[line.layer].label}: {fit:.2f}", look)
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


def _draw(panel: Any, along: Mapping[int, float], label: str, look: Mapping[str, Any]) -> None:
    xs = sorted(along)
    panel.plot(xs, [1000 * along[x] for x in xs], label=label, **look)


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.2f}" if error is None else f"{value:.2f} ± {error:.2f}"
