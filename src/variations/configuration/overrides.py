"""The command line, override by override: which are faulty, and why, before anything is composed."""

import dataclasses
import fnmatch
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, QuotedString, RangeSweep
from hydra.errors import HydraException

from variations.configuration.hydra_door import Loader
from variations.configuration.rules import bounded_or_word, bounds_text, value_fault
from variations.configuration.suggestions import OFF, OPTIONAL, options, options_text, unknown_key, walk_groups
from variations.configuration.tasks import BUILT_IN, schema_of

EVERYTHING = "*"
TOUCHES = {
    "model": ["model"],
    "size": ["model"],
    "positions": ["positions"],
    "branch": ["branch"],
    "data": ["data"],
    "logger": ["logger"],
    "trainer": ["trainer"],
    "sweep": ["sweep", "rows", "seeds"],
}
"""The part of the configuration that each of these groups fills; any other group may change all of it."""


@dataclass(frozen=True)
class Key:
    """The type of a leaf of the schema, and its choices or bounds."""

    type: Any
    metadata: Mapping[str, Any]

    @property
    def is_container(self) -> bool:
        """Whether it is a list or a dictionary."""
        return any((typing.get_origin(kind) or kind) in (list, dict) for kind in _kinds(self.type))


@dataclass
class Screened:
    """Overrides that can be composed, and what is wrong with the others."""

    usable: list[Override] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)
    """Keys, parts, or `*`, whose composed values are meaningless because an override was left out."""

    def reject(self, fault: str, *doubtful: str) -> None:
        """Note a fault and what it makes doubtful."""
        self.faults.append(fault)
        self.doubtful.update(doubtful)

    def doubts(self, keys: Sequence[str]) -> bool:
        """Whether any of `keys` is doubtful."""
        if EVERYTHING in self.doubtful:
            return bool(keys)
        return any(key == d or key.startswith(f"{d}.") for key in keys for d in self.doubtful)


def screen(
    lines: Sequence[str],
    schema: type[Any],
    loader: Loader,
    *,
    multirun: bool,
    several: str = "add --multirun to run each",
) -> Screened:
    """Sort overrides into usable and faulty ones; `several` says what to do about several values without `multirun`."""
    result = Screened()
    parser = OverridesParser.create(config_loader=loader)
    keys = leaf_keys(schema)
    groups = list(walk_groups(loader))
    given: dict[str, str] = {}
    for line in lines:
        try:
            (override,) = parser.parse_overrides([line])  # `parse_override` would not tell a glob where the options are
        except HydraException as error:
            result.reject(_syntax_fault(line, error), EVERYTHING)
            continue
        name = override.key_or_group
        if given.setdefault(name, line) != line:
            result.reject(f"{line} and {given[name]}: {name} is given twice; leave one out.", *touched(name, groups))
            continue
        _screen_one(override, keys, groups, loader, result, several=None if multirun else several)
    return result


def _screen_one(
    override: Override,
    keys: dict[str, Key],
    groups: list[str],
    loader: Loader,
    result: Screened,
    *,
    several: str | None,
) -> None:
    name, line = override.key_or_group, override.input_line or ""
    if name in keys and (fault := _brackets_fault(override, keys[name])):
        result.reject(fault, name)
        return
    if override.is_sweep_override() and several and not override.is_hydra_override():
        key, _, value = line.partition("=")
        single = f'put a single value with a comma in two pairs of quotes, "{key}={quoted(value)}"'
        trains = "trainer.max_steps" in keys
        if not trains and name not in keys and name not in groups:
            text = "so leave it out. Tables show all values with which rows have been run."
            result.reject(f"{line}: this command has no key {key}, {text}")
            return
        each = f"{several}, or " if trains else ""
        result.reject(f"{line} lists several values: {each}{single}.", *touched(name, groups))
        return
    if fault := hydra_fault(name, line):
        result.reject(fault)
        return
    is_group = name in groups or bool(options(loader, name))
    if is_group:
        faults = list(_option_faults(override, name, loader))
        for text in faults:
            result.reject(text, *touched(name, groups))
        if faults:
            return
    elif not is_group and not override.is_hydra_override():
        fault = _key_fault(override, keys, groups, loader)
        if fault is not None:
            result.reject(fault, name)
            return
    result.usable.append(override)


def is_axis(line: str, loader: Loader) -> bool:
    """Whether a readable override lists several values."""
    (override,) = OverridesParser.create(config_loader=loader).parse_overrides([line])
    return override.is_sweep_override()


def touched(name: str, groups: Sequence[str]) -> list[str]:
    """Parts of the configuration that an override of `name` may change."""
    if name.startswith("hydra/"):
        return []
    return TOUCHES.get(name, [EVERYTHING]) if name in groups else [name]


