"""Runs side by side: differences in configuration, environment, scores and translations."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from variations.configuration.schema import SweepConfig
from variations.configuration.tasks import task_of
from variations.dashboard.payload import runs as payload
from variations.dashboard.runs import flat
from variations.dashboard.store import Store, Summary
from variations.dashboard.walk import Found
from variations.store.departures import of_run
from variations.store.hidden import clean
from variations.store.identity import covered, is_incidental
from variations.store.inputs import LOST, made_from, other_texts
from variations.store.row_files import label_of
from variations.store.rows import natural
from variations.system.errors import UserError
from variations.tables.alike import listed, other_scale, unversioned
from variations.tables.collect import absent_task
from variations.tables.resampling import Items, UndefinedError
from variations.tables.significance import paired_bootstrap, refuse_constant
from variations.tasks.base import Measure, TestedRun
from variations.tasks.intact import contradiction, stored_items
from variations.tasks.task import Task, loss_scale

MOST = 20
"""Number of sentences shown."""
SILENT = ("variation", "trainer.progress")
UNTOLD = ("schema", "time", "command", "git.diff_cut_characters")
DRAWS, LEVEL = 1000, 0.95
RESTARTED = (
    "Each run reports one of its restarts. The intervals here do not cover the chance between restarts; those of the "
    "table do, and are wider."
)
Test = tuple[float, float, float]
"""Lower and upper end of the interval, and p."""


def compare(store: Store, runs: Sequence[Found]) -> payload.Compare:
    """Two or more runs; the others are compared with the first."""
    known = [_present(store.summary(run)) for run in runs]
    notes = [f"{run.id} cannot be read: {clean(one.fault)}" for run, one in zip(runs, known, strict=True) if one.fault]
    notes += [f"{run.id}: {text}" for run, one in zip(runs, known, strict=True) for text in _departures(run, one)]
    task = task_of(known[0].config)
    sentences, more = _sentences(store, runs, task)
    same = [task_of(one.config).name == task.name for one in known]
    others = [run.id for run, alike in zip(runs, same, strict=True) if not alike]
    notes += [f"{name} has another task than {runs[0].id}: its scores are not shown." for name in others]
    if any((one.result.get("restarts") or 1) > 1 for one, alike in zip(known, same, strict=True) if alike):
        notes.append(RESTARTED)
    tested = [
        TestedRun(run.folder, one.config, one.result if alike else {}, partial(store.curve, run))
        for run, one, alike in zip(runs, known, same, strict=True)
    ]
    pairs = _Pairs(store, [run.id for run in runs], tested, task)
    scores = _scores(pairs)
    configs = [flat(one.config) for one in known]
    labels = [label_of(one.config, run.row) for run, one in zip(runs, known, strict=True)]
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
        "notes": [*notes, *more, *pairs.notes],
    }


def _present(known: Summary) -> Summary:
    """A run's summary; without contents if nobody here has its task."""
    absent = absent_task(known.config)
    return known if absent is None else replace(known, config={}, result={}, fault=absent)


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
    # Not only data: the code of the user's own classes is among them.
    return {f"inputs.{key.removeprefix('data.')}" if key.startswith("data.") else key: found[key] for key in found}


# Scores ---------------------------------------------------------------------------------------------------------------


