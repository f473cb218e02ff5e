"""What makes the result of a run not that of its configuration's whole training; said in the same words everywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from variations.store.inputs import LOST
from variations.tables.collect import SeedRun

STOPPED_BY = {"max_minutes": "trainer.max_minutes", "callback": "a callback"}
"""What ended a training, by `stopped` in result.json."""


def departures(runs: Sequence[SeedRun]) -> list[str]:
    """One sentence for each reason among the finished `runs`, with the seeds that it concerns unless all are alike."""
    finished = [run for run in runs if run.finished]
    seeds: dict[str, list[int]] = {}
    for run in finished:
        for text in [*of_run(run.config, run.result), *_lost(run)]:
            seeds.setdefault(text, []).append(run.seed)
    return [text if len(found) == len(finished) else f"{text} ({seeds_named(found)})" for text, found in seeds.items()]


def _lost_weights(config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """Fewer weights were averaged than the recipe says: some were lost, or not stored before the plan was changed."""
    planned, averaged = (config.get("recipe") or {}).get("average"), result.get("averaged_steps")
    steps = result.get("steps")
    if not (isinstance(planned, int) and isinstance(averaged, list) and isinstance(steps, int)):
        return None
    planned = min(planned, steps)
    if len(averaged) >= planned:
        return None
    return f"the weights of only {len(averaged)} of {planned} steps were averaged: the others are not stored"


def _lost(run: SeedRun) -> list[str]:
    """Without its measurements, nobody can tell whether a run that trained a network was still improving at its end;
    without its environment, on what it was trained."""
    found = [] if run.measured or run.result.get("reused") else ["its measurements (metrics.jsonl)"]
    found += [f"the names of its inputs ({LOST})"] if LOST in run.inputs else []
    return [f"{what} are lost, damaged or not readable" for what in found]


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 1`, or `seeds 1, 3`."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def of_run(config: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """The same for one finished run: a quick check, a changed configuration, or a training that ended early."""
    found = []
    if name := (config.get("debug") or {}).get("name"):
        found.append(f"debug={name}: a quick check, not a result")
    if changed := result.get("changed"):
        found.append(f"not the result of one configuration (resume.allow): {', '.join(map(str, changed))}")
    if stopped := result.get("stopped"):
        steps, planned = result.get("steps"), (config.get("trainer") or {}).get("max_steps")
        extent = f" at step {steps:,} of {planned:,}" if isinstance(steps, int) and isinstance(planned, int) else ""
        found.append(f"training was ended{extent} by {STOPPED_BY.get(str(stopped), stopped)}")
    elif lost := _lost_weights(config, result):
        found.append(lost)
    return found
