"""Which keys of a configuration identify a run, and how two configurations differ."""

import hashlib
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict
from functools import cache, lru_cache
from typing import Any, TypeVar

from variations.configuration.compose import SPELLED
from variations.configuration.foreign import filled
from variations.configuration.tasks import DEFAULT, named, schema_of
from variations.store.atomic import plain

T = TypeVar("T")

INCIDENTAL = (
    "runs",
    "logger",
    "force",
    "resume",
    "trainer.progress",
    "rows",
    "seeds",
    "sweep",
    "search",
    "name",
    "hydra",
    "variation.id",
    "variation.table",
    "variation.row",
    "variation.label",
    "variation.group",
    "variation.base",
    "variation.published",
    "variation.versions",
    "variation.provenance",
    "variation.sha256",
    "variation.note",
    "variation.source",
    "variation.task",
)
"""Paths, names and labels: a run with other values of these is still the same run."""


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted keys and their values: `{"model": {"h": 8}}` becomes `{"model.h": 8}`. Lists stay whole."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{name}.")
        elif not isinstance(value, Mapping):
            flat[name] = value
    return flat


def identifying(config: Mapping[str, Any], without: Container[str] = ()) -> dict[str, Any]:
    """All flat keys that identify the run, with defaults, so that two of them can be compared.

    Those of the groups `without` are left out.
    """
    task, own_text = _kind(config)
    rest = {key: value for key, value in filled(config).items() if key not in without}
    return respelled(
        {key: value for key, value in sorted(flatten(plain(rest)).items()) if not _left_out(key, task, own_text)}
    )


def respelled(flat: dict[str, Any]) -> dict[str, Any]:
    """Flat keys of a stored run as they are spelled today: older ones have paths and sets as they were typed."""
    return flat | {key: spelled(flat[key]) for key, spelled in SPELLED.items() if key in flat}


def identity(config: Mapping[str, Any], without: Container[str] = ()) -> dict[str, Any]:
    """Those of the `identifying` keys that have not the schema's default value.

    Since defaults are left out, an old run keeps its identity when the schema gains a key.
    """
    usual = defaults(config)
    found = identifying(config, without)
    return {key: value for key, value in found.items() if not (key in usual and usual[key] == value)}


def _kind(config: Mapping[str, Any]) -> tuple[str, bool]:
    """What else decides whether a key and its value identify a run: the task, and whether the text is the user's."""
    task = config.get("task") or DEFAULT
    return task, named(task).own_text(config)


@lru_cache(maxsize=4096)
def _left_out(key: str, task: str, own_text: bool) -> bool:
    """Whether a key is incidental. The folder of a user's own text is not: it identifies the text."""
    return not (own_text and key == "data.root") and is_incidental(key, {"task": task})


def config_hash(config: Mapping[str, Any]) -> str:
    """First 16 hexadecimal digits of SHA-256 over `identity(config)`."""
    text = json.dumps(identity(config), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Identifying keys whose values differ: `{key: (old value, new value)}`, sorted by key.

    A key that has no effect in both of them does not count.
    """
    alike: set[str] = set()
    if _kind(old) == _kind(new):  # what is equal then counts alike; of a sweep that is started again, nearly all is
        alike = {key for key in old.keys() & new.keys() if old[key] == new[key]}
    before, after = identity(old, alike), identity(new, alike)
    keys = sorted(before.keys() | after.keys())
    first, second = defaults(old), defaults(new)
    pairs = {key: (before.get(key, first.get(key)), after.get(key, second.get(key))) for key in keys}
    found = {key: (left, right) for key, (left, right) in pairs.items() if left != right}
    return with_effect(found, flatten(old), flatten(new)) if found else found


def with_effect(changed: Mapping[str, T], *flat: Mapping[str, Any]) -> dict[str, T]:
    """Those of the keys that have an effect in at least one of these flat configurations."""
    off = [named(each.get("task") or DEFAULT).without_effect(each) for each in flat]
    return {key: value for key, value in changed.items() if not all(covered(key, keys) for keys in off)}


def is_incidental(key: str, config: Mapping[str, Any]) -> bool:
    """Whether dotted `key` is one of INCIDENTAL or of the task's own, or lies below one."""
    return covered(key, (*INCIDENTAL, *named(config.get("task") or DEFAULT).incidental))


def covered(key: str, names: Iterable[str]) -> bool:
    """Whether dotted `key` is named in `names`, or lies below a group that is."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flat keys and default values of the schema of a configuration's task."""
    return _defaults(config.get("task") or DEFAULT)


@cache
def _defaults(task: str) -> dict[str, Any]:
    return flatten(asdict(schema_of(task)()))
