"""Charts of stored runs as SVG that takes its text colour from the page, so that it suits light and dark."""

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C7A00")
"""Okabe and Ito's palette, told apart by colour-blind readers, in an order that keeps neighbours apart."""
DASHES = ("", "7 3", "2 2", "9 3 2 3")
_INK, _GRID = "#010203", "#040506"  # placeholders, replaced by the page's colours


@dataclass(frozen=True)
class Line:
    """One curve. `style` counts rows: it picks colour, then dashes."""

    x: Sequence[float]
    y: Sequence[float]
    style: int


@dataclass(frozen=True)
class Axes:
    """Words of a chart; they come from this package, never from a run."""

    title: str
    x: str
    y: str


def colour(style: int) -> str:
    """Colour of row number `style`."""
    return COLOURS[style % len(COLOURS)]


def dashes(style: int) -> str:
    """SVG dash pattern of row number `style`; each pass through the colours has its own."""
    return DASHES[style // len(COLOURS) % len(DASHES)]


def series(metrics: Sequence[Mapping[str, Any]], x: str, y: str) -> tuple[list[float], list[float]]:
    """Points where both keys were measured, in order."""
    points = [(line[x], line[y]) for line in metrics if _is_number(line.get(x)) and _is_number(line.get(y))]
    return [a for a, _ in points], [b for _, b in points]


def chart(axes: Axes, lines: Sequence[Line], *, name: str) -> str:
    """One chart of learning curves. `name` keeps its SVG ids apart from those of other charts on the page."""
    with _style():
        figure, panels = _figure(5.2, 3.1, 1, 1)
        panel = panels[0]
        for line in lines:
            marker = "o" if len(line.x) == 1 else None
            dash = _linestyle(line.style)
            panel.plot(line.x, line.y, color=colour(line.style), linestyle=dash, lw=1.8, marker=marker)
        panel.set(title=axes.title, xlabel=axes.x, ylabel=axes.y)
        _dress(panel)
        return _svg(figure, name, f"{axes.title}: {axes.y} against {axes.x}")


def weights_chart(metrics: Sequence[Mapping[str, Any]], *, name: str) -> str | None:
    """κ and α of every branched sub-layer over steps, one panel each; None where none were recorded or none moved."""
    keys = sorted(
        {key for line in metrics for key in line if re.fullmatch(r"branch/.+\.(kappa|alpha)", key)}, key=_natural
    )
    traces = {key: _branches(metrics, key) for key in keys}
    if not any(len({round(value, 6) for value in values}) > 1 for _, ys in traces.values() for values in ys):
        return None
    columns = min(4, len(keys))
    rows = -(-len(keys) // columns)
    with _style():
        figure, panels = _figure(2.75 * columns, 2.05 * rows, rows, columns, sharey=True)
        for panel, key in zip(panels, keys, strict=False):
            _weights_panel(panel, key, *traces[key])
        for panel in panels[len(keys) :]:
            panel.set_visible(False)
        for panel in panels[max(0, len(keys) - columns) : len(keys)]:
            panel.set_xlabel("step")
        return _svg(figure, name, "Branch weights against steps")


def branch_count(metrics: Sequence[Mapping[str, Any]]) -> int:
    """Largest number of branches among the recorded sub-layers."""
    lists = (
        value for line in metrics for key, value in line.items() if key.endswith(".kappa") and isinstance(value, list)
    )
    return max((len(value) for value in lists), default=0)


def _weights_panel(panel: Any, key: str, steps: Sequence[float], values: Sequence[Sequence[float]]) -> None:
    for branch, ys in enumerate(values):
        panel.plot(steps, ys, color=colour(branch), linestyle=_linestyle(branch), lw=1.3)
    part, _, letter = key.removeprefix("branch/").rpartition(".")
    panel.set_title(f"{_words(part)}: {'κ' if letter == 'kappa' else 'α'}")
    panel.set_ylim(bottom=min(0.0, *(value for ys in values for value in ys)))
    _dress(panel)


def _branches(metrics: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[list[float]]]:
    found = [(line["step"], line[key]) for line in metrics if isinstance(line.get(key), list) and "step" in line]
    width = min((len(values) for _, values in found), default=0)
    return [step for step, _ in found], [[values[b] for _, values in found] for b in range(width)]


def _figure(width: float, height: float, rows: int, columns: int, **options: Any) -> tuple[Any, list[Any]]:
    # Figure without pyplot: no window system, no global state.
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06))
    FigureCanvasSVG(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def _style() -> AbstractContextManager[None]:
    from matplotlib import rc_context

    style: dict[Any, Any] = {"font.size": 9, "font.family": "sans-serif", "axes.titlesize": 10}
    style |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK)
    return rc_context(style)


def _dress(panel: Any) -> None:
    panel.grid(color=_GRID, lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.locator_params(axis="both", nbins=5)


def _svg(figure: Any, name: str, description: str) -> str:
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = text.replace(_INK, "currentColor").replace(_GRID, "var(--grid)")
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{description}" ', 1)


def _linestyle(style: int) -> Any:
    pattern = [float(part) for part in dashes(style).split()]
    return (0, tuple(pattern)) if pattern else "-"


def _words(part: str) -> str:
    """`encoder.0` is "encoder layer 1"."""
    match = re.fullmatch(r"(\w+)\.(\d+)(?:\.(\w+))?", part)
    if not match:
        return part.replace("$", "")
    return f"{match[1]} layer {int(match[2]) + 1}" + (f", {match[3]}" if match[3] else "")


def _natural(key: str) -> list[tuple[int, str]]:
    # Encoder before decoder, layer 9 before layer 10, kappa before alpha.
    parts = re.split(r"(\d+)", key.replace("kappa", "0kappa").replace("encoder", "0encoder"))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
