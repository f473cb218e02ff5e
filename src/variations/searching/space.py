"""The space of a search: keys of the schema, or groups, each with an interval, a range, or choices.

A sweep file writes a dimension in Hydra's override syntax (`interval(0,0.3)`, `choice(2,4)`, `range(1,5)`,
`tag(log,interval(1e-4,1e-2))`), or as a list of choices. This module imports no Optuna, to report faults quickly.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, Quote, QuotedString, RangeSweep
from hydra.errors import HydraException

from variations.configuration.hydra_door import Loader
from variations.configuration.overrides import Key, is_open, no_such_key, range_values, type_fault
from variations.configuration.rules import value_fault
from variations.configuration.suggestions import options, options_text, walk_groups
from variations.store.identity import is_incidental

FORMS = "interval(0,0.3), tag(log,interval(0.1,2)), choice(2,4), range(1,5) or [2,4]"
NOT_SEARCHED = ("seed", "sweep", "search", "rows", "seeds", "force", "variation")
Scalar = None | bool | int | float | str


@dataclass(frozen=True)
class Dimension:
    """One key of a space."""

    key: str
    kind: str
    """`float`, `int` or `choice`."""
    low: float | int = 0
    high: float | int = 0
    """Included."""
    step: float | int | None = None
    log: bool = False
    choices: tuple[Scalar, ...] = ()

    def cells(self) -> int | None:
        """Number of values; None: continuous."""
        if self.kind == "choice":
            return len(self.choices)
        if self.step is None:
            return None
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    def ends(self) -> tuple[Scalar, ...]:
        """Each choice, or the lowest and the highest value."""
        return self.choices if self.kind == "choice" else (self.low, self.high)

    def holds(self, value: Any) -> bool:
        """Whether `value` belongs to the dimension."""
        if self.kind == "choice":
            return _identity(value) in map(_identity, self.choices)
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            return False
        if self.step is None:
            return True
        steps = (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-9

    def text(self) -> str:
        """A short description: `0 to 0.3`, `1e-4 to 1e-2 (log)`, `2, 4`."""
        if self.kind == "choice":
            return ", ".join(word(choice) for choice in self.choices)
        extra = (
            [f"in steps of {self.step:g}"] if self.step is not None and (self.step != 1 or self.kind != "int") else []
        )
        extra += ["log"] if self.log else []
        return f"{self.low:g} to {self.high:g}" + (f" ({', '.join(extra)})" if extra else "")

    def form(self) -> str | list[Scalar]:
        """The dimension as a sweep file writes it."""
        if self.kind == "choice":
            return list(self.choices)
        if self.log:
            return f"tag(log,interval({self.low},{self.high}))"
        if self.step is None:
            return f"interval({self.low},{self.high})"
        end = self.high + (self.step if self.kind == "int" else self.step / 2)  # which is not included
        return f"range({self.low},{end},{self.step})"

    def plain(self) -> dict[str, Any]:
        """Plain data, for comparison with the space with which a study was started."""
        if self.kind == "choice":
            return {"choices": list(self.choices)}
        return {"type": self.kind, "low": self.low, "high": self.high, "step": self.step, "log": self.log}

    def suggest(self, trial: Any) -> Scalar:
        """The value of this dimension in an Optuna trial, which chooses it if it has none yet."""
        value: Scalar
        if self.kind == "choice":
            value = trial.suggest_categorical(self.key, self.choices)
        elif self.kind == "int":
            value = trial.suggest_int(self.key, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        else:
            value = trial.suggest_float(self.key, self.low, self.high, step=self.step, log=self.log)
        return value

    def override(self, value: Any) -> str:
        """The override that gives the key this value."""
        if isinstance(value, str):
            return f"{self.key}={QuotedString(value, Quote.single).with_quotes()}"
        return f"{self.key}={word(self.exact(value))}"

    def exact(self, value: Any) -> Any:
        """A multiple of the step without the error of its sum; any other value unchanged."""
        return round(value, 12) if isinstance(value, float) and self.step is not None else value


def _identity(value: Any) -> tuple[bool, Any]:
    """Equal for 0 and 0.0, which are one value of a key, but not for false."""
    return isinstance(value, bool), value


def word(value: Any) -> str:
    """A value in the syntax of YAML and Hydra."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def read_space(space: Mapping[str, Any], keys: Mapping[str, Key], found: Loader) -> tuple[list[Dimension], list[str]]:
    """The valid dimensions, and every fault of the others, with valid choices; `keys` are those of the trials' task."""
    groups = list(walk_groups(found))
    dimensions: list[Dimension] = []
    faults: list[str] = []
    for key, value in space.items():
        problems = list(_key_faults(key, value, keys, groups, found))
        dimension = None if problems else _read(key, value, keys.get(key), problems)
        if dimension is not None:
            problems += value_faults(dimension, keys.get(key), found)
        if problems or dimension is None:
            faults += [f"sweep.search.space: {problem}" for problem in problems]
        else:
            dimensions.append(dimension)
    return dimensions, faults


