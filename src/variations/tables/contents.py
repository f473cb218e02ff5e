"""Whether a run's files contain what runs write there, so that damage is told where a file is read."""

import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from variations.configuration.overrides import leaf_keys
from variations.configuration.tasks import DEFAULT, names, schema_of

COSTS = ("seconds", "decoding_seconds", "steps", "parameters", "flops", "source_tokens", "target_tokens")
"""Entries at the top of result.json that are counted or timed."""
LARGEST = 1e30
"""A bound for them: the FLOPs of the largest trainings of today are below 1e27."""


def result_fault(result: Mapping[str, Any]) -> str | None:
    """What is wrong with the contents of result.json; None if they can be used.

    Costs at the top, losses and scores must be numbers or null, and costs not negative.
    """
    for part in ("scores", "loss", "networks"):
        if not isinstance(result.get(part) or {}, Mapping):
            return f"result.json: {part} does not contain keys and values"
    for key, value in _numbers(result):
        if not (value is None or _is_number(value)):
            return f"result.json: {key} is {value!r:.60}, not a number"
        if "." not in key and value is not None and not 0 <= value <= LARGEST:
            return f"result.json: {key} is {str(value)[:20]}, which no run writes"
    return None


def _numbers(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every entry that is read as a number, by its key."""
    for key, value in result.items():
        if key in COSTS or _is_number(value):
            yield key, value
    yield from ((f"loss.{key}", value) for key, value in (result.get("loss") or {}).items())
    for name, scores in (result.get("scores") or {}).items():
        if not isinstance(scores, Mapping):
            yield f"scores.{name}", scores
            continue
        for key, score in scores.items():
            yield f"scores.{name}.{key}", score.get("value") if isinstance(score, Mapping) else score


def config_fault(config: Mapping[str, Any]) -> str | None:
    """The first key of a frozen configuration that should have a number and has none; None if there is none."""
    if not isinstance((config.get("variation") or {}).get("published") or {}, Mapping):
        return "config.yaml: variation.published does not contain keys and values"
    task = config.get("task") or DEFAULT
    if not isinstance(task, str):
        return f"config.yaml: task is {task!r:.60}, not a name"
    for path in _numeric(cast(Any, schema_of(task))) if task in names() else ():
        value: Any = config
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None and not (_is_number(value) and abs(value) <= sys.float_info.max):
            return f"config.yaml: {'.'.join(path)} is {value!r:.60}, not a finite number"
    return None


@lru_cache(maxsize=16)
def _numeric(schema: type[Any]) -> tuple[tuple[str, ...], ...]:
    """Keys of a schema whose values are numbers, in their parts."""
    unions = {key: _united(known.type) for key, known in leaf_keys(schema).items()}
    return tuple(tuple(key.split(".")) for key, found in unions.items() if found <= {int, float, type(None)})


def _united(annotation: Any) -> set[Any]:
    """The members of a union; any other type alone."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return set(typing.get_args(annotation)) if is_union else {annotation}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
