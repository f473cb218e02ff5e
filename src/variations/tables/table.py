"""A table of a sweep: published figures beside measured ones, compared only where they can be compared.

`build` reads the run store; `document` is the table as one JSON document.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from variations.configuration.tasks import task_of
from variations.store.atomic import is_number
from variations.store.differences import SAME, changes, in_words
from variations.store.inputs import LOST
from variations.store.ledger import RunFolder
from variations.store.row_files import computing, edited, fingerprint, shapes_the_run
from variations.store.rows import SweepDefinition
from variations.system.errors import UserError
from variations.system.terminal import status_line
from variations.tables.alike import (
    differing,
    edited_files,
    edited_overrides,
    listed,
    other_code,
    other_inputs,
    other_overrides,
    other_scale,
    unversioned,
)
from variations.tables.chance import RowTest, SignificanceConfig, Tester, other_references
from variations.tables.collect import (
    DISK,
    Reader,
    Row,
    SeedRun,
    collect,
    of_other_task,
    paired,
    row_hours,
    summary,
    table_task,
)
from variations.tables.correlation import spearman
from variations.tables.departures import departures, seeds_named
from variations.tables.footnotes import convention, remarks
from variations.tables.line import COSTS, NOT_TRAINED, Agreement, Figure, Line, Table
from variations.tasks.base import Measure, Published
from variations.tasks.task import Task, loss_scale


def build(
    sweep: SweepDefinition,
    store: Path,
    significance: SignificanceConfig | None = None,
    reader: Reader = DISK,
    *,
    verify: bool = True,
) -> Table:
    """The table of `sweep` from the runs in `store`, with differences tested according to `significance`.

    Args:
        sweep: Rows and seeds.
        store: The run store.
        significance: How differences are tested.
        reader: Finds and reads the runs.
        verify: Compare the scores with the items that the runs have stored.

    Raises:
        UserError: The sweep's metric does not exist.
    """
    rows = collect(sweep, store, reader)
    task = table_task(rows)
    if unknown := task.metric_fault(sweep.metric):
        raise UserError(f"sweep.metric: {unknown}")
    measures = _measures(task, sweep, rows)
    by_name = {row.definition.row: row for row in rows}
    untrained = {row.definition.row: why_untrained(row) for row in rows}
    table = Table(task, sweep, store, measures, [], significance or SignificanceConfig())
    tester = Tester(table.significance, task, table.primary)
    with status_line("Testing differences") as tell:
        for row in rows:
            tell(row.definition.label)
            base = sweep.base_of(row.definition)
            table.lines.append(
                _line(task, row, by_name.get(base.row) if base else None, measures, tester, untrained, verify)
            )
    table.agreements = _agreements(table)
    table.remarks = remarks(table, tester.refusal)
    return table


def document(table: Table) -> dict[str, Any]:
    """The table as plain data for `format=json`, with unrounded numbers."""
    return {
        "schema": 1,
        "sweep": table.sweep.name,
        "table": table.sweep.table,
        "metric": table.primary.key,
        "seeds": list(table.sweep.seeds),
        "note": table.sweep.note,
        "measures": [{"key": m.key, "label": m.label, "convention": convention(table, m)} for m in table.measures],
        "rows": [_line_document(table, line) for line in table.lines],
        "missing": table.gaps,
        "significance": asdict(table.significance),
        "rank_correlation": [asdict(agreement) for agreement in table.agreements],
        "footnotes": table.remarks,
    }


def _line_document(table: Table, line: Line) -> dict[str, Any]:
    definition = line.row.definition
    return {
        "row": definition.row,
        "label": definition.label,
        "group": definition.group,
        "id": definition.id,
        "base": line.base,
        "changes": line.changes,
        "parameters": line.row.parameters,
        "seeds": [
            {
                "seed": run.seed,
                "state": "missing" if run.state == "absent" else run.state,
                "reason": run.reason,
                "folder": str(run.folder) if run.folder else None,
                "scores": {key: line.row.values(table.task.measure(key)).get(run.seed) for key in line.measured},
            }
            for run in line.row.runs
        ],
        "measured": {key: asdict(value) for key, value in line.measured.items()},
        "difference_from_base": {key: asdict(value) for key, value in line.delta.items()},
        "not_compared_in": dict(line.uncompared_in),
        "published": {key: asdict(figure) for key, figure in line.published.items()},
        "published_difference_from_base": line.published_delta,
        "significance": line.test.document() if line.test else None,
        "not_tested": line.untested,
        "not_trained": line.untrained,
        "provenance": definition.provenance,
        "cost": line.costs,
        "device_hours": line.hours[0] if line.hours else None,
        "device": line.hours[1] if line.hours else None,
        "notes": list(line.notes),
    }


LOSS = Measure("dev_nll", "dev loss", higher_is_better=False, set="dev", is_loss=True)
"""Stands for all losses of a run, which are comparable or not together."""


def why_untrained(row: Row) -> str | None:
    """Why a row counts as not trained, by the rule of its own task; None if it counts as trained."""
    return task_of(row.config).untrained(row.tested) if row.tested else None


def _measures(task: Task, sweep: SweepDefinition, rows: list[Row]) -> list[Measure]:
    """The task's columns, the sweep's metric first, and the counterparts of published figures."""
    keys = [measure.key for measure in task.columns(task.primary(sweep.metric))]
    for row in rows:
        for key in row.definition.published:
            kind = task.published(key)
            if row.config and unpublished(task, kind, row) is None:
                keys += [name for name in kind.measures if row.values(task.measure(name))][:1]
    found = [task.measure(key) for key in dict.fromkeys(keys)]
    own = [row for row in rows if not of_other_task(row, task)]
    return [found[0], *(measure for measure in found[1:] if any(row.values(measure) for row in own))]


def _line(
    task: Task,
    row: Row,
    base: Row | None,
    measures: list[Measure],
    tester: Tester,
    untrained: Mapping[str, str | None],
    verify: bool,
) -> Line:
    # A measure of that name may have another unit there, as a loss per symbol has.
    values = {measure.key: {} if of_other_task(row, task) else row.values(measure) for measure in measures}
    notes, delta, why = [], {}, untrained[row.definition.row]
    changed: dict[str, tuple[Any, Any]] = {}
    words: str | None = None
    other: str | None = None
    found: RowTest | str | None = None
    apart: dict[str, str] = {}
    if base is not None and base.config and row.config:
        apart = {each.key: text for each in (*measures, LOSS) if (text := incomparable(task, row, base, each))}
        changed = changes(base.config, row.config)
        other = apart.get(measures[0].key)
        same = f"{SAME}, other inputs or another convention" if other else SAME
        words = in_words(changed, row.config, (base.parameters, row.parameters), same)
        if other:
            notes.append(other)
        elif why:
            found = NOT_TRAINED
        elif untrained[base.definition.row]:
            found = f"its base row is {NOT_TRAINED}"
        else:
            alike = [measure for measure in measures if measure.key not in apart]
            delta = {measure.key: paired(values[measure.key], base.values(measure)) for measure in alike}
            seeds, of_base = ({run.seed for run in side.finished} for side in (row, base))
            disjoint = seeds and of_base and seeds.isdisjoint(of_base)
            found = "no seed in common with its base row" if disjoint else tester.against(row, base)
            if isinstance(found, RowTest):  # the difference is that of the seeds that are tested
                notes += found.notes
                tested = {seed: value for seed, value in values[measures[0].key].items() if seed in found.seeds}
                delta[measures[0].key] = paired(tested, base.values(measures[0]))
            if budget := row.other_budget(base):
                notes.append(f"not the budget of its base row: {', '.join(budget)}")
        if not other and (typed := other_overrides(row, base)):
            notes.append(typed)
    if verify:
        notes += tester.contradictions(row, measures, found.seeds if isinstance(found, RowTest) else ())
    if why:
        notes.append(f"{NOT_TRAINED}: {why}")
    elif row.tested and (past := task_of(row.config).past_its_best(row.tested)):
        notes.append(past)
    printed = {key: value for key, value in row.definition.published.items() if is_number(value)}
    costs = {key: cost for key in COSTS if (cost := row.cost(key)) is not None}
    return Line(
        row,
        base.definition.row if base else None,
        changed,
        words,
        {key: mean for key, pairs in values.items() if (mean := summary(list(pairs.values())))},
        {key: mean for key, mean in delta.items() if mean},
        {key: _figure(task, key, value, row, why) for key, value in printed.items()},
        _published_delta(task, row, base),
        costs,
        row_hours(row),
        found if isinstance(found, RowTest) else None,
        found if isinstance(found, str) else None,
        other,
        apart,
        why,
        tuple(notes + _row_notes(task, row, measures[0])),
    )


def unpublished(task: Task, kind: Published, row: Row) -> str | None:
    """Why a published figure and those of the row's runs cannot be compared; None if they can."""
    pairs = [(run.config, run.result) for run in row.finished] or [(row.config, {})]
    return next((why for config, result in pairs if (why := task.incomparable(kind, config, result))), None)


