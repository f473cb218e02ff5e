"""Rows of a table as the sweep file defines them, and what a row changes, in the table's words."""

import glob
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from variations.configuration import doors
from variations.configuration.places import CONF, spelled
from variations.configuration.schema import SweepConfig
from variations.configuration.tasks import task_of
from variations.store.atomic import read_yaml
from variations.store.identity import covered, defaults, flatten, is_incidental
from variations.store.run_folder import SEED_FOLDER
from variations.system.errors import UserError


@dataclass(frozen=True)
class RowDefinition:
    """A row before any run: its words and its published figures."""

    row: str
    label: str
    table: str | None = None
    id: str | None = None
    group: str | None = None
    base: str | None = None
    published: dict[str, Any] = field(default_factory=dict)
    provenance: str | None = None
    note: str | None = None
    task: str = "translation"
    quoted: bool = False
    """Another system's figures: there is nothing to run."""


@dataclass(frozen=True)
class SweepDefinition:
    """A table: rows in printed order, base row first, and the seeds wanted."""

    name: str
    rows: tuple[RowDefinition, ...]
    seeds: tuple[int, ...] = (1,)
    table: str | None = None
    metric: str = "bleu"
    note: str | None = None
    further: tuple[int, ...] = ()
    """Those of `seeds` that nobody asked for: some row has a run of them all the same."""

    def base_of(self, row: RowDefinition) -> RowDefinition | None:
        """The row it is compared with: the one it names, else the first; None for that row itself."""
        found = next((other for other in self.rows if other.row == row.base), self.rows[0])
        return None if found.row == row.row else found


def define(
    sweep: SweepConfig,
    *,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    conf: Path = CONF,
    store: Path | None = None,
) -> SweepDefinition:
    """The table of `sweep`, only `rows` and `seeds` if given.

    Rows are those of the sweep; all of its table if it names none; else (a grid without a table) those in `store`.
    Seeds are those of the sweep, and all that `store` has of its rows.
    Raises UserError if there are no rows, or `rows` or `seeds` names an unknown one, one twice, or none.
    """
    for key, chosen in (("rows", rows), ("seeds", seeds)):
        if chosen is not None and not chosen:
            raise UserError(f"{key}=[] picks none: name some, or leave it out for all.")
        if chosen is not None and len(set(chosen)) < len(chosen):
            raise UserError(f"{key}={[*chosen]} names one twice: leave the second out.")
    name = sweep.name or "single"
    in_table = doors.files(f"variation/{glob.escape(sweep.table or name)}/*.yaml", conf)
    references = list(sweep.rows) or sorted(path.name.removesuffix(".yaml") for path in in_table)
    known = tuple(sweep.seeds)
    grid = not references
    if grid and store is not None and (store / name).is_dir():
        found = (path.name for path in (store / name).iterdir() if path.is_dir())
        references = sorted(name for name in found if not name.startswith("."))  # a search keeps its leases there
        known = ()
    if not references:
        how = f"sweep={name}" if doors.files(f"sweep/{glob.escape(name)}.yaml", conf) else f"sweep.name={name} KEY=A,B"
        raise UserError(f"Sweep {name!r} has no rows yet: run it with `{spelled('train')} --multirun {how}`.")
    names = [reference.rsplit("/", 1)[-1] for reference in references]
    if unknown := [row for row in rows or () if row not in names]:
        raise UserError(f"Sweep {name!r} has no row {', '.join(map(repr, unknown))}; valid: {', '.join(names)}.")
    definitions = told_apart([load_row(reference, sweep.table or name, conf=conf) for reference in references])
    first = definitions[0].row
    definitions = tuple(row for row in definitions if rows is None or row.row in rows)
    if store is not None and not grid:
        definitions = tuple(found for row in definitions for found in _crossed(row, store / name, first))
    if not sweep.rows:
        definitions = tuple(sorted(definitions, key=lambda row: row.base is not None))
    wanted: tuple[int, ...] = known if seeds is None else tuple(seeds)
    further: tuple[int, ...] = ()
    if seeds is None and store is not None:
        stored = _stored_seeds(store / name, definitions)
        wanted, further = tuple(sorted({*known, *stored})), tuple(sorted({*stored} - {*known})) if known else ()
    return SweepDefinition(name, definitions, wanted or (1,), sweep.table, sweep.metric, sweep.note, further)


def _stored_seeds(home: Path, rows: Sequence[RowDefinition]) -> set[int]:
    """Seeds of which some of the rows has a run."""
    folders = (path for row in rows for path in home.glob(f"{glob.escape(row.row)}/*") if path.is_dir())
    return {int(match[1]) for path in folders if (match := SEED_FOLDER.fullmatch(path.name))}


def crossed_name(row: str, point: str) -> str:
    """The name of a row of a table under one point of the axes that the table is crossed with."""
    return f"{row},{point}"


