"""κ and α of branched sub-layers over steps, as moving averages (Ahmed et al. 2017, Figure 3)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from variations.figures.canvas import colour, dress, legend, linestyle, new, plain, unit_of
from variations.figures.traces import DRAWN_OF_AVERAGED, mean_filter
from variations.store.atomic import is_number
from variations.system.errors import UserError

# As `models/transformer/weighted.py` records them: side, layer from 0, sub-layer, and which weights.
KEY = re.compile(r"branch/((encoder|decoder)\.(\d+)(?:\.(\w+))?)\.(kappa|alpha)")
Trace = tuple[list[float], list[list[float]]]


def branched(keys: Iterable[str]) -> list[re.Match[str]]:
    """One match of KEY for each branched sub-layer among keys of metrics, encoder first."""
    found = {match[1]: match for key in keys if (match := KEY.fullmatch(key))}
    return sorted(found.values(), key=lambda match: (match[2] != "encoder", int(match[3]), match[4] or ""))


def sublayers(metrics: Sequence[Mapping[str, Any]], part: str = "all", layer: int | None = None) -> list[str]:
    """Branched sub-layers with recorded weights, such as `encoder.1.self`, encoder first.

    Args:
        metrics: Lines of metrics.
        part: `encoder` or `decoder`; anything else means both.
        layer: From 1; None: all.
    """
    order = branched(key for line in metrics for key in line)
    if part in ("encoder", "decoder"):
        order = [match for match in order if match[2] == part]
    return [match[1] for match in order if layer is None or int(match[3]) == layer - 1]


def moved(metrics: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    """Whether any weight of these sub-layers ever changed; constant weights are not drawn."""
    keys = (f"branch/{name}.{letter}" for name in names for letter in ("kappa", "alpha"))
    return any(max(ys) > min(ys) for key in keys for ys in trace(metrics, key)[1])


def branch_weights(
    metrics: Sequence[Mapping[str, Any]], names: Sequence[str], window: int, title: str = "", *, averaged: bool = False
) -> Any:
    """A row of panels for each sub-layer, κ on the left and α on the right, with a line for each branch.

    Args:
        metrics: Lines of metrics of one run, since branches of different seeds do not correspond to each other.
        names: Sub-layers, from `sublayers`.
        window: Number of measurements in the moving average.
        title: The run's name.
        averaged: Whether the run tests a moving average of its weights, and not those that were measured.

    Raises:
        UserError: `names` is empty.
    """
    if not names:
        raise UserError("No branch weights were recorded there: choose another layer or part, or a weighted model.")
    figure, panels = new(8.4, 1.2 + 2.3 * len(names), len(names), 2, sharex=True, sharey=True)
    branches, apart, most, lowest = 0, 0.0, 1, 0.0
    for number, (panel, (name, letter)) in enumerate(
        zip(panels, [(name, letter) for name in names for letter in ("kappa", "alpha")], strict=True)
    ):
        steps, values = trace(metrics, f"branch/{name}.{letter}")
        unit = unit_of("step", max(steps, default=0.0))
        for branch, ys in enumerate(values):
            x = [step / unit.factor for step in steps]
            smooth = mean_filter(ys, window)
            panel.plot(x, smooth, color=colour(branch), linestyle=linestyle(branch), lw=1.4)
            lowest = min(lowest, *smooth)
        if values:
            panel.axhline(sum(v[-1] for v in values) / len(values), color="#999999", lw=0.8, ls=(0, (2, 3)), zorder=0)
        panel.set_title(f"{words(name)}: {'κ' if letter == 'kappa' else 'α'}")
        if number % 2 == 0:
            panel.set_ylabel("weight")
        if number >= 2 * len(names) - 2:
            panel.set_xlabel(unit.name)
        dress(panel)
        branches, most = max(branches, len(values)), max(most, len(steps))
        if len(steps) > 1:
            apart = (steps[-1] - steps[0]) / (len(steps) - 1)
    panels[0].set_ylim(bottom=1.06 * lowest)  # below 0 only with `branch.constraint=none`
    lines = [(f"branch {b + 1}", {"color": colour(b), "ls": linestyle(b), "lw": 1.6}) for b in range(branches)]
    legend(
        figure,
        lines,
        min(8, max(1, branches)),
        _note(min(window, most), apart, averaged=averaged),
        title=plain(title) or None,
    )
    return figure


def trace(metrics: Sequence[Mapping[str, Any]], key: str) -> Trace:
    """Steps, and for each branch its weights at those steps."""
    found = [(line["step"], line[key]) for line in metrics if "step" in line and isinstance(line.get(key), list)]
    found = [(step, values) for step, values in found if all(map(is_number, values))]
    width = min((len(values) for _, values in found), default=0)
    return [step for step, _ in found], [[values[branch] for _, values in found] for branch in range(width)]


def words(name: str) -> str:
    """`encoder.1.self` is "encoder layer 2, self-attention"."""
    stack, layer, *kind = name.split(".")
    return f"{stack} layer {int(layer) + 1}" + (f", {kind[0]}-attention" if kind else "")


def _note(window: int, apart: float, *, averaged: bool) -> str:
    tested = f" The {DRAWN_OF_AVERAGED}" if averaged else ""
    if window <= 1:
        return f"As measured, every {apart:,.0f} steps. Dotted: equal weights.{tested}"
    wide = window if window % 2 else window + 1
    span = f"{wide} measurements, {wide * apart:,.0f} steps"
    return f"Centred moving average over {span}, narrower at both ends. Dotted: equal weights.{tested}"
