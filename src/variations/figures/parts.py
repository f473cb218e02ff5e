"""Parts of a measure, such as the errors of single tasks: bars beside published marks, a panel a row."""

from collections.abc import Sequence
from typing import Any

from variations.figures.canvas import FAINT, INK, colour, new
from variations.tables.table import Figure, Line, Table
from variations.tasks.base import Measure

ACROSS = 4
"""Panels side by side."""


def parts(table: Table) -> Any | None:
    """What each row measured in each part, as bars, and what was published, as marks; None where nothing was measured.

    Marks of figures that were written down from memory are hollow. A thin line spans ± the standard deviation over
    seeds, where there is more than one.
    """
    drawn = [line for line in table.lines if any(table.task.measure(key).part_of for key in line.measured)]
    if not drawn:
        return None
    order = [measure for measure in table.task.columns(table.primary) if measure.part_of]
    printed = {part.key: key for line in table.lines for key in line.published if (part := table.part(key))}
    shown = [part for part in order if part.key in printed or any(part.key in line.measured for line in drawn)]
    across = min(ACROSS, len(drawn))
    down = -(-len(drawn) // across)
    size = (2.2 + 2.1 * across, 0.9 + down * (0.5 + 0.17 * len(shown)))
    figure, panels = new(*size, down, across, sharex=True, sharey=True)
    for number, (panel, line) in enumerate(zip(panels, drawn, strict=False)):
        _draw(panel, line, shown, [line.published.get(printed.get(part.key, "")) for part in shown], number)
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    panels[0].set_yticks(range(len(shown)), [part.label for part in shown])
    panels[0].set_ylim(len(shown) - 0.4, -0.6)
    panels[0].set_xlim(left=0)
    for panel in panels[max(0, len(drawn) - across) : len(drawn)]:
        panel.set_xlabel(table.task.measure(shown[0].part_of).label.removeprefix("mean "))
        panel.tick_params(labelbottom=True)
    figure.legend(handles=_key(drawn), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _draw(panel: Any, line: Line, shown: Sequence[Measure], published: Sequence[Figure | None], number: int) -> None:
    found = [(at, line.measured[part.key]) for at, part in enumerate(shown) if part.key in line.measured]
    panel.barh([at for at, _ in found], [mean.mean for _, mean in found], height=0.62, color=colour(number), zorder=2)
    spread = [(at, mean.mean, mean.sd) for at, mean in found if mean.sd is not None]
    if spread:
        places, means, deviations = zip(*spread, strict=True)
        panel.errorbar(means, places, xerr=deviations, fmt="none", ecolor=INK, elinewidth=0.8, zorder=3)
    for recalled in (False, True):
        marks = [(f.value, at) for at, f in enumerate(published) if f and f.recalled is recalled]
        if marks:
            values, places = zip(*marks, strict=True)
            face = "white" if recalled else INK
            panel.scatter(values, places, marker="D", s=16, facecolor=face, edgecolor=INK, linewidth=0.9, zorder=4)
    panel.grid(axis="x", color=FAINT, lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.set_title(_folded(line.label), fontsize=9)


def _folded(label: str) -> str:
    from textwrap import fill

    return fill(label, 30)


def _key(drawn: Sequence[Line]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figures = [figure for line in drawn for figure in line.published.values()]
    handles: list[Any] = [Patch(color="#777777", label="measured")]
    for recalled, text in ((False, "published"), (True, "published, written from memory")):
        if any(figure.recalled is recalled for figure in figures):
            face = "white" if recalled else INK
            handles.append(Line2D([], [], lw=0, marker="D", ms=4, mfc=face, mec=INK, label=text))
    return handles