def incomparable(task: Task, row: Row, base: Row, measure: Measure) -> str | None:
    """Why a row cannot be compared with its base row: other data, texts or references, or another convention."""
    ours, theirs = (task_of(side.config).data_name(side.config) for side in (row, base))
    if ours != theirs:
        return f"measured on {ours}, its base row on {theirs}: not compared"
    if len(_conventions(row, measure) | _conventions(base, measure)) > 1:
        return f"its {measure.label} follows another convention than its base row's or its other seeds': not compared"
    if found := other_references(task, row, base, measure.set) or other_inputs(row, base):
        return found
    found = other_loss(task, measure, row, base)
    return f"its {measure.label} depends on {found}, which its base row does not share: not compared" if found else None


def other_loss(task: Task, measure: Measure, row: Row, base: Row) -> str | None:
    """On what a loss depends that differs between two rows, or their seeds; None if nothing does, or for a score."""
    runs = (*base.finished, *row.finished)
    scales = [loss_scale(task, measure, run.config, run.result, run.inputs) for run in runs]
    return next((found for scale in scales[1:] if (found := other_scale(scale, scales[0]))), None)


def _conventions(row: Row, measure: Measure) -> set[str]:
    """How the score was computed in each run, but for the version of the program."""
    found = (measure.told_convention(run.result) for run in row.finished)
    return {unversioned(text) for text in found if text}


