"""A multirun as a list of runs: a table's rows × seeds (`sweep=NAME`), or a plain grid of overrides."""

import dataclasses
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override

from variations.configuration.compose import compose_run, loader
from variations.configuration.doors import file_of, shown
from variations.configuration.faults import check
from variations.configuration.hydra_door import keys_of
from variations.configuration.overrides import quoted, screen, typed_keys, values_of
from variations.configuration.places import spelled
from variations.configuration.rules import Fault
from variations.configuration.schema import RunConfig, SweepConfig, VariationConfig
from variations.configuration.suggestions import did_you_mean, options, shortened, walk_groups
from variations.configuration.sweep_file import mended
from variations.configuration.tasks import named, schema_for
from variations.store.identity import covered, is_incidental
from variations.store.naming import GRID, LONGEST, run_folder, safe_name
from variations.store.rows import SweepDefinition, crossed_label, crossed_name, load_row
from variations.system.errors import ConfigError

MOST_JOBS = 1000
OWN_KEYS = ("sweep", "rows", "seeds", "seed")
"""Keys that select jobs; each job has its own values."""


@dataclass(frozen=True)
class Job:
    """One run of a multirun."""

    row: str
    seed: int
    overrides: tuple[str, ...]
    """Overrides that compose this run in any process."""
    config: Any
    folder: Path


def expand(arguments: Sequence[str], extra_folder: str | None = None) -> list[Job]:
    """Return the jobs of a multirun in the order to run them, every one composed and checked.

    Args:
        arguments: What the user typed after `--multirun`; Hydra's own overrides are ignored.
        extra_folder: The folder of `--config-dir`.

    Raises:
        ConfigError: All faults of all jobs.
    """
    jobs = list(composed_jobs(tuple(arguments), extra_folder))
    if found := row_faults({job.row: job.config for job in jobs}):
        raise ConfigError(found)
    return jobs


@lru_cache(maxsize=2)
def composed_jobs(arguments: tuple[str, ...], extra_folder: str | None = None) -> tuple[Job, ...]:
    """As `expand`, without checking each job's values; the last results are cached.

    Raises:
        ConfigError: The jobs cannot be composed, or there is none.
    """
    parsed = OverridesParser.create(config_loader=loader(extra_folder)).parse_overrides(list(arguments))
    given = {o.get_key_element(): o for o in parsed if not o.is_hydra_override()}
    jobs = (_table if "sweep" in given else _grid)(given, extra_folder)
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
    return [f if len(rows) == len(configs) else f"{_listed(rows)}: {f}" for f, rows in rows_by_fault.items()]


def _metric_faults(config: Any) -> list[Fault]:
    metric, task = config.sweep.metric, named(config.task)
    if unknown := task.unknown_metric(metric):
        return [Fault(("sweep.metric",), f"sweep.metric: {unknown}")]
    found = task.unmeasured([task.metric(metric).key], config)
    return [
        Fault(("sweep.metric", "decode.sets"), f"sweep.metric={metric}: {text}, or choose another sweep.metric.")
        for text in found
    ]


def _listed(rows: Sequence[str]) -> str:
    return f"row{'s' if len(rows) > 1 else ''} {shortened(rows, ', ')}"


def _text(override: Override) -> str:
    return override.input_line or f"{override.get_key_element()}={override.get_value_element_as_str()}"


