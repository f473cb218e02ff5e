"""All faults of a command line in one message, before Hydra runs anything and before any folder is made."""

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from variations.commands.launchers import AT, launcher_faults
from variations.commands.stored import root_of
from variations.configuration.compose import compose_node, compose_run, loader, to_config
from variations.configuration.doors import shown
from variations.configuration.faults import check, values
from variations.configuration.overrides import EVERYTHING, Screened, screen, typed_keys
from variations.configuration.places import spelled
from variations.configuration.rules import Fault
from variations.configuration.schema import RunConfig
from variations.configuration.sweep_file import file_with, in_file, mended
from variations.configuration.tasks import named, schema_for, schema_of
from variations.searching.definition import PLUGIN, define, is_search, task_of_trials
from variations.store.differences import idle
from variations.store.rows import load_row
from variations.sweeping.table_jobs import overrides_of_sweep, single_run
from variations.system.errors import ConfigError, UserError


def preflight(
    lines: Sequence[str],
    schema: type[Any],
    config_name: str,
    *,
    multirun: bool = False,
    axes: bool = False,
    runs_models: bool = False,
    one_run: bool = False,
) -> list[str]:
    """Return every fault of a command line.

    Args:
        lines: The overrides as typed.
        schema: The verb's dataclass.
        config_name: The verb's primary configuration.
        multirun: Whether several runs are asked for.
        axes: Whether keys may have several values all the same; if nothing else is wrong, the verb itself checks the
            rows and combinations.
        runs_models: Whether the verb trains, so that rules about single runs and grids hold.
        one_run: Whether it prints the configuration of one run unless there is `multirun`.
    """
    of_file, sound = mended(lines)
    own = set[str]()  # keys of the verb itself, which rows do not have
    if issubclass(schema, RunConfig):
        task = task_of(lines, config_name)
        schema = schema_for(schema, task)
        own = {item.name for item in fields(schema)} - {item.name for item in fields(schema_of(task))}
    screened = screen(lines, schema, loader(), multirun=multirun or axes)
    screened.faults += launcher_faults(screened.usable, config_name)
    screened.usable = [override for override in screened.usable if not override.key_or_group.startswith(AT)]
    usable = [override.input_line or "" for override in screened.usable]
    if sound is None:
        return [*screened.faults, *of_file]
    others = [line for line in usable if line.startswith("hydra/sweeper=") and line != PLUGIN]
    if multirun and not others:
        later = _multirun_faults(usable, screened)
    else:
        kept = [o.input_line or "" for o in screened.usable if not o.is_sweep_override()]
        several = axes and (len(kept) < len(usable) or any(o.key_or_group == "sweep" for o in screened.usable))
        alone = (runs_models or one_run) and not multirun
        trains = runs_models and not multirun
        later = _single_faults(kept, screened, schema, config_name, trains, one_run=alone, of_rows=several)
        if several and (screened.faults or later):  # the verb, which checks all rows, will not be reached
            of_rows = [o.input_line or "" for o in screened.usable if o.key_or_group not in own]
            later += _multirun_faults(of_rows, screened, trains=False)
    return list(dict.fromkeys([*screened.faults, *of_file, *_as_in_the_file(later, lines)]))


def configurations(lines: Sequence[str], part: str | None) -> str:
    """The configuration of each row of a multirun as YAML documents, with the row's first seed.

    Args:
        lines: The overrides as typed.
        part: A group or key, such as `model`, of which alone they consist.

    Raises:
        UserError: It is a search, which chooses the values as it runs, or there is no such part.
    """
    from variations.configuration.compose import to_dict
    from variations.store.atomic import yaml_text
    from variations.sweeping.jobs import expand

    own = [line for line in lines if not line.startswith(("hydra/", "hydra."))]
    if PLUGIN in lines or is_search(own):
        raise UserError("A search chooses the values of its trials as it runs: leave out --multirun or --cfg.")
    jobs = {job.row: job for job in reversed(expand(own))}  # the first seed of a row stays
    documents = []
    for job in reversed(jobs.values()):
        found: Any = to_dict(job.config)
        for key in part.split(".") if part else ():
            if not isinstance(found, dict) or key not in found:
                raise UserError(f"-p {part}: {job.row} has no such group or key.")
            found = found[key]
        documents.append(f"---\n# {job.row}, seed {job.seed}\n{yaml_text(found)}")
    return "".join(documents)