def _row_notes(task: Task, row: Row, measure: Measure) -> list[str]:
    notes = [*caveats(row), *_computed_otherwise(row), *_newer_attempts(row)]
    if len(_conventions(row, measure)) > 1:
        notes.append(f"its seeds' {measure.label} follows different conventions: the mean is meaningless")
    if other := of_other_task(row, task):
        notes.append(f"task {other}: 'rows=[{row.definition.row}]' prints its own measures, and what its costs count")
    if row.definition.note:
        notes.append(row.definition.note.rstrip("."))
    return notes


def _newer_attempts(row: Row) -> list[str]:
    """That a newer attempt of a run was begun; of several attempts, the last finished one counts."""
    read = [(run.seed, RunFolder(run.folder)) for run in row.finished if run.folder]
    newest: dict[Path, int] = {}
    for home in {folder.path.parent for _, folder in read}:
        for other in map(RunFolder, home.glob("seed*-attempt*")):
            if other.exists():
                first = home / f"seed{other.seed}"
                newest[first] = max(other.attempt, newest.get(first, 1))
    seeds = [seed for seed, one in read if newest.get(one.path.parent / f"seed{one.seed}", 1) > one.attempt]
    return [f"{seeds_named(seeds)}: the score of an older attempt, for a newer one is not finished"] if seeds else []


def caveats(row: Row) -> list[str]:
    """Why the results of a row are not those of its file and of a whole training; no claim is judged by such a row."""
    notes = departures(row.runs)
    extra, callbacks = (row.config.get("trainer") or {}).get("extra") or {}, row.config.get("callbacks") or {}
    if given := [*(f"{key}={value}" for key, value in extra.items()), *(f"callbacks={name}" for name in callbacks)]:
        notes.append(f"trained with settings of Lightning that no recipe has: {', '.join(given)}")
    debug = (row.config.get("debug") or {}).get("name")  # a quick check, and said to be one
    if row.tested and not debug and (unknown := task_of(row.config).unjudged(row.tested)):
        notes.append(unknown)
    misnamed = (task_of(run.config).misnamed(run.result) for run in row.finished)
    notes += dict.fromkeys(text for text in misnamed if text)
    return [*notes, *unlike(row), *_edited(row)]


def unlike(row: Row) -> list[str]:
    """What the row's seeds differ in besides the seed."""
    groups: dict[str, list[str]] = {}
    finished = row.finished
    for run in finished[1:]:
        changed, _ = _changed_between(finished[0], run)
        if changed:
            groups.setdefault(in_words(changed, run.config), []).append(str(run.seed))
        elif LOST in (names := differing(finished[0], run)):
            groups.setdefault(f"unknown inputs ({LOST} is lost or damaged)", []).append(str(run.seed))
        elif names := names + other_code(finished[0], run):
            groups.setdefault(f"other inputs ({listed(names)})", []).append(str(run.seed))
        elif run.result.get("parameters") != finished[0].result.get("parameters"):
            groups.setdefault("another number of parameters", []).append(str(run.seed))
    words = [f"{text} from seed {finished[0].seed} to {', '.join(seeds)}" for text, seeds in groups.items()]
    return [f"its seeds were not trained alike: {'; '.join(words)}"] if words else []


def _computed_otherwise(row: Row) -> list[str]:
    """In which keys of the trainer that change no result, rounding apart, the row's seeds differ."""
    groups: dict[str, list[str]] = {}
    for run in row.finished[1:]:
        if other := _changed_between(row.finished[0], run)[1]:
            groups.setdefault(in_words(other, run.config), []).append(str(run.seed))
    first = row.finished[0].seed if groups else None
    return [f"computed with {text} from seed {first} to {', '.join(seeds)}" for text, seeds in groups.items()]


