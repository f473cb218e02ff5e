"""Rows of a table as the sweep file defines them."""

import glob
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from variations.configuration import doors
from variations.configuration.places import CONF, SEED_FOLDER, SINGLE, spelled
from variations.configuration.schema import SweepConfig, seeds_fault
from variations.configuration.suggestions import did_you_mean
from variations.store.differences import symbol
from variations.store.identity import flatten
from variations.store.row_files import mapping, row_file, shared_with_parents
from variations.store.run_folder import RunFolder
from variations.system.errors import UserError


@dataclass(frozen=True)
class RowDefinition:
    """A row before any run: its labels and published figures."""

    row: str
    label: str
    table: str | None = None
    """Folder of conf/variation that has its file, whatever `variation.table` says in a copy of another table's file."""
    id: str | None = None
    group: str | None = None
    base: str | None = None
    published: dict[str, Any] = field(default_factory=dict)
    provenance: str | None = None
    note: str | None = None
    task: str = "translation"
    quoted: bool = False
    """Another system's figures; there is nothing to run."""


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
    """Those of `seeds` that the sweep does not ask for, but for which some row has a run."""
    of: tuple[RowDefinition, ...] = ()
    """All rows of the sweep, chosen or not, and `added`; empty: the same as `rows`."""
    added: tuple[str, ...] = ()
    """Names of rows that are not the sweep's: only base rows of others, or theirs."""

    @property
    def unasked(self) -> tuple[int, ...]:
        """Seeds of which a row lacks nothing if it has no run with them: `further`, and all of runs outside a sweep."""
        return self.seeds if self.name == SINGLE else self.further

    def base_of(self, row: RowDefinition) -> RowDefinition | None:
        """The row that `row` is compared with: the one it names, else the first; None if that is `row` itself.

        It need not be among those that were chosen. A row that was added and names none is compared with nothing, and
        so is a run outside a sweep, unless it names one, and a row at a point of a crossed table without its base row.
        """
        known = self.of or self.rows
        named = next((other for other in known if other.row == row.base), None)
        alone = self.name == SINGLE or (row.base is None and row.row in self.added) or "," in (row.base or "")
        if named is None and alone:
            return None
        found = named or known[0]
        return None if found.row == row.row else found

    def with_bases(self) -> Self:
        """The same table with the rows that the chosen ones are compared with."""
        wanted = {row.row for row in self.rows}
        path = list(self.rows)
        while path:
            base = self.base_of(path.pop())
            if base is not None and base.row not in wanted:
                wanted.add(base.row)
                path.append(base)
        return replace(self, rows=tuple(row for row in self.of or self.rows if row.row in wanted))

    def circle(self) -> list[RowDefinition]:
        """Rows that are compared with each other in a circle, the first such circle; empty if there is none."""
        for row in self.rows:
            path, base = [row], self.base_of(row)
            while base is not None and base not in path:
                path.append(base)
                base = self.base_of(base)
            if base is row:
                return path
        return []


