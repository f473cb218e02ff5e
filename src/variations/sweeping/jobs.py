"""A multirun as a list of runs: a table's rows × seeds (`sweep=NAME`), or a plain grid of overrides."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from variations.configuration import doors
from variations.configuration.compose import loader
from variations.configuration.faults import check
from variations.configuration.rules import Fault
from variations.configuration.suggestions import listed_rows
from variations.configuration.tasks import named
from variations.sweeping.grid_jobs import by_key, grid_jobs
from variations.sweeping.job import Job
from variations.sweeping.table_jobs import table_jobs
from variations.system.errors import ConfigError


def expand(arguments: Sequence[str]) -> list[Job]:
    """Return the jobs of a multirun in the order to run them, every one composed and checked.

    Args:
        arguments: What the user typed after `--multirun`; Hydra's own overrides are ignored.

    Raises:
        ConfigError: All faults of all jobs.
    """
    jobs = list(composed_jobs(tuple(arguments)))
    if found := row_faults({job.row: job.config for job in jobs}):
        raise ConfigError(found)
    return jobs


def composed_jobs(arguments: tuple[str, ...]) -> tuple[Job, ...]:
    """As `expand`, without checking each job's values; the last results are cached.

    Raises:
        ConfigError: The jobs cannot be composed, or there is none.
    """
    return _composed_jobs(arguments, doors.given())


@lru_cache(maxsize=2)
def _composed_jobs(arguments: tuple[str, ...], _: Path | None) -> tuple[Job, ...]:
    given = by_key(arguments, loader())
    jobs = (table_jobs if "sweep" in given else grid_jobs)(given)
    if not jobs:
        raise ConfigError(["this multirun is empty: no row and no seed is left to run."])
    return tuple(jobs)


def row_faults(configs: Mapping[str, Any], doubts: Callable[[Sequence[str]], bool] = lambda keys: False) -> list[str]:
    """Return the faults of all rows, each once and with its rows, except those that depend on doubtful keys."""
    rows_by_fault: dict[str, list[str]] = {}
    for row, config in configs.items():
        for fault in [*check(config), *_metric_faults(config)]:
            if not doubts(fault.keys):
                rows_by_fault.setdefault(fault.text, []).append(row)
    found = [f if len(rows) == len(configs) else f"{listed_rows(rows)}: {f}" for f, rows in rows_by_fault.items()]
    return [*found, *([] if doubts(["variation.reuse"]) else _circles_of_weights(configs))]


def _circles_of_weights(configs: Mapping[str, Any]) -> list[str]:
    """Rows that test their own or each other's weights (`variation.reuse`), which would wait for ever."""
    sources = {row: str(config.variation.reuse) for row, config in configs.items() if config.sweep.reuse}
    found: dict[frozenset[str], str] = {}
    for row in sources:
        circle = [row]
        while (source := sources[circle[-1]]) in sources and source not in circle:
            circle.append(source)
        if source == row:
            several = len(circle) > 1
            whose, file = ("each other's", "the file of one of them") if several else ("its own", "its file")
            advice = f"remove `reuse` from {file}, or leave out variation.reuse, if you typed it"
            fault = f"{listed_rows(circle)}: variation.reuse: would test {whose} weights: {advice}."
            found.setdefault(frozenset(circle), fault)
    return list(found.values())


def by_task(jobs: Sequence[Job], look: Callable[[Any, list[Any]], list[Fault]]) -> list[Fault]:
    """What `look` finds in the runs of each task."""
    names = dict.fromkeys(job.config.task for job in jobs)
    return [f for name in names for f in look(named(name), [j.config for j in jobs if j.config.task == name])]


def _metric_faults(config: Any) -> list[Fault]:
    metric, task = config.sweep.metric, named(config.task)
    if unknown := task.metric_fault(metric):
        return [Fault(("sweep.metric",), f"sweep.metric: {unknown}")]
    found = task.unmeasured([task.primary(metric).key], config)
    return [
        Fault(("sweep.metric", "decode.sets"), f"sweep.metric={metric}: {text}, or choose another sweep.metric.")
        for text in found
    ]
