"""The footnotes of a table: data, recipe, scale, conventions, tests and costs, each in one sentence."""

from collections.abc import Iterator, Mapping
from typing import Any

from variations.configuration.overrides import typed_keys
from variations.configuration.tasks import task_of
from variations.store import own_code
from variations.store.identity import covered
from variations.store.ledger import RunFolder
from variations.store.row_files import shapes_the_run
from variations.store.rows import in_short
from variations.system.errors import UserError
from variations.system.quantities import hours_name
from variations.tables.alike import edited_between, other_project_code
from variations.tables.collect import gpu, strangers, trained_since
from variations.tables.line import Line, Table
from variations.tables.text import DIFFERENCES
from variations.tasks.base import Measure
from variations.tasks.task import Task

UNEVEN = 3.0
"""Ratio of the times per FLOP of two rows from which tables and plans warn; branches alone cost 1.1 (step_time.md)."""


def remarks(table: Table, refusal: str | None) -> list[str]:
    """The footnotes without marks. `refusal` says why differences are not tested."""
    found = [table.sweep.note.rstrip(".") + "."] if table.sweep.note else []
    _, shared = in_short([row.row for row in table.sweep.of or table.sweep.rows])
    found += [f"All rows have {', '.join(shared)}."] if shared else []
    found += [*_settings(table), *_scaled(table), *_conventions(table), *_published(table), *_bases(table)]
    found += [*_spread(table), *_tests(table, refusal), *_unjudged(table)]
    found += [agreement.sentence(table.task) for agreement in table.agreements]
    found += _costs(table)
    found += ["; ".join(labels) + text for text, labels in of_lines(table).items()]
    if table.sweep.further:
        more = ", ".join(map(str, table.sweep.further))
        asked = ",".join(str(seed) for seed in table.sweep.seeds if seed not in table.sweep.further)
        found.append(
            f"Included are runs with seeds that the sweep does not ask for ({more}); seeds=[{asked}] leaves them out."
        )
    if names := strangers(table.sweep, table.store):
        found.append(
            f"{table.store / table.sweep.name} also contains runs that are not rows of this table: {', '.join(names)}."
        )
    return found


def about(table: Table) -> dict[str, list[set[str]]]:
    """The remarks about columns, with sets of their keys: of every set, at least one column must be shown."""
    measures = {measure.key for measure in table.columns}
    found = {text: {*names} for text, names in named(table).items()}
    found |= _costs(table)
    found |= {text: measures | {"delta"} for text in _spread(table)}
    found |= {text: set(DIFFERENCES) for text in (*_tests(table, None), *_unjudged(table))}
    of_flops = ((text, labels) for text, labels in of_lines(table).items() if text.startswith(": FLOPs "))
    found |= {"; ".join(labels) + text: {"flops"} for text, labels in of_flops}
    for agreement in table.agreements:
        compared = {f"against_published.{agreement.measure}"}
        found[agreement.sentence(table.task)] = _columns_of(agreement.published) | compared
    return {text: [keys] for text, keys in found.items()} | _published(table)


def named(table: Table) -> dict[str, dict[str, str]]:
    """The remarks that begin with names of columns, with their keys and names."""
    return {text: {item.key: item.label for item in group} for text, group in _conventions(table).items()}


def _columns_of(published: str) -> set[str]:
    """Keys of the columns of a published figure."""
    return {f"published.{published}", f"published_delta.{published}"}


def star_text(table: Table) -> str:
    """The meaning of the mark `*` at a difference."""
    settings = table.significance
    marked = [line.test for line in table.lines if line.test and line.test.significant]
    kinds = {test.counts_restarts for test in marked}
    what = "of the difference of means over seeds that covers chance in seeds"
    if kinds == {True}:
        what = "that covers chance in restarts"
    elif len(kinds) > 1:
        what = "that covers chance in seeds, or of one seed in its restarts,"
    return (
        f"p < {1 - settings.level:.3g} in a test {what} and in {table.primary.items} ({settings.n:,} resamples, "
        f"seed {settings.seed})"
    )


def _settings(table: Table) -> list[str]:
    """One sentence for each combination of data, recipe and scale among the rows."""
    groups: dict[str, list[str]] = {}
    scaled = any(_of_paper(line) for line in table.lines)
    for line in table.lines:
        config = line.row.config
        if config:
            result = next((run.result for run in line.row.finished), {})
            conditions = task_of(config).conditions(config, result, scaled=scaled)
            text = f"Measured on {conditions}{_part(config)}{_overridden(config)}."
            groups.setdefault(text, []).append(line.label)
    if len(groups) == 1:
        return list(groups)
    return [f"{'; '.join(labels)}: {text[0].lower()}{text[1:]}" for text, labels in groups.items()]


