"""Whether a run's files contain what runs write there, so that damage is told where a file is read."""

import hashlib
import math
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from variations.configuration.overrides import leaf_keys
from variations.configuration.places import SEED_FOLDER
from variations.configuration.tasks import DEFAULT, named, schema_of
from variations.store.atomic import is_number, json_text
from variations.system.errors import ConfigError, UserError

COSTS = ("seconds", "decoding_seconds", "steps", "parameters", "flops", "source_tokens", "target_tokens")
"""Entries at the top of result.json that are counted or timed."""
ROUNDING = 1e-6
"""By how much a score may be out of its range."""
LARGEST = 1e30
"""A bound for them: the FLOPs of the largest trainings of today are below 1e27."""


SEAL = "sha256"
"""The entry of result.json that has the hash of the others."""


EXCHANGED = "is not the file that its result was stored with"
"""What is said of measurements that `intact_measurements` refuses."""
MEASURED, CONFIGURED = "metrics_sha256", "config_sha256"
"""The entries that have the hash of the run's measurements and of its configuration."""
_NAMES = ("runs", "logger", "force", "resume", "rows", "seeds", "sweep", "search", "name", "hydra", "variation")
"""Parts of a configuration that may be edited in a finished run, for example when a row is renamed."""


def sealed(result: Mapping[str, Any], config: Mapping[str, Any], metrics: bytes | None) -> dict[str, Any]:
    """The contents of result.json, with hashes by which it is noticed if a part of the run is edited or exchanged.

    Args:
        result: Scores and costs.
        config: The run's configuration, as stored.
        metrics: The contents of metrics.jsonl; None: the run has none.
    """
    measured = None if metrics is None else hashlib.sha256(metrics).hexdigest()
    known = {**result, CONFIGURED: fingerprint(config), MEASURED: measured}
    return {**known, SEAL: _seal(known)}


def fingerprint(config: Mapping[str, Any]) -> str:
    """The hash of a configuration without names, labels and places."""
    return _hash({key: value for key, value in config.items() if key not in _NAMES})


def _seal(result: Mapping[str, Any]) -> str:
    """The hash of all entries but the hash itself."""
    return _hash({key: value for key, value in result.items() if key != SEAL})


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json_text(values, indent=None).encode()).hexdigest()


def result_fault(result: Mapping[str, Any], task: str | None = None) -> str | None:
    """What is wrong with the contents of result.json; None if they can be used.

    Costs at the top, losses and scores must be numbers or null, costs not negative, and losses and scores within the
    range of the measure of that name in `task`. Further entries belong to the task. A result that has a hash must be
    the one that was hashed.
    """
    for part in ("scores", "loss", "networks"):
        if not isinstance(result.get(part) or {}, Mapping):
            return f"result.json: {part} does not contain keys and values"
    for key, value in _numbers(result):
        if not (value is None or is_number(value)):
            return f"result.json: {key} is {value!r:.60}, not a number"
        if "." not in key and value is not None and not 0 <= value <= LARGEST:
            return f"result.json: {key} is {str(value)[:20]}, which no run writes"
        if "." in key and value is not None and (limits := _range(task or DEFAULT, key.partition(".")[2])):
            low, high = limits
            if not low - ROUNDING <= value <= high + ROUNDING:
                most = f"between {low:g} and {high:g}" if high < math.inf else f"at least {low:g}"
                return f"result.json: {key} is {str(value)[:20]}, but can only be {most}"
    if SEAL in result and result[SEAL] != _seal(result):
        return f"result.json was edited: its {SEAL} is not that of its other entries"
    return None