def _table(given: dict[str, Override], extra_folder: str | None) -> list[Job]:
    _reject_choices_of_rows(given)
    axes = {key: o for key, o in given.items() if o.is_sweep_override()}
    shared = [_text(o) for key, o in given.items() if key not in (*OWN_KEYS, *axes)]
    plain = [_text(o) for key, o in given.items() if key not in axes]
    faults_of_file, sound = mended(plain, extra_folder)
    if sound is None:
        raise ConfigError(faults_of_file)
    head = compose_run(sound, extra_folder=extra_folder)
    sweep_choice = [word for word in sound if word == _text(given["sweep"]) or word not in plain]
    points = _combinations(axes)  # one empty point if there are none
    seeds = head.seeds if head.seeds is not None else [head.seed] if "seed" in given else head.sweep.seeds
    own = _without(head.sweep.overrides, [*shared, *(points[0] if points else ())])
    if "debug" in given and "debug" not in axes:  # the sweep's file must not lift the limits of a trial run
        found, kind = loader(extra_folder), str(given["debug"].value())
        limits = keys_of(found, "debug", kind) | keys_of(found, "debug_of", f"{kind}_{head.task}")
        own = [line for line in own if line.partition("=")[0] not in limits]
    jobs: list[Job] = []
    problems = [*_name_faults(given), *faults_of_file]
    failing: dict[str, list[str]] = {}
    """Rows by the fault that keeps them from being composed."""
    try:
        rows, unknown = _rows_and_faults(head, extra_folder)
    except ConfigError as error:
        # Without a table and rows of its own, the rows may be missing because of the faults in the file.
        implied = head.sweep.table is None and not head.sweep.rows
        raise ConfigError([*problems, *([] if faults_of_file and implied else error.faults)]) from error
    problems += [*(unknown or _circle_faults(head.sweep)), *_share_faults(head.sweep, extra_folder)]
    tasks = {load_row(reference, "").task for _, reference in rows}
    own, faulty = _usable_of_file(own, tasks, extra_folder)
    problems += faulty
    rows_by_home: dict[Path, list[str]] = {}
    for (row, reference), point in itertools.product(rows, points):
        overrides = [*sweep_choice, f"variation={reference}", *own, *shared, *point]
        try:
            config = compose_run(overrides, extra_folder=extra_folder)
            if point:
                overrides += _words_of_a_point(config.variation, _grid_row(point, point))
                config = compose_run(overrides, extra_folder=extra_folder)
        except ConfigError as error:
            for fault in error.faults:
                failing.setdefault(fault, []).append(",".join([row, *point]))
            continue
        if config.variation.row is None and config.name is None:
            problems.append(
                f"row {row}: conf/variation/{reference}.yaml names no row: write `row: {row}` below `variation:`."
            )
            continue
        if not point:
            problems += _misnamed(row, reference, config.variation, head.sweep.rows, extra_folder)
        if config.variation.quoted and head.rows is None:
            continue  # printed, not run
        config.sweep.typed = [line for line in shared if _shapes_the_run(line, config)]
        rows_by_home.setdefault(run_folder(config).parent, []).append(reference)
        jobs += [_job(config.variation.row or row, overrides, config, seed) for seed in seeds]
    for fault, concerned in failing.items():
        problems.append(f"{_listed(concerned)}: {_with_its_file(fault, extra_folder)}")
    problems += [
        f"rows {' and '.join(same)} would share the folder {home}: leave one out, or copy its file under "
        "another name, with another variation.row."
        for home, same in rows_by_home.items()
        if len(same) > 1
    ]
    if problems:
        metrics = [named(task).unknown_metric(head.sweep.metric) for task in sorted(tasks)]
        raise ConfigError([*problems, *(f"sweep.metric: {fault}" for fault in metrics if fault)])
    return _base_rows_first(jobs)


def _shapes_the_run(line: str, config: RunConfig) -> bool:
    """Whether an override may change the result of a run; those of the trainer that do, change its budget."""
    names = typed_keys([line])
    return not any(covered(key, ["trainer", "seed"]) or is_incidental(key, {"task": config.task}) for key in names)


def _circle_faults(sweep: SweepConfig) -> list[str]:
    """Rows that are each other's base rows: one that names no base row is compared with the first."""
    definitions = tuple(load_row(row, sweep.table or sweep.name or "") for row in sweep.rows)
    circle = SweepDefinition("", definitions).circle()
    if not circle:
        return []
    names = {definition.row: written for definition, written in zip(definitions, sweep.rows, strict=True)}
    if not (base := next((row.row for row in circle if row.base is None), None)):
        rows = " and ".join(row.row for row in circle)
        return [f"sweep.rows: {rows} are each other's base rows: remove `base` from the file of one of them."]
    order = ", ".join([names[base], *(row for row in sweep.rows if row != names[base])])
    return [f"sweep.rows: the base row must come first: rows: [{order}]"]


def _share_faults(sweep: SweepConfig, extra_folder: str | None) -> list[str]:
    """Names of sweeps that do not exist."""
    known = options(loader(extra_folder), "sweep")
    return [
        f"sweep.shares: there is no sweep '{name}'.{did_you_mean(name, known)} Valid: {', '.join(known)}."
        for name in sweep.shares
        if name not in known
    ]


def _with_its_file(fault: str, extra_folder: str | None) -> str:
    """A fault of a row's file, named by its path instead of Hydra's words for it."""
    match = re.match(r"In '(variation/[^']+)'", fault)
    file = file_of(match[1], extra_folder) if match else None
    return f"{shown(file)}{fault.removeprefix(match[0])}" if file and match else fault


def _usable_of_file(lines: Sequence[str], tasks: set[str], extra_folder: str | None) -> tuple[list[str], list[str]]:
    """Those overrides of a sweep's file that can be composed, and the faults of the others."""
    if len(tasks) != 1:  # each has other keys
        return list(lines), []
    screened = screen(lines, schema_for(RunConfig, *tasks), loader(extra_folder), multirun=False)
    return [o.input_line or "" for o in screened.usable], [f"sweep.overrides: {fault}" for fault in screened.faults]


