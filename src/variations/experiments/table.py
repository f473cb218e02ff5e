"""A table of a sweep: published figures beside measured ones, compared only where they can be compared.

`build` reads the run store; `Table` is what every format renders; `document` is the table as one JSON document.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from variations.experiments.collect import Row, Summary, collect, paired, strangers, summary
from variations.experiments.measures import (
    Measure,
    caveats,
    data_name,
    incomparable,
    published_kind,
    scale_name,
)
from variations.experiments.rows import SweepDefinition, differences

COSTS = ("steps", "source_tokens", "target_tokens", "padded_tokens", "seconds", "flops", "dropped_pairs")


@dataclass(frozen=True)
class Figure:
    """A published number, the mark of where it was read, and our figure's distance from it where there is one."""

    value: float
    recalled: bool
    measure: str | None = None
    """Our measure that it is compared with."""
    difference: float | None = None
    """Measured mean minus published."""
    notes: tuple[str, ...] = ()
    """Why it is not compared, or what else differs."""


@dataclass
class Line:
    """A row of the table, all numbers at full precision."""

    row: Row
    base: str | None
    changes: str | None
    """What it changes in its base row."""
    measured: dict[str, Summary]
    delta: dict[str, Summary]
    """Difference from the base row over the seeds both have."""
    published: dict[str, Figure]
    published_delta: dict[str, float]
    costs: dict[str, float]
    notes: tuple[str, ...] = ()
    """What the reader must know of this row's runs."""

    @property
    def label(self) -> str:
        """Printed name."""
        return self.row.definition.label

    @property
    def seeds(self) -> str:
        """`2/3` seeds finished."""
        return f"{len(self.row.finished)}/{len(self.row.runs)}"

    @property
    def gaps(self) -> list[str]:
        """A sentence for each seed without a result."""
        return [f"{self.label}, seed {run.seed}: {run.describe()}" for run in self.row.runs if not run.finished]


@dataclass
class Table:
    """A sweep's table."""

    sweep: SweepDefinition
    store: Path
    measures: list[Measure]
    """Columns of measured figures, the sweep's metric first."""
    lines: list[Line]
    remarks: list[str] = field(default_factory=list)
    """Data, recipe, scale and conventions."""

    @property
    def primary(self) -> Measure:
        """The sweep's metric."""
        return self.measures[0]

    @property
    def gaps(self) -> list[str]:
        """Every cell without a result."""
        return [gap for line in self.lines for gap in line.gaps]


def build(sweep: SweepDefinition, store: Path) -> Table:
    """The table of `sweep` from the runs below `store`."""
    rows = collect(sweep, store)
    measures = _measures(sweep, rows)
    by_name = {row.definition.row: row for row in rows}
    lines = []
    for row in rows:
        base = sweep.base_of(row.definition)
        lines.append(_line(row, by_name.get(base.row) if base else None, measures))
    table = Table(sweep, store, measures, lines)
    table.remarks = _remarks(table)
    return table


def document(table: Table) -> dict[str, Any]:
    """The table as plain data: `format=json`. Numbers are not rounded."""
    return {
        "schema": 1,
        "sweep": table.sweep.name,
        "table": table.sweep.table,
        "metric": table.primary.key,
        "seeds": list(table.sweep.seeds),
        "note": table.sweep.note,
        "measures": [{"key": m.key, "label": m.label, "convention": _convention(table, m)} for m in table.measures],
        "rows": [_line_document(line) for line in table.lines],
        "missing": table.gaps,
        "footnotes": table.remarks,
    }


def _line_document(line: Line) -> dict[str, Any]:
    definition = line.row.definition
    return {
        "row": definition.row,
        "label": definition.label,
        "group": definition.group,
        "id": definition.id,
        "base": line.base,
        "changes": line.changes,
        "parameters": line.row.parameters,
        "seeds": [
            {
                "seed": run.seed,
                "state": "missing" if run.state == "absent" else run.state,
                "reason": run.reason,
                "folder": str(run.folder) if run.folder else None,
                "scores": {key: line.row.values(Measure(key)).get(run.seed) for key in line.measured},
            }
            for run in line.row.runs
        ],
        "measured": {key: asdict(value) for key, value in line.measured.items()},
        "difference_from_base": {key: asdict(value) for key, value in line.delta.items()},
        "published": {key: asdict(figure) for key, figure in line.published.items()},
        "published_difference_from_base": line.published_delta,
        "provenance": definition.provenance,
        "cost": line.costs,
        "notes": list(line.notes),
    }


def _measures(sweep: SweepDefinition, rows: list[Row]) -> list[Measure]:
    """The sweep's metric, then dev BLEU and perplexity, exact match, and the counterparts of published figures."""
    primary = sweep.metric if "." in sweep.metric or sweep.metric.startswith("dev_") else f"test.{sweep.metric}"
    keys = [primary, "dev.bleu", "dev_ppl", "test.exact_match"]
    for row in rows:
        for key in row.definition.published:
            kind = published_kind(key)
            if row.config and incomparable(kind, row.config) is None:
                keys += [name for name in kind.measures if row.values(Measure(name))][:1]
    found = [Measure(key) for key in dict.fromkeys(keys)]
    return [found[0], *(measure for measure in found[1:] if any(row.values(measure) for row in rows))]


