"""Classes of other packages that a configuration names as `package.module:Class`, and the keys that they declare.

A class declares its keys in a nested flat dataclass called `Options`, with types, choices and bounds as in our own
schema (`choice` and `number` of `variations.configuration.schema`). They are typed as `model.options.KEY=VALUE`, and
checked like ours.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from variations.configuration.compose import from_dict
from variations.configuration.overrides import leaf_keys, type_fault
from variations.configuration.own_classes import class_named
from variations.configuration.rules import value_fault
from variations.configuration.suggestions import did_you_mean
from variations.system.errors import ConfigError


def option_faults(key: str, options: Mapping[str, Any], owner: type) -> list[str]:
    """Every fault of the options of a foreign class: unknown keys, wrong types, values out of bounds."""
    declared = getattr(owner, "Options", None)
    known = leaf_keys(declared) if dataclasses.is_dataclass(declared) and isinstance(declared, type) else {}
    found = []
    for name, value in options.items():
        if name not in known:
            valid = f"Its keys are {', '.join(known)}" if known else "It declares none"
            found.append(f"{key}.{name}: {owner.__name__} has no such key.{did_you_mean(name, list(known))} {valid}.")
        elif (fault := type_fault(f"{key}.{name}", value, known[name])) or (
            value is not None and (fault := value_fault(f"{key}.{name}", value, known[name].metadata))
        ):
            found.append(fault)
    return found


def filled(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the defaults of the keys that its model's class declares, as far as it can be imported.

    A run's frozen configuration has them all, because a default in another package may change.
    """
    model = config.get("model")
    kind = model.get("kind") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or not isinstance(kind, str) or ":" not in kind:
        return config
    try:
        declared = getattr(class_named("model.kind", kind), "Options", None)
    except ConfigError:
        return config
    if not (dataclasses.is_dataclass(declared) and isinstance(declared, type)):
        return config
    usual = {
        field.name: field.default_factory() if callable(field.default_factory) else field.default
        for field in dataclasses.fields(declared)
        if not (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
    }
    return {**config, "model": {**model, "options": usual | dict(model.get("options") or {})}}


def options_of(owner: type, options: Mapping[str, Any]) -> Any:
    """An instance of the class's `Options` with these values and defaults for the rest.

    Raises:
        ConfigError: A key or a value is wrong.
    """
    return from_dict(options, owner.Options)  # type: ignore[attr-defined]
