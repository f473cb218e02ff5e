"""Classes of other packages, which a configuration names as `package.module:Class`."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable

from variations.system.errors import ConfigError
from variations.system.exceptions import raised

INSTALL = "Install its package (pip install -e FOLDER), or name the folder that it is in: export PYTHONPATH=FOLDER."


def class_named(key: str, name: str) -> type:
    """Import the class `package.module:Class` of another package.

    Args:
        key: The configuration's key, for messages.
        name: The key's value.

    Raises:
        ConfigError: There is no such module or class, or the module cannot be imported.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        package, _, last = module.rpartition(".")
        text = f"{key}={name}: cannot import {module} ({error}). {INSTALL}"
        if package in sys.modules and error.name == module:
            names = [found.name for found in pkgutil.iter_modules(getattr(sys.modules[package], "__path__", []))]
            text = f"{key}={name}: {package} has no module {last}. Valid: {', '.join(names)}."
        raise ConfigError([text]) from error
    except Exception as error:
        raise ConfigError([f"{key}={name}: {raised(error)}."]) from error
    if not isinstance(found, type):
        raise ConfigError([f"{key}={name}: {module} has no class {attribute}: check the name after the colon."])
    return found


def module_files(names: Iterable[str]) -> list[str]:
    """The files of imported modules, by `package.module:Class`."""
    found = (sys.modules.get(name.partition(":")[0]) for name in names)
    return [module.__file__ for module in found if module is not None and module.__file__]