def _line(row: Row, base: Row | None, measures: list[Measure]) -> Line:
    values = {measure.key: row.values(measure) for measure in measures}
    notes, delta, changes = [], {}, None
    if base is not None and base.config and row.config:
        changes = differences(base.config, row.config, (base.parameters, row.parameters))
        if data_name(base.config) != data_name(row.config):
            notes.append(f"measured on {data_name(row.config)}, its base row on {data_name(base.config)}: not compared")
        else:
            delta = {m.key: paired(values[m.key], base.values(m)) for m in measures}
            if other := row.other_budget(base):
                notes.append(f"not the budget of its base row: {', '.join(other)}")
    if name := (row.config.get("debug") or {}).get("name"):
        notes.append(f"debug={name}: a quick look, never a result")
    if row.definition.task != "translation":
        notes.append(f"task {row.definition.task}")
    if row.definition.note:
        notes.append(row.definition.note.rstrip("."))
    costs = {key: cost for key in COSTS if (cost := row.cost(key)) is not None}
    return Line(
        row,
        base.definition.row if base else None,
        changes,
        {key: found for key, pairs in values.items() if (found := summary(list(pairs.values())))},
        {key: found for key, found in delta.items() if found},
        {key: _figure(key, value, row) for key, value in row.definition.published.items() if _is_number(value)},
        _published_delta(row, base),
        costs,
        tuple(notes),
    )


def _figure(key: str, value: float, row: Row) -> Figure:
    recalled = "recalled" in (row.definition.provenance or "").lower()
    if key == "params_millions":
        return Figure(value, recalled)
    kind = published_kind(key)
    if not row.config:
        return Figure(value, recalled, notes=(f"published on {kind.text}",) if kind.text else ())
    if reason := incomparable(kind, row.config):
        return Figure(value, recalled, notes=(reason,))
    for name in kind.measures:
        if found := summary(list(row.values(Measure(name)).values())):
            return Figure(value, recalled, name, found.mean - value, tuple(caveats(kind, name, row.config)))
    return Figure(value, recalled)


def _published_delta(row: Row, base: Row | None) -> dict[str, float]:
    if base is None:
        return {}
    ours, theirs = row.definition.published, base.definition.published
    shared = [key for key in ours if key in theirs and key != "params_millions"]
    return {key: ours[key] - theirs[key] for key in shared if _is_number(ours[key]) and _is_number(theirs[key])}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Footnotes ------------------------------------------------------------------------------------------------------------


def _remarks(table: Table) -> list[str]:
    found = [table.sweep.note.rstrip(".") + "."] if table.sweep.note else []
    found += _settings(table)
    conventions: dict[str, list[str]] = {}
    for measure in table.measures:
        if convention := _convention(table, measure):
            conventions.setdefault(convention, []).append(measure.label)
    found += [f"{', '.join(labels)}: {convention}." for convention, labels in conventions.items()]
    kinds = {key: published_kind(key) for line in table.lines for key in line.published}
    found += [f"Published {k.label}: {k.text}, {k.convention}." for k in kinds.values() if k.text]
    if "params_millions" in kinds:
        found.append("Published parameters are in millions, as printed.")
    summaries = [item for line in table.lines for item in line.measured.values()]
    if any(item.sd is not None for item in summaries):
        found.append(
            "± is the standard deviation over seeds; Δ base is the mean difference from the base row over common seeds."
        )
    elif summaries:
        found.append("One seed has no spread: differences of this size may be chance.")
    if names := strangers(table.sweep, table.store):
        found.append(
            f"{table.store / table.sweep.name} also holds runs that are no rows of this table: {', '.join(names)}."
        )
    return found


def _settings(table: Table) -> list[str]:
    """One sentence for each combination of data, recipe and scale among the rows."""
    groups: dict[str, list[str]] = {}
    for line in table.lines:
        config = line.row.config
        if config:
            recipe, data = config.get("recipe") or {}, config.get("data") or {}
            scale = f" ({scale_name(config)})" if line.published else ""  # of a paper's row
            text = (
                f"Measured on {data_name(config)}, recipe {recipe.get('name', 'unknown')}{scale}, "
                f"{recipe.get('batch_tokens', 0):,} tokens a batch, vocabulary {data.get('vocabulary', 0):,}, "
                f"beam {(config.get('decode') or {}).get('beam', '?')}."
            )
            groups.setdefault(text, []).append(line.label)
    if len(groups) == 1:
        return list(groups)
    return [f"{', '.join(labels)}: {text[0].lower()}{text[1:]}" for text, labels in groups.items()]


def _convention(table: Table, measure: Measure) -> str | None:
    runs = [run for line in table.lines for run in line.row.finished]
    return next((text for run in runs if (text := measure.convention(run.result))), None)