HYDRAS_OWN = {
    "hydra/launcher=basic": "rows are run by local, slurm or ray, each row in its own process; leave it out for local",
    "hydra/sweeper=basic": "it knows no tables, no finished rows and no retries; leave it out, grids work without it",
}
FOLDERS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.output_subdir", "hydra.job.chdir")


def hydra_fault(name: str, line: str) -> str | None:
    """Say why a setting of Hydra's own is not supported; None for all others."""
    if name in FOLDERS:
        return f"{line}: Hydra makes no folders here; runs=FOLDER, name=NAME and sweep.name=NAME set a run's folder."
    if name in ("hydra.launcher", "hydra.sweeper"):
        return f"{line}: a group is chosen with a slash: type {line.replace('.', '/', 1)}."
    return f"{line}: {HYDRAS_OWN[line]}." if line in HYDRAS_OWN else None


def values_of(override: Override) -> list[Any]:
    """The value, or each value of a sweep over discrete ones; those of a glob are found by `matching`."""
    value = override.value()
    if isinstance(value, Glob):
        return matching(value, options(cast(Loader, override.config_loader), override.key_or_group))
    if override.is_sweep_override():
        if isinstance(override._value, RangeSweep):
            return range_values(override._value)
        found = list(override.sweep_iterator()) if override.is_discrete_sweep() else []
        return [value.text if isinstance(value, QuotedString) else value for value in found]
    return [override.value()]


def range_values(sweep: RangeSweep) -> list[int | float]:
    """The values of `range(start, stop, step)`, its end left out; Hydra sums up fractions, and their errors."""
    ends = (sweep.start or 0, sweep.stop or 0, sweep.step)
    if not all(map(math.isfinite, ends)) or not sweep.step:
        return []
    start, stop, step = (Decimal(str(number)) for number in ends)
    kind = int if all(isinstance(number, int) for number in ends) else float
    return [kind(start + step * place) for place in range(math.ceil((stop - start) / step))]


def typed_keys(lines: Iterable[str]) -> dict[str, str]:
    """By key or group of each override, without `+` and `~`, its value as typed, without quotes."""
    parts = (str(line).partition("=") for line in lines)
    return {key.lstrip("+~"): value.strip("'\"") for key, _, value in parts}


def quoted(text: str) -> str:
    """Text as an override's value, whatever characters it has."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def matching(glob: Glob, names: Sequence[str]) -> list[str]:
    """The names that a glob matches, part by part: `*` stops at a slash, so that `quickstart/*` is a table's rows."""

    def fits(name: str, pattern: str) -> bool:
        parts, wanted = name.split("/"), pattern.split("/")
        return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))

    taken = [name for name in names if any(fits(name, pattern) for pattern in glob.include)]
    return [name for name in taken if not any(fits(name, pattern) for pattern in glob.exclude)]


def _option_faults(override: Override, group: str, loader: Loader) -> Iterator[str]:
    valid, line = options(loader, group), override.input_line or ""
    if override.is_delete():
        if group not in (*OPTIONAL, *OFF):
            yield f"{line}: the group {group} cannot be left out.{options_text(group, '', valid)}"
        return
    if override.is_add() or override.is_force_add():
        yield f"{line}: {group} is a group; write it without {_plus(override)}."
        return
    if isinstance(override.value(), Glob) and not values_of(override):
        example = f", such as {group}=glob({valid[0].split('/')[0]}/*)" if valid and "/" in valid[0] else ""
        yield f"{line} matches no option of {group}{example}."
    for value in values_of(override):
        for choice in value if isinstance(value, list) else [value]:
            if choice is None and group not in (*OPTIONAL, *OFF):
                yield f"{group}=null: the group cannot be left out.{options_text(group, '', valid)}"
            elif choice is not None and str(choice) not in valid:
                yield f"{group}={choice}: there is no such option.{options_text(group, str(choice), valid)}"
            elif isinstance(choice, int | float):  # also true and false
                yield f"{group}={choice}: YAML does not read {choice} as a name: rename its file to a word."


def _plus(override: Override) -> str:
    return "++" if override.is_force_add() else "+"


def _brackets_fault(override: Override, key: Key) -> str | None:
    """Say what to type for a list without brackets, which Hydra reads as one value or as one run for each value."""
    kinds = [kind for kind in _kinds(key.type) if typing.get_origin(kind) is list]
    name, _, text = (override.input_line or "").partition("=")
    if not kinds or override.is_delete() or text.startswith("${"):
        return None
    plain = [value for value in values_of(override) if isinstance(value, str | int | float)]
    fits = any(_fits([value], kind) for value in plain for kind in kinds)
    if not plain or not (fits or override.is_sweep_override()):
        return None
    return f"{name}={text}: a list needs brackets: type {name}=[{text}]."


