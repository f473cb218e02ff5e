"""Whether runs whose configurations say the same of their data have read the same texts."""

from collections.abc import Mapping
from typing import Any

from variations.store.identity import flatten, is_incidental
from variations.tables.collect import Row, SeedRun

LISTED = 3
"""Names of inputs above which a note only counts the others."""


def differing(ours: SeedRun, theirs: SeedRun) -> list[str]:
    """Names of the inputs (texts, vocabulary, ids) that differ between two runs with one configuration of data.

    Inputs that only one of them has, or that are not known, do not count; nor does the code of own classes.
    """
    if _data(ours.config) != _data(theirs.config):
        return []  # the table says what differs
    here, there = ours.inputs, theirs.inputs
    names = [name for name in here.keys() & there.keys() if here[name] != there[name]]
    return sorted(name for name in names if not name.endswith(".py"))


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
