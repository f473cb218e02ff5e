"""Parts of a measure, such as the errors of single tasks: bars with marks for published figures, a panel per row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from variations.figures.canvas import FAINT, INK, colour, legend, new, plain

ACROSS = 4
"""Number of panels side by side."""


@dataclass(frozen=True)
class Bars:
    """A row of a table: measured and published figures, part by part."""

    label: str
    measured: Sequence[float | None]
    spread: Sequence[float | None]
    """Standard deviation over seeds."""
    published: Sequence[float | None]
    """Those that may be compared with the measured ones."""
    recalled: bool
    """Whether the published figures are quoted from memory; their marks are then hollow."""
    caveats: Sequence[str] = ()
    """Of the comparison."""


def parts(names: Sequence[str], rows: Sequence[Bars], unit: str) -> Any:
    """A panel for each row, with a bar for each of `names`, and caveats below; `unit` is the axis label."""
    across = min(ACROSS, len(rows))
    down = -(-len(rows) // across)
    size = (2.2 + 2.1 * across, 0.9 + down * (0.5 + 0.17 * len(names)))
    figure, panels = new(*size, down, across, sharex=True, sharey=True)
    for number, (panel, row) in enumerate(zip(panels, rows, strict=False)):
        _draw(panel, row, number)
    for panel in panels[len(rows) :]:
        panel.set_visible(False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    panels[0].set_xlim(left=0)
    for panel in panels[max(0, len(rows) - across) : len(rows)]:
        panel.set_xlabel(unit)
        panel.tick_params(labelbottom=True)
    caveats = dict.fromkeys(text for row in rows for text in row.caveats)
    about = {text: "; ".join(row.label for row in rows if text in row.caveats) for text in caveats}
    note = "\n".join(f"{labels}: {text}." for text, labels in about.items())
    legend(figure, _key(rows), 3, plain(note), fontsize=8)
    return figure


def _draw(panel: Any, row: Bars, number: int) -> None:
    from textwrap import fill

    found = [(at, value) for at, value in enumerate(row.measured) if value is not None]
    panel.barh([at for at, _ in found], [value for _, value in found], height=0.62, color=colour(number), zorder=2)
    for at, value in found:
        if (spread := row.spread[at]) is not None:
            panel.plot([value - spread, value + spread], [at, at], color=INK, lw=0.8, zorder=3)
    marks = [(value, at) for at, value in enumerate(row.published) if value is not None]
    face = "white" if row.recalled else INK
    panel.scatter(
        [value for value, _ in marks],
        [at for _, at in marks],
        marker="D",
        s=16,
        facecolor=face,
        edgecolor=INK,
        linewidth=0.9,
        zorder=4,
    )
    panel.grid(axis="x", color=FAINT, lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.set_title(fill(plain(row.label), 30), fontsize=9)


def _key(rows: Sequence[Bars]) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = [("measured", {"lw": 6, "color": "#777777"})]
    for recalled, text in ((False, "published"), (True, "published, quoted from memory")):
        if any(row.recalled is recalled and any(value is not None for value in row.published) for row in rows):
            face = "white" if recalled else INK
            found.append((text, {"lw": 0, "marker": "D", "ms": 4, "mfc": face, "mec": INK}))
    return found
