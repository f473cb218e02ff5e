"""Style and files of the figures: light background, a palette for colour-blind readers, SVG or PNG."""

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

from variations.store.atomic import destination, replaced, told_if_unwritable

MADE_BY = "variations figures"
"""The mark inside each file, by which the command that draws figures knows its own files."""
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C7A00")
"""Okabe and Ito's palette for colour-blind readers, ordered so that neighbours differ most."""
DASHES = ((), (7, 3), (2, 2), (9, 3, 2, 3))
INK, FAINT = "#222222", "#DDDDDD"
RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@contextmanager
def style() -> Iterator[None]:
    """Set fonts and colours; draw and save inside this context."""
    from matplotlib import rc_context

    settings: dict[Any, Any] = {
        "font.size": 9,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"],
        "axes.titlesize": 10,
        "axes.titleweight": "regular",
        "legend.frameon": False,
        "svg.fonttype": "none",
        "figure.facecolor": "white",
        "axes.facecolor": "white",
    }
    settings |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)
    with rc_context(settings), warnings.catch_warnings():
        # An SVG viewer finds glyphs of other scripts in its own fonts; for PNG see docs/figures.md.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        yield


def new(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, list[Any]]:
    """A figure of this size in inches and its panels, row by row, without a window system or global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def dress(panel: Any) -> None:
    """Put a faint grid behind the data, and remove the frame at the top and right."""
    panel.grid(color=FAINT, lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def colour(number: int) -> str:
    """Colour of row, branch or head `number`."""
    return COLOURS[number % len(COLOURS)]


def linestyle(number: int) -> Any:
    """Line style of row, branch or head `number`: solid for the first seven, then dashed."""
    pattern = DASHES[number // len(COLOURS) % len(DASHES)]
    return (0, pattern) if pattern else "-"


def legend(figure: Any, lines: Sequence[tuple[str, dict[str, Any]]], columns: int, note: str, **options: Any) -> None:
    """A legend above the panels, from names and line styles, and a note below."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for _, look in lines]
    names = [name for name, _ in lines]
    figure.legend(handles, names, loc="outside upper center", ncols=columns, **{"handlelength": 3.5, **options})
    # 16 characters of this size are an inch wide; a sentence that is longer than the figure would be cut.
    width = int(16 * figure.get_figwidth())
    wrapped = "\n".join(fill(line, width) for line in note.split("\n"))
    figure.supxlabel(wrapped, fontsize=8, color="#555555")
    rows = -(-len(lines) // columns)
    figure.set_figheight(figure.get_figheight() + 0.25 * max(0, rows - 4))  # the panels keep their size


def plain(text: str) -> str:
    """Text with escaped dollar signs, which would otherwise start formulas."""
    return text.replace("$", r"\$")


class Unit:
    """A unit that keeps the numbers on an axis short: values are divided by `factor`; `name` is the axis label."""

    def __init__(self, factor: float, name: str) -> None:
        self.factor, self.name = factor, name


def unit_of(key: str, largest: float) -> Unit:
    """The unit of a cost (`step`, `tokens`, `seconds`, `flops`) whose largest value is given."""
    if key == "seconds":
        spans = ((2 * 3600, 3600, "training time, hours"), (600, 60, "training time, minutes"))
        return next((Unit(f, name) for least, f, name in spans if largest >= least), Unit(1, "training time, seconds"))
    if key == "tokens":
        scales = ((1e9, 1e9, "billions"), (1e6, 1e6, "millions"), (1e4, 1e3, "thousands"))
        factor, name = next(((f, word) for least, f, word in scales if largest >= least), (1, ""))
        return Unit(factor, f"{name} of source and target tokens".strip() if name else "source and target tokens")
    if key == "flops":
        power = math.floor(math.log10(largest)) if largest > 0 else 0
        return Unit(10.0**power, f"training FLOPs, counted, ×10{str(power).translate(RAISED)}")
    return Unit(1e3, "thousands of steps") if largest >= 2e4 else Unit(1, "steps")


def save(figure: Any, path: Path) -> Path:
    """Write `figure` to `path` (.svg, .png or .pdf), completely or not at all; equal figures give equal bytes.

    Raises:
        UserError: `path` cannot be written.
    """
    from matplotlib import rc_context

    kind = path.suffix.removeprefix(".")
    by_kind: dict[str, dict[str, Any]] = {
        "svg": {"Date": None, "Creator": MADE_BY},
        "pdf": {"CreationDate": None, "Creator": MADE_BY},
        "png": {"Software": MADE_BY},
    }
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(buffer, format=kind, dpi=160, facecolor="white", metadata=by_kind[kind])
    with told_if_unwritable(path, "; choose another folder with out=DIR."), replaced(destination(path)) as temporary:
        temporary.write_bytes(buffer.getvalue())
    return path