def crossed_label(label: str, point: str) -> str:
    """Its printed label: `Uniform, model.dropout=0.2`."""
    return f"{label}, {point}"


def _crossed(row: RowDefinition, home: Path, first: str) -> list[RowDefinition]:
    """A row and those that it became where the sweep was crossed with other keys, which have no published figures.

    A row that has been run in that way alone is not missing: it stands in the table as those.
    """
    start = crossed_name(row.row, "")
    names = sorted(path.name for path in home.glob(f"{glob.escape(start)}*") if path.is_dir())
    points = [name.removeprefix(start) for name in names]
    found = [
        replace(
            row,
            row=crossed_name(row.row, point),
            label=crossed_label(row.label, point),
            base=crossed_name(row.base or first, point),
            id=None,
            published={},
            provenance=None,
            note=None,
        )
        for point in points
    ]
    return found if found and not (home / row.row).is_dir() else [row, *found]


def told_apart(rows: Sequence[RowDefinition]) -> tuple[RowDefinition, ...]:
    """The rows with labels that no two share: the table's letter, or else the row's name, is added where they do."""
    for part in ("group", "row"):
        count = Counter(row.label for row in rows)
        words = {row.row: getattr(row, part) for row in rows if count[row.label] > 1}
        rows = [replace(row, label=f"{row.label} ({words[row.row]})") if words.get(row.row) else row for row in rows]
    return tuple(rows)


def load_row(reference: str, table: str, *, conf: Path = CONF) -> RowDefinition:
    """Words and published figures in `<conf>/variation/<table>/<row>.yaml`; the bare name if there is no such file.

    A `reference` is a row of `table`, or `other_table/row`.
    """
    head, _, row = reference.rpartition("/")
    table = head or table
    found = doors.files(f"variation/{glob.escape(table)}/{glob.escape(row)}.yaml", conf)
    content = _mapping(found[0]).get("variation") or {} if found else {}
    return row_definition(row, content)


def row_definition(row: str, variation: Mapping[str, Any]) -> RowDefinition:
    """A row from the `variation` part of a configuration."""
    known = {key: value for key, value in variation.items() if key in RowDefinition.__dataclass_fields__ and value}
    return RowDefinition(**({"label": row} | known | {"row": row}))


def _mapping(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"Cannot read {path}: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"Cannot read {path}: it holds no keys and values.")
    return content


# Differences ----------------------------------------------------------------------------------------------------------

_SYMBOLS = {
    "recipe.name": "recipe",
    "trainer.max_steps": "steps",
}
_SILENT = (
    "seed",
    "variation",
    "trainer.threads",
    "trainer.log_every",
    "trainer.val_every",
    "trainer.checkpoint_every",
    "trainer.checkpoint_minutes",
)


def changes(base: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys that make a row another experiment than its base row: `{"model.h": (8, 16), …}` in the schema's order.

    Values left to their defaults are compared by what they come to, and keys without effect do not count: the task
    says which.
    """
    order, task = defaults(config), task_of(config)
    before, after = task.effective(flatten(base)), task.effective(flatten(config))
    silent = (*_SILENT, *task.silent, *task.without_effect(after))
    found = {}
    for key in [*order, *sorted((before.keys() | after.keys()) - order.keys())]:
        old, new = before.get(key, order.get(key)), after.get(key, order.get(key))
        if old != new and not is_incidental(key, config) and not covered(key, silent):
            found[key] = (old, new)
    return found


def differences(
    base: Mapping[str, Any], config: Mapping[str, Any], parameters: tuple[int | None, int | None] = (None, None)
) -> str:
    """What `config` changes, in the table's words: "h 8→16, d_k 64→32; parameters +0".

    Args:
        base: Configuration of the base row.
        config: Configuration of the row.
        parameters: Trainable parameters of both, where known.
    """
    found = changes(base, config)
    if found.get("model.d_v") == found.get("model.d_k"):
        found.pop("model.d_v", None)  # d_k speaks for both, as in the papers' tables
    words = [_change(symbol(key, config), old, new) for key, (old, new) in found.items()]
    text = ", ".join(words) or "same configuration"
    old_size, new_size = parameters
    return text if old_size is None or new_size is None else f"{text}; parameters {signed(new_size - old_size)}"


def symbol(key: str, config: Mapping[str, Any]) -> str:
    """The papers' name of a key: `model.d_k` is d_k."""
    return _SYMBOLS.get(key) or task_of(config).symbols.get(key) or key.removeprefix("model.")


def signed(number: int) -> str:
    """`+0`, `+1,024`, `−16`."""
    return f"{'−' if number < 0 else '+'}{abs(number):,}"


def _change(name: str, old: Any, new: Any) -> str:
    if old is None:  # the base row has no such thing
        return f"{name} {_word(new)}"
    return f"{name} {_word(old)}→{_word(new)}"


def _word(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