def _key_faults(key: str, value: Any, keys: Mapping[str, Key], groups: list[str], found: Loader) -> Iterator[str]:
    root = key.split(".")[0]
    is_group = bool(options(found, key))
    if root in NOT_SEARCHED or (not is_group and is_incidental(key, {})) or root == "hydra":
        hint = " Seeds of a trial are set by sweep.seeds." if root in ("seed", "seeds") else ""
        yield f"{key} cannot be searched: it does not change the model or its training.{hint}"
    elif key not in keys and not is_group and not is_open(key, keys):
        yield no_such_key(key, f"{key}={value}", keys, groups, found)


def _read(key: str, value: Any, item: Key | None, problems: list[str]) -> Dimension | None:
    if isinstance(value, list):
        return _choices(key, value, problems)
    if not isinstance(value, str):
        problems.append(f"{key}: {word(value)} is not a space: write {FORMS}.")
        return None
    try:
        override = OverridesParser.create().parse_override(f"{key}={value}")
    except HydraException as error:
        problems.append(f"{key}: {value!r} cannot be read ({str(error).splitlines()[0]}): write {FORMS}.")
        return None
    return from_override(override, takes_whole_numbers(item), problems)


def takes_whole_numbers(item: Key | None) -> bool:
    """Whether a key of the schema takes whole numbers only."""
    return item is not None and item.type in (int, int | None)


def from_override(override: Override, whole: bool, problems: list[str]) -> Dimension | None:
    """A dimension from Hydra's override syntax.

    Args:
        override: As typed, or as in the sweep file.
        whole: Whether the key takes whole numbers only.
        problems: Faults are added here.
    """
    key, sweep = override.key_or_group, override._value
    if isinstance(sweep, ChoiceSweep | RangeSweep) and sweep.tags:
        tags = ", ".join(sorted(sweep.tags))
        problems.append(f"{key}: a tag ({tags}) applies to an interval only, not to a range or choices: leave it out.")
        return None
    if isinstance(sweep, ChoiceSweep):
        return _choices(key, [_plain(element) for element in sweep.list], problems)
    if isinstance(sweep, RangeSweep):
        return _range(key, sweep, problems)
    if isinstance(sweep, IntervalSweep):
        return _interval(key, sweep, whole, problems)
    problems.append(f"{key}: {override.get_value_element_as_str()} is not a space: write {FORMS}.")
    return None


def _plain(element: Any) -> Any:
    return element.text if isinstance(element, QuotedString) else element


def _choices(key: str, values: list[Any], problems: list[str]) -> Dimension | None:
    if len(values) < 2:
        problems.append(f"{key}: give at least two choices.")
    bad = [value for value in values if not isinstance(value, Scalar)]
    if bad:
        problems.append(f"{key}: choices are numbers, words, true, false or null, not {bad[0]}.")
    if not problems and len({*map(_identity, values)}) < len(values):
        problems.append(f"{key}: there is a duplicate in {', '.join(word(value) for value in values)}.")
    return None if problems else Dimension(key, "choice", choices=tuple(values))


def _range(key: str, sweep: RangeSweep, problems: list[str]) -> Dimension | None:
    values = range_values(sweep)
    if not values or sweep.step <= 0:
        problems.append(f"{key}: this range is empty; its end is not included: range(1,5) is 1 to 4.")
        return None
    number = int if all(float(value).is_integer() for value in (*values, sweep.step)) else float
    low, high, step = number(values[0]), number(values[-1]), number(sweep.step)
    return Dimension(key, number.__name__, low, high, step)


def _interval(key: str, sweep: IntervalSweep, whole: bool, problems: list[str]) -> Dimension | None:
    low, high, log = float(sweep.start or 0), float(sweep.end or 0), "log" in sweep.tags
    if unknown := sorted(set(sweep.tags) - {"log"}):
        problems.append(f"{key}: tag {', '.join(unknown)} is unknown; valid: log.")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        problems.append(f"{key}: the interval's start {low:g} must be less than its end {high:g}, both finite.")
    if log and low <= 0:
        problems.append(f"{key}: a logarithmic interval must start above 0, not at {low:g}.")
    if whole and not (low.is_integer() and high.is_integer()):
        problems.append(f"{key}: an interval of whole numbers must have whole ends, not {low:g} and {high:g}.")
    if problems:
        return None
    return Dimension(key, "int", int(low), int(high), 1, log) if whole else Dimension(key, "float", low, high, log=log)


def value_faults(dimension: Dimension, item: Key | None, found: Loader) -> Iterator[str]:
    """What is wrong with a dimension's choices or ends, by the schema or the group's options."""
    key = dimension.key
    valid = options(found, key)
    for value in dimension.ends():
        if valid:
            if str(value) not in valid:
                yield f"{key}={word(value)}: there is no such option.{options_text(key, str(value), valid)}"
        elif item is not None:
            fault = type_fault(key, value, item)
            if fault is None and value is not None:
                fault = value_fault(key, value, item.metadata)
            if fault:
                yield fault
    if dimension.kind == "float" and takes_whole_numbers(item):
        yield f"{key} takes only whole numbers."
