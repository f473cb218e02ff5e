"""What a row's configuration changes in that of its base row, in the papers' symbols."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.rules import Fault
from variations.configuration.suggestions import shortened
from variations.configuration.tasks import named, task_of
from variations.store.identity import covered, defaults, flatten, is_incidental

SAME = "same configuration"
"""What `in_words` says of no change, unless told otherwise."""
_SYMBOLS = {
    "recipe.name": "recipe",
    "trainer.max_steps": "steps",
}
_SILENT = (
    "seed",
    "variation",
    "trainer.threads",
    "trainer.log_every",
    "trainer.checkpoint_every",
    "trainer.checkpoint_minutes",
)


def changes(base: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys in which a row's experiment differs from that of its base row: `{"model.h": (8, 16), …}`, in schema order.

    Keys are compared by their effective values, and given as stated if they are stated. Keys without effect do not
    count; the task names them.
    """
    order, task = defaults(config), task_of(config)
    stated, told = {**order, **flatten(base)}, _whole(config)
    before, after = task.effective({**stated}), task.effective({**told})
    counts = _counting(config, after)
    found = {}
    for key in [*order, *sorted((before.keys() | after.keys()) - order.keys())]:
        old, new = before.get(key), after.get(key)
        derived = stated.get(key) is None or stated.get(key) != told.get(key)  # else it follows from another change
        if old != new and derived and counts(key):
            found[key] = (_stated(stated, key, old), _stated(told, key, new))
    return found


def _whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """All flat keys of a configuration, those that it does not state by their defaults."""
    return {**defaults(config), **flatten(config)}


def _stated(flat: Mapping[str, Any], key: str, effective: Any) -> Any:
    return effective if flat.get(key) is None else flat[key]


def equal_rows(configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each group of rows that differ in nothing, not even in the folder of their texts."""
    folders: dict[Any, dict[str, Mapping[str, Any]]] = {}
    for name, config in configs.items():
        folders.setdefault((config.get("data") or {}).get("root"), {})[name] = config
    equal = [names for of_one in folders.values() for names in alike(of_one) if len(names) > 1]
    return [f"{'; '.join(names)}: these rows make the same changes and train equal networks." for names in equal]


def alike(configs: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """The names of `configs` in groups, within which `changes` finds nothing."""
    groups: dict[str, list[str]] = {}
    for name, config in configs.items():
        values = task_of(config).effective(_whole(config))
        counts = _counting(config, values)
        effective = {key: value for key, value in values.items() if counts(key)}
        groups.setdefault(json.dumps(effective, sort_keys=True, default=str), []).append(name)
    return list(groups.values())


def _counting(config: Mapping[str, Any], values: Mapping[str, Any]) -> Callable[[str], bool]:
    """Whether a key of the experiment that `config` describes, with these effective values, has an effect."""
    task = task_of(config)
    silent = {*_SILENT, *task.without_effect(values)}
    if not config.get("callbacks"):  # early stopping, for one, acts on validations
        silent |= {"trainer.val_every", *task.silent}
    return lambda key: not is_incidental(key, config) and not covered(key, silent)


def foreseen(configs: Mapping[str, Any]) -> list[str]:
    """A sentence for whatever is known before training about the results of some rows.

    Args:
        configs: The typed configuration of each row, by its name.
    """
    rows: dict[str, list[str]] = {}
    for name, config in configs.items():
        for text in named(config.task).foreseen(config):
            rows.setdefault(text, []).append(name)
    return [f"{shortened(names, ', ')}: {text}." for text, names in rows.items()]


def idle(typed: Sequence[str], configs: Sequence[Any]) -> list[Fault]:
    """Faults for typed overrides that have no effect in any of these typed configurations of runs."""
    reasons: dict[str, Fault] = dict.fromkeys(typed, Fault((), ""))
    for config in configs:
        off = named(config.task).without_effect(flatten(to_dict(config))) if reasons else {}
        keys = {line: line.lstrip("+").partition("=")[0] for line in reasons}
        reasons = {line: why for line, key in keys.items() for name, why in off.items() if covered(key, [name])}
    return [Fault(why.keys, f"{line} has no effect: {why.text}.") for line, why in reasons.items() if why.text]


def varied(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Keys that have several values among `configs`: `{"model.h": [8, 16, None], …}`, a value for each of them.

    As in `changes`; None where a configuration is empty or a key has no effect. Defaults that are derived from other
    keys are not filled in: `model.d_k` is among the keys only if some configuration sets it.
    """
    flats = [_whole(config) if config else {} for config in configs]
    stated = [flat for flat in flats if flat]
    keys = dict.fromkeys(key for flat in stated for key in flat)
    columns: dict[str, list[Any]] = {
        key: [] for key in keys if any(flat.get(key) != stated[0].get(key) for flat in stated)
    }
    different: dict[str, set[str]] = {key: set() for key in columns}
    for config, flat in zip(configs, flats, strict=True):
        values = task_of(config).effective({**flat})
        counts = _counting(config, values)
        for key, column in columns.items():
            column.append(_stated(flat, key, values.get(key)) if counts(key) else None)
            if flat and counts(key):
                different[key].add(json.dumps(values.get(key), default=str))
    return {key: found for key, found in columns.items() if len(different[key]) > 1}


def differences(
    base: Mapping[str, Any], config: Mapping[str, Any], parameters: tuple[int | None, int | None] = (None, None)
) -> str:
    """What `config` changes, in the papers' symbols: "h 8→16, d_k 64→32; parameters +0".

    Args:
        base: Configuration of the base row.
        config: Configuration of the row.
        parameters: Trainable parameters of both, None if unknown.
    """
    return in_words(changes(base, config), config, parameters)


def in_words(
    changed: Mapping[str, tuple[Any, Any]],
    config: Mapping[str, Any],
    parameters: tuple[int | None, int | None] = (None, None),
    same: str = SAME,
) -> str:
    """What `changes` found in `config`, in the form that `differences` returns; `same` if that is nothing."""
    text = ", ".join(each_in_words(changed, config)) or same
    old_size, new_size = parameters
    return text if old_size is None or new_size is None else f"{text}; parameters {signed(new_size - old_size)}"


def each_in_words(changed: Mapping[str, tuple[Any, Any]], config: Mapping[str, Any]) -> list[str]:
    """The same one by one, without the parameters: `["heads 8→16", "data.tasks [1, 2]→[1]"]`."""
    found = dict(changed)
    if found.get("model.d_v") == found.get("model.d_k"):
        found.pop("model.d_v", None)  # d_k stands for both, as in the papers' tables
    return [_change(symbol(key, config), old, new) for key, (old, new) in found.items()]


def symbol(key: str, config: Mapping[str, Any]) -> str:
    """The papers' symbol of a key: `model.d_k` is d_k."""
    return _SYMBOLS.get(key) or task_of(config).symbols.get(key) or key.removeprefix("model.")


def signed(number: int) -> str:
    """`+0`, `+1,024`, `−16`."""
    return f"{'−' if number < 0 else '+'}{abs(number):,}"


def _change(name: str, old: Any, new: Any) -> str:
    if old is None:  # the base row does not set it
        return f"{name} {_word(new)}"
    return f"{name} {_word(old)}→{_word(new)}"


def _word(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
