"""Whether runs that are compared were made alike: from the same texts, and with the same overrides typed."""

import re
from collections.abc import Mapping
from typing import Any

from variations.configuration.overrides import typed_keys
from variations.store.identity import covered, flatten, is_incidental
from variations.tables.collect import Row, SeedRun

LISTED = 3
"""Names of inputs above which a note only counts the others."""


def differing(ours: SeedRun, theirs: SeedRun) -> list[str]:
    """Names of the inputs (texts, vocabulary, ids) that differ between two runs with one configuration of data.

    Inputs that only one of them has, or that are not known, do not count; for the code of own classes see `other_code`.
    """
    return other_texts(ours.inputs, theirs.inputs, ours.config, theirs.config)


def other_texts(
    here: Mapping[str, str], there: Mapping[str, str], config: Mapping[str, Any], other: Mapping[str, Any]
) -> list[str]:
    """`differing` of the inputs and configurations of two runs."""
    names = [name for name in here.keys() & there.keys() if here[name] != there[name] and not name.endswith(".py")]
    if names and _data(config) != _data(other):
        return []  # the table says what differs
    return sorted(names)


def unversioned(text: str) -> str:
    """How a score was computed, without the version of the program."""
    return re.sub(r"\bversion:[^|;]*|\bv:[^|;]*", "", text)


def other_code(ours: SeedRun, theirs: SeedRun) -> list[str]:
    """Names of the modules of own classes of which two runs used different versions."""
    here, there = ours.inputs, theirs.inputs
    return sorted(name for name in here.keys() & there.keys() if here[name] != there[name] and name.endswith(".py"))


def other_inputs(row: Row, base: Row) -> str | None:
    """A note if a row and its base row were trained or tested on different texts; None if not, or if unknown."""
    theirs = {run.seed: run for run in base.finished}
    for run in row.finished:
        if run.seed in theirs and (names := differing(run, theirs[run.seed])):
            return f"its inputs differ from its base row's ({listed(names)}; seed {run.seed}): not compared"
    return None


def listed(names: list[str]) -> str:
    """`train.de, train.en`, and of many the first ones and the number of the others."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _data(config: Mapping[str, Any]) -> dict[str, Any]:
    flat = flatten({"data": config.get("data") or {}})
    return {key: value for key, value in flat.items() if not is_incidental(key, config)}


def other_overrides(row: Row, base: Row) -> str | None:
    """A note if overrides were typed for the runs of a row or of its base row alone, and change something there."""
    ours, theirs = (side.config.get("sweep") or {} for side in (row, base))
    if not ("typed" in ours and "typed" in theirs):  # an older run
        return None
    flat, usual = flatten(row.config), flatten(base.config)
    differing = [key for key in flat.keys() | usual.keys() if flat.get(key) != usual.get(key)]
    found = []
    for side, other, whose in ((ours, theirs, "it"), (theirs, ours, "its base row")):
        alone = [line for line in side["typed"] or [] if line not in (other["typed"] or [])]
        if lines := [line for line in alone if any(covered(key, typed_keys([line])) for key in differing)]:
            found.append(f"{' '.join(lines)} was typed for {whose} alone")
    return "; ".join(found) or None