def _changed_between(first: SeedRun, run: SeedRun) -> tuple[dict[str, tuple[Any, Any]], dict[str, tuple[Any, Any]]]:
    """Keys, the seed apart, in which two runs differ: of the experiment, and of the way in which it is computed."""
    if {**first.config, "seed": run.seed} == run.config:
        return {}, {}
    found = changes(first.config, run.config)
    how = computing(found, first.config, run.config)
    return (
        {key: value for key, value in found.items() if key not in how},
        {key: value for key, value in found.items() if key in how},
    )


def _edited(row: Row) -> list[str]:
    """What has changed in the files of a row and of its sweep since it was run; empty for a quick check."""
    variation = row.config.get("variation") or {}
    table, debug = variation.get("table"), (row.config.get("debug") or {}).get("name")
    if not row.finished or not table or debug:
        return []
    notes = [note] if (note := edited_overrides(row)) else []
    own = row.definition.row.partition(",")[0]  # without the point of a crossed table
    found = edited(own, str(row.definition.table or table), row.config) or edited_files(row)
    words = ", ".join(f"{key} {old} there, {new} in the file" for key, (old, new) in found.items())
    if found:
        return [*notes, f"finished with another configuration than its file has now: {words}"]
    now = fingerprint(own, str(table), row.config)
    known = {run.result.get("row_file") for run in row.finished} - {None}
    # A file that was copied from another table may still name that one, whose file the run has looked up.
    if known and now and row.definition.table in (None, table) and known != {now}:
        return [*notes, "finished before its file was edited, which now sets or chooses something else"]
    return notes


def _figure(task: Task, key: str, value: float, row: Row, untrained: str | None) -> Figure:
    recalled = "recalled" in (row.definition.provenance or "").lower()
    if key == "params_millions":
        return Figure(value, recalled)
    kind = task.published(key)
    if not row.config:
        return Figure(value, recalled, notes=(f"published on {kind.text}",) if kind.text else ())
    if reason := unpublished(task, kind, row):
        return Figure(value, recalled, notes=(reason,))
    for name in kind.measures:
        if (found := summary(list(row.values(task.measure(name)).values()))) and not untrained:
            told = [text for run in row.finished for text in task.caveats(kind, name, run.config, run.result)]
            sweeps = [run.config.get("sweep") or {} for run in row.finished]
            told += [f"{' '.join(lines)} was typed" for sweep in sweeps if (lines := sweep.get("typed"))]
            told += [
                f"{' '.join(lines)} stood in the sweep's file" for sweep in sweeps if (lines := _shaping(task, sweep))
            ]
            return Figure(value, recalled, name, found.mean - value, tuple(dict.fromkeys(told)))
    return Figure(value, recalled)


def _shaping(task: Task, sweep: Mapping[str, Any]) -> list[str]:
    """Overrides of a sweep's file that change the experiment of its rows; data are compared by `unpublished`."""
    return [
        line
        for line in sweep.get("overrides") or []
        if line.partition("=")[0] not in ("data", "trainer.precision")
        and shapes_the_run(line, task.name, callbacks=False)  # `caveats` names callbacks
    ]


def _published_delta(task: Task, row: Row, base: Row | None) -> dict[str, float]:
    if base is None:
        return {}
    ours, theirs = row.definition.published, base.definition.published
    shared = [key for key in ours if key in theirs and not task.published(key).is_cost]
    return {key: ours[key] - theirs[key] for key in shared if is_number(ours[key]) and is_number(theirs[key])}


def _agreements(table: Table) -> list[Agreement]:
    """For each published figure, the rank correlation of its differences from the base rows with the measured ones."""
    found = []
    keys = dict.fromkeys(key for line in table.lines for key in line.published_delta)
    for key in keys:
        measure = _like(table.task.published(key), table)
        if measure and not table.part(key):
            pairs = [
                (line.row.definition.row, line.published_delta[key], line.delta[measure].mean)
                for line in table.lines
                if key in line.published_delta and measure in line.delta
            ]
            names, theirs, ours = zip(*pairs, strict=True) if pairs else ((), (), ())
            if len(names) > 1:
                found.append(Agreement(key, measure, spearman(theirs, ours), names))
    return found


def _like(kind: Published, table: Table) -> str | None:
    """The measure that corresponds to a published one, even on other data: its own, else the table's metric."""
    measured = [measure.key for measure in table.measures]
    same = next((key for key in kind.measures if key in measured), None)
    if same or not kind.measures:
        return same
    return table.primary.key if kind.unit and kind.unit == table.primary.unit else None