def with_task(lines: Sequence[str]) -> list[str]:
    """The overrides with the task of a sweep's rows, without which a key that only this task has would be unknown."""
    from variations.sweeping.table_rows import table_rows

    typed = typed_keys(lines)
    if "sweep" not in typed or typed.keys() & {"task", "variation"}:
        return [*lines]
    try:
        _, sound = mended(lines)
        chosen = [line for line in sound or lines if re.match(r"(sweep|rows)[.=]", line)]
        head = compose_run(chosen)
        if is_search(chosen):
            found = {str(task_of_trials(head).name)}
        else:
            rows = [load_row(reference, "") for _, reference in table_rows(head)]
            found = {row.task for row in rows if not row.quoted}
    except UserError:
        return [*lines]  # `preflight` reports it
    return [*lines, *(f"task={name}" for name in found if len(found) == 1 and name != head.task)]


def _as_in_the_file(faults: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Faults of what a sweep's file says, with that file and its keys as they are written there."""
    typed = typed_keys(lines)
    found = []
    for fault in faults:
        text = re.sub(r"^In 'sweep/[^']*': ", "", fault)
        key = re.match(r"(?:unknown key ')?sweep\.(\w+)((?:\.\w+)*)", text)
        if key is not None and typed.keys().isdisjoint([f"sweep.{key[1]}", f"sweep.{key[1]}{key[2]}"]):
            place = file_with(key[1], typed.get("sweep", ""))
            fault = f"{shown(place)}: {in_file(text)}" if place else fault
        found.append(fault)
    return found


def task_of(lines: Sequence[str], config_name: str) -> str | None:
    """The task of a command line, if a group that may choose it is typed and can be composed; None: the default."""
    groups = [line for line in lines if line.partition("=")[0] in ("task", "variation", "sweep") and "," not in line]
    if not groups:
        return None
    try:
        node, _ = compose_node(groups, config_name=config_name)
        return str(named(node.task).name)
    except ConfigError:
        return None  # `screen` reports the faulty group


def _single_faults(
    lines: Sequence[str],
    screened: Screened,
    schema: type[Any],
    config_name: str,
    runs_models: bool,
    *,
    one_run: bool,
    of_rows: bool,
) -> list[str]:
    of_file = overrides_of_sweep(lines)[1] if one_run else []
    try:
        whole = single_run(lines) if one_run else lines
        node, _ = compose_node(mended(whole)[1] or whole, config_name=config_name)
        config = to_config(node, schema)
    except ConfigError as error:
        return [*of_file, *error.faults]
    of_rows |= isinstance(config, RunConfig) and config.sweep.name is not None and not runs_models
    found = list(values(config)) if of_rows else check(config)  # rules hold for the rows, which add their own keys
    if one_run and isinstance(config, RunConfig):
        found += _run_faults(config)
    if runs_models and isinstance(config, RunConfig):
        found += [Fault(("runs",), text) for text in _store_faults(config.runs)]
        task = named(config.task)
        if unknown := task.metric_fault(config.sweep.metric):
            found.append(Fault(("sweep.metric",), f"sweep.metric: {unknown}"))
        typed = [line for line in lines if line not in config.sweep.overrides]  # W&B's agents repeat the file's lines
        found += idle(typed, [config]) or (task.unusable_files([config]) if not found else [])
    return [*of_file, *(fault.text for fault in found if not screened.doubts(fault.keys))]


def _multirun_faults(lines: Sequence[str], screened: Screened, *, trains: bool = True) -> list[str]:
    from variations.sweeping.jobs import by_task, composed_jobs, row_faults

    own = tuple(line for line in lines if not line.startswith(("hydra/", "hydra.")))
    try:
        if PLUGIN in lines or is_search(own):
            base = define(own).base
            found = _store_faults(base.runs)
            if trains and not found:
                found = [fault.text for fault in named(base.task).unusable_files([base])]
            return found
        jobs = composed_jobs(tuple(lines))
    except UserError as error:
        found = error.faults if isinstance(error, ConfigError) else [str(error)]
        return [] if EVERYTHING in screened.doubtful else found
    found = _store_faults(jobs[0].config.runs)
    jobs = tuple(job for job in jobs if trains or not job.config.variation.quoted)  # a plan also lists quoted rows
    found += row_faults({job.row: job.config for job in jobs}, screened.doubts)
    found += [fault.text for fault in idle(lines, [job.config for job in jobs]) if not screened.doubts(fault.keys)]
    if found or not trains:
        return found
    return [f.text for f in by_task(jobs, lambda task, configs: task.unusable_files(configs))]


def _store_faults(runs: str) -> list[str]:
    """Why the run store cannot be used, as readers say it."""
    try:
        root_of(runs)
    except UserError as error:
        return [str(error)]
    return []


def _run_faults(config: RunConfig) -> list[Fault]:
    if config.sweep.name is None or config.variation.row is not None or config.name is not None:
        return []
    text = (
        f"sweep={config.sweep.name} has many runs: add --multirun for all of them, or variation=TABLE/ROW for one, or "
        f"ask {spelled('plan')} for their cost."
    )
    return [Fault(("sweep.name",), text)]
