"""Classes that a configuration names: one of ours by its short name, or `package.module:Class` of any other package."""

from collections.abc import Mapping
from typing import TypeVar

from torch import nn

from variations.configuration.schema import class_named
from variations.system.errors import UserError

T = TypeVar("T")


def resolve(key: str, name: str, table: Mapping[str, type[T]], base: type[T]) -> type[T]:
    """The class called `name`.

    Args:
        key: The configuration's key, for messages.
        name: A key of `table`, or `package.module:Class`.
        table: Our own classes.
        base: What a class of another package derives from, or has all public members of; its docstring says how it is
            made.

    Raises:
        UserError: There is no such class, or it lacks a member.
    """
    if name in table:
        return table[name]
    module, colon, attribute = name.partition(":")
    known = f"valid choices are {', '.join(table)}, or package.module:Class of an installed package"
    if not (colon and module and attribute):
        raise UserError(f"{key}={name}: {known}.")
    found = class_named(key, name)
    wanted = f"{base.__module__}:{base.__qualname__}"
    if missing := lacking(found, base):
        few = ", ".join(missing)
        raise UserError(f"{key}={name}: lacks {few}: define what {wanted} asks for, or derive from it.")
    return found


def lacking(found: type, base: type) -> list[str]:
    """Public members of `base` that a class has not: what a derived one leaves abstract, or any other does not define.

    A class that has all of them serves as well as one that is derived.
    """
    if issubclass(found, base):
        return sorted(getattr(found, "__abstractmethods__", ()))
    module = {name for name in dir(nn.Module) if not name.startswith("_")} - {"forward"}
    wanted = {name for name in dir(base) if not name.startswith("_")} - module
    return sorted(name for name in wanted if getattr(found, name, None) in (None, nn.Module.forward))