def _of_paper(line: Line) -> bool:
    """Whether it is a row of a paper's table, or one of these at a point of a crossed table, which has no figures."""
    return bool(line.published or (line.row.config.get("variation") or {}).get("published"))


def _overridden(config: Mapping[str, Any]) -> str:
    """Keys that the sweep's file or the command line gave to all rows, so that the recipe's name does not tell them."""
    sweep, callbacks = config.get("sweep") or {}, bool(config.get("callbacks"))
    typed = sweep.get("typed") or []
    point = str((config.get("variation") or {}).get("row")).split(",")[1:]  # of a crossed table
    of_row = {*typed_keys(typed), *typed_keys(point), *((sweep.get("search") or {}).get("space") or {})}
    of_file = [
        line
        for line in sweep.get("overrides") or []
        if all("." in key and key not in of_row and not covered(key, ["data"]) for key in typed_keys([line]))
        and shapes_the_run(line, task_of(config).name, callbacks=callbacks)
    ]
    told = {"in the sweep's file": of_file, "typed": typed}
    return "".join(f"; {where}: {' '.join(lines)}" for where, lines in told.items() if lines)


def _scaled(table: Table) -> list[str]:
    """The sizes of base rows that are scaled below the paper's."""
    bases = [line for line in table.lines if line.base is None and _of_paper(line) and line.row.config]
    sizes = [(line.label, task_of(line.row.config).scaled_sizes(line.row.config)) for line in bases]
    told = "; ".join(f"{label} has {found}" for label, found in sizes if found)
    return [f"The paper's sizes are scaled here: {told}."] if told else []


def _conventions(table: Table) -> dict[str, list[Measure]]:
    """One sentence for each convention, with the measures that follow it."""
    found: dict[str, list[Measure]] = {}
    for measure in table.columns:
        if text := convention(table, measure):
            found.setdefault(text, []).append(measure)
    return {f"{', '.join(item.label for item in group)}: {text}.": group for text, group in found.items()}


def _published(table: Table) -> dict[str, list[set[str]]]:
    """What the published figures are: sentences, with the keys of the columns that each explains, as in `about`."""
    keys = dict.fromkeys(key for line in table.lines for key in line.published)
    found: dict[str, list[set[str]]] = {}
    for key in keys:
        kind = table.task.published(key)
        if kind.text and not table.part(key):
            ours = [measure for measure in table.columns if measure.key in kind.measures[:1]]
            noted = any(key in line.published and line.row.definition.note for line in table.lines)
            but = ", except where a row's footnote says otherwise" if noted else ""
            columns = _columns_of(key) | {f"against_published.{measure}" for measure in kind.measures}
            found[f"Published {kind.label}: {kind.text}, {kind.convention}."] = [columns]
            for measure in ours:
                text = f"Measured in the same way as the published {kind.label}{but}: {measure.label}."
                found[text] = [{measure.key}, columns]
    if "params_millions" in keys:
        found["Published parameters are in millions, as printed."] = [_columns_of("params_millions")]
    return found


def _bases(table: Table) -> list[str]:
    """The base row of each row that is not compared with the first row of the table."""
    labels = {line.row.definition.row: line.label for line in table.lines}
    groups: dict[str, list[str]] = {}
    for line in table.lines:
        if line.base not in (None, table.lines[0].row.definition.row):
            groups.setdefault(str(line.base), []).append(line.label)
    absent: dict[tuple[str, str], list[str]] = {}  # in a grid only: a table shows them as missing
    for line in table.lines:
        base = line.row.definition.base
        if base is not None and base not in labels and line.base in labels:
            absent.setdefault((base, labels[line.base]), []).append(line.label)
    found = [f"Base row of {'; '.join(rows)}: {labels[base]}." for base, rows in groups.items()]
    return found + [
        f"The base row of {'; '.join(rows)} ({base}) is not in this table: compared with {other} instead."
        for (base, other), rows in absent.items()
    ]


def _spread(table: Table) -> list[str]:
    summaries = [item for line in table.lines for item in line.measured.values()]
    if any(item.sd is not None for item in summaries):
        compared = any(line.delta for line in table.lines)
        of_delta = "; Δ base is the mean of the differences from the base row over common seeds" if compared else ""
        return [f"± is the standard deviation over seeds{of_delta}."]
    if not summaries:
        return []
    if any(line.test.counts_restarts for line in table.lines if line.test):
        return ["One seed per row: chance in training is estimated from the spread of its restarts."]
    return ["One seed per row: the chance between seeds is unknown, so any difference may be chance."]


def _unjudged(table: Table) -> list[str]:
    """That rows are compared however short their training was, for tasks that judge none."""
    if type(table.task).untrained is not Task.untrained or not any(line.delta for line in table.lines):
        return []
    return ["Whether rows were trained long enough is not judged in this task: see their curves."]


