"""Runs side by side: differences in configuration, environment, scores and translations."""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from variations.configuration.schema import SweepConfig
from variations.configuration.tasks import task_of
from variations.dashboard.payload import runs as payload
from variations.dashboard.runs import flat
from variations.dashboard.store import Store, Summary
from variations.dashboard.walk import Found
from variations.store.atomic import is_number
from variations.store.hidden import clean
from variations.store.identity import covered, is_incidental
from variations.system.errors import DataError, UserError
from variations.tables.departures import of_run
from variations.tables.significance import Items, paired_bootstrap
from variations.tasks.base import Measure, TestedRun
from variations.tasks.task import Task

MOST = 20
"""Number of sentences shown."""
SILENT = ("variation", "trainer.progress")
UNTOLD = ("schema", "time", "git.diff_cut_characters")
DRAWS, LEVEL = 1000, 0.95


def compare(store: Store, runs: Sequence[Found]) -> payload.Compare:
    """Two or more runs; the others are compared with the first."""
    known = [store.summary(run) for run in runs]
    notes = [f"{run.id} cannot be read: {clean(one.fault)}" for run, one in zip(runs, known, strict=True) if one.fault]
    notes += [f"{run.id}: {text}" for run, one in zip(runs, known, strict=True) for text in _departures(run, one)]
    task = task_of(known[0].config)
    sentences, more = _sentences(store, runs, task)
    tested = [TestedRun(run.folder, one.config, one.result) for run, one in zip(runs, known, strict=True)]
    scores = _scores(store, tested, task)
    configs = [flat(one.config) for one in known]
    labels = [
        str((one.config.get("variation") or {}).get("label") or run.row) for run, one in zip(runs, known, strict=True)
    ]
    return {
        "runs": [
            {"id": run.id, "label": label, "row": run.row, "seed": run.folder.seed, "state": run.state}
            for run, label in zip(runs, labels, strict=True)
        ],
        "config": [
            item
            for item in _settings(configs)
            if not is_incidental(item["key"], configs[0]) and not covered(item["key"], SILENT)
        ],
        "environment": [
            item for item in _settings([_environment(run) for run in runs]) if not covered(item["key"], UNTOLD)
        ],
        "scores": scores,
        "sentences": sentences,
        "sentence_score": task.nearness,
        "notes": [*notes, *more],
    }


def _departures(run: Found, known: Summary) -> list[str]:
    return of_run(known.config, known.result) if run.state == "finished" and not known.fault else []


def _settings(documents: Sequence[dict[str, Any]]) -> list[payload.Setting]:
    keys = dict.fromkeys(key for document in documents for key in document)
    values = {key: [document.get(key) for document in documents] for key in keys}
    return [{"key": key, "values": found} for key, found in values.items() if any(item != found[0] for item in found)]


def _environment(run: Found) -> dict[str, Any]:
    try:
        found = flat(run.folder.environment() or {})
    except UserError:
        return {}
    if diff := found.get("git.diff"):  # too long to be shown side by side
        digest = hashlib.sha256(str(diff).encode()).hexdigest()[:8]
        found["git.diff"] = f"{len(str(diff).splitlines())} lines ({digest})"
    return found


# Scores ---------------------------------------------------------------------------------------------------------------


def _scores(store: Store, runs: Sequence[TestedRun], task: Task) -> list[payload.Score]:
    """All scores and losses that any of the runs has, as defined by the task of the first."""
    results = [run.result for run in runs]
    keys: dict[tuple[str, str], None] = {}
    for result in results:
        keys |= dict.fromkeys(
            (part, name) for part, found in _mapping(result, "scores").items() for name in _mapping(found)
        )
    found = []
    metrics = {str((run.config.get("sweep") or {}).get("metric") or SweepConfig().metric) for run in runs}
    tested = {task.metric(metric).key.partition(".")[2] for metric in metrics}
    for part, name in sorted(keys, key=lambda key: key[0] != "test"):
        measure = task.measure(f"{part}.{name}")
        tests = _tests(store, runs, task, measure) if name in tested else [None] * len(runs)
        found.append(_score(measure, name, [measure.value(result) for result in results], tests))
    for key in dict.fromkeys(key for result in results for key in _mapping(result, "loss")):
        measure = task.measure(key)
        values = [_number(_mapping(result, "loss").get(key)) for result in results]
        found.append(_score(measure, key.removeprefix(f"{measure.set}_"), values, [None] * len(runs)))
    return found