def _misnamed(
    row: str, reference: str, variation: VariationConfig, rows: Sequence[str], extra_folder: str | None
) -> list[str]:
    """Faults of the names in a row's file: the row's own, and its base row's, of this sweep or the row's own table."""
    problems = []
    if variation.row not in (None, row):
        problems.append(
            f"row {row}: its file conf/variation/{reference}.yaml says row: {variation.row}. "
            f"Write row: {row}, or rename the file."
        )
    in_table = options(loader(extra_folder), f"variation/{reference.rpartition('/')[0]}")
    known = [*dict.fromkeys([*(name.rpartition("/")[2] for name in rows), *in_table])]
    if variation.base is not None and variation.base not in known:
        near = did_you_mean(variation.base, known)
        problems.append(
            f"row {row}: variation.base={variation.base}: there is no such row.{near} Valid: {', '.join(known)}."
        )
    return problems


def _reject_choices_of_rows(given: dict[str, Override]) -> None:
    problems = []
    if "variation" in given:
        problems.append("variation=… and sweep=… both select rows: with a sweep, write rows=[…].")
    if "seed" in given and given["seed"].is_sweep_override():
        problems.append(f"{_text(given['seed'])} cannot be combined with sweep=…: use seeds=[1,2].")
    if problems:
        raise ConfigError(problems)


def _words_of_a_point(variation: VariationConfig, point: str) -> list[str]:
    """Overrides that name the row of a table at one `point` of the keys with which the table is crossed.

    Each point has its own rows, which are compared only with each other, and use only each other's weights.
    """
    words = {"row": variation.row, "base": variation.base, "reuse": variation.reuse}
    named = {key: crossed_name(name, point) for key, name in words.items() if name is not None}
    named["label"] = crossed_label(variation.label or variation.row or "", point)
    return [f"variation.{key}={quoted(text)}" for key, text in named.items()]


def _name_faults(given: dict[str, Override]) -> list[str]:
    if "name" not in given:
        return []
    return [f"{_text(given['name'])} names a single run: the folder of a multirun is named by sweep.name=NAME."]


def table_rows(config: RunConfig, extra_folder: str | None = None) -> list[tuple[str, str]]:
    """Return `(row, option of the group variation)` for the rows that a sweep's configuration picks.

    Raises:
        ConfigError: The sweep names no table, is empty, or a row is not in it.
    """
    rows, problems = _rows_and_faults(config, extra_folder)
    if problems:
        raise ConfigError(problems)
    return rows


