"""A table of a sweep as JSON: cells as in `table.py`, with the values by which they are sorted."""

from dataclasses import asdict
from typing import Any

from variations.dashboard.payload import sweeps as payload
from variations.figures.traces import is_averaged
from variations.store.differences import each_in_words, symbol, varied
from variations.store.hidden import clean, without_secrets
from variations.tables.alike import mixed_validations, other_validations
from variations.tables.footnotes import convention
from variations.tables.grid import AGREEING, lay_out
from variations.tables.line import Agreement, Line, Table
from variations.tables.table import unlike
from variations.tasks.task import Task


def table_document(table: Table, colours: dict[str, int], *, tested: bool) -> payload.Table:
    """The table of a sweep; `colours` has a number for each row, `tested` says whether differences were tested."""
    grid = lay_out(table)
    compared = any(line.base for line in table.lines)
    shown = [i for i, column in enumerate(grid.columns) if compared or column.key != "delta"]
    better = {measure.key: measure.higher_is_better for measure in table.measures}
    better |= dict.fromkeys(("delta",), table.primary.higher_is_better)
    return {
        "title": grid.title,
        "metric": table.primary.key,
        "measures": [
            {
                "key": measure.key,
                "label": measure.label,
                "convention": convention(table, measure),
                "higher_is_better": measure.higher_is_better,
                "digits": measure.digits,
            }
            for measure in table.measures
        ],
        "columns": [
            {
                "key": column.key,
                "title": column.title,
                "right": column.right,
                "marks": list(column.marks),
                "rank": column.rank,
                "higher_is_better": better.get(column.key),
            }
            for column in (grid.columns[i] for i in shown)
        ],
        "rows": [
            _line(line, table, cells, colours)
            for line, cells in zip(table.lines, _cells(grid.rows, shown), strict=True)
        ],
        "keys": _keys(table),
        "notes": [{"mark": mark, "text": text} for mark, text in grid.notes if text != AGREEING],  # no such column
        "footnotes": [note for note in table.remarks if tested or "significance.show" not in note],
        "missing": [clean(gap) for gap in table.gaps],
        "level": table.significance.level,
        "tested": tested,
    }


def _cells(rows: list[list[Any]], shown: list[int]) -> list[list[payload.Cell]]:
    picked = [[row[i] for i in shown] for row in rows]
    return [[{"text": cell.text, "marks": list(cell.marks), "value": cell.value} for cell in row] for row in picked]


def _line(line: Line, table: Table, cells: list[payload.Cell], colours: dict[str, int]) -> payload.Row:
    definition, test = line.row.definition, line.test
    size = line.published.get("params_millions")
    marks = ["*"] if test and test.significant else []
    words, keys = _changes(line)
    measured = [other for other in table.lines if other.row.config] if line.row.config else []
    base = next((other for other in measured if other.row.definition.row == line.base), None)
    return {
        "row": definition.row,
        "label": definition.label,
        "group": definition.group,
        "base": line.base,
        "quoted": definition.quoted,
        "color_index": colours[definition.row],
        "cells": cells,
        "changes": words,
        "changed_keys": keys,
        "published": {key: _figure(figure) for key, figure in line.published.items()},
        "measured": {key: _mean(value) for key, value in line.measured.items()},
        "delta": {key: _mean(value) for key, value in line.delta.items()},
        "ci": [test.across.low, test.across.high] if test else None,
        "p": test.p if test else None,
        "significant": test.significant if test else None,
        "marks": marks,
        "not_tested": line.untested,
        "not_compared": line.uncompared,
        "not_compared_in": dict(line.uncompared_in),
        "other_validations": other_validations(line.row, base.row) if base else None,
        "mixed_validations": mixed_validations(line.row),
        "averaged": any(is_averaged(run.config) for run in line.row.runs),
        "not_trained": line.untrained,
        "unlike": next(iter(unlike(line.row)), None),
        "parameters": line.row.parameters,
        "parameters_published": size.value if size else None,
        "cost": line.costs,
        "device_hours": line.hours[0] if line.hours else None,
        "device": line.hours[1] if line.hours else None,
        "seeds": line.seeds,
        "missing": [clean(gap) for gap in line.gaps],
        "notes": list(line.notes),
    }


def _changes(line: Line) -> tuple[list[str], list[payload.Change]]:
    """The changes of a row from its base row, in words and key by key."""
    config = line.row.config
    return each_in_words(line.changed, config), [
        {
            "key": key,
            "symbol": symbol(key, config),
            "old": without_secrets(old, key),
            "new": without_secrets(new, key),
        }
        for key, (old, new) in line.changed.items()
    ]


def _keys(table: Table) -> list[payload.VariedKey]:
    """The keys by which rows can be grouped."""
    configs = [line.row.config for line in table.lines]
    one = next((config for config in configs if config), {})
    return [
        {"key": key, "symbol": symbol(key, one), "values": [without_secrets(value, key) for value in values]}
        for key, values in varied(configs).items()
    ]


def _figure(figure: Any) -> payload.Figure:
    return {
        "value": figure.value,
        "recalled": figure.recalled,
        "measure": figure.measure,
        "difference": figure.difference,
        "notes": list(figure.notes),
    }


def _mean(value: Any) -> payload.Mean:
    return {"mean": value.mean, "sd": value.sd, "n": value.n}


def agreement(item: Agreement, task: Task) -> payload.Agreement:
    """A rank correlation, worded as in the table's footnote."""
    found = asdict(item)
    return {
        "published": found["published"],
        "measure": found["measure"],
        "rho": found["rho"],
        "rows": list(found["rows"]),
        "sentence": item.sentence(task),
    }
