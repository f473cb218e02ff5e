"""Learning curves over four costs, and loss against loss (Ahmed et al. 2017, Figure 2)."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from variations.configuration.tasks import named
from variations.figures.canvas import colour, dress, legend, linestyle, new, plain, unit_of
from variations.figures.convergence import uncompared
from variations.figures.traces import COSTS, DRAWN_OF_AVERAGED, Curve, TracedRow, curve
from variations.store.atomic import is_number


def learning_curves(rows: Sequence[TracedRow], metric: str, costs: Sequence[str] = COSTS) -> Any | None:
    """`metric` against one of COSTS, or all that were counted, in as many panels; None if nothing was measured.

    The line is the mean over seeds at the same step, the band is from the lowest to the highest seed. Thin lines
    continue where only some seeds have measurements.
    """
    drawn = ((cost, [curve(row, cost, metric) for row in rows]) for cost in costs)
    found = {cost: curves for cost, curves in drawn if any(curves)}
    if not found:
        return None
    first = next(iter(found.values()))
    lines, columns = {1: (1, 1), 2: (1, 2), 3: (1, 3), 4: (2, 2)}[len(found)]
    figure, panels = new(5.2, 3.8) if len(found) == 1 else new(4.6 * columns, 3.1 * lines, lines, columns, sharey=True)
    for panel, (cost, curves) in zip(panels, found.items(), strict=True):
        unit = unit_of(cost, max((x for item in curves if item for x in _all_x(item)), default=0.0))
        for number, item in enumerate(curves):
            if item is not None:
                _draw(panel, item, number, unit.factor)
        caveat = " (other work on the machine included)" if cost == "seconds" else ""
        panel.set(xlabel=f"{unit.name}{caveat}")
        panel.set_xlim(left=0)
        dress(panel)
    for panel in panels[::columns]:
        panel.set_ylabel(rows[0].label_of(metric))
    recorded = named(rows[0].task).curves.get(metric)
    if recorded is not None and recorded.logarithmic:
        panels[0].set_yscale("log")
        _plain_ticks([panel.yaxis for panel in panels])
    labels = [(number, row.label) for number, row in enumerate(rows) if first[number]]
    seeds = max(item.seeds for item in first if item)
    told = [*_unfinished(rows), *_averaged([row for number, row in enumerate(rows) if first[number]]), *_unlike(rows)]
    _legend(
        figure,
        labels,
        " ".join([_band_words(seeds), *told, *_apart(rows, metric)]),
    )
    return figure


def loss_against_loss(rows: Sequence[TracedRow], skip: float) -> Any | None:
    """Dev loss against training loss during training, with the test loss at the end if it was measured.

    Args:
        rows: The base row and other rows.
        skip: Fraction of each run's steps that is left out at the start, where both losses are large.
    """
    figure, panels = new(6.4, 5.6)
    panel, drawn = panels[0], []
    dev = named(rows[0].task).monitor
    loss = dev.rpartition("/")[2]
    train = f"train/{loss}"
    for number, row in enumerate(rows):
        item = curve(_without_start(row, skip), train, dev)
        if item is None:
            continue
        drawn.append((number, row.label))
        _draw(panel, item, number, 1.0, band=False)
        ends = [(xs[-1], ys[-1]) for xs, ys in item.tails] or [(item.x[-1], item.y[-1])]
        panel.plot(*zip(*ends, strict=True), marker="o", ms=5, color=colour(number), lw=0)
        tested = _tested(row, loss)
        if tested is not None:
            panel.plot(*tested, marker="D", ms=8, mfc="none", color=colour(number), lw=0)
    if not drawn:
        return None
    labels = {"xlabel": f"{rows[0].label_of(train)} (in training mode)", "ylabel": rows[0].label_of(dev)}
    panel.set(**labels, xscale="log", yscale="log")
    _plain_ticks([panel.xaxis, panel.yaxis])
    _diagonal(panel)
    dress(panel)
    note = f"Training runs from right to left; its first {100 * skip:.0f} % of steps are left out. Both axes are "
    note += "logarithmic.\n● dev loss at the end of training, ◇ test loss of the tested weights"
    _legend(figure, drawn, "\n".join([note, *_unlike(rows), *_apart(rows, dev)]))
    return figure


def _tested(row: TracedRow, loss: str) -> tuple[list[float], list[float]] | None:
    """Mean over finished seeds of the last training loss and of the test loss."""
    found = []
    for seed, result in row.results.items():
        test = (result.get("loss") or {}).get(f"test_{loss}")
        key = f"train/{loss}"
        train = [line[key] for line in row.metrics.get(seed, []) if is_number(line.get(key))]
        if train and isinstance(test, int | float):
            found.append((train[-1], float(test)))
    return ([fmean(x for x, _ in found)], [fmean(y for _, y in found)]) if found else None


def _diagonal(panel: Any) -> None:
    (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
    low, high = max(left, bottom), min(right, top)
    if low < high:
        panel.plot([low, high], [low, high], color="#999999", lw=0.8, ls=(0, (4, 4)), zorder=0, label="equal")
        place = {"xytext": (-14, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
        panel.annotate("equal losses", (high, high), color="#777777", fontsize=8, **place)
    panel.set(xlim=(left, right), ylim=(bottom, top))


def _without_start(row: TracedRow, skip: float) -> TracedRow:
    metrics = {}
    for seed, lines in row.metrics.items():
        last = max((line["step"] for line in lines if is_number(line.get("step"))), default=0)
        metrics[seed] = [line for line in lines if is_number(line.get("step")) and line["step"] >= skip * last]
    return replace(row, metrics=metrics)


def _draw(panel: Any, item: Curve, number: int, factor: float, *, band: bool = True) -> None:
    x = [value / factor for value in item.x]
    look = {"color": colour(number), "linestyle": linestyle(number)}
    panel.plot(x, item.y, lw=1.8, marker="o" if len(x) == 1 else None, ms=4, **look)
    if band and item.seeds > 1:
        panel.fill_between(x, item.low, item.high, color=colour(number), alpha=0.18, lw=0)
    for xs, ys in item.tails:
        panel.plot([value / factor for value in xs], ys, lw=0.8, **look)


def _all_x(item: Curve) -> list[float]:
    return [*item.x, *(value for xs, _ in item.tails for value in xs)]


def _band_words(seeds: int) -> str:
    if seeds == 1:
        return "One seed per row."
    return f"Line: mean over up to {seeds} seeds at the same step; band: lowest to highest seed."


def _unfinished(rows: Sequence[TracedRow]) -> list[str]:
    open_ = [row.label for row in rows if row.metrics.keys() - row.results.keys()]
    return [f"Not finished: {'; '.join(map(plain, open_))}."] if open_ else []


def _averaged(rows: Sequence[TracedRow]) -> list[str]:
    labels = [plain(row.label) for row in rows if row.averaged]
    if not labels:
        return []
    of = f"Of {'; '.join(labels)}, the" if len(labels) < len(rows) else "The"
    return [f"{of} {DRAWN_OF_AVERAGED}"]


def _unlike(rows: Sequence[TracedRow]) -> list[str]:
    found = [row.label for row in rows if row.mixed]
    return (
        [f"Seeds that were not trained or validated alike: those of {'; '.join(map(plain, found))}."] if found else []
    )


def _apart(rows: Sequence[TracedRow], metric: str) -> list[str]:
    apart = [row.label for row in rows if uncompared(row, metric)]
    return [f"Not comparable with the base row: {'; '.join(map(plain, apart))}."] if apart else []


def _plain_ticks(axes: Sequence[Any]) -> None:
    """Use ticks at 1, 2, 5, 10 instead of powers of ten on logarithmic axes; more within less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = sorted(axis.get_view_interval())
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 5, 7), numticks=20))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _legend(figure: Any, labels: Sequence[tuple[int, str]], note: str) -> None:
    lines = [(plain(label), {"color": colour(n), "ls": linestyle(n), "lw": 1.8}) for n, label in labels]
    widest = max(len(name) for name, _ in lines)
    legend(figure, lines, max(1, min(len(lines), int(figure.get_figwidth() * 13 // (widest + 7)))), note)