def _tests(table: Table, refusal: str | None) -> list[str]:
    compared = [line for line in table.lines if line.delta]
    if refusal:
        return [refusal] if compared else []
    tests = [line.test for line in table.lines if line.test]
    if not tests:
        return []
    settings, items = table.significance, table.primary.items
    kinds = []
    if any(test.counts_restarts for test in tests):
        kinds.append(
            f"for one seed, of the reported restarts, chance in {items} and between restarts together (of any "
            "restart, not the best in training, so the interval is conservative)"
        )
    if any(test.counts_seeds and not test.counts_restarts for test in tests):
        pairs = "; a row that tests the same networks as its base row is paired with it, seed by seed"
        kinds.append(
            f"of the difference of means over seeds, chance in seeds and {items} together"
            + (pairs if any(test.across.paired for test in tests) else "")
        )
    if not all(test.counts_seeds for test in tests):
        kinds.append(
            f"for one seed, from a paired bootstrap of {items}, which ignores the chance between seeds, so no such "
            "difference is marked"
        )
    found = [
        f"The {100 * settings.level:g} % interval{' and p' if any(test.counts_seeds for test in tests) else ''} of "
        f"Δ base: {'; '.join(kinds)} ({settings.n:,} resamples, seed {settings.seed})."
    ]
    marked = sum(test.counts_seeds for test in tests)
    sweep = table.sweep
    here, whole = (
        sum(not row.quoted and sweep.base_of(row) is not None for row in rows) for rows in (sweep.rows, sweep.of)
    )
    if marked > 1 or (marked and here < whole):
        these = "this is" if marked == 1 else "these are"
        counted = f"{these} {marked} of the sweep's {whole}" if here < whole else f"there are {marked}"
        found.append(
            f"p is not corrected for multiple comparisons ({counted}): a row without any effect has a "
            f"{100 * (1 - settings.level):.3g} % chance of being marked."
        )
    return found


def _costs(table: Table) -> dict[str, set[str]]:
    """How costs are counted: sentences, with the keys of the columns that each explains."""
    found = (
        {f"FLOPs are {table.task.flops_counted}.": {"flops"}}
        if any("flops" in line.costs for line in table.lines)
        else {}
    )
    if table.task.parameters_counted and any(line.row.parameters for line in table.lines):
        found[f"Parameters are {table.task.parameters_counted}."] = {"parameters"}
    devices = [line.hours[1] for line in table.lines if line.hours]
    if any("CPU" in name for name in devices):
        name, counted = hours_name(devices), "processes" if set(devices) == {"CPU"} else "GPUs, or on CPUs processes"
        text = (
            f"{name[0].upper()}{name[1:]}: elapsed hours of training, validation included, times {counted}, "
            "however many threads a process has. Other work on the machine lengthens them and the times; FLOPs do not "
            "depend on it."
        )
        found[text] = {"device_hours", "seconds"}
    gpus = {gpu(run) for line in table.lines for run in line.row.finished} - {None}
    if gpus:
        found[f"Trained on {', '.join(sorted(map(str, gpus)))}."] = {"device_hours", "seconds"}
    if (spread := _time_per_flop(table)) >= UNEVEN:
        found[
            f"A FLOP took up to {spread:,.0f} times as long in one row as in another, because of other work on the "
            "machine or of operations that are slow for their FLOPs."
        ] = {"device_hours", "seconds"}
    return found


def _time_per_flop(table: Table) -> float:
    """How many times as long a FLOP took in the slowest row of a task as in its fastest; 1 if no two rows have both."""
    found: dict[str, list[float]] = {}
    for line in table.lines:
        if line.costs.get("seconds") and line.costs.get("flops"):
            task = next((str(run.config.get("task")) for run in line.row.finished), "")
            found.setdefault(task, []).append(line.costs["seconds"] / line.costs["flops"])
    return max((max(each) / min(each) for each in found.values()), default=1.0)


def of_lines(table: Table) -> dict[str, list[str]]:
    """What else is to be known about some lines, with their labels: `: copied from …`, `, seed 2: tests …`."""
    found: dict[str, dict[str, None]] = {}
    for texts in (_copied(table), _reused(table), _former_weights(table), _former_code(table), _told_by_runs(table)):
        for line, text in texts:
            found.setdefault(text, {})[line.label] = None
    return {text: list(labels) for text, labels in found.items()}


def notes_of(table: Table, *, published: bool = True) -> list[list[str]]:
    """All that is to be known about each line: its notes, what `of_lines` says of it, and of its published figures."""
    said = [(text.strip(":,. "), labels) for text, labels in of_lines(table).items()]
    found = []
    for line in table.lines:
        further = [text for text, labels in said if line.label in labels]
        figures = [text for figure in line.published.values() for text in figure.caveats] if published else []
        apart = [text for key, text in line.uncompared_in.items() if key in line.measured]
        found.append(list(dict.fromkeys([*line.notes, *apart, *further, *figures])))
    return found


