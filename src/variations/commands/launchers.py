"""Faults of `hydra.launcher.KEY=VALUE`, which Hydra would report one at a time and after all others."""

from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from variations.commands.help import descriptions
from variations.configuration.compose import compose_node, loader
from variations.configuration.overrides import Key, leaf_keys, type_fault
from variations.configuration.rules import value_fault
from variations.configuration.suggestions import nearest
from variations.system.errors import ConfigError

AT = "hydra.launcher."
GROUP = "hydra/launcher"
OURS = ("local", "slurm", "ray")
OTHER_NAMES = {
    "walltime": "time_min",
    "timeout": "time_min",
    "timeout_min": "time_min",
    "memory": "mem_gb",
    "cpus_per_task": "cpus",
    "num_cpus": "cpus",
    "gpus": "gpus_per_node",
    "gres": "gpus_per_node",
    "num_gpus": "gpus",
    "env": "environment",
    "setup": "modules",
    "additional_parameters": "additional",
}
"""What Slurm, submitit and Ray call these keys."""


def launcher_faults(overrides: Sequence[Override], config_name: str) -> list[str]:
    """Return the faults of the typed keys of the chosen launcher.

    Keys of launchers that are not ours, or do not exist, are not checked.
    """
    if not any(override.key_or_group.startswith(AT) for override in overrides):
        return []
    name = _chosen(overrides, config_name)
    schema = _schema(name)
    if schema is None:
        return []
    keys = _keys(schema)
    texts, found, good = descriptions(schema), [], {}
    for override in overrides:
        key, line = override.key_or_group.removeprefix(AT), override.input_line or ""
        if key == override.key_or_group or (key.partition(".")[0] in keys and "." in key):
            continue  # another key, or a name in one of the dictionaries
        if key not in keys:
            near = [OTHER_NAMES.get(key), *nearest(key, list(keys))]
            meant = next((word for word in near if word in keys), None)
            others = [other for other in OURS if key in _keys(_schema(other))]
            if others:
                hint = f"It is a key of {GROUP}={' and '.join(others)}."
            elif meant:
                hint = f"Did you mean {AT}{meant}? {texts.get(meant, '')}".rstrip()
            else:
                hint = f"Its keys are {', '.join(keys)}."
            found.append(f"{line}: {GROUP}={name} has no key '{key}'. {hint}")
        elif override.is_sweep_override():
            found.append(f"{line}: a launcher's key takes one value.")
        elif not override.is_delete():
            value = override.value()
            if fault := type_fault(f"{AT}{key}", value, keys[key]):
                found.append(f"{fault} {texts.get(key, '')}".rstrip())
            elif fault := value_fault(f"{AT}{key}", value, keys[key].metadata):
                found.append(fault)
            else:
                good[key] = value
    return [*found, *_together(schema, good)]


def cores_of_job(lines: Sequence[str], config_name: str) -> tuple[float, bool] | None:
    """The CPU cores that a launcher reserves for each process of a run, `hydra.launcher.cpus`.

    Args:
        lines: The overrides, without faults.
        config_name: The verb's primary configuration.

    Returns:
        With whether the run is executed on another machine than this; None if the launcher reserves none.
    """
    parser = OverridesParser.create(config_loader=loader())
    overrides = [parser.parse_overrides([line])[0] for line in lines]
    schema = _schema(_chosen(overrides, config_name))
    if schema is None or "cpus" not in _keys(schema):
        return None
    typed = {o.key_or_group: o.value() for o in overrides if o.key_or_group.startswith(AT) and not o.is_delete()}
    elsewhere = "address" not in _keys(schema) or typed.get(f"{AT}address") is not None
    return float(typed.get(f"{AT}cpus", schema().cpus)), elsewhere


def _chosen(overrides: Sequence[Override], config_name: str) -> str | None:
    """The launcher that was typed, or else that of the typed sweep's or row's file, which is usually `local`."""
    typed = [str(override.value()) for override in overrides if override.key_or_group == GROUP]
    if typed:
        return typed[-1]
    lines = [o.input_line or "" for o in overrides if o.key_or_group in ("sweep", "variation")]
    try:
        return compose_node(lines, config_name=config_name, whole=True)[1].get(GROUP)
    except ConfigError:
        return None


def _schema(name: str | None) -> type[Any] | None:
    stored = loader().repository.load_config(f"{GROUP}/{name}")
    schema = OmegaConf.get_type(stored.config) if stored is not None else None
    return schema if schema is not None and schema.__module__.startswith("hydra_plugins.variations") else None


def _keys(schema: type[Any] | None) -> dict[str, Key]:
    return {} if schema is None else {key: item for key, item in leaf_keys(schema).items() if not key.startswith("_")}


def _together(schema: type[Any], values: dict[str, Any]) -> list[str]:
    """What the launcher's settings report about the values that have the right type."""
    settings = schema(**values)
    return list(settings.faults()) if hasattr(settings, "faults") else []
