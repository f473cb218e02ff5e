"""The difference between two rows of a table in words: "A_h16: heads 8→16, d_k 64→32; parameters +0"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from hydra.errors import HydraException

from variations.configuration.schema import SweepConfig
from variations.store.atomic import json_text
from variations.store.differences import changes, differences
from variations.store.rows import crossed_name, define
from variations.system.errors import ConfigError, UserError
from variations.tables.chance import SignificanceConfig, p_text
from variations.tables.departures import seeds_named
from variations.tables.footnotes import notes_of
from variations.tables.grid import delta
from variations.tables.line import Line, Table
from variations.tables.table import build


@dataclass(frozen=True)
class Difference:
    """What a row changes relative to another, and the effect on the sweep's metric."""

    first: str
    second: str
    is_base: bool
    """Whether the first is the base row of the second."""
    table: Table
    """A table of only these two rows."""
    configs: tuple[Mapping[str, Any], Mapping[str, Any]]

    @property
    def line(self) -> Line:
        """The second row's line, compared with the first."""
        return self.table.lines[1]

    @property
    def parameters(self) -> tuple[int | None, int | None]:
        """Trainable parameters of both."""
        return self.table.lines[0].row.parameters, self.line.row.parameters

    def text(self) -> str:
        """A line on the changes, a line on their effect if both rows have results, and a line for each caveat."""
        name = self.second if self.is_base else f"{self.second}, from {self.first}"
        lines = [f"{name}: {differences(*self.configs, self.parameters)}"]
        if effect := self._effect():
            lines.append(effect)
        return "\n".join([*lines, *(f"Note: {note}." for note in self._notes())]) + "\n"

    def document(self) -> dict[str, Any]:
        """As plain data: `format=json`."""
        found = {key: list(values) for key, values in changes(*self.configs).items()}
        key = self.table.primary.key
        return {
            "schema": 1,
            "rows": [self.first, self.second],
            "changes": found,
            "parameters": list(self.parameters),
            "text": self.text().split("\n")[0],
            "metric": key,
            "difference": self.line.delta[key].mean if key in self.line.delta else None,
            "significance": self.line.test.document() if self.line.test else None,
            "notes": self._notes(),
        }

    def json(self) -> str:
        """`document` as one JSON document."""
        return json_text(self.document()) + "\n"

    def _effect(self) -> str | None:
        measure = self.table.primary
        found = self.line.delta.get(measure.key)
        if found is None:
            return self._scores()
        before, after = (line.row.values(measure) for line in self.table.lines)
        tested = self.line.test.seeds if self.line.test else before
        common = sorted(before.keys() & after.keys() & tested.keys())
        means = [fmean(side[seed] for seed in common) for side in (before, after)]
        digits = measure.digits
        text = f"{measure.label}: {measure.text(means[0])}→{measure.text(means[1])}, {delta(found.mean, digits)}"
        if self.line.test:
            test = self.line.test.across
            text += f", {100 * test.level:g} % CI [{delta(test.low, digits)}, {delta(test.high, digits)}]"
            chance = p_text(test.p)
            equals = "" if chance.startswith("<") else "= "
            text += f", p {equals}{chance}" if self.line.test.counts_seeds else f" of {measure.items} alone"
        else:
            text += ", not tested"
        return text + f"; {found.n} seed{'s' if found.n > 1 else ''}"

    def _scores(self) -> str | None:
        """Both rows' scores, of rows that are not compared; None if both lack one."""
        measure = self.table.primary
        values = [line.row.values(measure) for line in self.table.lines]
        if not any(values):
            return None
        before, after = (
            f"{measure.text(fmean(found.values()))} ({seeds_named([*found])})" if found else f"none yet for {name}"
            for name, found in zip((self.first, self.second), values, strict=True)
        )
        return f"{measure.label}: {before} and {after}, not compared"

    def _notes(self) -> list[str]:
        """What the table says of both rows, each after the row's name, and why their difference is not tested."""
        notes = [
            f"{name}: {note.replace('its base row', self.first)}"
            for name, found in zip((self.first, self.second), notes_of(self.table, published=False), strict=True)
            for note in found
            if not note.startswith("base row, ")  # the first row has that note itself
        ]
        if self.line.untested and not any(line.untrained for line in self.table.lines):
            notes.append(self.line.untested.replace("its base row", self.first))
        run = [bool(line.row.config) for line in self.table.lines]
        if run[0] != run[1] and not any(line.row.definition.quoted for line in self.table.lines):
            other, by_file = (self.first, self.second) if run[0] else (self.second, self.first)
            notes.append(f"{by_file} has no run yet: it is shown as its file says, and {other} as it was run")
        return notes


def compare(
    sweep: SweepConfig,
    names: Sequence[str],
    store: Path,
    *,
    seeds: Sequence[int] | None = None,
    significance: SignificanceConfig | None = None,
    chosen: Sequence[str] = (),
) -> Difference:
    """Compare two rows of `sweep`, or one row and its base row.

    Rows without runs are compared by their files, which the overrides `chosen` name; without any, `sweep=NAME` does.

    Raises:
        UserError: There is no such row, a base row is named alone, or a row has neither a run nor a file.
    """
    if len(names) not in (1, 2) or len(set(names)) < len(names):
        raise UserError("diff takes one row or two different rows: diff=[ROW] or diff=[ROW,OTHER].")
    known = define(sweep, seeds=seeds, store=store)
    define(sweep, rows=names, store=store)  # reports unknown names
    by_name = {row.row: row for row in known.rows}
    for name in names:
        if name not in by_name:
            points = " or ".join(f"\"diff=['{row}']\"" for row in by_name if row.startswith(crossed_name(name, "")))
            raise UserError(f"{name} is here only with values of other keys: name one of those rows, {points}.")
    second = by_name[names[-1]]
    base = known.base_of(second)
    if len(names) == 1 and base is None:
        others = ", ".join(name for name in by_name if name != second.row) or "none"
        as_typed = f"\"diff=[ROW,'{second.row}']\"" if "," in second.row else f"diff=[ROW,{second.row}]"
        raise UserError(f"{second.row} is a base row: name a row to compare it with, {as_typed}; others: {others}.")
    first = by_name[names[0]] if len(names) == 2 or base is None else base
    rows = (replace(first, base=None), replace(second, base=first.row))  # the first is compared with nothing
    table = build(replace(known, rows=rows, of=rows, note=None), store, significance)
    named = any(word.startswith("sweep=") for word in chosen)
    words = (*([] if named else [f"sweep={sweep.name}"]), *chosen)
    before, after = (line.row.config or _composed(words, line.row.definition.row) for line in table.lines)
    is_base = base is not None and base.row == first.row
    return Difference(first.row, second.row, is_base, table, (before, after))


def _composed(words: tuple[str, ...], row: str) -> Mapping[str, Any]:
    """The configuration of a row without a run."""
    from variations.configuration.compose import to_dict
    from variations.sweeping.jobs import composed_jobs

    try:
        name, *point = row.split(",")
        jobs = composed_jobs((*words, f"rows=[{name}]", *point))
    except (ConfigError, HydraException) as error:
        raise UserError(f"Row {row} has no run yet, and its configuration cannot be composed: {error}") from error
    return to_dict(jobs[0].config)