def define(
    sweep: SweepConfig,
    *,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    conf: Path = CONF,
    store: Path | None = None,
) -> SweepDefinition:
    """The table of `sweep`, restricted to `rows` and `seeds` if given.

    Rows are those that the sweep names, or else all of its table, or for a grid without a table those in `store`.
    Seeds are those of the sweep, and all others that these rows, or those they are compared with, have in `store`.
    Raises UserError if there are no rows, or if `rows` or `seeds` is empty, has a duplicate, or has an unknown name.
    """
    _refuse_selection("rows", rows)
    _refuse_selection("seeds", seeds)
    name = sweep.name or SINGLE
    in_table = doors.files(f"variation/{glob.escape(sweep.table or name)}/*.yaml", conf)
    references = list(sweep.rows) or sorted(path.name.removesuffix(".yaml") for path in in_table)
    known = tuple(sweep.seeds)
    grid = not references
    if grid and store is not None and (store / name).is_dir():
        found = (path.name for path in (store / name).iterdir() if path.is_dir() and _has_seeds(path))
        references = sorted((name for name in found if not name.startswith(".")), key=_by_values)  # a search's leases
        known = ()
    if not references:
        how = f"sweep={name}" if doors.files(f"sweep/{glob.escape(name)}.yaml", conf) else f"sweep.name={name} KEY=A,B"
        raise UserError(f"Sweep {name!r} has no rows yet: run it with `{spelled('train')} --multirun {how}`.")
    names = [reference.rsplit("/", 1)[-1] for reference in references]
    home_table = sweep.table or name
    loaded = [load_row(reference, home_table, conf=conf) for reference in references]
    absent: list[RowDefinition] = []
    if grid and store is not None:
        configs = {row.row: stored_config(store / name / row.row) for row in loaded}
        loaded = [_with_values(row, configs[row.row]) for row in loaded]
        loaded = [replace(row, base=row.base or _stored_base(row.row, configs[row.row], names)) for row in loaded]
        loaded = _without_circles(loaded)
        bases = dict.fromkeys(row.base for row in loaded if row.base is not None and name != SINGLE)
        absent = [load_row(base, home_table, conf=conf) for base in bases if base not in names]
    definitions = told_apart(loaded)
    first = definitions[0].row
    chosen = [name for name in names if rows is None or name in rows]
    everything = list(definitions)
    if store is not None and not grid:
        crossed = _crossed(definitions, store / name, home_table)
        everything = [found for group in crossed.values() for found in group]
    _refuse_unknown(name, rows or (), names, [row.row for row in everything])
    if store is not None and not grid:
        chosen = [
            found.row
            for name in names
            for found in crossed[name]
            if rows is None or not {name, found.row}.isdisjoint(rows)
        ]
    if not grid:
        absent = absent_bases(everything, home_table, first, conf=conf)
        if mistaken := mistaken_bases([*everything, *absent], conf=conf):
            raise UserError(f"Sweep {name!r}: {mistaken[0]}")
    everything += absent
    if conf == CONF:
        doors.refuse_hidden(*(f"variation/{row.table}/{row.row}" for row in everything if row.table))
    chosen += [row.row for row in absent] if rows is None else []
    if not sweep.rows:
        everything.sort(key=lambda row: row.base is not None)
    definitions = tuple(row for row in everything if row.row in chosen)
    added = tuple(row.row for row in absent)
    wanted: tuple[int, ...] = known if seeds is None else tuple(seeds)
    further: tuple[int, ...] = ()
    if seeds is None and store is not None:
        compared = SweepDefinition(name, definitions, of=(*everything,), added=added).with_bases().rows
        stored = _stored_seeds(store / name, compared, begun=bool(known))
        asked = known if sweep.rows or sweep.table else ()  # of a bare name, `known` is the schema's default
        wanted, further = tuple(sorted({*known, *stored})), tuple(sorted({*stored} - {*known})) if asked else ()
    return SweepDefinition(
        name, definitions, wanted or (1,), sweep.table, sweep.metric, sweep.note, further, (*everything,), added
    )


def _refuse_selection(key: str, chosen: Sequence[Any] | None) -> None:
    """Check that `rows=[…]` or `seeds=[…]`, if given, names something, and each only once."""
    if chosen is not None and not chosen:
        raise UserError(f"{key}=[] selects nothing: name some, or leave it out for all.")
    if chosen is not None and len(set(chosen)) < len(chosen):
        raise UserError(f"{key}=[{','.join(map(str, chosen))}] has a duplicate: name each only once.")
    if key == "seeds" and (fault := seeds_fault(key, chosen or ())):
        raise UserError(fault)


def _refuse_unknown(sweep: str, rows: Sequence[str], names: Sequence[str], crossed: Sequence[str]) -> None:
    """Check that `rows` are among `names`, or among those of a table that was `crossed`."""
    if unknown := [row for row in rows if row not in (*names, *crossed)]:
        near = did_you_mean(unknown[0], names)
        raise UserError(f"Sweep {sweep!r} has no row {', '.join(map(repr, unknown))}; valid: {', '.join(names)}.{near}")


def mistaken_bases(rows: Sequence[RowDefinition], *, conf: Path = CONF) -> list[str]:
    """Rows whose base row is one of their own table, while the row of that name among `rows` is another table's."""
    known = {row.row: row for row in rows}
    found = []
    for row in rows:
        other = known.get(row.base or "")
        if other is None or row.table is None or other.table in (None, row.table):
            continue
        if row_file(other.row, row.table, conf):
            found.append(
                f"{row.table}/{row.row} has the base row {row.table}/{other.row}, but the row {other.row} here is "
                f"{other.table}/{other.row}: list {row.table}/{other.row} in its place, or copy one of them under "
                "another name."
            )
    return found


