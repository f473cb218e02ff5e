"""The runs of a table: its rows × seeds, and if keys with several values are typed, × the combinations of these."""

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override

from variations.configuration.compose import compose_run, loader, to_dict
from variations.configuration.doors import file_of, shown, shown_option
from variations.configuration.overrides import quoted, screen, typed_keys
from variations.configuration.schema import RunConfig, VariationConfig
from variations.configuration.suggestions import listed_rows
from variations.configuration.sweep_file import mended
from variations.configuration.tasks import named, schema_for
from variations.store.naming import run_folder
from variations.store.row_files import fingerprint_of, keys_of_option, shaping
from variations.store.rows import crossed_label, crossed_name, load_row
from variations.sweeping.grid_jobs import (
    AT_POINTS,
    KnownRows,
    combinations,
    grid_row,
    is_stored,
    name_faults,
    shared_folders,
    spelled_before,
    text_of,
)
from variations.sweeping.job import Job, make_job
from variations.sweeping.table_rows import circle_faults, misnamed, rows_and_faults, share_faults
from variations.system.errors import ConfigError

OWN_KEYS = ("sweep", "rows", "seeds", "seed")
"""Keys that select jobs; each job has its own values."""
_CHOOSING = re.compile(r"sweep[.=]")
"""Begins overrides that choose or change the sweep."""
_OF_A_COMMAND = re.compile(rf"\W*(hydra[/.]|({'|'.join((*OWN_KEYS, 'variation'))})(=|$))")
"""Begins overrides that choose runs or their launcher, with which no row is composed."""


def table_jobs(given: dict[str, Override]) -> list[Job]:
    """The runs of a table, base rows first. Raises ConfigError with all faults of its rows and its files."""
    _reject_choices_of_rows(given)
    axes = {key: o for key, o in given.items() if o.is_sweep_override()}
    shared = [text_of(o) for key, o in given.items() if key not in (*OWN_KEYS, *axes)]
    plain = [text_of(o) for key, o in given.items() if key not in axes]
    faults_of_file, sound = mended(plain)
    if sound is None:
        raise ConfigError(faults_of_file)
    head = compose_run(sound)
    points = combinations(axes)  # one empty point if there are none
    seeds = seeds_of(head, given)
    problems = [*name_faults(given), *faults_of_file]
    try:
        rows, unknown = rows_and_faults(head)
    except ConfigError as error:
        # Without a table and rows of its own, the rows may be missing because of the faults in the file.
        implied = head.sweep.table is None and not head.sweep.rows
        raise ConfigError([*problems, *([] if faults_of_file and implied else error.faults)]) from error
    problems += [*(unknown or circle_faults(head.sweep)), *share_faults(head.sweep)]
    if head.sweep.seeds == [] and not seeds:
        problems.append("sweep.seeds=[] leaves no seed to run: name some.")
    task_of = {reference: load_row(reference, "").task for _, reference in rows}
    tasks = set(task_of.values())
    own, faulty = _usable_of_file(head.sweep.overrides, tasks)
    choice = [word for word in sound if word == text_of(given["sweep"]) or word not in plain]

    def line(reference: str, point: tuple[str, ...]) -> list[str]:
        typed = [*shared, *point]
        return [*choice, f"variation={reference}", *overrides_of_file(own, typed, task_of[reference]), *typed]

    asked = [(*row, point, line(row[1], point)) for row, point in itertools.product(rows, points)]
    configs, found = _composed(head, asked, shared)
    problems += [*faulty, *found]
    if problems:
        metrics = [named(task).metric_fault(head.sweep.metric) for task in sorted(tasks)]
        raise ConfigError([*problems, *(f"sweep.metric: {fault}" for fault in metrics if fault)])
    return _base_rows_first(
        [make_job(row, overrides, config, seed) for row, overrides, config in configs for seed in seeds]
    )


def overrides_of_file(lines: Sequence[str], typed: Sequence[str], task: str) -> list[str]:
    """Those overrides of a sweep's file that neither typed ones nor the limits of a typed quick check replace.

    Args:
        lines: All overrides of the file.
        typed: Overrides of the command, of which none has several values.
        task: Task of the runs.
    """
    given = typed_keys(typed)
    keys = {*given}
    if kind := given.get("debug"):
        files = ("debug", kind), ("debug_of", f"{kind}_{task}")
        keys |= {key for group, option in files for key in keys_of_option(group, option)}
    return [line for line in lines if typed_keys([line]).keys().isdisjoint(keys)]


