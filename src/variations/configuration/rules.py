"""Faults, rules that find them, and checks of values against the choices and bounds of their fields."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from variations.configuration.suggestions import did_you_mean

CLASS_NAME = re.compile(r"([^\W\d]\w*(?:\.\w+)*):([^\W\d]\w*)")
"""Module and class in `package.module:Class`, with letters of all scripts, as in Python."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""What Python reads in place of bytes that are not UTF-8."""
LARGEST = {int: 2**32 - 1, float: 3e38}
"""The largest seed and the largest float32; no number of a configuration may exceed them."""
SIGNS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}


@dataclass(frozen=True)
class Fault:
    """One fault and the keys it depends on, so that a fault that follows from another is not reported."""

    keys: tuple[str, ...]
    text: str


Rule = Callable[[Any], Iterable[Fault]]
"""Finds faults of a configuration."""


class Rules:
    """Rules between fields. Each lists the keys it reads, and is skipped if one of them is already faulty."""

    def __init__(self, *others: "Rules") -> None:
        """Start with the rules of `others`."""
        self._rules: list[tuple[tuple[str, ...], Rule]] = [rule for other in others for rule in other._rules]

    def reads(self, *keys: str) -> Callable[[Rule], Rule]:
        """Register the decorated rule, which reads `keys`."""

        def register(rule: Rule) -> Rule:
            self._rules.append((keys, rule))
            return rule

        return register

    def broken(self, config: Any, wrong: set[str]) -> list[Fault]:
        """The faults that all rules find which read no key of `wrong`."""
        return [fault for keys, rule in self._rules if not wrong.intersection(keys) for fault in rule(config)]


def switched_off(keys: Iterable[str], by: str, why: str) -> dict[str, Fault]:
    """What a task's `without_effect` gives for keys that the value of the key `by`, such as the task, makes unused."""
    return dict.fromkeys(keys, Fault((by,), why))


def value_fault(key: str, value: Any, metadata: Mapping[str, Any]) -> str | None:
    """What is wrong with a value: not among its field's choices or within its bounds, or not UTF-8; None if nothing."""
    if not is_text(value):
        return f"{key}={value!a}: is not UTF-8, in which every file is written: rename it, or use a UTF-8 locale."
    if choices := metadata.get("choices"):
        valid = list(dict.fromkeys(choices))
        foreign = bool(metadata.get("classes"))
        if value not in valid and not (foreign and CLASS_NAME.fullmatch(str(value))):
            more = ", or package.module:Class of another package" if foreign else ""
            said = f"{key}={value}: valid choices are {', '.join(valid)}{more}.{did_you_mean(str(value), valid)}"
            return f"{said} {metadata.get('remark', '')}".rstrip()
    elif words := metadata.get("words"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value not in words and not (whole and _inside(value, metadata["bounds"])):
            return f"{key}={value}: must be {bounded_or_word(metadata)}.{did_you_mean(str(value), words)}"
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{key}={value}: must be a finite number."
    elif (bounds := metadata.get("bounds")) and not _inside(value, bounds):
        return f"{key}={value}: must be {bounds_text(bounds)}."
    elif type(value) in LARGEST and abs(value) > (most := metadata.get("most") or LARGEST[type(value)]):
        return f"{key}={value}: must be at most {most}."
    return None


def is_text(value: Any) -> bool:
    """Whether a text, or all texts of a list, can be written as UTF-8; bytes of a path in another encoding cannot."""
    if isinstance(value, list | tuple):
        return all(map(is_text, value))
    return not (isinstance(value, str) and SURROGATE.search(value))


def _inside(value: float, bounds: dict[str, float]) -> bool:
    return (
        bounds.get("ge", -math.inf) <= value <= bounds.get("le", math.inf)
        and ("gt" not in bounds or value > bounds["gt"])
        and ("lt" not in bounds or value < bounds["lt"])
    )


def bounded_or_word(metadata: Mapping[str, Any]) -> str:
    """Describe the values of a field that is a number or a word: `a whole number, at least 1, or auto`."""
    return f"a whole number, {bounds_text(metadata['bounds'])}, or {' or '.join(metadata['words'])}"


def bounds_text(bounds: dict[str, float]) -> str:
    """Bounds in words: `at least 0 and less than 1`."""
    shown = {name: int(bound) if float(bound).is_integer() else f"{bound:g}" for name, bound in bounds.items()}
    return " and ".join(f"{SIGNS[name]} {bound}" for name, bound in shown.items())