Test = tuple[float, float, float]
"""Lower and upper end of the interval, and p."""


def _score(measure: Measure, name: str, values: Sequence[float | None], tests: Sequence[Test | None]) -> payload.Score:
    base = values[0]
    differences = [None if value is None or base is None else value - base for value in values[1:]]
    return {
        "set": measure.set,
        "name": name,
        "label": measure.label,
        "values": list(values),
        "difference": [None, *differences],
        "ci": [[test[0], test[1]] if test else None for test in tests],
        "p": [test[2] if test else None for test in tests],
        "higher_is_better": measure.higher_is_better,
        "digits": measure.digits,
    }


def _tests(store: Store, runs: Sequence[TestedRun], task: Task, measure: Measure) -> list[Test | None]:
    """Paired bootstrap over items of each run against the first; None without stored items."""
    items = [_items(store, run, task, measure) for run in runs]
    judged_by = [task.references(run.folder, measure.set) for run in runs]
    tests: list[Test | None] = [None]
    for ours, references in zip(items[1:], judged_by[1:], strict=True):
        if ours is None or items[0] is None or references != judged_by[0]:
            tests.append(None)
            continue
        found = paired_bootstrap(ours, items[0], partial(task.aggregate, measure), n=DRAWS, level=LEVEL)
        tests.append((found.low, found.high, found.p))
    return tests


def _items(store: Store, run: TestedRun, task: Task, measure: Measure) -> Items | None:
    if not measure.items or not all(store.inside(path) for path in run.folder.hypotheses.glob(f"{measure.set}.*")):
        return None
    try:
        return task.items(run, measure)
    except (DataError, KeyError, ValueError):
        return None


def _mapping(document: Any, key: str | None = None) -> dict[str, Any]:
    found = document.get(key) if key is not None and isinstance(document, dict) else document
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


# Sentences ------------------------------------------------------------------------------------------------------------


def _sentences(store: Store, runs: Sequence[Found], task: Task) -> tuple[list[payload.Sentence], list[str]]:
    """The sentences of the test set on which the runs differ most, and what could not be compared."""
    texts = [store.outputs(run, "test") for run in runs]
    notes = [f"{run.id} has no stored outputs." for run, items in zip(runs, texts, strict=True) if not items]
    if not texts[0] or sum(bool(items) for items in texts) < 2:
        return [], notes
    sources, references, _ = zip(*texts[0], strict=True)
    outputs: dict[int, list[str]] = {}
    for i, items in enumerate(texts):
        if items and tuple(reference for _, reference, _ in items) == references:
            outputs[i] = [output for _, _, output in items]
        elif items:
            notes.append(f"{runs[i].id} was tested with other references than {runs[0].id}: no sentences are shown.")
    differing = [n for n, first in enumerate(outputs[0]) if any(output[n] != first for output in outputs.values())]
    near = {i: task.near([own[n] for n in differing], [references[n] for n in differing]) for i, own in outputs.items()}
    gaps = [
        max((scores[k] - near[0][k] for i, scores in near.items() if i), key=abs, default=0.0)
        for k in range(len(differing))
    ]
    order = sorted(range(len(differing)), key=lambda k: (-abs(gaps[k]), differing[k]))[:MOST]
    return [
        {
            "index": differing[k],
            "source": sources[differing[k]],
            "reference": references[differing[k]],
            "hypotheses": [outputs[i][differing[k]] if i in outputs else None for i in range(len(runs))],
            "scores": [round(near[i][k], 2) if i in near else None for i in range(len(runs))],
            "difference": round(gaps[k], 2),
        }
        for k in order
    ], notes