def _rows_and_faults(config: RunConfig, extra_folder: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """As `table_rows`, with the faults of rows that cannot be found; ConfigError if the sweep has no table at all."""
    sweep, found = config.sweep, loader(extra_folder)
    if sweep.name is None:
        raise ConfigError(
            ["sweep.name is not set: the sweep's file must set it, because it names the folder of the runs."]
        )
    if sweep.search.space or sweep.search.trials is not None:
        raise ConfigError(
            [
                f"sweep={sweep.name} is a search and has no rows: its trials are chosen one after the other. Start it "
                f"with {spelled('train')} --multirun, or plan its baseline row with variation=TABLE/ROW."
            ]
        )
    table = sweep.table or sweep.name
    in_table = options(found, f"variation/{table}")
    if not in_table and not any("/" in row for row in sweep.rows):
        near = did_you_mean(table, [name.removeprefix("variation/") for name in walk_groups(found, "variation")])
        text = f"sweep.table={table}: there are no rows in conf/variation/{table}/; set sweep.table.{near}"
        raise ConfigError([text])
    references: dict[str, str] = {}
    absent: set[str] = set()
    problems = [fault.text for fault in check(config) if fault.keys in (("rows",), ("seeds",))]
    for row in sweep.rows or in_table:
        folder, _, name = (row if "/" in row else f"{table}/{row}").rpartition("/")
        if name not in (known := options(found, f"variation/{folder}")):
            absent.add(row)
            valid = f" Its rows are {', '.join(known)}." if known else ""
            problems.append(
                f"sweep.rows: there is no row '{name}' in conf/variation/{folder}/.{did_you_mean(name, known)}{valid}"
            )
        if f"{folder}/{name}" not in references.values():
            references[row] = f"{folder}/{name}"
    chosen = set(references) if config.rows is None else set[str]()
    for word in config.rows or []:
        # As in the sweep file, or only the row's name, which is also that of its folder.
        meant = [word] if word in references else [row for row in references if row.rpartition("/")[2] == word]
        chosen.update(meant)
        if len(meant) > 1:
            problems.append(f"rows: '{word}' can mean {' or '.join(meant)}: also write the table's name.")
        elif not meant:
            problems.append(
                f"rows: the sweep '{sweep.name}' has no row '{word}'.{did_you_mean(word, list(references))} "
                f"Its rows are {', '.join(references)}."
            )
    picked = {row: reference for row, reference in references.items() if row in chosen - absent}
    return [(reference.rpartition("/")[2], reference) for reference in picked.values()], problems


def _base_rows_first(jobs: list[Job]) -> list[Job]:
    bases = {job.config.variation.base for job in jobs}
    return sorted(jobs, key=lambda job: job.row not in bases)


def _without(lines: Sequence[str], winners: Sequence[str]) -> list[str]:
    keys = {line.partition("=")[0] for line in winners}
    return [line for line in lines if line.partition("=")[0] not in keys]


def _grid(given: dict[str, Override], extra_folder: str | None) -> list[Job]:
    combinations = _combinations(given)
    varied = {key for key, override in given.items() if override.is_sweep_override()}
    picked = "variation" in given and isinstance(given["variation"].value(), Glob)
    jobs: list[Job] = []
    table_words = {"rows": "rows belong to a sweep, so add sweep=NAME", "seeds": "a grid takes several as seed=1,2"}
    problems = _name_faults(given)
    problems += [f"{_text(given[key])} is for a table: {text}." for key, text in table_words.items() if key in given]
    composed: dict[tuple[str, ...], RunConfig] = {}
    for combination in combinations:
        lines = [line for line in combination if not line.startswith("seed=")]
        name = _grid_row(lines, [line for line in lines if line.partition("=")[0] in varied])
        home = [] if "sweep.name" in given else [f"sweep.name={GRID}"]
        overrides = (*lines, *home, f"name='{name}'")
        try:
            config = composed.get(overrides) or composed.setdefault(
                overrides, compose_run(overrides, extra_folder=extra_folder)
            )
        except ConfigError as error:
            problems += [f"{' '.join(combination)}: {fault}" for fault in error.faults]
            continue
        if picked and config.variation.quoted:
            continue  # another system's figures, which only a glob has matched
        seeds = [int(line.partition("=")[2]) for line in combination if line.startswith("seed=")]
        jobs.append(_job(name, overrides, config, seeds[0] if seeds else config.seed))
    if problems:
        raise ConfigError(problems)
    return jobs


def _combinations(given: dict[str, Override]) -> list[tuple[str, ...]]:
    """Every combination of values, one override a key.

    Raises:
        ConfigError: They are infinitely many, or too many, or their runs would share a folder.
    """
    for key, override in given.items():
        if override.is_sweep_override() and not override.is_discrete_sweep():
            raise ConfigError([f"{override.input_line}: an interval is infinite; list values, as in 1,2,3."])
        if override.is_sweep_override() and key not in ("seed", "sweep", "name") and is_incidental(key, {}):
            raise ConfigError(
                [
                    f"{override.input_line}: {key} does not belong to what a run's folder is named after, so these "
                    "runs would share one: start the multirun once for each value, each time with another sweep.name."
                ]
            )
    each = [_each_value(override) for override in given.values()]
    count = math.prod(map(len, each))
    if count > MOST_JOBS:
        raise ConfigError([f"this grid has {count} runs; at most {MOST_JOBS} are started at once: list fewer values."])
    return list(itertools.product(*each))


def _each_value(override: Override) -> list[str]:
    if isinstance(override.value(), Glob):
        return [f"{override.key_or_group}={name}" for name in values_of(override)]
    if not override.is_sweep_override():
        return [_text(override)]
    values = dict.fromkeys(override.sweep_string_iterator())  # each once
    return [f"{override.get_key_element()}={value}" for value in values]


def _grid_row(lines: Sequence[str], varied: Sequence[str]) -> str:
    """The folder of a grid's row: its overrides, or if they are too long for a name, those that vary.

    Raises:
        ConfigError: These are too long as well.
    """
    telling = [line for line in lines if not any(is_incidental(key, {}) for key in typed_keys([line]))]
    text = ",".join(telling) or "default"
    if len(whole := safe_name(text, longest=None)) <= LONGEST:
        return whole
    identity = hashlib.sha256(text.encode()).hexdigest()[:8]
    short = safe_name(",".join([*(line for line in telling if line in varied), identity]), longest=None)
    if len(short) > LONGEST:
        raise ConfigError(
            [
                f"a row of this grid would be called {short}, which is longer than a folder's name may be ({LONGEST} "
                "characters): vary fewer keys at a time, or give each combination a row in conf/variation/."
            ]
        )
    return short


def _job(row: str, overrides: Sequence[str], config: RunConfig, seed: int) -> Job:
    config = dataclasses.replace(config, seed=seed)
    return Job(row, seed, (*overrides, f"seed={seed}"), config, run_folder(config))
