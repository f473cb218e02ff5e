"""Whether runs that are compared were made alike: from the same texts, and with the same overrides typed."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from variations.configuration import doors
from variations.configuration.overrides import typed_keys
from variations.configuration.sweep_file import compose_sweep
from variations.configuration.tasks import task_of
from variations.store.atomic import as_typed
from variations.store.conflicts import history
from variations.store.differences import changes, in_words
from variations.store.identity import changed_keys, covered, flatten
from variations.store.inputs import LOST, other_modules, other_texts
from variations.store.row_files import computing, files_stamp, keys_of_option, recomposed, shapes_the_run, stated
from variations.system.errors import ConfigError
from variations.tables.collect import Row, SeedRun
from variations.tasks.task import validated_on, values_of

LISTED = 3
"""Names of inputs above which a note only counts the others."""


def differing(ours: SeedRun, theirs: SeedRun) -> list[str]:
    """Names of the inputs (texts, vocabulary, ids) that differ between two runs whose keys of `data` make them equal.

    Inputs that only one of them has, or that are not known, do not count; for the code of own classes see `other_code`.
    """
    return other_texts(ours.inputs, theirs.inputs, ours.config, theirs.config)


def unversioned(text: str) -> str:
    """How a score was computed, without the version of the program."""
    return re.sub(r"\bversion:[^|;]*|\bv:[^|;]*", "", text)


def other_code(ours: SeedRun, theirs: SeedRun) -> list[str]:
    """Names of the modules of own classes of which two runs used different versions."""
    return other_modules(ours.inputs, theirs.inputs)


def edited_between(row: Row, base: Row) -> list[str]:
    """Notes on own modules of which a row and its base row used different versions under a common seed."""
    theirs = {run.seed: run for run in base.finished}
    pairs = [(run, theirs[run.seed]) for run in row.finished if run.seed in theirs]
    names = sorted({name for ours, other in pairs for name in other_code(ours, other)})
    return [f"trained with another version of {name} than its base row" for name in names]


def other_project_code(row: Row, base: Row | None) -> list[str]:
    """Notes if this project's code that trained a row differs between its seeds, or from that of its base row.

    Most such differences change no result, so the rows are compared all the same. Results of former versions do not
    have their code.
    """
    own = {run.seed: run.result.get("code") for run in row.finished}
    theirs = {run.seed: run.result.get("code") for run in base.finished} if base is not None else {}
    found = []
    if len({*own.values()} - {None}) > 1:
        found.append("its seeds were trained with several versions of this project's code")
    if any(len({own[seed], theirs[seed]} - {None}) > 1 for seed in own.keys() & theirs.keys()):
        found.append("trained with another version of this project's code than its base row")
    return found


def other_inputs(row: Row, base: Row) -> str | None:
    """A note if a row and its base row were trained or tested on different texts; None if not, or if unknown."""
    theirs = {run.seed: run for run in base.finished}
    for run in row.finished:
        names = differing(run, theirs[run.seed]) if run.seed in theirs else []
        if LOST in names:
            lost = "environment.json is lost or damaged, so it is unknown whether both were trained on the same texts"
            return f"its or its base row's {lost} (seed {run.seed}): not compared"
        if names:
            return f"its inputs differ from its base row's ({listed(names)}; seed {run.seed}): not compared"
    return None


def other_scale(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """On what the losses of two runs depend, by `loss_scale`, that differs between them; None if nothing does."""
    other = (name for name in ours if name in theirs and ours[name] != theirs[name])
    return next((f"the {name}" if " " in name or "." not in name else name for name in other), None)


def listed(names: list[str]) -> str:
    """`train.de, train.en`, and of many the first ones and the number of the others."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def other_overrides(row: Row, base: Row) -> str | None:
    """A note if overrides made only one of a row and its base row differ, or made both the same; None if not.

    Overrides are those of the sweep's file, which may have been edited between the two, and those that were typed.
    """
    ours, theirs = (side.config.get("sweep") or {} for side in (row, base))
    flat, usual = flatten(row.config), flatten(base.config)
    differing = [key for key in flat.keys() | usual.keys() if flat.get(key) != usual.get(key)]
    found = []
    # Rows of a grid are named after what was typed.
    of_grid = all(side.config.get("name") for side in (row, base))
    for name, how in (("overrides", "stood in the sweep's file"), ("typed", "was typed")):
        if of_grid or not (name in ours and name in theirs):  # an older run
            continue
        for side, other, whose in ((ours, theirs, "it"), (theirs, ours, "its base row")):
            alone = [line for line in side[name] or [] if line not in (other[name] or [])]
            if lines := [line for line in alone if any(covered(key, _keys(line)) for key in differing)]:
                found.append(f"{' '.join(lines)} {how} for {whose} alone")
    if not found and differing and not changed_keys(base.config, row.config):
        found.append("its configuration is that of its base row")
    if not found and (text := _edited_since(row, base)):
        found.append(text)
    return "; ".join(found) or None