def _copied(table: Table) -> Iterator[tuple[Line, str]]:
    """Rows whose runs another table has trained, by `result.json`; which of them, and what became of the others."""
    for line in table.lines:
        sources: dict[tuple[str, bool], list[int]] = {}
        for run in line.row.finished:
            if name := run.result.get("copied"):
                same = _same_scores(RunFolder(table.store / str(name)), run.result)
                sources.setdefault((str(name).rpartition("/")[0], same), []).append(run.seed)
        for (source, same), seeds in sorted(sources.items()):
            several = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))} "
            which = "" if len(seeds) == len(line.row.finished) else several
            now = "which is the same run" if same else "which has been trained again since, with another result"
            yield line, f": {which}copied from {source}, {now}."


def _same_scores(source: RunFolder, result: Mapping[str, Any]) -> bool:
    """Whether the run that a result was copied from still has its scores; so it counts if it cannot be read."""
    try:
        now = source.result()
    except UserError:
        return True
    return now is None or now.get("scores") == result.get("scores")


def _reused(table: Table) -> Iterator[tuple[Line, str]]:
    """Rows that trained nothing: they test the weights of another row, and their columns repeat its time and FLOPs."""
    labels = {line.row.definition.row: line.label for line in table.lines}
    for line in table.lines:
        for run in line.row.finished:
            if run.result.get("reused"):
                name = RunFolder(str(run.result["reused"])).row
                yield line, f": not trained itself, tests the weights of {labels.get(name, name)} and has its costs."


def _former_weights(table: Table) -> Iterator[tuple[Line, str]]:
    """Rows that do not test the network whose scores the table has, but one of a former attempt or of their own."""
    shown = {(line.row.definition.row, run.seed): run.folder for line in table.lines for run in line.row.finished}
    for line in table.lines:
        for run in line.row.finished:
            name, wanted = line.row.definition.row, (run.config.get("variation") or {}).get("reuse")
            if not run.result.get("reused"):
                if (wanted, run.seed) in shown:
                    yield line, f", seed {run.seed}: trained a network of its own, and does not test {wanted}."
                continue
            source = RunFolder(str(run.result["reused"]))
            folder = shown.get((source.row, run.seed))
            status = RunFolder(folder).status() if folder else None
            if folder is None or status is None:
                continue
            if status.attempt != source.attempt:
                former, now = source.attempt, status.attempt
                yield (
                    line,
                    f", seed {run.seed}: tests the weights of attempt {former} of {source.row}, but the "
                    f"table has attempt {now} of that row; force=true 'rows=[{name}]' tests its weights, if both are "
                    "trained alike.",
                )
            elif run.folder and trained_since(RunFolder(folder), RunFolder(run.folder)):
                yield line, f", seed {run.seed}: {source.row}, whose weights it tests, has been trained again since."


def _former_code(table: Table) -> Iterator[tuple[Line, str]]:
    """Code that was edited between a row and its base row, and own modules that were edited since a row was trained."""
    rows = {line.row.definition.row: line.row for line in table.lines}
    for line in table.lines:
        base = rows.get(line.base or "")
        edited = edited_between(line.row, base) if base else []
        for text in [*edited, *other_project_code(line.row, base)]:
            yield line, f": {text}."
        for run in line.row.finished:
            if any(name.endswith(".py") for name in run.inputs):
                for name in own_code.edited(run.inputs):
                    yield line, f": trained with a former version of {name}, which the run's folder keeps."


def _told_by_runs(table: Table) -> Iterator[tuple[Line, str]]:
    """What a row's task says of its test, by `remarks` of `result.json`."""
    for line in table.lines:
        for run in line.row.finished:
            for text in run.result.get("remarks") or ():
                yield line, f": {text}"


def convention(table: Table, measure: Measure) -> str | None:
    """How a measure was computed, by what results say; with the rows that each text is of, if they differ."""
    rows: dict[str, list[str]] = {}
    for line in table.lines:
        for text in dict.fromkeys(measure.told_convention(run.result) for run in line.row.finished):
            if text:
                rows.setdefault(text, []).append(line.label)
    if len(rows) < 2:
        return next(iter(rows), None)
    return "; ".join(f"{', '.join(labels)}: {text.rstrip('.')}" for text, labels in rows.items())


def _part(config: Mapping[str, Any]) -> str:
    """Which part of the dev and test data was measured, if not all."""
    trainer = (config.get("trainer") or {}) if task_of(config).limited else {}
    test, dev = trainer.get("limit_test"), trainer.get("limit_val_batches")
    found = [f"at most the first {test:,} items of each tested set (trainer.limit_test)"] if test else []
    found += [f"the dev loss over the first batches only (trainer.limit_val_batches={dev})"] if dev else []
    return "".join(f"; {text}" for text in found)
