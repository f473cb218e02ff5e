"""Whether runs that are compared were made alike: from the same texts, and with the same overrides typed."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from variations.configuration import doors
from variations.configuration.overrides import typed_keys
from variations.store.identity import changed_keys, covered, flatten, is_incidental
from variations.store.rows import changes, choices, keys_of_option, stated
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
    """A note if a row differs from its base row in more, or in less, than their files say; None if not.

    Overrides were typed for one of them alone; or a file that both use (the sweep's, a recipe) was edited between the
    two; or an override of both replaced the row's only change.
    """
    ours, theirs = (side.config.get("sweep") or {} for side in (row, base))
    flat, usual = flatten(row.config), flatten(base.config)
    differing = {key for key in flat.keys() | usual.keys() if flat.get(key) != usual.get(key)}
    found = []
    if "typed" in ours and "typed" in theirs:  # not in older runs
        for side, other, whose in ((ours, theirs, "it"), (theirs, ours, "its base row")):
            alone = [line for line in side["typed"] or [] if line not in (other["typed"] or [])]
            if lines := [line for line in alone if any(covered(key, typed_keys([line])) for key in differing)]:
                found.append(f"{' '.join(lines)} was typed for {whose} alone")
                differing = {key for key in differing if not covered(key, typed_keys(lines))}
    if unstated := _unstated(row, base, differing):
        found.append(f"it also differs from its base row in what neither row's file changes: {unstated}")
    elif differing and not changed_keys(base.config, row.config):
        found.append("its configuration is that of its base row")
    return "; ".join(found) or None


def other_validations(row: Row, base: Row) -> str | None:
    """A note if the dev scores of two rows' curves are of different numbers of sentences; None if not."""
    ours, theirs = (flatten({"trainer": side.config.get("trainer") or {}}) for side in (row, base))
    keys = [key for key in ("trainer.limit_val_batches", "trainer.val_bleu") if ours.get(key) != theirs.get(key)]
    words = ", ".join(f"{key} {theirs.get(key)}→{ours.get(key)}" for key in keys)
    return f"its validations are not those of its base row ({words}): not compared" if keys else None


def _unstated(row: Row, base: Row, differing: Collection[str]) -> str:
    """Those of the `differing` keys that no file of the two rows explains, with both values; empty if there are none.

    A row without a file, such as one of a grid, explains everything.
    """
    sides = [(side.definition.row.partition(",")[0], side.definition.table) for side in (row, base)]
    if any(table is None for _, table in sides):
        return ""
    explained = {key for name, table in sides for key in stated(name, str(table))}
    ours, theirs = (choices(name, str(table)) for name, table in sides)
    for group in ours.keys() | theirs.keys():
        if ours.get(group) != theirs.get(group):
            explained |= {group, *_of_sizes()}
            explained |= {key for side in (ours, theirs) for key in keys_of_option(group, side.get(group, ""))}
    changed = changes(base.config, row.config)
    words = (
        f"{key} {base_value}→{value}"
        for key, (base_value, value) in changed.items()
        if key in differing and not covered(key, explained)
    )
    return ", ".join(words)


def _of_sizes() -> list[str]:
    """The keys that some recipes have other values of for some sizes."""
    files = doors.files("recipe_size/*.yaml")
    return [key for file in files for key in keys_of_option("recipe_size", file.stem)]
