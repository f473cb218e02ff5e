"""Differences from the base row with their intervals, and published differences beside them: a forest plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from textwrap import fill
from typing import Any

from variations.figures.canvas import FAINT, INK, colour, legend, new, plain

LONG = 8
"""An interval this many times longer than the median is cut at the edge: it would press the others together."""
ABOVE = 0.09
"""Inches by which a published figure is drawn above the line of its row, so that neither hides the other."""
MARKERS = "Ds^v"
"""Of published figures, such as those of two language pairs."""


@dataclass(frozen=True)
class Published:
    """A difference between two published figures."""

    name: str
    value: float
    recalled: bool
    """Whether one of the two is quoted from memory; the mark is then hollow."""


@dataclass(frozen=True)
class Difference:
    """A row of a table against its base row."""

    label: str
    value: float
    interval: tuple[float, float] | None
    """None: it was not tested."""
    published: Sequence[Published] = ()
    digits: int = 2
    """Decimals of the difference where it is written, because it lies beyond the edge."""


def differences(rows: Sequence[Difference], axis: str, note: str) -> Any:
    """A line for each row in the given order; `axis` is the label of the x axis, `note` stands below it."""
    low, high, cut = _range(rows)
    names = [fill(plain(row.label), 38) for row in rows]
    heights = [0.16 + 0.16 * (name.count("\n") + 1) for name in names]
    ends = list(accumulate(heights))
    places = [end - height / 2 for end, height in zip(ends, heights, strict=True)]
    told = "\n".join([note, *(["An arrow at the edge: the interval goes on."] if cut else [])])
    below = sum(1 + len(line) // 95 for line in told.split("\n"))
    figure, (panel,) = new(6.4, 1.1 + ends[-1] + 0.16 * below)
    panel.axvline(0, color=INK, lw=0.9, ls=(0, (4, 3)), zorder=1)
    for at, row in zip(places, rows, strict=True):
        if row.interval is not None:
            panel.plot(row.interval, [at, at], color=colour(0), lw=2, solid_capstyle="butt", zorder=2)
        panel.scatter([row.value], [at], s=26, color=colour(0), zorder=3)
        _arrows(panel, row, at, (low, high))
    kinds = list(dict.fromkeys(figure.name for row in rows for figure in row.published))
    for at, row in zip(places, rows, strict=True):
        for mark in row.published:
            panel.scatter([mark.value], [at - ABOVE], zorder=4, **_look(kinds.index(mark.name), mark.recalled))
    panel.set_yticks(places, names)
    panel.set_ylim(ends[-1], 0)
    panel.set_xlim(low, high)
    panel.set_xlabel(fill(plain(axis), 45))
    panel.grid(axis="x", color=FAINT, lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    legend(figure, _key(rows, kinds), 2, plain(told), handlelength=1.5)
    return figure


def _range(rows: Sequence[Difference]) -> tuple[float, float, bool]:
    """Ends of the x axis, and whether they cut something off; nearly by the rule of the dashboard's `V.forest`."""
    lengths = [row.interval[1] - row.interval[0] for row in rows if row.interval]
    usual = LONG * median(lengths) if lengths else 0.0
    whole = [row for row in rows if not row.interval or not usual or row.interval[1] - row.interval[0] <= usual]
    shown = [0.0, *(mark.value for row in rows for mark in row.published)]
    for row in whole:
        shown += [row.value, *(row.interval or ())]
    low, high = min(shown), max(shown)
    room = 0.05 * (high - low or 1.0)
    low, high = low - room, high + room
    cut = any(row.interval and (row.interval[0] < low or row.interval[1] > high) for row in rows)
    return low, high, cut


def _arrows(panel: Any, row: Difference, at: float, ends: tuple[float, float]) -> None:
    """Arrows where the interval is cut, with the difference itself if that lies beyond the edge."""
    if row.interval is None:
        return
    low, high = ends
    edge = 0.012 * (high - low)
    sides = (
        (low + edge, "<", "left", row.interval[0] < low, row.value < low),
        (high - edge, ">", "right", row.interval[1] > high, row.value > high),
    )
    for x, marker, side, cut, hidden in sides:
        if cut:
            panel.scatter([x], [at], marker=marker, s=26, color=colour(0), zorder=3)
        if hidden:
            panel.text(x, at - 0.05, f"{row.value:+.{row.digits}f}".replace("-", "−"), ha=side, va="bottom", fontsize=8)


def _look(kind: int, recalled: bool) -> dict[str, Any]:
    face = "white" if recalled else INK
    return {"marker": MARKERS[kind % len(MARKERS)], "s": 18, "facecolor": face, "edgecolor": INK, "linewidth": 0.9}


def _key(rows: Sequence[Difference], kinds: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [("measured", {"lw": 2, "marker": "o", "ms": 5, "color": colour(0)})]
    marks = {(figure.name, figure.recalled) for row in rows for figure in row.published}
    for number, name in enumerate(kinds):
        for recalled in (False, True):
            if (name, recalled) in marks:
                marker, face = MARKERS[number % len(MARKERS)], "white" if recalled else INK
                told = f"{name}{', quoted from memory' if recalled else ''}"
                found.append((told, {"lw": 0, "marker": marker, "ms": 4, "mfc": face, "mec": INK}))
    return found