def single_run(lines: Sequence[str]) -> list[str]:
    """The overrides that compose a single run.

    To those of a run of a sweep, its file's are added, with which `--multirun` trains the sweep's rows. A row's run
    also records what else was typed, as there.

    Args:
        lines: The overrides as typed.
    """
    if not any(_CHOOSING.match(line) for line in lines):
        return [*lines]
    found = [*overrides_of_sweep(lines)[0], *lines]
    try:
        config = compose_run(found)
    except ConfigError:  # the command reports it
        return found
    if config.sweep.name is None or config.variation.row is None:
        return found
    typed = [line for line in lines if line not in config.sweep.overrides and not _OF_A_COMMAND.match(line)]
    return [*found, f"sweep.typed=[{','.join(map(quoted, shaping(typed, config)))}]"]


def overrides_of_sweep(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """The overrides that the file of its sweep gives to a single run, and the faults of the file's overrides.

    Args:
        lines: The overrides as typed. Faults of what they choose are left to whoever composes the run.
    """
    chosen = [line for line in lines if re.match(r"task=|variation[.=]", line) or _CHOOSING.match(line)]
    if "sweep" not in typed_keys(chosen):
        return [], []
    try:
        sound = mended(chosen)[1] or chosen
        head = compose_run(sound)
    except ConfigError:  # of which the run is composed, too
        return [], []
    own, faults = _usable_of_file(head.sweep.overrides, {head.task})
    with suppress(ConfigError):  # as above
        if said := command_fault(compose_run([*sound, *own]), head, "row", None):
            faults.append(said)
    return overrides_of_file(own, lines, head.task), faults


def _composed(
    head: RunConfig, asked: Sequence[tuple[str, str, tuple[str, ...], list[str]]], shared: Sequence[str]
) -> tuple[list[tuple[str, list[str], RunConfig]], list[str]]:
    """The rows of a table, and the faults of those that cannot be run.

    Args:
        head: The sweep's own configuration.
        asked: Of each row its name, its file's reference, its values of the keys with which the table is crossed, and
            the overrides that compose it.
        shared: Overrides that were typed for all rows.

    Returns:
        Name, overrides and configuration of each row that is run; and the faults.
    """
    found: list[tuple[str, list[str], RunConfig]] = []
    problems: list[str] = []
    failing: dict[str, list[str]] = {}  # rows by the fault that keeps them from being composed
    homes: dict[Path, list[str]] = {}  # the rows that are stored in each folder
    points = dict.fromkeys(point for _, _, point, _ in asked if point)
    try:
        spelled = _spellings(asked, points, KnownRows())
    except ConfigError as error:  # a name is too long; others stand for them while other faults are looked for
        problems += error.faults
        spelled = {point: f"point{number}" for number, point in enumerate(points)}
    for row, reference, point, overrides in asked:
        try:
            config = compose_run(overrides)
            if point:
                overrides = overrides + _words_of_a_point(config.variation, spelled[point])
                config = compose_run(overrides)
        except ConfigError as error:
            for fault in error.faults:
                failing.setdefault(fault, []).append(",".join([row, *point]))
            continue
        if said := command_fault(config, head, "row", f"variation/{reference}"):
            problems.append(f"row {row}: {said}")
            continue
        if config.variation.row is None and config.name is None:
            file = shown_option(f"variation/{reference}")
            problems.append(f"row {row}: {file} names no row: write `row: {row}` below `variation:`.")
            continue
        if not point:
            problems += misnamed(row, reference, config.variation, head.sweep.rows)
        if config.variation.quoted and head.rows is None:
            continue  # printed, not run
        config.variation.sha256 = fingerprint_of(to_dict(config))
        config.sweep.typed = shaping([line for line in shared if line not in config.sweep.overrides], config)
        stored = f"{reference} with {' '.join(point)}" if point else reference
        homes.setdefault(run_folder(config).parent, []).append(stored)
        found.append((config.variation.row or row, overrides, config))
    problems += [f"{listed_rows(concerned)}: {_with_its_file(fault)}" for fault, concerned in failing.items()]
    crossed = any(point for _, _, point, _ in asked)
    advice = AT_POINTS if crossed else "or copy its file under another name, with another variation.row"
    return found, problems + shared_folders(homes, advice)


def command_fault(config: RunConfig, head: RunConfig, kind: str, option: str | None) -> str | None:
    """Keys of a row or a trial that would be ignored, or store or run it in another way than its sweep; None if none.

    Args:
        config: The row, or what trials share, without the rows and seeds that were typed.
        head: The sweep's own configuration.
        kind: `row` or `trial`.
        option: The file that the configuration starts from, `variation/TABLE/ROW`; None if there is none.
    """
    own: dict[str, tuple[Any, Any]] = {key: (getattr(config, key), None) for key in ("rows", "seeds")}
    own |= {"seed": (config.seed, RunConfig.seed)}
    own |= {key: (getattr(config, key), getattr(head, key)) for key in ("name", "runs", "force")}
    own |= {
        f"sweep.{key}": (getattr(config.sweep, key), getattr(head.sweep, key)) for key in ("name", "seeds", "search")
    }
    found = "`, `".join(key for key, (value, expected) in own.items() if value != expected)
    place = "the sweep's overrides" if option is None else f"{shown_option(option)} and of the sweep's overrides"
    return f"`{found}` belongs to a command, not to a {kind}: leave it out of {place}." if found else None


def seeds_of(head: RunConfig, typed: Collection[str]) -> list[int]:
    """The seeds of each row or trial; `typed`: the keys of the command."""
    if head.seeds is not None:
        return head.seeds
    return [head.seed] if "seed" in typed else head.sweep.seeds


def _with_its_file(fault: str) -> str:
    """A fault of a row's file, named by its path instead of Hydra's words for it."""
    match = re.match(r"In '(variation/[^']+)'", fault)
    file = file_of(match[1]) if match else None
    return f"{shown(file)}{fault.removeprefix(match[0])}" if file and match else fault


def _usable_of_file(lines: Sequence[str], tasks: set[str]) -> tuple[list[str], list[str]]:
    """Those overrides of a sweep's file that can be composed, and the faults of the others."""
    if len(tasks) != 1:  # each has other keys
        return list(lines), []
    several = "a file has one; type them after sweep=NAME, make each a row"
    screened = screen(lines, schema_for(RunConfig, *tasks), loader(), multirun=False, several=several)
    return [o.input_line or "" for o in screened.usable], [f"sweep.overrides: {fault}" for fault in screened.faults]


def _reject_choices_of_rows(given: dict[str, Override]) -> None:
    problems = []
    if "variation" in given:
        problems.append("variation=… and sweep=… both select rows: with a sweep, write rows=[…].")
    if "seed" in given and given["seed"].is_sweep_override():
        problems.append(f"{text_of(given['seed'])} cannot be combined with sweep=…: use seeds=[1,2].")
    if problems:
        raise ConfigError(problems)


def _spellings(
    asked: Sequence[tuple[str, str, tuple[str, ...], list[str]]], points: Iterable[tuple[str, ...]], stored: KnownRows
) -> dict[tuple[str, ...], str]:
    """How the store spells the points of a crossed table, if an older version named a row there in another way.

    Raises:
        ConfigError: A point is too long for a folder's name.
    """
    usual = {point: grid_row(point, point) for point in points}
    found: dict[tuple[str, ...], str] = {}
    for _, _, point, overrides in asked:
        if not point or point in found:
            continue
        try:
            variation = compose_run(overrides).variation
            config = compose_run([*overrides, *_words_of_a_point(variation, usual[point])])
        except ConfigError:  # told where the row is made
            continue
        start = crossed_name(variation.row or "", "")
        if is_stored(run_folder(config).parent):
            found[point] = usual[point]
        elif not variation.reuse:
            names = [name.removeprefix(start) for name in stored.names(config) if name.startswith(start)]
            name = spelled_before(usual[point], names, usual.values())
            found |= {point: name} if name != usual[point] else {}
    return usual | found


def _words_of_a_point(variation: VariationConfig, point: str) -> list[str]:
    """Overrides that name the row of a table at one `point` of the keys with which the table is crossed.

    Each point has its own rows, which are compared only with each other, and use only each other's weights.
    """
    words = {"row": variation.row, "base": variation.base, "reuse": variation.reuse}
    named = {key: crossed_name(name, point) for key, name in words.items() if name is not None}
    named["label"] = crossed_label(variation.label or variation.row or "", point)
    return [f"variation.{key}={quoted(text)}" for key, text in named.items()]


def _base_rows_first(jobs: list[Job]) -> list[Job]:
    bases = {job.config.variation.base for job in jobs}
    return sorted(jobs, key=lambda job: job.row not in bases)