def _key_fault(override: Override, keys: dict[str, Key], groups: list[str], loader: Loader) -> str | None:
    name, line = override.key_or_group, override.input_line or ""
    found = keys.get(name)
    if found is None:
        is_part = any(key.startswith(f"{name}.") for key in keys)
        if is_part or is_open(name, keys):
            return None
        return no_such_key(name, line, keys, groups, loader)
    if override.is_add() or (override.is_force_add() and not _is_dictionary(found)):
        return f"{line}: the key {name} exists already; write it without {_plus(override)}."
    if override.is_delete():
        return f"{line}: the key {name} cannot be removed; set it to a value."
    for value in values_of(override):
        if fault := type_fault(name, value, found):
            return fault
        plain = value.text if isinstance(value, QuotedString) else value
        if isinstance(plain, float) and not {int, float} & set(_kinds(found.type)):
            plain = str(plain)  # a text that looks like a number, such as name=nan
        interpolated = isinstance(plain, str) and "${" in plain
        if plain is not None and not interpolated and (fault := value_fault(name, plain, found.metadata)):
            return fault
    return None


def no_such_key(name: str, line: str, keys: Mapping[str, Key], groups: list[str], loader: Loader) -> str:
    """As `unknown_key`, which it tells the tasks that have the key, if `keys` are those of a run."""
    is_run = "trainer.max_steps" in keys  # and not a table
    tasks = [task for task in BUILT_IN if is_run and name in leaf_keys(schema_of(task))]
    return unknown_key(name, line, list(keys), groups, loader, tasks)


def type_fault(key: str, value: Any, item: Key) -> str | None:
    """Say that a value does not have the type of its field; None if it does, or if it is an interpolation."""
    if isinstance(value, QuotedString):
        value = value.text
    if isinstance(value, str) and "${" in value:
        return None
    kinds = _kinds(item.type)
    if value is None:
        return None if type(None) in kinds else f"{key}=null: a value is needed, {_kind_text(kinds, item)}."
    if any(_fits(value, kind) for kind in kinds):
        return None
    if int in kinds and isinstance(value, float) and value.is_integer():  # 1e9 is a float in YAML
        said = value_fault(key, int(value), item.metadata)
        return said or f"{key}={value}: write a whole number without point and exponent: {key}={int(value)}."
    typed = f"[{','.join(map(str, value))}]" if isinstance(value, list) else value
    return f"{key}={typed}: must be {_kind_text(kinds, item)}."


def _kinds(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)


def is_open(name: str, keys: Mapping[str, Key]) -> bool:
    """Whether a key is part of a dictionary, such as `model.options`, whose contents the schema does not list."""
    return any(name.startswith(f"{key}.") and _is_dictionary(item) for key, item in keys.items())


def _is_dictionary(item: Key) -> bool:
    return any((typing.get_origin(kind) or kind) is dict for kind in _kinds(item.type))


def _fits(value: Any, kind: Any) -> bool:
    origin = typing.get_origin(kind) or kind
    if origin is list:
        (inner,) = typing.get_args(kind) or (Any,)
        return isinstance(value, list) and all(_fits(element, inner) for element in value)
    if origin is dict:
        return isinstance(value, dict)
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is str:
        return isinstance(value, str | int | float | bool | QuotedString)
    return kind is Any


def _kind_text(kinds: tuple[Any, ...], item: Key) -> str:
    if "words" in item.metadata:
        return bounded_or_word(item.metadata)
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        list[str]: "a list such as [a,b]",
        list[int]: "a list of whole numbers such as [1,2]",
        type(None): "null",
    }
    text = " or ".join(words.get(kind, "a dictionary") for kind in kinds)
    if bounds := item.metadata.get("bounds"):
        text += f", {bounds_text(bounds)}"
    if choices := item.metadata.get("choices"):
        text = f"one of {', '.join(dict.fromkeys(choices))}"
    return text


def leaf_keys(schema: type[Any], prefix: str = "") -> dict[str, Key]:
    """Return the dotted keys of a schema with their types."""
    found: dict[str, Key] = {}
    hints = typing.get_type_hints(schema)
    for item in dataclasses.fields(schema):
        kind = hints[item.name]
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            found |= leaf_keys(kind, f"{prefix}{item.name}.")
        else:
            found[f"{prefix}{item.name}"] = Key(kind, item.metadata)
    return found


def _syntax_fault(line: str, error: Exception) -> str:
    if "=" not in line and not line.startswith("~"):
        return f"'{line}' is not KEY=VALUE: --help lists the keys, with examples."
    if any(line.count(left) != line.count(right) for left, right in ("[]", "{}", "()")):
        return f"'{line}' cannot be read: its brackets do not match."
    text = str(error).splitlines()[0]
    text = re.sub(r"\s*See https?:\S+.*", "", text)
    key = line.partition("=")[0]
    example = f"{key}=['…']" if "=[" in line else f"{key}='…'"
    return f"'{line}' cannot be read ({text}): put quotes around values with special characters, as in \"{example}\"."
