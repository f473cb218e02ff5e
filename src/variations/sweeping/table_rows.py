"""The rows of a table that a sweep's configuration picks, and the faults of its names."""

import re
from collections.abc import Sequence

from omegaconf import OmegaConf

from variations.configuration.compose import loader
from variations.configuration.doors import rows_folder, shown_option
from variations.configuration.faults import check
from variations.configuration.places import spelled
from variations.configuration.schema import RunConfig, SweepConfig, VariationConfig
from variations.configuration.suggestions import did_you_mean, options, walk_groups
from variations.store.rows import SweepDefinition, absent_bases, load_row, mistaken_bases
from variations.system.errors import ConfigError


def table_rows(config: RunConfig) -> list[tuple[str, str]]:
    """Return `(row, option of the group variation)` for the rows that a sweep's configuration picks.

    Raises:
        ConfigError: The sweep names no table, is empty, or a row is not in it.
    """
    rows, problems = rows_and_faults(config)
    if problems:
        raise ConfigError(problems)
    return rows


def without_rows(search: str) -> str:
    """What to do instead of asking for the rows of a search; `search`: the subject of the sentence."""
    return (
        f"{search} has no rows: its trials are chosen one after the other. Start it with {spelled('train')} "
        "--multirun, or plan its baseline with variation=TABLE/ROW and the search's overrides."
    )


def rows_and_faults(config: RunConfig) -> tuple[list[tuple[str, str]], list[str]]:
    """As `table_rows`, with the faults of rows that cannot be found; ConfigError if the sweep has no table at all."""
    sweep, found = config.sweep, loader()
    if sweep.name is None:
        raise ConfigError(
            ["sweep.name is not set: the sweep's file must set it, because it names the folder of the runs."]
        )
    if sweep.search.space or sweep.search.trials is not None:
        raise ConfigError([without_rows(f"sweep={sweep.name} is a search and")])
    table = sweep.table or sweep.name
    in_table = options(found, f"variation/{table}")
    if not in_table and not any("/" in row for row in sweep.rows):
        near = did_you_mean(table, [name.removeprefix("variation/") for name in walk_groups(found, "variation")])
        there = rows_folder(table, sweep.name)
        text = f"sweep.table={table}: there are no rows in {there}/; set sweep.table.{near}"
        raise ConfigError([text])
    references: dict[str, str] = {}
    absent: set[str] = set()
    problems = [fault.text for fault in check(config) if fault.keys in (("rows",), ("seeds",))]
    for row in sweep.rows or in_table:
        folder, _, name = (row if "/" in row else f"{table}/{row}").rpartition("/")
        if name not in (known := options(found, f"variation/{folder}")):
            absent.add(row)
            valid = f" Its rows are {', '.join(known)}." if known else ""
            there = rows_folder(folder, sweep.name)
            problems.append(f"sweep.rows: there is no row '{name}' in {there}/.{did_you_mean(name, known)}{valid}")
        elif fault := _name_fault(name):
            absent.add(row)
            file = shown_option(f"variation/{folder}/{name}")
            problems.append(f"row '{name}': {fault}: rename {file}.")
        if f"{folder}/{name}" not in references.values():
            references[row] = f"{folder}/{name}"
    chosen = set(references) if config.rows is None else set[str]()
    for word in config.rows or []:
        # As in the sweep file, or only the row's name, which is also that of its folder.
        meant = [word] if word in references else [row for row in references if row.rpartition("/")[2] == word]
        chosen.update(meant)
        if len(meant) > 1:
            problems.append(f"rows: '{word}' can mean {' or '.join(meant)}: also write the table's name.")
        elif not meant:
            name, _, values = word.partition(",")
            crossed = f" Type rows=[{name}] {values.replace(',', ' ')}." if values and name in references else ""
            problems.append(
                f"rows: the sweep '{sweep.name}' has no row '{word}'.{did_you_mean(word, list(references))}{crossed} "
                f"Its rows are {', '.join(references)}."
            )
    picked = {row: reference for row, reference in references.items() if row in chosen - absent}
    return [(reference.rpartition("/")[2], reference) for reference in picked.values()], problems


def _name_fault(name: str) -> str | None:
    """Why neither a command line nor a row's file could name this row."""
    if not re.fullmatch(r"[\w.+-]+", name, re.ASCII):
        return "the name of a row's file has only the letters a to z and A to Z, digits, and _ . + -"
    if not isinstance(OmegaConf.create(f"name: {name}").name, str):
        return f"YAML does not read {name} as text"
    return None


def circle_faults(sweep: SweepConfig) -> list[str]:
    """Rows that are each other's base rows, or whose base row is not the one of this name in the sweep."""
    table = sweep.table or sweep.name or ""
    definitions = tuple(load_row(row, table) for row in sweep.rows)
    absent = absent_bases(definitions, table)
    known = (*definitions, *absent)
    if mistaken := mistaken_bases(known):
        return [f"sweep.rows: {text}" for text in mistaken]
    circle = SweepDefinition("", definitions, of=known, added=tuple(row.row for row in absent)).circle()
    if not circle:
        return []
    names = {definition.row: written for definition, written in zip(definitions, sweep.rows, strict=True)}
    # One that names no base row, or one of another table that is not here, would be compared with the first row.
    if not (base := next((row.row for row in circle if row.base not in names), None)):
        rows = " and ".join(row.row for row in circle)
        return [f"sweep.rows: {rows} are each other's base rows: remove `base` from the file of one of them."]
    order = ", ".join([names[base], *(row for row in sweep.rows if row != names[base])])
    return [f"sweep.rows: the base row must come first: rows: [{order}]"]


def share_faults(sweep: SweepConfig) -> list[str]:
    """Names of sweeps that do not exist."""
    known = options(loader(), "sweep")
    return [
        f"sweep.shares: there is no sweep '{name}'.{did_you_mean(name, known)} Valid: {', '.join(known)}."
        for name in sweep.shares
        if name not in known
    ]


def misnamed(row: str, reference: str, variation: VariationConfig, rows: Sequence[str]) -> list[str]:
    """Faults of the names in a row's file: the row's own, and its base row's, of this sweep or the row's own table."""
    problems = []
    if variation.row not in (None, row):
        problems.append(
            f"row {row}: its file {shown_option(f'variation/{reference}')} says row: {variation.row}. "
            f"Write row: {row}, or rename the file."
        )
    in_table = options(loader(), f"variation/{reference.rpartition('/')[0]}")
    known = [*dict.fromkeys([*(name.rpartition("/")[2] for name in rows), *in_table])]
    if variation.base is not None and variation.base not in known:
        near = did_you_mean(variation.base, known)
        problems.append(
            f"row {row}: variation.base={variation.base}: there is no such row.{near} Valid: {', '.join(known)}."
        )
    return problems
