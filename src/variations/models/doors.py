"""Classes that a configuration names: ours by a short name, those of other packages by `package.module:Class`."""

from collections.abc import Mapping
from typing import TypeVar

from torch import nn

from variations.configuration.own_classes import call as call
from variations.configuration.own_classes import class_named
from variations.configuration.own_classes import construct as construct
from variations.system.errors import UserError

T = TypeVar("T")


def resolve(key: str, name: str, table: Mapping[str, type[T]], base: type[T]) -> type[T]:
    """The class called `name`.

    Args:
        key: The configuration's key, for messages.
        name: A key of `table`, or `package.module:Class`.
        table: Our own classes.
        base: The class that a class of another package derives from, or whose public members it has; its docstring says
            how it is constructed.

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
        if key != "model.kind":
            raise UserError(
                f"{key}={name}: lacks {', '.join(missing)}: derive it from {wanted}, as in "
                f"`class {attribute}({base.__name__})`, and write only what differs (docs/adding-a-variation.md)."
            )
        what = f"define all members of {wanted}, or derive from it"
        if issubclass(found, base):
            what = f"define {'them' if len(missing) > 1 else 'it'} as in {wanted}"
        raise UserError(f"{key}={name}: lacks {', '.join(missing)}: {what} (docs/adding-a-variation.md has a table).")
    return found


def lacking(found: type, base: type) -> list[str]:
    """Public members of `base` that a class lacks: abstract ones of a derived class, undefined ones of any other.

    A class that has all of them need not be derived from `base`.
    """
    if issubclass(found, base):
        return sorted(getattr(found, "__abstractmethods__", ()))
    module = {name for name in dir(nn.Module) if not name.startswith("_")} - {"forward"}
    wanted = {name for name in dir(base) if not name.startswith("_")} - module
    return sorted(name for name in wanted if getattr(found, name, None) in (None, nn.Module.forward))
