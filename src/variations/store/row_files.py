"""The files of rows, conf/variation/<table>/<row>.yaml: what they set, what has changed since, and labels."""

import glob
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from variations.configuration import doors
from variations.configuration.compose import compose_run, from_dict, scaled, to_dict
from variations.configuration.faults import check
from variations.configuration.overrides import typed_keys
from variations.configuration.places import CONF
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import shortened
from variations.configuration.tasks import DEFAULT, schema_of, task_of
from variations.store.atomic import json_text, read_yaml
from variations.store.identity import covered, defaults, flatten, is_incidental
from variations.system.errors import ConfigError, UserError, yaml_fault

_INCLUDED = ("branch", "positions")
"""Groups whose options count as part of a row's file that chooses them: no other group changes their keys."""


def stated(row: str, table: str, conf: Path = CONF) -> dict[str, Any]:
    """The keys that a row's file and the files that it inherits set, as flat keys with unresolved values.

    Of the groups that they choose, only `_INCLUDED` are included.
    """
    file = row_file(row, table, conf)
    if file is None:
        return {}
    content = dict(mapping(file))
    values: dict[str, Any] = {}
    for entry in content.pop("defaults", None) or []:
        if parent := _inherited(entry, table):
            values |= stated(*parent, conf)
        for key, option in entry.items() if isinstance(entry, dict) else ():
            group = key.removeprefix("override ").lstrip("/")
            if group in _INCLUDED:
                files = doors.files(f"{group}/{glob.escape(str(option))}.yaml", conf)
                values = {key: value for key, value in values.items() if not covered(key, [group])}
                values |= flatten(mapping(files[0]), f"{group}.") if files else {}
    return values | {key: value for key, value in flatten(content).items() if not covered(key, ["variation"])}


