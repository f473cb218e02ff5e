"""Classes of other packages that a configuration names as `package.module:Class`, and the keys that they declare.

A class says which keys it takes by a flat dataclass called `Options` inside it, with the types, choices and bounds of
our own schema (`choice` and `number` of `variations.config`). They are typed as `model.options.KEY=VALUE`, and checked
as ours are.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from variations.errors import ConfigError


def class_named(key: str, name: str) -> type:
    """The class `package.module:Class`, imported.

    Args:
        key: The configuration's key, for messages.
        name: What it is set to.

    Raises:
        ConfigError: The module or the class is not there.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        text = f"{key}={name}: cannot import {module} ({error}): is its package installed?"
        raise ConfigError([text]) from error
    if not isinstance(found, type):
        raise ConfigError([f"{key}={name}: {module} has no class {attribute}: check the name after the colon."])
    return found


def option_faults(key: str, options: Mapping[str, Any], owner: type) -> list[str]:
    """Every fault of the options of a foreign class: unknown keys, wrong types, values out of bounds."""
    from variations.configuration.faults import value_fault
    from variations.configuration.overrides import leaf_keys, type_fault
    from variations.configuration.suggestions import did_you_mean

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


def options_of(owner: type, options: Mapping[str, Any]) -> Any:
    """The class's own `Options`, filled in; what is not typed has its default.

    Raises:
        ConfigError: A key or a value is wrong.
    """
    from variations.configuration.compose import from_dict

    return from_dict(options, owner.Options)  # type: ignore[attr-defined]