def absent_bases(
    rows: Sequence[RowDefinition], table: str, first: str = "", *, conf: Path = CONF
) -> list[RowDefinition]:
    """Base rows that are not among `rows`, and theirs; a row without a file has only a name.

    A row of another table names a base row of that table, which this one need not have. `first` is the table's first
    row, with which crossed rows are compared.
    """
    found = list(rows)
    for row in found:  # which grows
        if row.table == table and row.base is not None and row.base not in {other.row for other in found}:
            name, _, point = row.base.partition(",")
            loaded = load_row(name, table, conf=conf)
            found.append(_at(loaded, point, first) if point else loaded)
    return found[len(rows) :]


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts `trial10` behind `trial9`."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def stored_config(home: Path) -> dict[str, Any]:
    """The configuration of the first run in a row's folder; empty if there is none, or it cannot be read."""
    try:
        folder = next((path for path in sorted(home.iterdir()) if SEED_FOLDER.fullmatch(path.name)), None)
        return RunFolder(folder).config() if folder else {}
    except (OSError, UserError):  # told where the row is read
        return {}


def _stored_base(name: str, config: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The base row that a row named when it was run, by its name in this sweep; None if it named none.

    A point `variation=TABLE_ROW,…` of a grid has the same point of the base row, if that is among `names`.
    """
    variation = config.get("variation")
    if not isinstance(variation, Mapping) or not variation.get("base"):
        return None
    row, base = str(variation.get("row")), str(variation["base"])
    if row == name:
        return base
    at = re.compile(rf"(?<![^,])(variation=[^,]*_){re.escape(row)}(?=,|$)")
    there = at.sub(lambda found: f"{found[1]}{base}", name)
    return there if there != name and there in names else None


def _without_circles(rows: Sequence[RowDefinition]) -> list[RowDefinition]:
    """The rows without a base row where following base rows leads back, as after edits between two runs."""
    found = {row.row: row for row in rows}
    for row in rows:
        seen, name = {row.row}, row.base
        while name is not None and name in found and name not in seen:
            seen.add(name)
            name = found[name].base
        if name == row.row and row.base != row.row:
            found[row.row] = replace(row, base=None)
    return list(found.values())


def _with_values(row: RowDefinition, config: Mapping[str, Any]) -> RowDefinition:
    """A trial of a search, with the values that the search chose for it in its label; any other row unchanged."""
    if (config.get("search") or {}).get("trial") is None:
        return row
    flat, space = flatten(config), ((config.get("sweep") or {}).get("search") or {}).get("space") or {}
    of_group = {key: flat.get(f"{key}.name", flat.get(f"{key}.kind")) for key in space}
    chosen = [(key, flat.get(key, of_group[key])) for key in space]
    words = (
        f"{symbol(key, config)} {f'{value:.4g}' if isinstance(value, float) else value}"
        for key, value in chosen
        if value is not None
    )
    return replace(row, label=": ".join(filter(None, [row.label, ", ".join(words)])))


def _stored_seeds(home: Path, rows: Sequence[RowDefinition], *, begun: bool) -> set[int]:
    """Seeds of which any of the rows has a run; with `begun`, only runs that have begun count, not waiting ones."""
    folders = (path for row in rows for path in home.glob(f"{glob.escape(row.row)}/*") if path.is_dir())
    found = ((SEED_FOLDER.fullmatch(path.name), path) for path in folders)
    return {int(match[1]) for match, path in found if match and (not begun or RunFolder(path).begun())}


def _has_seeds(folder: Path) -> bool:
    """Whether a folder of a sweep is that of a row, or may be; others, as that of figures, have no folders of seeds."""
    try:
        return any(SEED_FOLDER.fullmatch(path.name) for path in folder.iterdir())
    except OSError:  # the table says that it cannot be read
        return True


def crossed_name(row: str, point: str) -> str:
    """The name of a table's row at one point of the axes with which the table is crossed."""
    return f"{row},{point}"


def crossed_label(label: str, point: str) -> str:
    """Its printed label: `Uniform, model.dropout=0.2`."""
    return f"{label}, {point}"


def _crossed(rows: Sequence[RowDefinition], home: Path, table: str) -> dict[str, list[RowDefinition]]:
    """By row: itself, and its variants where the sweep was crossed with other keys; these have no published figures.

    A row that was not run itself, in a sweep that was crossed, is left out; its variants are those of all rows. A row
    of another table than `table`, whose base row the sweep has not, is compared with the sweep's first row.
    """
    names = {row.row for row in rows}
    points = {row.row: _points(row, home) for row in rows}
    every = sorted({point for own in points.values() for point in own}, key=_by_values)
    found = {}
    for row in rows:
        itself = [row] if (home / row.row).is_dir() or not every else []
        based = row if row.base in names or row.table in (None, table) else replace(row, base=None)
        at = points[row.row] if itself else every
        found[row.row] = [*itself, *(_at(based, point, rows[0].row) for point in at)]
    return found


def _points(row: RowDefinition, home: Path) -> list[str]:
    """The points of the axes at which the row has runs."""
    start = crossed_name(row.row, "")
    names = (path.name for path in home.glob(f"{glob.escape(start)}*") if path.is_dir())
    return sorted((name.removeprefix(start) for name in names), key=_by_values)


def _by_values(point: str) -> list[Any]:
    """A key that sorts points by the values of their axes: numbers by size, 0.05 before 0.1, then all others."""
    axes = (part.partition("=") for part in point.split(","))
    return [(natural(key), _size(value), natural(value)) for key, _, value in axes]


def in_short(names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The rows of a grid by the keys in which they differ, and what all of them share, as `KEY=VALUE`.

    The names of rows are the overrides that were typed. Others, and the only row of a grid, stay as they are.
    """
    parts = {name: re.split(r",(?=[^,=]+=)", name) for name in names}
    if len(parts) < 2 or not all("=" in own[0] for own in parts.values()):
        return {name: name for name in names}, []
    first, *others = parts.values()
    shared = [part for part in first if all(part in own for own in others)]
    return {name: ",".join(p for p in own if p not in shared) or name for name, own in parts.items()}, shared


def _size(value: str) -> float:
    """The number; infinity for what is none."""
    try:
        number = float(value)
    except ValueError:
        return math.inf
    return math.inf if math.isnan(number) else number


def _at(row: RowDefinition, point: str, first: str) -> RowDefinition:
    """The row at one point of the axes with which its table is crossed; `first` is the table's first row."""
    row_name, label, base = crossed_name(row.row, point), crossed_label(row.label, point), row.base or first
    here = replace(row, row=row_name, label=label, base=crossed_name(base, point))
    return replace(here, id=None, published={}, provenance=None, note=None)


def told_apart(rows: Sequence[RowDefinition], among: Sequence[RowDefinition] = ()) -> tuple[RowDefinition, ...]:
    """The rows with unique labels: equal labels get the table's letter, or else the row's name.

    Names are as short as they can be `among` all rows of the table; empty: the same as `rows`.
    """
    names, _ = in_short([row.row for row in among or rows])
    for part in ("group", "row"):
        count = Counter(row.label for row in rows)
        words = {row.row: row.group if part == "group" else names[row.row] for row in rows if count[row.label] > 1}
        rows = [replace(row, label=f"{row.label} ({words[row.row]})") if words.get(row.row) else row for row in rows]
    return tuple(rows)


def load_row(reference: str, table: str, *, conf: Path = CONF) -> RowDefinition:
    """Labels and published figures in `<conf>/variation/<table>/<row>.yaml`; the bare name if there is no such file.

    A `reference` is a row of `table`, or `other_table/row`.
    """
    head, _, row = reference.rpartition("/")
    table = head or table
    file = row_file(row, table, conf)
    if file is None:
        return row_definition(row, {})
    content = mapping(file).get("variation") or {}
    return row_definition(row, {**content, **shared_with_parents(row, table, conf), "table": table})


def row_definition(row: str, variation: Mapping[str, Any]) -> RowDefinition:
    """A row from the `variation` part of a configuration."""
    known = {key: value for key, value in variation.items() if key in RowDefinition.__dataclass_fields__ and value}
    return RowDefinition(**({"label": row} | known | {"row": row}))
