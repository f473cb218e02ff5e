"""The objectives of a search: numbers of `result.json`, each with its direction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from variations.configuration.schema import SearchConfig
from variations.tasks.base import Measure
from variations.tasks.task import Task

COSTS = ("parameters", "flops", "seconds", "decoding_seconds")
"""Top-level numbers of result.json; lower is better."""
DIRECTIONS = ("maximize", "minimize")


@dataclass(frozen=True)
class Objective:
    """One number of a finished run."""

    measure: Measure
    direction: str

    @property
    def key(self) -> str:
        """`dev.bleu`, `dev_ppl`, `parameters`, …"""
        return self.measure.key

    def mean(self, results: Sequence[Mapping[str, Any]]) -> float | None:
        """Mean over a trial's seeds; None if one of them has no value."""
        values = [self.measure.value(result) for result in results]
        known = [value for value in values if value is not None]
        return fmean(known) if known and len(known) == len(values) else None


def objective(task: Task, key: str, direction: str | None = None) -> Objective:
    """The objective of a key; by default, scores are maximised, losses and costs minimised."""
    measure = Measure(key, key, higher_is_better=False) if key in COSTS else task.measure(key)
    return Objective(measure, direction or ("maximize" if measure.higher_is_better else "minimize"))


def objective_faults(settings: SearchConfig, task: Task) -> tuple[list[Objective], list[str]]:
    """The objectives of a search, and their faults."""
    found = []
    if not settings.metrics:
        found.append(f"sweep.search.metrics is empty: name what to optimise, as in metrics: [{task.metrics[0]}].")
    for key in settings.metrics:
        if fault := task.unknown_metric(key, COSTS):
            found.append(f"sweep.search.metrics: {fault}")
    if len(set(settings.metrics)) < len(settings.metrics):
        found.append("sweep.search.metrics has a duplicate: name each metric only once.")
    directions = settings.directions
    if directions and len(directions) != len(settings.metrics):
        found.append(f"sweep.search.directions has {len(directions)} entries for {len(settings.metrics)} metrics.")
    for direction in directions:
        if direction not in DIRECTIONS:
            found.append(f"sweep.search.directions: '{direction}': valid choices are {', '.join(DIRECTIONS)}.")
    if found:
        return [], found
    ways: Sequence[str | None] = directions or [None] * len(settings.metrics)
    return [objective(task, key, way) for key, way in zip(settings.metrics, ways, strict=True)], []


def unmeasured_faults(objectives: Sequence[Objective], config: Any, task: Task) -> list[str]:
    """Metrics that a run of this configuration does not measure."""
    texts = task.unmeasured([objective.key for objective in objectives], config)
    return [f"sweep.search.metrics: {text}, or in a sweep's file to its overrides." for text in texts]