def _edited_since(row: Row, base: Row) -> str | None:
    """What differs between a row and its base row that their files, as they are now, would not make differ.

    A file that both choose, such as a recipe, was edited between their runs.
    """
    differing = changes(base.config, row.config)
    rows = [side.config.get("variation") or {} for side in (base, row)]
    written = [stated(str(each.get("row")), str(each.get("table"))) for each in rows]
    if differing.keys() <= written[0].keys() | written[1].keys():  # to compose both takes longer than all else
        return None
    before, after = (recomposed(side.config) for side in (base, row))
    if before is None or after is None:
        return None
    expected = changes(before, after)
    how = computing(differing, row.config, base.config)
    left = {key: values for key, values in differing.items() if key not in expected and key not in how}
    if not left:
        return None
    words = in_words(left, row.config)
    # trainer=gpu, which also sets the precision, is not kept with what was typed.
    typed = "trainer=… was typed, or " if left.keys() == {"trainer.precision"} else ""
    return f"differs from its base row in {words}, which their files do not say: {typed}one was edited since"


def edited_files(row: Row) -> dict[str, tuple[Any, Any]]:
    """Keys in which a row's runs differ from what its file, and all that this chooses, give now, the run's value first.

    Empty if that is unknown: for rows of a grid, for crossed rows, and for runs of versions that did not store what was
    typed. Of the trainer, only keys count that may change a result, and that the row's file or an override sets.
    """
    config, definition = row.config, row.definition
    sweep = config.get("sweep") or {}
    recorded = all(run.result.get("row_file") for run in row.finished)
    if not recorded or not {"overrides", "typed"} <= sweep.keys():
        return {}
    now = recomposed(config, definition.row, definition.table)
    found = changes(now, config) if now is not None else {}
    silent = [entry.split(" ")[0] for entry in history(config)]  # changed on the way, which is told
    # A choice such as trainer=gpu, or a file of one's own, is not kept with what was typed.
    lines = [*(sweep["overrides"] or []), *(sweep["typed"] or [])]
    known = {*stated(definition.row, str(definition.table)), *(key for line in lines for key in _keys(line))}
    how = computing(found, config, now or config)
    return {
        key: (ran, given)
        for key, (given, ran) in found.items()
        if key not in how and not covered(key, silent) and (key in known or not covered(key, ["trainer"]))
    }


def edited_overrides(row: Row) -> str | None:
    """A note if the overrides of a sweep's file, sweep/NAME.yaml, are not, or no longer, those a row was run with."""
    sweep = row.config.get("sweep") or {}
    name, homes = str(sweep.get("name")), {run.folder.parents[1].name for run in row.finished if run.folder}
    # Runs that were moved to another sweep's folder are not those of its file.
    now = _overrides_of_file(name, files_stamp()) if homes == {name} else None
    if now is None or "overrides" not in sweep or row.config.get("name"):  # no file, an older run, a row of a grid
        return None
    typed = typed_keys(sweep.get("typed") or [])
    task, callbacks = task_of(row.config).name, bool(row.config.get("callbacks"))
    before = [str(line) for line in sweep["overrides"] or []]
    gone, come = (
        [
            line
            for line in lines
            if line not in others
            and typed_keys([line]).keys().isdisjoint(typed)
            and shapes_the_run(line, task, callbacks=callbacks)
        ]
        for lines, others in ((before, now), (now, before))
    )
    if not gone and not come:
        return None
    return f"finished with {' '.join(gone) or 'nothing'} where its sweep's file has {' '.join(come) or 'nothing'}"


@lru_cache(maxsize=64)
def _overrides_of_file(name: str, _stamp: str) -> tuple[str, ...] | None:
    """The overrides in the file of a sweep; None without a file that can be composed."""
    try:
        return tuple(compose_sweep(name).overrides) if doors.file_of(f"sweep/{name}") else None
    except ConfigError:  # it was damaged since
        return None


def _keys(line: str) -> list[str]:
    """The keys that an override sets: its own, or those in the file of the option that it chooses."""
    group, _, option = line.partition("=")
    return [*typed_keys([line]), *(keys_of_option(group, option) if "." not in group else ())]


def other_validations(row: Row, base: Row) -> str | None:
    """A note if the dev scores of two rows' curves are of different sentences or trees; None if not."""
    for told, side in (("its seeds", row), ("the seeds of its base row", base)):
        if words := mixed_validations(side):
            return f"{told} were not validated alike ({words}): not compared"
    ours, theirs = map(_validated, (row.config, base.config))
    keys = [key for key in ours if key in theirs and ours[key] != theirs[key]]
    words = ", ".join(f"{key} {as_typed(theirs.get(key))}→{as_typed(ours.get(key))}" for key in keys)
    return f"its validations are not those of its base row ({words}): not compared" if keys else None


def mixed_validations(row: Row) -> str | None:
    """The keys by which the dev scores of a row's seeds are of different sentences or trees; None if they are not."""
    found: dict[str, dict[str, None]] = {}  # the values of each key, each once
    for config in [run.config for run in row.runs if run.config]:
        for key, value in _validated(config).items():
            found.setdefault(key, {})[as_typed(value)] = None
    return ", ".join(f"{key} {' or '.join(values)}" for key, values in found.items() if len(values) > 1) or None


def _validated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys, with values, that decide what the validations of a run cover."""
    of_dev = [key for key in task_of(config).tested_keys if key != "data.test"]
    return validated_on(config) | values_of(config, ["trainer.val_bleu", *of_dev])