class _Pairs:
    """Compares runs with the first one, and notes why some cannot be compared in some measures."""

    def __init__(self, store: Store, names: Sequence[str], runs: Sequence[TestedRun], task: Task) -> None:
        self.store, self.names, self.runs, self.task = store, names, runs, task
        self.inputs = [made_from(run.folder) for run in runs]
        self.untrained = [task.untrained([run]) for run in runs]
        self.items: dict[tuple[int, str], Items | None] = {}
        """By run and tested measure."""
        self.wrong: set[tuple[int, str]] = set()
        """Runs, and sets whose stored texts are not those that were scored."""
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Tell a reason, once."""
        if text not in self.notes:
            self.notes.append(text)

    def read(self, measure: Measure) -> None:
        """Read the items of a measure, to test it, and note if a score is not theirs."""
        for at in range(len(self.runs)):
            found = self.items[at, measure.key] = self._items(at, measure)
            if found is not None and self._contradicted(at, measure, found):
                self.wrong.add((at, measure.set))

    def score(self, measure: Measure, name: str, *, of_texts: bool = True) -> payload.Score:
        """One score of all runs, after `read` of what is tested; `of_texts`: it was computed from their outputs."""
        values = [measure.value(run.result) for run in self.runs]
        items = [self.items.get((at, measure.key)) for at in range(len(self.runs))]
        wrong = [of_texts and (at, measure.set) in self.wrong for at in range(len(self.runs))]
        fit = [self._comparable(at, measure) and not wrong[0] and not wrong[at] for at in range(len(self.runs))]
        tests = [
            self._test(measure, items[at], items[0])
            if at and fit[at] and not (self.untrained[0] or self.untrained[at])
            else None
            for at in range(len(self.runs))
        ]
        differences = [
            None if value is None or values[0] is None or not (at and fit[at]) else value - values[0]
            for at, value in enumerate(values)
        ]
        return {
            "set": measure.set,
            "name": name,
            "label": measure.label,
            "values": values,
            "difference": differences,
            "ci": [[test[0], test[1]] if test else None for test in tests],
            "p": [test[2] if test else None for test in tests],
            "items": measure.items or None,
            "higher_is_better": measure.higher_is_better,
            "digits": measure.digits,
        }

    def _comparable(self, at: int, measure: Measure) -> bool:
        """Whether a run can be compared with the first one in a measure; if not, the reason is noted."""
        if not at or any(measure.value(self.runs[k].result) is None for k in (0, at)):
            return True
        why = (
            self._other(self.runs[0], self.runs[at], measure) or self._other_texts(at) or self._other_loss(at, measure)
        )
        if why:
            self.note(f"{self.names[at]} is not compared with {self.names[0]}: {why}.")
        return why is None

    def _other(self, first: TestedRun, run: TestedRun, measure: Measure) -> str | None:
        theirs, ours = self.task.data_name(first.config), self.task.data_name(run.config)
        if ours != theirs:
            return f"measured on {ours}, the other on {theirs}"
        told = [measure.told_convention(each.result) for each in (first, run)]
        if len({unversioned(text) for text in told if text}) > 1:
            return f"its {measure.label} follows another convention"
        judged = [self.task.references(each.folder, measure.set) for each in (first, run)]
        if all(judged) and judged[0] != judged[1]:
            return f"it has other {measure.set} references"
        return None

    def _other_loss(self, at: int, measure: Measure) -> str | None:
        scales = [
            loss_scale(self.task, measure, self.runs[k].config, self.runs[k].result, self.inputs[k]) for k in (0, at)
        ]
        found = other_scale(*scales)
        return f"{measure.label} depends on {found}, which differs" if found else None

    def _other_texts(self, at: int) -> str | None:
        names = other_texts(self.inputs[0], self.inputs[at], self.runs[0].config, self.runs[at].config)
        if LOST in names:
            return f"{LOST} of one of them is lost or damaged, so it is unknown whether their texts are the same"
        return f"its inputs differ ({listed(names)})" if names else None

    def _items(self, at: int, measure: Measure) -> Items | None:
        """The stored items of a run; None if there are none."""
        run = self.runs[at]
        inside = all(self.store.inside(path) for path in run.folder.hypotheses.glob(f"{measure.set}.*"))
        if not measure.items or not inside or measure.value(run.result) is None:
            return None
        items = stored_items(self.task, run, measure, cache=True)
        return None if isinstance(items, str) else items

    def _contradicted(self, at: int, measure: Measure, items: Items) -> bool:
        """Whether the score of a run is not that of its items, which is noted."""
        found = contradiction(self.runs[at], measure, float(self.task.aggregate(measure, items.sum(0))))
        if found:
            self.note(f"{self.names[at]}: {found}.")
        return found is not None

    def _test(self, measure: Measure, ours: Items | None, base: Items | None) -> Test | None:
        """Paired bootstrap over items; None without stored items, or if the runs have others."""
        if ours is None or base is None or ours.shape != base.shape:
            return None
        try:
            found = paired_bootstrap(ours, base, partial(self.task.aggregate, measure), n=DRAWS, level=LEVEL)
            refuse_constant(found)
        except UndefinedError:
            return None
        return found.low, found.high, found.p


def _scores(pairs: _Pairs) -> list[payload.Score]:
    """All scores and losses that any of the runs has, as defined by the task of the first."""
    runs, task = pairs.runs, pairs.task
    for name, why in zip(pairs.names, pairs.untrained, strict=True):
        if why:
            pairs.note(
                f"{name} by itself is not trained: {why}. Its differences are not tested. "
                "The table judges the seeds of a row together."
            )
    results = [run.result for run in runs]
    keys: dict[tuple[str, str], None] = {}
    for result in results:
        keys |= dict.fromkeys(
            (part, name) for part, found in _mapping(result, "scores").items() for name in _mapping(found)
        )
    metrics = {str((run.config.get("sweep") or {}).get("metric") or SweepConfig().metric) for run in runs}
    known = [metric for metric in metrics if task.unknown_metric(metric) is None]  # others are of another task
    tested = {task.metric(metric).key.partition(".")[2] for metric in known}
    scored = [(task.measure(f"{part}.{name}"), name) for part, name in sorted(keys, key=_first_test)]
    for measure in (measure for measure, name in scored if name in tested):
        pairs.read(measure)
    found = [pairs.score(measure, name) for measure, name in scored]
    for key in dict.fromkeys(key for result in results for key in _mapping(result, "loss")):
        measure = task.measure(key)
        found.append(pairs.score(measure, key.removeprefix(f"{measure.set}_"), of_texts=False))
    return found


def _first_test(key: tuple[str, str]) -> tuple[bool, Any]:
    return key[0] != "test", natural(key[1])


def _mapping(document: Any, key: str | None = None) -> dict[str, Any]:
    found = document.get(key) if key is not None and isinstance(document, dict) else document
    return found if isinstance(found, dict) else {}


# Sentences ------------------------------------------------------------------------------------------------------------


def _sentences(store: Store, runs: Sequence[Found], task: Task) -> tuple[list[payload.Sentence], list[str]]:
    """The sentences on which the runs differ most, and what could not be compared.

    They are those of the test set; where the first run or all others have none, as in a search, those of another set.
    """
    others = {name for run in runs for name in _mapping(store.summary(run).result, "scores")} - {"test"}
    name, texts = "test", [store.outputs(run, "test") for run in runs]
    for other in sorted(others, key=natural):
        if not texts[0] or sum(map(bool, texts)) < 2:
            found = [store.outputs(run, other) for run in runs]
            name, texts = (other, found) if found[0] and sum(map(bool, found)) > 1 else (name, texts)
    notes = [
        f"{run.id} has stored no texts of {name}, so none of them are shown."
        for run, items in zip(runs, texts, strict=True)
        if not items
    ]
    if name != "test":
        notes.append(
            f"The sentences are from {name}, because either {runs[0].id} or all other runs have no stored text of test."
        )
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
