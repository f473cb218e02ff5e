"""Classes of other packages, which a configuration names as `package.module:Class`."""

import ast
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from variations.configuration.extras import installed
from variations.system.errors import ConfigError, UserError
from variations.system.exceptions import raised

T = TypeVar("T")

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
    if (file := file_of(module)) is not None:
        is_as_imported(file)
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


LARGE = ("pytorch_lightning", "lightning", "lightning_fabric", "torch", "hydra", "variations")
"""Packages in which a wrong name is found when a run begins: what they export is not written in one file."""


def is_dotted(value: str) -> bool:
    """Whether a value has the form `package.module.Class`."""
    names = value.split(".")
    return len(names) > 1 and all(map(str.isidentifier, names))


def refuse_missing(key: str, target: str) -> None:
    """Check that `package.module.Class` exists, without importing its module, which may take seconds.

    Args:
        key: The configuration's key, for the message.
        target: What is named.

    Raises:
        ConfigError: There is no such package or class, or its module imports a package that is not installed.
    """
    names = target.split(".")
    if not is_dotted(target):
        raise ConfigError([f"{key}={target}: name a class as package.module.Class."])
    if not installed(names[0]):
        raise ConfigError([f"{key}={target}: there is no package {names[0]}. {INSTALL}"])
    module = module_of(target)
    file = file_of(module) if names[0] not in LARGE else None
    if file is None:
        return
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise ConfigError([f"{key}={target}: {file}, line {error.lineno}: {error.msg}."]) from error
    imported = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom) and not node.level]
    for package in dict.fromkeys(name.partition(".")[0] for name in imported):
        if not installed(package):
            raise ConfigError([f"{key}={target}: {module} imports {package}, which is not installed."])
    declared, name = _declared(tree), target.removeprefix(f"{module}.").partition(".")[0]
    if declared is not None and name not in declared:
        raise ConfigError([f"{key}={target}: {module} has no {name}."])


def _declared(tree: ast.Module) -> set[str] | None:
    """Names that a module may define; None if it may have others, by `import *` or `__getattr__`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return None if found & {"*", "__getattr__"} else found


_first_seen: dict[Path, str] = {}
"""SHA-256 of the files of modules, from before this process imported them."""


def file_of(module: str) -> Path | None:
    """The Python file of a module; None if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    origin = spec.origin if spec is not None else None
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def module_of(path: str) -> str:
    """The module in `package.module.Class`, or in `package.module.Class.Inner`; it is not imported.

    If nothing on the path is found, all but its last name.
    """
    names = path.split(".")
    module = ""
    for last in range(1, len(names)):
        file = file_of(".".join(names[:last]))
        if file is None:
            break
        module = ".".join(names[:last])
        if file.name != "__init__.py":
            break
    return module or path.rpartition(".")[0]


def is_as_imported(file: Path) -> bool:
    """Whether a file is as it was when first asked about, which is before the process imports it.

    A module is imported once: edits after that have no effect until Python is started again.
    """
    now = hashlib.sha256(file.read_bytes()).hexdigest()
    return _first_seen.setdefault(file, now) == now


def module_files(names: Iterable[str]) -> list[str]:
    """The files of imported modules, by `package.module:Class`."""
    found = (sys.modules.get(name.partition(":")[0]) for name in names)
    return [file for module in found if (file := getattr(module, "__file__", None))]


def construct(key: str, name: str, make: Callable[[], T]) -> T:
    """What `make` returns, an object of the class called `name`; see `call`."""
    return call(key, name, "cannot be constructed", make)


def call(key: str, name: str, fault: str, make: Callable[[], T]) -> T:
    """What `make` returns, which calls code of the class called `name`.

    Args:
        key: The configuration's key, for messages.
        name: One of our own, or `package.module:Class`.
        fault: What to say if it raises an exception, such as `cannot be constructed`.
        make: Calls the class.

    Raises:
        UserError: The class is of another package, and its code raises an exception.
    """
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        if ":" not in name:
            raise
        raise UserError(f"{key}={name}: {fault}: {raised(error, module_files([name]))}.") from error