def exchanged(config: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """Why a configuration is not that of a result, by its hash; None if it is, or if the result has no hash of it."""
    if result.get(CONFIGURED) is None:
        return None
    try:
        if result[CONFIGURED] == fingerprint(config):
            return None
    except TypeError as error:  # such as a date, which no run writes
        return f"config.yaml: {str(error).rstrip('.')}"
    return (
        "config.yaml is not the configuration of result.json: one of them was edited, or is another run's. Restore the "
        "one that belongs here"
    )


def misplaced(path: Path, config: Mapping[str, Any]) -> str | None:
    """Why a run with this configuration was not made in the folder `path`; None if it may have been."""
    match = SEED_FOLDER.fullmatch(path.name)
    if match is None:
        return None
    if (seed := config.get("seed", int(match[1]))) != int(match[1]):
        return (
            f"config.yaml has seed {seed}, so this folder is a copy of another run or was renamed: move it away and "
            "train the missing seed"
        )
    if (own := _own_folder(config)) in (None, path.parent.name):
        return None
    key = "name" if config.get("name") is not None else "variation.row"
    return (
        f"config.yaml has {key}={own!r}, so this folder is a copy of another one or was renamed: move it away and "
        f"train the missing run, or if it was renamed, put the new name into {key} of that file"
    )


def _own_folder(config: Mapping[str, Any]) -> str | None:
    """The name of the folder in which a run was made; None if it was made of the whole configuration."""
    sweep, variation = config.get("sweep") or {}, config.get("variation") or {}
    if config.get("name") is not None:
        return str(config["name"])
    in_a_table = isinstance(sweep, Mapping) and sweep.get("name") and isinstance(variation, Mapping)
    return variation.get("row") if in_a_table else None


def refuse_damaged(
    path: Path, result: Mapping[str, Any], task: str | None, config: Mapping[str, Any] | None = None
) -> None:
    """Check that the result of the run in the folder `path` can be used, and fits the configuration, if that is given.

    Raises:
        UserError: It is damaged, was edited, or is another run's.
    """
    if config is not None and (fault := misplaced(path, config)):
        raise UserError(f"{path}: {fault}.")
    if fault := result_fault(result, task) or (exchanged(config, result) if config is not None else None):
        raise UserError(f"{path} is damaged ({fault}): restore result.json, or delete it to test the run again.")


def intact_measurements(measured: bytes, result: Mapping[str, Any]) -> bool:
    """Whether the contents of metrics.jsonl are those that a result was stored with, as far as that is known."""
    if result.get(MEASURED) is None:
        return bool(measured.strip(b"\0"))
    return bool(hashlib.sha256(measured).hexdigest() == result[MEASURED])


def score(config: Any, result: Mapping[str, Any]) -> tuple[Any, float] | None:
    """Return the measure that `sweep.metric` names, and its value; None if the result is damaged or has none.

    Raises:
        UserError: The task does not know the measure.
    """
    measure = named(config.task).primary(config.sweep.metric)
    value = None if result_fault(result, config.task) else measure.value(result)
    return None if value is None else (measure, value)


@lru_cache(maxsize=4096)
def _range(task: str, key: str) -> tuple[float, float] | None:
    """The possible values of a measure of a task; None if they are not known, or the task's package was removed."""
    try:
        found: tuple[float, float] | None = named(task).measure(key).range
    except UserError:
        return None
    return found


def _numbers(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every entry that is read as a number, by its key."""
    yield from ((key, result[key]) for key in COSTS if key in result)
    yield from ((f"loss.{key}", value) for key, value in (result.get("loss") or {}).items())
    for name, scores in (result.get("scores") or {}).items():
        if not isinstance(scores, Mapping):
            yield f"scores.{name}", scores
            continue
        for key, score in scores.items():
            yield f"scores.{name}.{key}", score.get("value") if isinstance(score, Mapping) else score


def no_score(result: Mapping[str, Any], compared: tuple[str, float | None] | None) -> str | None:
    """Why a new result tells nothing of a run; None if it does.

    Args:
        result: Before it is stored, when what is not finite becomes null.
        compared: The measure by which runs are compared, and its value, if the run was tested for it.
    """
    label, score = compared or ("", None)
    if score is not None and not math.isfinite(score):
        return f"its {label} is {score}, not a finite number"
    found = [score, *(value for key, value in _numbers(result) if "." in key)]
    return None if any(is_number(value) for value in found) else "it has no scores"


def config_fault(config: Mapping[str, Any]) -> str | None:
    """The first key of a frozen configuration that should have a number and has none; None if there is none."""
    if not isinstance((config.get("variation") or {}).get("published") or {}, Mapping):
        return "config.yaml: variation.published does not contain keys and values"
    task = config.get("task") or DEFAULT
    if not isinstance(task, str):
        return f"config.yaml: task is {task!r:.60}, not a name"
    for parts, keys in _numeric(task).items():
        node: Any = config
        for part in parts:
            node = node.get(part) if isinstance(node, Mapping) else None
        for key in keys if isinstance(node, Mapping) else ():
            value = node.get(key)
            if value is not None and not (is_number(value) and abs(value) <= sys.float_info.max):
                return f"config.yaml: {'.'.join((*parts, key))} is {value!r:.60}, not a finite number"
    return None


@lru_cache(maxsize=16)
def _numeric(task: str) -> dict[tuple[str, ...], list[str]]:
    """By part of a task's configuration, the keys whose values are numbers; none if the task's package was removed."""
    try:
        keys = leaf_keys(schema_of(task))
    except ConfigError:
        return {}
    found: dict[tuple[str, ...], list[str]] = {}
    for key, known in keys.items():
        *parts, name = key.split(".")
        if _united(known.type) <= {int, float, type(None)}:
            found.setdefault(tuple(parts), []).append(name)
    return found


def _united(annotation: Any) -> set[Any]:
    """The members of a union; any other type alone."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return set(typing.get_args(annotation)) if is_union else {annotation}
