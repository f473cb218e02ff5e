"""Classes that a configuration names: one of ours by its short name, or `package.module:Class` of any other package."""

import importlib
import inspect
from collections.abc import Mapping
from typing import TypeVar

from variations.errors import UserError

T = TypeVar("T")


def resolve(key: str, name: str, table: Mapping[str, type[T]], base: type[T]) -> type[T]:
    """The class called `name`.

    Args:
        key: The configuration's key, for messages.
        name: A key of `table`, or `package.module:Class`.
        table: Our own classes.
        base: What a class of another package derives from, and whose docstring says how it is made.

    Raises:
        UserError: There is no such class, or it is not of the kind wanted.
    """
    if name in table:
        return table[name]
    module, colon, attribute = name.partition(":")
    known = f"valid choices are {', '.join(table)}, or package.module:Class of an installed package"
    if not (colon and module and attribute):
        raise UserError(f"{key}={name}: {known}.")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise UserError(f"{key}={name}: cannot import {module} ({error}): is its package installed?") from error
    except AttributeError as error:
        raise UserError(f"{key}={name}: {module} has no {attribute}: check the name after the colon.") from error
    wanted = f"{base.__module__}:{base.__qualname__}"
    if not (inspect.isclass(found) and issubclass(found, base)):
        raise UserError(f"{key}={name}: is not derived from {wanted}: make it a subclass.")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
        raise UserError(f"{key}={name}: leaves undefined what {wanted} asks for: {missing}.")
    return found
