"""What makes results of a row's runs not those of their configuration's whole training, with the seeds concerned."""

from collections.abc import Sequence

from variations.store.departures import of_run
from variations.store.inputs import LOST
from variations.tables.collect import SeedRun


def departures(runs: Sequence[SeedRun]) -> list[str]:
    """One sentence for each reason among the finished `runs`, with the seeds that it concerns unless all are alike."""
    finished = [run for run in runs if run.finished]
    seeds: dict[str, list[int]] = {}
    for run in finished:
        for text in [*of_run(run.config, run.result), *_lost(run)]:
            seeds.setdefault(text, []).append(run.seed)
    return [text if len(found) == len(finished) else f"{text} ({seeds_named(found)})" for text, found in seeds.items()]


def _lost(run: SeedRun) -> list[str]:
    """Without its measurements, nobody can tell whether a run that trained a network was still improving at its end;
    without its environment, on what it was trained."""
    found = [] if run.measured or run.result.get("reused") else ["its measurements (metrics.jsonl)"]
    found += [f"the names of its inputs ({LOST})"] if LOST in run.inputs else []
    return [f"{what} are lost, damaged or not readable" for what in found]


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 1`, or `seeds 1, 3`."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
