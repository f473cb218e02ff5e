"""What a search optimises: numbers of `result.json`, each with its direction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from variations.config import SearchConfig
from variations.tasks.translation.measures import Measure, unknown_measure, unmeasured

COSTS = ("parameters", "flops", "seconds", "decoding_seconds")
"""Top-level numbers of result.json: fewer is better."""
DIRECTIONS = ("maximize", "minimize")


@dataclass(frozen=True)
class Objective:
    """One number of a finished run."""

    key: str
    """`dev.bleu`, `dev_ppl`, `parameters`, …"""
    direction: str

    def of(self, result: Mapping[str, Any]) -> float | None:
        """The number in a run's result; None if the run did not measure it."""
        if self.key in COSTS:
            value = result.get(self.key)
            return float(value) if isinstance(value, int | float) else None
        return Measure(self.key).value(result)

    def mean(self, results: Sequence[Mapping[str, Any]]) -> float | None:
        """Mean over a trial's seeds; None if one of them has no value."""
        values = [self.of(result) for result in results]
        known = [value for value in values if value is not None]
        return fmean(known) if known and len(known) == len(values) else None

    @property
    def label(self) -> str:
        """For people."""
        return self.key if self.key in COSTS else Measure(self.key).label


def default_direction(key: str) -> str:
    """Scores up, losses and costs down."""
    return "maximize" if key not in COSTS and Measure(key).higher_is_better else "minimize"


def objective_faults(settings: SearchConfig) -> tuple[list[Objective], list[str]]:
    """The objectives of a search, and what is wrong with them."""
    found = []
    if not settings.metrics:
        found.append("search.metrics is empty: name what to optimise, as in metrics: [dev.bleu].")
    for key in settings.metrics:
        if fault := unknown_measure("search.metrics", key, COSTS):
            found.append(fault)
    if len(set(settings.metrics)) < len(settings.metrics):
        found.append("search.metrics names one metric twice.")
    directions = settings.directions
    if directions and len(directions) != len(settings.metrics):
        found.append(f"search.directions has {len(directions)} entries for {len(settings.metrics)} metrics.")
    for direction in directions:
        if direction not in DIRECTIONS:
            found.append(f"search.directions: '{direction}': valid choices are {', '.join(DIRECTIONS)}.")
    if found:
        return [], found
    ways = directions or [default_direction(key) for key in settings.metrics]
    return [Objective(key, way) for key, way in zip(settings.metrics, ways, strict=True)], []


def set_faults(objectives: Sequence[Objective], sets: Sequence[str]) -> list[str]:
    """Metrics of sets that a run does not translate."""
    return unmeasured("search.metrics", [o.key for o in objectives], sets, " to the sweep's overrides")