def replaced(configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each value in rows' files that overrides of the whole sweep have replaced.

    Args:
        configs: The configuration of each row, by its name; quick checks (`debug`) are passed over.
    """
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, config in configs.items():
        variation, sweep = config.get("variation") or {}, config.get("sweep") or {}
        row, _, point = str(variation.get("row") or "").partition(",")
        table = variation.get("table")
        of_a_table = bool(sweep.get("rows") or sweep.get("table") or sweep.get("name") == table)  # and not of a grid
        if row and table and of_a_table and not (config.get("debug") or {}).get("name"):
            rows.setdefault((row, table, point), []).append(name)
    found: dict[str, list[str]] = {}
    for (row, table, point), names in rows.items():
        crossed = [word.partition("=")[0] for word in point.split(",") if word]
        unlike = [_unlike(row, table, configs[name], ["seed", *crossed]) for name in names]
        for key, (now, written) in unlike[0].items():
            if all(each.get(key) == (now, written) for each in unlike):  # otherwise it is the axis of a grid
                found.setdefault(f"{key}={written} of the row's file is replaced by {now}", []).extend(names)
    return [
        f"{shortened(names, ', ')}: {text}, which the sweep's overrides or the command line give to all rows."
        for text, names in found.items()
    ]


def _inherited(entry: Any, table: str) -> tuple[str, str] | None:
    """The row and the table that an entry of a row file's defaults list inherits; None if it is something else."""
    if not isinstance(entry, str) or entry == "_self_":
        return None
    folder, _, name = entry.removeprefix("/variation/").rpartition("/")
    return name, folder or table


def shared_with_parents(
    row: str, table: str, conf: Path = CONF, *, below: tuple[tuple[str, str], ...] = ()
) -> dict[str, Any]:
    """What a row's file says of `variation.base` and `variation.task`, or those that it inherits, as in its runs.

    Args:
        row: The row.
        table: Its table.
        conf: The configuration directory.
        below: Rows that inherit it, which it does not inherit in turn.
    """
    content = mapping(file) if (file := row_file(row, table, conf)) else {}
    path = (*below, (row, table))
    values: dict[str, Any] = {}
    for entry in content.get("defaults") or []:
        if (parent := _inherited(entry, table)) and parent not in path:
            values |= shared_with_parents(*parent, conf, below=path)
    own = content.get("variation") or {}
    return values | {key: own[key] for key in ("base", "task") if key in own}


def keys_of_option(group: str, option: str) -> list[str]:
    """The dotted keys that a file such as `recipe/quick.yaml` sets, or one that it includes; empty without a file."""
    file = doors.file_of(f"{group}/{option}")
    if file is None:
        return []
    content = dict(mapping(file))
    included = [entry for entry in content.pop("defaults", None) or [] if isinstance(entry, str) and entry != "_self_"]
    package = re.match(r"# @package (\S+)", file.read_text(encoding="utf-8"))
    place = {"_global_": ""}.get(package[1], f"{package[1]}.") if package else f"{group}."
    return [*flatten(content, place), *(key for name in included for key in keys_of_option(group, name))]


_SCALED = re.compile(r"\$\{(width|depth|steps):([\d.]+)\}")
"""A size of a paper, which the recipe scales."""


def fingerprint(row: str, table: str, config: Mapping[str, Any]) -> str | None:
    """SHA-256 of all that a row's file and those that it inherits set and choose, labels and figures apart.

    None without a file. As for `edited`, keys that the sweep sets and the trainer's keys do not count.
    """
    if row_file(row, table) is None:
        return None
    silent = _silent(config)
    kept = {key: value for key, value in stated(row, table).items() if not covered(key, silent)}
    return hashlib.sha256(json_text([kept, _choices(row, table)], indent=None).encode()).hexdigest()


def fingerprint_of(config: Mapping[str, Any]) -> str | None:
    """The `fingerprint` of the file of a run's row; None without one."""
    variation = config.get("variation") or {}
    table, row = variation.get("table"), variation.get("row")
    try:
        return fingerprint(row.partition(",")[0], table, config) if table and row else None
    except UserError:  # it was damaged since
        return None


def _choices(row: str, table: str) -> list[Any]:
    """The defaults lists of a row's file and of those that it inherits."""
    file = row_file(row, table)
    entries = (mapping(file).get("defaults") or []) if file else []
    parents = [parent for entry in entries if (parent := _inherited(entry, table))]
    return [*entries, *(entry for parent in parents for entry in _choices(*parent))]


BATCHES = ("trainer.tokens_per_batch", "trainer.devices", "trainer.nodes")
"""The keys that divide an update into batches.

A batch groups pairs by length, so that an update of several smaller ones has other pairs."""
SHAPING = (
    "trainer.max_steps",
    "trainer.max_minutes",
    "trainer.limit_train_batches",
    "trainer.limit_val_batches",
    "trainer.limit_test",
    "trainer.precision",
    *BATCHES,
)
"""The keys of the trainer that change a run's budget, its batches or what is measured; the others, how it is done."""


WATCHED = ("trainer.val_every", "trainer.val_bleu")
"""Keys that do so where a callback, such as early stopping, acts on the validations."""


def computing(found: Iterable[str], first: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Those of the keys in which two configurations differ that change the result by no more than rounding.

    They are keys of the trainer, which only say how a run is computed. The masks of dropout may be other ones, as they
    are with `trainer.compile`.
    """
    callbacks = any(config.get("callbacks") for config in (first, other))
    alike = task_of(first).batches_of_update(first) == task_of(other).batches_of_update(other)
    shaping_keys = {*_shaping_keys(callbacks=callbacks), "trainer.extra"} - ({*BATCHES} if alike else set())
    return {key for key in found if covered(key, ["trainer"]) and not covered(key, shaping_keys)}


def _shaping_keys(*, callbacks: bool) -> tuple[str, ...]:
    """The keys of the trainer that may change the result of a run, which has `callbacks` or not."""
    return (*SHAPING, *WATCHED) if callbacks else SHAPING


def shapes_the_run(line: str, task: str, *, callbacks: bool) -> bool:
    """Whether an override may change the result of a run, which has `callbacks` or not, by more than rounding."""
    names = typed_keys([line])
    if any(covered(key, _shaping_keys(callbacks=callbacks)) for key in names):
        return True
    return not any(covered(key, ["task", "trainer", "seed"]) or is_incidental(key, {"task": task}) for key in names)


def shaping(lines: Iterable[str], config: RunConfig) -> list[str]:
    """Those of the overrides of a run that may change its result by more than rounding."""
    return [line for line in lines if shapes_the_run(line, config.task, callbacks=bool(config.callbacks))]


def _silent(config: Mapping[str, Any]) -> list[str]:
    """Keys of a row's file that do not count, because its sweep sets them, or because they are often typed."""
    # The choice of a group, such as recipe=quick, does not replace what the row's file itself says.
    usual, lines = defaults(config), (config.get("sweep") or {}).get("overrides") or []
    typed = [key for key in typed_keys(lines) if "." in key or key in (*usual, *_INCLUDED)]
    return [*typed, "trainer", "defaults", "seed"]


def edited(row: str, table: str, config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys whose value in a row's file is no longer that of its run: `{"model.h": (8, 16)}`, the run's value first.

    Interpolated values, keys that the sweep sets, and the trainer's keys, which are often typed, do not count. If any
    key differs, the network and the position encoding are compared, too, whether the file names them or not.
    """
    found = _unlike(row, table, config, _silent(config))
    return _kinds(row, table, config) | found if found else {}


def _kinds(row: str, table: str, config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The network and the position encoding of a run, where they are not those that the row's files now choose.

    They may follow from a choice that was removed, of which the file says nothing any more.
    """
    if (config.get("variation") or {}).get("row") != row:  # crossed with typed values
        return {}
    if (composed := recomposed(config)) is None:
        return {}
    now, old = flatten(composed), flatten(config)
    keys = [key for key in ("model.kind", "positions.kind") if key in old and key in now]
    return {key: (old[key], now[key]) for key in keys if old[key] != now[key]}


def recomposed(config: Mapping[str, Any], row: str | None = None, table: str | None = None) -> Mapping[str, Any] | None:
    """The configuration that the files of a run's row give now, with the overrides that the run had.

    None if they give none, as for rows of a grid, and for rows that are crossed with typed values. `row` and `table`
    are those of the run unless given.
    """
    variation, sweep = config.get("variation") or {}, config.get("sweep") or {}
    table, row = table or variation.get("table"), row or variation.get("row")
    if not table or not row or "," in row or config.get("name"):
        return None
    typed = sweep.get("typed") or []
    own = [line for line in sweep.get("overrides") or [] if line.partition("=")[0] not in typed_keys(typed)]
    return _composed((f"variation={table}/{row}", *own, *typed), files_stamp())


@lru_cache(maxsize=512)
def _composed(lines: tuple[str, ...], _stamp: str) -> Mapping[str, Any] | None:
    try:
        return to_dict(compose_run([*lines]))
    except ConfigError:  # another version's, or no folder of the configuration has the file any more
        return None


def _unlike(row: str, table: str, config: Mapping[str, Any], silent: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Keys whose value in a row's file is not that of a configuration, which comes first, but for `silent` keys."""
    flat, usual = flatten(config), defaults(config)
    found = {}
    for key, written in stated(row, table).items():
        now = _resolved(written, config)
        if covered(key, silent) or is_incidental(key, config) or "${" in str(now):
            continue
        old = flat.get(key, usual.get(key))
        same = old == now or str(old) == str(now)  # a quoted number is a text
        if not same and not (now is None and _to_be_given(key, config)):
            found[key] = (old, now)
    return found


def _to_be_given(key: str, config: Mapping[str, Any]) -> bool:
    """Whether no run may have null here: in a row's file, it then stands for a value that each user gives."""
    try:
        found = from_dict(_without(config, *key.split(".")), schema_of(config.get("task") or DEFAULT))
    except ConfigError:  # a run of another version
        return False
    return any(fault.keys == (key,) for fault in check(found))


def _without(config: Mapping[str, Any], name: str, *rest: str) -> dict[str, Any]:
    """The configuration with null for a key, given by its parts."""
    inner = config.get(name)
    return {**config, name: _without(inner if isinstance(inner, Mapping) else {}, *rest) if rest else None}


def _resolved(value: Any, config: Mapping[str, Any]) -> Any:
    """The value of `${width:64}` and the like under the run's recipe; any other value unchanged."""
    match = _SCALED.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        number = isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value)  # no number for PyYAML
        return float(value) if number else value
    return scaled(float(match[2]), match[1], (config.get("recipe") or {}).get("scale") or {})


def with_sizes(label: str, variation: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The label of a run's row, with the scaled value behind each size that is the paper's: `N=2 (here 1)`.

    Args:
        label: As the row's file says it, `N=2`.
        variation: `variation.table` and `variation.row`, which name the file.
        config: Of the run.
    """
    table, row = variation.get("table"), str(variation.get("row") or "").partition(",")[0]  # of a crossed table
    flat = flatten(config)
    for key, written in stated(row, str(table)).items() if table and row and "=" in label else ():
        match = _SCALED.fullmatch(written) if isinstance(written, str) else None
        if match and (here := flat.get(key, _resolved(written, config))) != float(match[2]):
            size = f"{re.escape(key.rpartition('.')[2])}={re.escape(match[2])}"
            label = re.sub(rf"(?<!\w)({size})(?![\d.])", rf"\1 (here {here})", label)
    return label


def label_of(config: Mapping[str, Any], row: str) -> str:
    """The label that a run's configuration gives to its row, with scaled sizes; the name `row` if there is none."""
    variation = config.get("variation")
    if not isinstance(variation, Mapping) or not variation.get("label"):
        return row
    return with_sizes(str(variation["label"]), variation, config)


def row_file(row: str, table: str, conf: Path = CONF) -> Path | None:
    """The file of a row; None if there is none."""
    return next(iter(doors.files(f"variation/{glob.escape(table)}/{glob.escape(row)}.yaml", conf)), None)


def files_stamp(conf: Path = CONF) -> str:
    """Changes when the file of a row, or one that rows may choose, is added, removed or edited."""
    states = [file.stat() for file in doors.files("**/*.yaml", conf)]
    times = [(state.st_mtime_ns, state.st_size, state.st_ino) for state in states]
    return hashlib.sha256(str(times).encode()).hexdigest()


def mapping(path: Path) -> dict[str, Any]:
    """The contents of a YAML file. Raises UserError if it cannot be read or holds no keys and values."""
    try:
        content = read_yaml(path)
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {yaml_fault(error)}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"Cannot read {path}: it does not contain keys and values.")
    return content
