"""A table of a sweep as data: its rows, each with published and measured figures, before any format draws it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.store.rows import SweepDefinition
from variations.tables.chance import RowTest, SignificanceConfig
from variations.tables.collect import Row, Summary
from variations.tables.departures import seeds_named
from variations.tasks.base import Measure
from variations.tasks.task import Task

NOT_TRAINED = "not trained"
RECALLED = "quoted from memory, not checked against the publication"
COSTS = ("steps", "source_tokens", "target_tokens", "padded_tokens", "seconds", "flops", "dropped_pairs")
FEW = 4
"""Rows below which a rank correlation is meaningless: three rows agree perfectly by chance in one case of six."""


@dataclass(frozen=True)
class Agreement:
    """Published against measured differences, over the rows that have both."""

    published: str
    """Key of the published figure."""
    measure: str
    """Key of the measured one."""
    rho: float | None
    """Spearman's ρ; None if undefined (fewer than two rows, or all values of one side equal)."""
    rows: tuple[str, ...]

    def sentence(self, task: Task) -> str:
        """The table's footnote."""
        names = f"Published {task.published(self.published).label} and measured {task.measure(self.measure).label}"
        n = len(self.rows)
        if self.rho is None:
            return f"{names}: no rank correlation of differences from the base row (n = {n})."
        few = ", too few rows to tell" if n < FEW else ""
        value = f"{self.rho:.2f}".replace("-", "−")
        return f"{names}: rank correlation of differences from the base row ρ = {value} (Spearman, n = {n} rows{few})."


@dataclass(frozen=True)
class Figure:
    """A published number, whether it is quoted from memory, and its difference from ours if they are comparable."""

    value: float
    recalled: bool
    measure: str | None = None
    """The measure that it is compared with."""
    difference: float | None = None
    """Measured mean minus published."""
    notes: tuple[str, ...] = ()
    """Why it is not compared, or other caveats."""

    @property
    def caveats(self) -> list[str]:
        """All that is to be said of it."""
        return [*([RECALLED] if self.recalled else []), *self.notes]


@dataclass
class Line:
    """A row of the table, all numbers at full precision."""

    row: Row
    base: str | None
    changed: dict[str, tuple[Any, Any]]
    """Keys that differ from the base row: (base row, this row)."""
    changes: str | None
    """The same in words."""
    measured: dict[str, Summary]
    delta: dict[str, Summary]
    """Difference from the base row over common seeds."""
    published: dict[str, Figure]
    published_delta: dict[str, float]
    costs: dict[str, float]
    hours: tuple[float, str] | None = None
    """Mean device-hours of training, and the device: `GPU` or `CPU`."""
    test: RowTest | None = None
    """Is the difference from the base row more than chance?"""
    untested: str | None = None
    """Why it is not tested."""
    uncompared: str | None = None
    """Why it cannot be compared with its base row: other data, texts, references, or another convention."""
    uncompared_in: Mapping[str, str] = field(default_factory=dict)
    """By measure, why that cannot be compared with the base row's; `dev_nll` stands for all losses."""
    untrained: str | None = None
    """Why it counts as not trained, and is compared with nothing."""
    notes: tuple[str, ...] = ()
    """What the reader must know about this row's runs."""

    @property
    def label(self) -> str:
        """Printed name."""
        return self.row.definition.label

    @property
    def seeds(self) -> str:
        """`2/3` for two of three seeds finished; empty for a quoted row."""
        return f"{len(self.row.finished)}/{len(self.row.runs)}" if self.row.runs else ""

    @property
    def gaps(self) -> list[str]:
        """Seeds without a result and why: `Weighted, seeds 1, 3: missing`."""
        return [f"{self.label}, {seeds_named(found)}: {why}" for why, found in self.open_seeds().items()]

    def open_seeds(self) -> dict[str, list[int]]:
        """The seeds without a result, by reason."""
        seeds: dict[str, list[int]] = {}
        without_file = self.row.definition.table is None and self.row.definition.label == self.row.definition.row
        for run in self.row.runs:
            if not run.finished:
                why = run.describe() + (", and the row has no file" if run.state == "absent" and without_file else "")
                seeds.setdefault(why, []).append(run.seed)
        return seeds


@dataclass
class Table:
    """A sweep's table."""

    task: Task
    sweep: SweepDefinition
    store: Path
    measures: list[Measure]
    """Columns of measured figures, the sweep's metric first."""
    lines: list[Line]
    significance: SignificanceConfig = field(default_factory=SignificanceConfig)
    agreements: list[Agreement] = field(default_factory=list)
    """Rank correlations of published and measured differences."""
    remarks: list[str] = field(default_factory=list)
    """Data, recipe, scale, conventions and tests."""

    @property
    def primary(self) -> Measure:
        """The sweep's metric."""
        return self.measures[0]

    @property
    def columns(self) -> list[Measure]:
        """Measures that have a column of their own: the sweep's metric, and all others but parts of one."""
        return [measure for measure in self.measures if measure == self.primary or not measure.part_of]

    def part(self, key: str) -> Measure | None:
        """The measure that corresponds to a published figure, if it is a part of another, without a column."""
        kind = self.task.published(key)
        found = self.task.measure(kind.measures[0]) if kind.measures else None
        return found if found and found.part_of and found not in self.columns else None

    @property
    def gaps(self) -> list[str]:
        """Runs without a result, those with the same reason together: `base, seed 2; big, seeds 1, 2: missing`."""
        runs: dict[str, list[str]] = {}
        for line in self.lines:
            for why, seeds in line.open_seeds().items():
                runs.setdefault(why, []).append(f"{line.label}, {seeds_named(seeds)}")
        return [f"{'; '.join(found)}: {why}" for why, found in runs.items()]
