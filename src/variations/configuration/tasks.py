"""The tasks, and what the configuration of a run must know about them. The rest of a task is in `tasks/task.py`.

Built-in tasks are listed here. Other packages add theirs by an entry point in the group `variations.tasks`
(`name = "package.module:TASK"`). A task is imported when a configuration names it, and its module imports no torch.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from variations.configuration.rules import Fault, Rules
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import did_you_mean
from variations.system.errors import ConfigError

DEFAULT = "translation"
BUILT_IN = {
    "parsing": "variations.tasks.parsing.task:TASK",
    "question_answering": "variations.tasks.question_answering.task:TASK",
    "translation": "variations.tasks.translation.task:TASK",
}
"""Module and name of each built-in task."""
ENTRY_POINTS = "variations.tasks"


class Configured(Protocol):
    """What a task defines about its configuration; members with a default here need not be defined."""

    name: str
    """The name in `task=NAME`."""
    schema: type[RunConfig]
    """All keys of its runs, with types, choices and bounds."""
    rules: Rules = Rules()
    """Combinations of keys that cannot work."""
    incidental: Sequence[str] = ("data.root", "data.cache")
    """Keys of its own that do not identify a run: paths, names, labels."""
    test_only: Sequence[str] = ()
    """Keys of its own that training does not read: runs that differ only in these can share their weights."""

    symbols: Mapping[str, str] = {}
    """The papers' names of keys, for descriptions of changes: `{"model.h": "heads"}`."""
    silent: Sequence[str] = ()
    """Keys of validations, which make no different experiment unless a callback acts on them."""

    def effective(self, flat: dict[str, Any]) -> dict[str, Any]:
        """A flat configuration in which defaults are filled in."""
        return flat

    def without_effect(self, flat: Mapping[str, Any]) -> Mapping[str, Fault]:
        """Keys and groups that have no effect in a run of this flat configuration.

        Each has the keys that decide so, and the reason, which follows "`KEY=VALUE` has no effect: ".
        """
        return {}

    def label(self, config: Any) -> list[str]:
        """Parts of the name of a single run, outside a sweep: `["weighted", "N2", "d128", "toy"]`."""
        return [config.task]

    def own_text(self, config: Mapping[str, Any]) -> bool:
        """Whether the data are the user's own, so that the folder `data.root` identifies them."""
        return False

    def unusable_files(self, configs: Sequence[Any]) -> list[Fault]:
        """Faults of the user's own files that are quick to find, each reported once, before any work."""
        return []

    def missing(self, config: Any) -> list[str]:
        """What the run needs but this machine lacks: the folder of its data, if one is named."""
        root = getattr(getattr(config, "data", None), "root", None)
        if root is None or Path(root).expanduser().is_dir():
            return []
        return [f"data.root={root}: there is no such folder ({Path(root).expanduser().absolute()})."]


@cache
def names() -> tuple[str, ...]:
    """All tasks: ours and those of installed packages."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in metadata.entry_points(group=ENTRY_POINTS))}))


@cache
def named(name: str) -> Any:
    """The task of that name.

    Raises:
        ConfigError: There is none, or its package cannot be imported.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    found = _registered(name)
    if not found:
        raise ConfigError(
            [f"task={name}: there is no such task.{did_you_mean(name, names())} Valid: {', '.join(names())}."]
        )
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        raise ConfigError([f"task={name}: {found[0].value} cannot be loaded: {error}."]) from error


def _registered(name: str) -> list[metadata.EntryPoint]:
    return [point for point in metadata.entry_points(group=ENTRY_POINTS) if point.name == name]


def task_of(config: Mapping[str, Any]) -> Any:
    """The task of a stored configuration; the oldest ones name none. Raises the same as `named`."""
    name = config.get("task") or DEFAULT
    try:
        return named(name)
    except ConfigError as error:
        if _registered(name):
            raise
        raise ConfigError(
            [
                f"a stored run has task={name}, which no package here has: install that of the task (pip install -e "
                "FOLDER), or name its folder: export PYTHONPATH=FOLDER."
            ]
        ) from error


_JOINED: dict[tuple[type[RunConfig], type[RunConfig]], type[RunConfig]] = {}


def schema_for(verb: type[RunConfig], name: str | None) -> type[RunConfig]:
    """The schema of a verb that takes all keys of a run, with those of task `name`. Raises the same as `named`."""
    schema = schema_of(name)
    if issubclass(schema, verb) or verb is schema_of(None):  # a verb without keys of its own, such as `train`
        return schema
    if issubclass(verb, schema):  # already joined
        return verb
    if (schema, verb) not in _JOINED:
        _JOINED[schema, verb] = dataclasses.make_dataclass(verb.__name__, [], bases=(schema, verb))
    return _JOINED[schema, verb]


def schema_of(name: str | None) -> type[RunConfig]:
    """The configuration schema of a task, by default of the default task. Raises the same as `named`."""
    schema: type[RunConfig] = named(name or DEFAULT).schema
    return schema
