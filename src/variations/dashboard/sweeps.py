"""The list of sweeps, and one sweep: its table, the same as that of `table.py`, and its runs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from variations.configuration.places import SINGLE, spelled
from variations.configuration.schema import DEFAULT_METRIC, SweepConfig
from variations.configuration.tasks import DEFAULT, named, task_of
from variations.dashboard.metrics import AXES, curve_labels, ordered
from variations.dashboard.payload import sweeps as payload
from variations.dashboard.store import Store, Summary, revision
from variations.dashboard.tables import agreement, table_document
from variations.dashboard.walk import Found
from variations.store.atomic import is_number, stored_path
from variations.store.hidden import clean
from variations.store.ledger import RunFolder, latest, to_read
from variations.store.row_files import label_of
from variations.store.rows import RowDefinition, SweepDefinition, define
from variations.system.errors import UserError
from variations.tables.chance import SignificanceConfig
from variations.tables.collect import NO_RESULT, Reader, Stored, absent_task, trained_itself
from variations.tables.line import Table
from variations.tables.table import build
from variations.tasks.base import Measure
from variations.tasks.task import Task

DRAWS = 1000
"""Random draws in each significance test."""
LOG_LINES = 40
ENDED_BADLY = ("failed", "interrupted", "broken")


def index(store: Store, *, live: bool = True, sweep: str | None = None) -> payload.Index:
    """The list of sweeps, latest changes first."""
    found = store.snapshot()
    entries = [(max(run.changed for run in runs), _entry(name, runs)) for name, runs in found.sweeps.items()]
    entries.sort(key=lambda item: (-item[0], item[1]["name"]))
    return {
        "sweeps": [entry for _, entry in entries],
        "root": str(store.root),
        "program": spelled("*"),
        "revision": found.revision,
        "broken": [{"path": path, "reason": clean(reason)} for path, reason in found.broken],
        "live": live,
        "sweep": sweep,
    }


def _entry(name: str, runs: list[Found]) -> payload.SweepEntry:
    states: dict[str, int] = {}
    for run in runs:
        states[run.state] = states.get(run.state, 0) + 1
    rows = {run.row for run in runs}
    title = "runs outside a sweep" if name == SINGLE else name
    return {
        "name": name,
        "title": title,
        "rows": len(rows),
        "runs": len(runs),
        "states": states,
        "revision": revision(runs),
    }


def sweep(store: Store, name: str, *, significance: bool = False) -> payload.Sweep:
    """A sweep's table and runs. Raises KeyError if the store has no such sweep."""
    runs = store.sweep(name)
    table: Table | None = None
    fault = None
    try:
        definition = definition_of(store, name, runs)
        settings = SignificanceConfig(show=significance, n=DRAWS)
        table = build(definition, store.root, settings, _reader(store, definition.name), verify=settings.show)
    except (
        UserError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:  # a configuration of another version
        fault = clean(str(error))
        definition = SweepDefinition(name, tuple(RowDefinition(row, row) for row in dict.fromkeys(r.row for r in runs)))
    colours = _colours(definition, runs)
    entries, metrics, costs = _runs(store, runs, definition, colours, table)
    tasks = dict.fromkeys(store.summary(run).config.get("task") or DEFAULT for run in runs)
    return {
        "name": name,
        "title": "Runs outside a sweep" if name == SINGLE else name,
        "revision": revision(runs),
        "table": table_document(table, colours, tested=significance) if table else None,
        "fault": fault,
        "runs": entries,
        "metrics": ordered(metrics, tasks),
        "labels": curve_labels(tasks),
        "axes": [axis for axis in AXES if axis in costs],
        "rank_correlation": [agreement(item, table.task) for item in table.agreements] if table else [],
        "broken": [
            {"path": entry["id"], "reason": entry["reason"] or ""} for entry in entries if entry["state"] == "broken"
        ],
    }


# What the table is ----------------------------------------------------------------------------------------------------


def definition_of(store: Store, name: str, runs: Iterable[Found]) -> SweepDefinition:
    """Rows and seeds of a sweep: from its newest run's configuration, or else from the store.

    Seeds and rows that only the store has are added. Raises UserError if there are no rows.
    """
    runs = list(runs)
    if name == ".":
        raise UserError(f"These runs are directly in {store.root}: give its parent folder, runs={store.root.parent}.")
    if name == SINGLE:
        rows = tuple(_row(store, row, runs, row) for row in dict.fromkeys(run.row for run in runs))
        seeds = tuple(sorted({run.folder.seed for run in runs}))
        return SweepDefinition(name, rows, seeds, metric=_usual_metric(store, runs))
    frozen = _frozen(store, name, runs)
    found = define(frozen or SweepConfig(name=name), store=store.root)
    if frozen is not None:
        found = replace(found, metric=_compared(frozen, _first(store, runs)))
    known = {row.row for row in found.rows}
    more = tuple(
        _row(store, row, runs, None)
        for row in dict.fromkeys(run.row for run in runs)
        if row not in known and "/" not in row
    )
    stored = {run.folder.seed for run in runs} - {*found.seeds}
    seeds, further = (tuple(sorted({*known, *stored})) for known in (found.seeds, found.further))
    return replace(found, rows=(*found.rows, *more), of=(*found.of, *more), seeds=seeds, further=further)


def _usual_metric(store: Store, runs: Sequence[Found]) -> str:
    """The metric of runs outside a sweep: BLEU, or the first measure of a task without BLEU."""
    task = task_of(_first(store, runs))
    if task.unknown_metric(DEFAULT_METRIC) is None or not task.metrics:
        return DEFAULT_METRIC
    return str(task.metrics[0]).removeprefix("dev.")


def _compared(sweep: SweepConfig, config: dict[str, Any]) -> str:
    """The metric of a sweep; of a search without one of its own, the first that it optimises and a table compares.

    Args:
        sweep: As stored.
        config: The configuration of one of its runs.
    """
    trial, stored = config.get("search"), config.get("sweep")
    search = stored.get("search") if isinstance(stored, dict) else None
    if sweep.metric != DEFAULT_METRIC or not (isinstance(trial, dict) and isinstance(search, dict)):
        return sweep.metric
    optimised = search.get("metrics") if trial.get("study") is not None else None
    known = optimised if isinstance(optimised, list) else []
    return next((str(key) for key in known if task_of(config).unknown_metric(str(key)) is None), sweep.metric)


def _first(store: Store, runs: Sequence[Found]) -> dict[str, Any]:
    """The configuration of the first run that has one, and whose task somebody has."""
    configs = (store.summary(run).config for run in runs)
    return next((config for config in configs if config and absent_task(config) is None), {})


def _leaves(stored: dict[str, Any]) -> bool:
    """Whether a stored sweep names files outside the folders of rows."""
    rows = stored.get("rows") or []
    names = [*(rows if isinstance(rows, list) else [rows]), stored.get("table") or ""]
    return any(not isinstance(name, str) or ".." in name or "\\" in name or name.startswith("/") for name in names)


def _row(store: Store, row: str, runs: list[Found], base: str | None) -> RowDefinition:
    config = next((c for run in runs if run.row == row and (c := store.summary(run).config)), {})
    return RowDefinition(row, label_of(config, row), base=base)


def _frozen(store: Store, name: str, runs: list[Found]) -> SweepConfig | None:
    def started(run: Found) -> tuple[str, float]:  # first not by the file's time, which a copy or a checkout changes
        return str(store.summary(run).status.get("started") or ""), run.changed

    for run in sorted(runs, key=started, reverse=True):
        stored = store.summary(run).config.get("sweep")
        if isinstance(stored, dict) and stored.get("name") == name and not _leaves(stored):
            known = {item.name for item in fields(SweepConfig)}
            return SweepConfig(**{key: value for key, value in stored.items() if key in known and value is not None})
    return None


def _reader(store: Store, name: str) -> Reader:
    """Reads the runs of a sweep as the walk found them; other rows, and folders with a fault, from the disk."""
    known = {run.path: run for run in store.sweep(name)}
    families: dict[str, list[Found]] = {}
    for run in sorted(known.values(), key=lambda run: run.folder.attempt):
        families.setdefault(re.sub(r"-attempt\d+$", "", run.path), []).append(run)
    odd = {str((store.root / path).parent) for path, _ in store.snapshot().broken if path not in store.snapshot().runs}

    def find(home: Path) -> RunFolder | None:
        family = families.get(str(home), [])
        known = [store.summary(run) for run in family]
        if not family or str(home.parent) in odd or any(one.fault not in (None, NO_RESULT) for one in known):
            return latest(home)
        ended = [
            run.state == "finished" or bool(one.status.get("ended")) for run, one in zip(family, known, strict=True)
        ]
        found = to_read(family, ended)
        return found.folder if found else None

    def read(folder: RunFolder) -> Stored:
        run = known.get(str(folder.path))
        if run is None:
            raise UserError("is reached by a link: not followed")
        return store.stored(run)

    return Reader(find, read)


def _colours(definition: SweepDefinition, runs: Iterable[Found]) -> dict[str, int]:
    """A colour number for each row, the table's rows first."""
    names = dict.fromkeys([*(row.row for row in definition.rows), *(run.row for run in runs)])
    return {name: number for number, name in enumerate(names)}


# Runs -----------------------------------------------------------------------------------------------------------------


def _runs(
    store: Store, runs: list[Found], definition: SweepDefinition, colours: dict[str, int], table: Table | None
) -> tuple[list[payload.RunEntry], set[str], set[str]]:
    """The runs in the table's order; all scalars that any of them recorded, and all costs that any counted."""
    task = table.task if table else named(DEFAULT)
    measure = task.primary(definition.metric)
    labels = {row.row: row.label for row in definition.rows}
    if table:
        labels = {line.row.definition.row: line.label for line in table.lines}
    read = (
        {str(run.folder) for line in table.lines for run in line.row.runs if run.folder}
        if table
        else _read_without_a_table(store, runs)
    )
    watched = _watched(task, measure)
    metrics: set[str] = set()
    costs: set[str] = set()
    entries = []
    for run in sorted(runs, key=lambda run: (colours[run.row], run.folder.seed, run.folder.attempt)):
        seen = store.glance(run)
        metrics |= seen.values.keys()
        costs |= seen.costs.keys()
        known = store.summary(run)
        of_task = str(known.config.get("task") or task.name) == task.name
        entry = _run(run, known, seen.costs, measure if of_task else None)
        entry["label"] = labels.get(run.row, run.row)
        entry["color_index"] = colours[run.row]
        entry["latest"] = run.path in read
        drawn = absent_task(known.config) is None and task_of(known.config).drawn
        entry["drawings"] = bool(drawn) and entry["sentences"]
        if entry["state"] != "broken":
            entry["live_score"] = seen.values.get(watched) if watched and of_task else None
            entry["branched"] = seen.branched
        entries.append(entry)
    return entries, metrics, costs


def _read_without_a_table(store: Store, runs: Iterable[Found]) -> set[str]:
    """The paths of the attempts that a table would read, if it could be made."""
    families: dict[tuple[str, int], list[Found]] = {}
    for run in sorted(runs, key=lambda run: run.folder.attempt):
        families.setdefault((run.row, run.folder.seed), []).append(run)
    found = set()
    for family in families.values():
        finished = [store.summary(run).status.get("state") == "finished" for run in family]
        if (read := to_read(family, finished)) is not None:
            found.add(read.path)
    return found


def _watched(task: Task, measure: Measure) -> str | None:
    """What validations record of a measure, such as `dev/bleu` of test BLEU; None if they record another one."""
    watched = task.watched(measure.key)
    same = measure.is_loss or (watched or "").partition("/")[2] == measure.key.rpartition(".")[2]
    return watched if same else None


def _run(run: Found, known: Summary, last: dict[str, float], measure: Measure | None) -> payload.RunEntry:
    status, result = known.status, known.result
    state = "broken" if known.fault else run.state
    reason = known.fault or status.get("reason")
    steps = (known.config.get("trainer") or {}).get("max_steps")
    step = _number(result.get("steps")) or _number(last.get("step")) or _number(status.get("step"))
    seconds = _number(result.get("seconds")) or _number(last.get("seconds"))
    pace = last["seconds"] / last["step"] if _number(last.get("seconds")) and _number(last.get("step")) else None
    own = trained_itself(result)
    left = None
    if state == "running" and pace and steps and step and step < steps:  # after its last step it is tested
        left = (steps - step) * pace
    scored = not known.fault and isinstance(result.get("scores"), dict)
    minutes = _number((known.config.get("trainer") or {}).get("max_minutes"))
    if left is not None and minutes and seconds:
        left = min(left, max(0.0, 60 * minutes - seconds))
    return {
        "id": run.id,
        "row": run.row,
        "label": run.row,
        "seed": run.folder.seed,
        "attempt": run.folder.attempt,
        "latest": False,
        "state": state,
        "reason": clean(str(reason)) if reason else None,
        "step": int(step) if step else None,
        "max_steps": steps if isinstance(steps, int) else None,
        "eta_seconds": left,
        "seconds": seconds if own else None,
        "score": measure.value(result) if measure and scored else None,
        "copied": str(result["copied"]) if result.get("copied") else None,
        "live_score": None,
        "parameters": result.get("parameters"),
        "flops": (_number(result.get("flops")) or _number(last.get("flops"))) if own else None,
        "started": status.get("started"),
        "log_tail": log_tail(run, state, reason),
        "color_index": 0,
        "branched": False,
        "attention": "attention.json" in run.files,
        "drawings": False,
        "sentences": stored_path(run.folder.hypotheses / "test.hyp") is not None,
        "revision": run.stamp,
    }


def log_tail(run: Found, state: str, reason: str | None) -> list[str]:
    """The last lines of the reason, then of the run's newest log; empty unless something went wrong."""
    if state not in ENDED_BADLY:
        return []
    lines = str(reason).splitlines() if reason else []
    try:
        lines += _end_of_log(run)
    except OSError as error:
        lines.append(f"Its log cannot be read: {error.strerror or error}.")
    return [clean(line) for line in lines[-LOG_LINES:]]


def _end_of_log(run: Found) -> list[str]:
    paths = (run.folder.log, *run.folder.path.glob("*.log"))
    logs = [path for path in paths if path.is_file() and not path.is_symlink()]
    if not logs:
        return []
    newest = max(logs, key=lambda path: path.stat().st_mtime)
    with newest.open("rb") as file:
        file.seek(max(0, newest.stat().st_size - 16 * 1024))
        return file.read().decode("utf-8", errors="replace").splitlines()


def _number(value: Any) -> float | None:
    return value if is_number(value) else None
