"""How much training a row needs to reach the best dev score of its base row, in steps, tokens, seconds and FLOPs.

Ahmed et al. 2017, section 4.1, claim 15 to 40 % fewer iterations; the four columns show whether that is
also less time and less work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from variations.configuration.tasks import named
from variations.figures.canvas import MADE_BY
from variations.figures.traces import COSTS, TracedRow
from variations.store.atomic import is_number
from variations.system.markdown import escaped
from variations.system.rounding import decimal, whole

Costs = dict[str, float]


@dataclass(frozen=True)
class Arrival:
    """One row under one seed."""

    seed: int
    target: float
    """Best dev score of the base row under this seed."""
    base: Costs
    """The cost of the base row when it first measured that score."""
    best: float
    """Best dev score of this row."""
    reached: Costs | None
    """Cost of this row's first measurement that is at least as good; None if there is none."""


@dataclass(frozen=True)
class Convergence:
    """One row compared with its base row."""

    label: str
    base: str
    arrivals: list[Arrival]
    caveats: tuple[str, ...] = ()
    """Of the row."""
    base_caveats: tuple[str, ...] = ()
    averaged: bool = False
    """Whether it or its base row tests a moving average of its weights."""

    @property
    def arrived(self) -> list[Arrival]:
        """Seeds that reached the base row's best."""
        return [item for item in self.arrivals if item.reached is not None]

    def cost(self, key: str) -> float | None:
        """Mean cost over the seeds that arrived."""
        found = [item.reached[key] for item in self.arrived if item.reached and key in item.reached]
        return fmean(found) if found else None

    def change(self, key: str) -> float | None:
        """Mean relative difference from the base row's cost under the same seed: -0.25 is a quarter less."""
        both = [(a.reached, a.base) for a in self.arrived if a.reached and key in a.reached and a.base.get(key)]
        return fmean(ours[key] / theirs[key] - 1 for ours, theirs in both) if both else None


def uncompared(row: TracedRow, metric: str) -> str | None:
    """Why a row is not compared with its base row in a recorded quantity; None if it may be."""
    recorded = named(row.task).curves.get(metric)
    is_score = recorded is not None and recorded.higher_is_better
    if metric == "train/loss" and row.other_objective:
        return row.other_objective
    return row.uncompared or (None if is_score else row.other_losses)


def convergence(rows: Sequence[TracedRow], metric: str) -> list[Convergence]:
    """Every row compared with its base row over common seeds that both have finished; without any it is left out."""
    by_name = {row.name: row for row in rows}
    found = []
    for row in rows:
        base = by_name.get(row.base or "")
        if base is None or uncompared(row, metric):
            continue
        finished = row.results.keys() & base.results.keys()
        seeds = sorted(finished & row.metrics.keys() & base.metrics.keys())
        recorded = named(row.task).curves.get(metric)
        sign = 1 if recorded is not None and recorded.higher_is_better else -1
        arrivals = [_arrival(seed, base.metrics[seed], row.metrics[seed], metric, sign) for seed in seeds]
        kept = [item for item in arrivals if item is not None]
        if kept:
            averaged = row.averaged or base.averaged
            found.append(Convergence(row.label, base.label, kept, row.caveats, base.caveats, averaged))
    return found


def document(found: Sequence[Convergence], metric: str) -> dict[str, Any]:
    """All numbers as one JSON document, unrounded."""
    return {
        "schema": 1,
        "made_by": MADE_BY,
        "metric": metric,
        "rows": [
            {
                "label": item.label,
                "base": item.base,
                "seeds": [asdict(arrival) for arrival in item.arrivals],
                "cost": {key: item.cost(key) for key in COSTS},
                "change": {key: item.change(key) for key in COSTS},
                "caveats": list(item.caveats),
                "base_caveats": list(item.base_caveats),
            }
            for item in found
        ],
    }


def markdown(found: Sequence[Convergence], metric: str) -> str:
    """The table with notes; `metric` is the metric's label."""
    heads = ("row", "target", "row's best", "seeds that reached it", "steps", "tokens", "seconds", "FLOPs")
    lines = [f"# Cost of reaching the base row's best {escaped(metric)}", ""]
    lines += [f"| {' | '.join(heads)} |", "|---|---:|---:|---|---:|---:|---:|---:|"]
    for item in found:
        aim, best = (fmean(values) for values in ([a.target for a in item.arrivals], [a.best for a in item.arrivals]))
        seeds = f"{len(item.arrived)} of {len(item.arrivals)}"
        cells = [escaped(item.label), _level(aim), _level(best), seeds, *(_cost(item, key) for key in COSTS)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {escaped(note)}" for note in notes(found, metric)), "", f"<!-- {MADE_BY} -->"]
    return "\n".join(lines) + "\n"


def _level(value: float) -> str:
    return decimal(value, 2) if abs(value) >= 1 else f"{value:.3g}"


def notes(found: Sequence[Convergence], metric: str) -> list[str]:
    """How to read the table; `metric` is the metric's label."""
    bases = list(dict.fromkeys(item.base for item in found))
    told = {f"{item.base}: {caveat}.": None for item in found for caveat in item.base_caveats}
    told |= {f"{item.label}: {caveat}.": None for item in found for caveat in item.caveats}  # of a chain of rows, once
    if any(item.averaged for item in found):
        told["Scores are those of the current weights, also where their moving average (recipe.ema) is tested."] = None
    named_bases = f"Base row{'s' if len(bases) > 1 else ''}: {'; '.join(bases)}"
    return [
        f"{named_bases}. For each seed, its best {metric} is the target; the cost is that of the row's first "
        "measurement that is at least as good, and the percentage is relative to the base row's cost when it first "
        "measured that score.",
        "Scores are measured at intervals of steps, so a cost is known only to one interval; the best value of a noisy "
        "curve is above its mean, which is a disadvantage to the row.",
        "Target and best are means over seeds, costs are means over the seeds that reached the target.",
        "Times include other work on the machine; FLOPs do not depend on it.",
        *told,
    ]


def _arrival(
    seed: int, base: Sequence[Mapping[str, Any]], row: Sequence[Mapping[str, Any]], metric: str, sign: int
) -> Arrival | None:
    theirs = [line for line in base if is_number(line.get(metric))]
    ours = [line for line in row if is_number(line.get(metric))]
    if not theirs or not ours:
        return None
    best = max(theirs, key=lambda line: sign * line[metric])  # the first of equals
    first = next((line for line in ours if sign * line[metric] >= sign * best[metric]), None)
    top = max(ours, key=lambda line: sign * line[metric])
    return Arrival(seed, best[metric], _costs(best), top[metric], _costs(first) if first is not None else None)


def _costs(line: Mapping[str, Any]) -> Costs:
    return {key: float(line[key]) for key in COSTS if is_number(line.get(key))}


def _cost(item: Convergence, key: str) -> str:
    cost, change = item.cost(key), item.change(key)
    if cost is None:
        return "–"
    number = f"{cost:.3g}" if key == "flops" else whole(cost)
    return number if change is None else f"{number} ({percent(change)})"


def percent(change: float) -> str:
    """`−25 %`, `+3 %`, `±0 %`."""
    rounded = int(decimal(100 * change, 0))
    sign = "−" if rounded < 0 else "+" if rounded > 0 else "±"
    return f"{sign}{abs(rounded)} %"
