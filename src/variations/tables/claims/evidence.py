"""Evidence of stored runs for a claim: an interval of the measured effect for each comparison at each scale."""

import glob
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from variations.configuration import doors
from variations.configuration.schema import SweepConfig
from variations.configuration.tasks import task_of
from variations.store.ledger import RunFolder
from variations.store.rows import SweepDefinition, define
from variations.system.errors import UserError
from variations.tables.alike import edited_between, other_inputs, other_overrides
from variations.tables.chance import RowTest, SignificanceConfig, Tester
from variations.tables.claims.claim import Claim, Contrast, Paper, Scale
from variations.tables.claims.rule import (
    Bearing,
    Finding,
    Verdict,
    bearing,
    correlation_interval,
    t_interval,
    verdict,
)
from variations.tables.collect import Row, SeedRun, collect, device_hours, paired, table_task, trained_itself
from variations.tables.correlation import spearman
from variations.tables.line import FEW
from variations.tables.table import caveats, incomparable, why_untrained
from variations.tasks.base import Measure
from variations.tasks.task import Task


@dataclass(frozen=True)
class Outcome:
    """The result of one comparison at one scale."""

    test: Contrast
    scale: Scale
    bearing: Bearing
    finding: Finding | None = None
    note: str | None = None
    """Why it allows no conclusion, or a caveat."""
    levels: tuple[float, float] | None = None
    """The mean of the measure over the compared seeds, of the row and of its base row."""
    at_most: bool = False
    """Whether the finding is an upper bound: a saving of a row that never reaches the target."""
    labels: tuple[str, str] | None = None
    """What the table calls the row and its base row; None for a comparison of several rows."""


@dataclass(frozen=True)
class Judged:
    """A claim with its evidence."""

    claim: Claim
    verdict: Verdict
    outcomes: tuple[Outcome, ...]
    absent: Mapping[str, int] = field(default_factory=dict)
    """By scale, the comparisons without runs that count as open, because others of the claim have runs there."""


CURVE = "dev_nll"
"""The measure of whose curve `sooner` is judged."""


@dataclass(frozen=True)
class Effort:
    """The cost of a sweep's runs so far."""

    sweep: str
    scale: str
    finished: int
    wanted: int
    hours: float
    """Device-hours of training."""
    devices: str


class Evidence:
    """Reads the runs for claims; each sweep is read once.

    Args:
        store: Records, or a run store.
        settings: How differences are tested.
    """

    def __init__(self, store: Path, settings: SignificanceConfig | None = None) -> None:
        self.store, self.settings = store, settings or SignificanceConfig()
        self._sweeps: dict[str, tuple[SweepDefinition | None, dict[str, Row]]] = {}
        self._untrained: dict[tuple[str, str], str | None] = {}
        self._testers: dict[tuple[str, str], Tester] = {}

    def judge(self, paper: Paper, claim: Claim) -> Judged:
        """The verdict on a claim from its comparisons at all scales that have a run of one.

        There, comparisons without runs are open: what has not been run neither supports nor contradicts. Those that
        were chosen `later` do not count.
        """
        if claim.settled:
            return Judged(claim, claim.settled.verdict, ())
        outcomes: list[Outcome] = []
        bearings: list[Bearing] = []
        absent: dict[str, int] = {}
        for scale in paper.scales:
            found = [self.outcome(test, scale) for test in claim.tests]
            outcomes += [item for item in found if item is not None]
            fixed = [item for test, item in zip(claim.tests, found, strict=True) if not test.later]
            if any(fixed):
                bearings += ["open" if item is None else item.bearing for item in fixed]
                absent[scale.name] = fixed.count(None)
        return Judged(claim, verdict(bearings, any_one=claim.any), tuple(outcomes), absent)

    def outcome(self, test: Contrast, scale: Scale) -> Outcome | None:
        """The result of a comparison; None if its rows have no finished runs."""
        name = f"{scale.prefix}{test.table}"
        rows = self.rows(name)
        if test.expect == "same order":
            return self._order(test, scale, name)
        row, base = rows.get(test.row or ""), rows.get(test.base or "")
        if row is None or base is None or not row.finished or not base.finished:
            return None
        labels = row.definition.label, base.definition.label
        found = self._compared(test, scale, row, base)
        notes = [*([found.note] if found.note else []), *(_past_their_best(row, base) if found.finding else [])]
        return replace(found, labels=labels, note="; ".join(notes) or None)

    def _compared(self, test: Contrast, scale: Scale, row: Row, base: Row) -> Outcome:
        name = f"{scale.prefix}{test.table}"
        for side in (row, base):
            if why := self._unfit(name, side, trained=test.expect != "sooner" or side is base):
                return Outcome(test, scale, "open", None, f"{side.definition.row} {why}")
        if why := _unlike(row, base):
            return Outcome(test, scale, "open", None, why)
        if test.expect == "sooner":
            task = table_task([row])
            why = incomparable(task, row, base, task.measure(CURVE)) if CURVE in task.metrics else None
            return Outcome(test, scale, "open", None, why) if why else _sooner(test, scale, row, base)
        measured = self._difference(test, row, base)
        if isinstance(measured, str):
            return Outcome(test, scale, "open", None, measured)
        found, seeds, note = measured
        levels = _levels(test, row, base, seeds)
        return Outcome(test, scale, bearing(test.expect, found, test.margin), found, note, levels)

    def effort(self, paper: Paper) -> list[Effort]:
        """The sweeps for a paper's claims that have finished runs, and those whose runs were copied into them."""
        names = {
            (f"{scale.prefix}{test.table}", scale.name)
            for scale in paper.scales
            for claim in paper.claims
            for test in claim.tests
        }
        copied = {
            (str(run.result.get("copied")).partition("/")[0], scale)
            for name, scale in names
            for row in self.rows(name).values()
            for run in row.finished
            if run.result.get("copied")
        }
        efforts = (_effort(name, scale, self.rows(name).values()) for name, scale in sorted(names | copied))
        return [effort for effort in efforts if effort.finished]

    def rows(self, name: str) -> dict[str, Row]:
        """The rows of a sweep with their runs, by name; empty if there is no such sweep."""
        return self._sweep(name)[1]

    def _sweep(self, name: str) -> tuple[SweepDefinition | None, dict[str, Row]]:
        if name not in self._sweeps:
            config = _sweep_config(name)
            sweep = define(config, store=self.store) if config else None
            rows = collect(sweep, self.store) if sweep else []
            self._sweeps[name] = sweep, {row.definition.row: row for row in rows}
        return self._sweeps[name]

    def _why_untrained(self, sweep: str, row: Row) -> str | None:
        key = (sweep, row.definition.row)
        if key not in self._untrained:
            self._untrained[key] = why_untrained(row)
        return self._untrained[key]

    def _unfit(self, sweep: str, row: Row, *, trained: bool = True) -> str | None:
        """Why nothing is concluded from a row, as a clause; unless it must be `trained`, it may be untrained."""
        if trained and (why := self._why_untrained(sweep, row)):
            return f"is not trained: {why}"
        found = caveats(row)
        if typed := (row.config.get("sweep") or {}).get("typed"):
            found.append(f"it is not as in its sweep's file: {' '.join(typed)} was typed")
        return f"is not judged: {'; '.join(found)}" if found else None

    def _difference(
        self, test: Contrast, row: Row, base: Row
    ) -> tuple[Finding, Collection[int] | None, str | None] | str:
        """The row's advantage, the paired seeds (None: all), and why others are not paired; or why there is none."""
        task = table_task([row])
        measure = task.measure(test.measure)
        if why := incomparable(task, row, base, measure):
            return why
        if measure.items:
            tester = self._testers.setdefault((task.name, test.measure), Tester(self.settings, task, measure))
            found = tester.against(row, base)
            if not isinstance(found, RowTest):
                return (found or "no common seeds").replace(f"{self.store}/", "")
            if found.contradictions:
                return found.contradictions[0]
            across = found.across
            interval = (across.difference, across.low, across.high)
            gain = Finding(*interval, across.seeds, found.counts_restarts, across.freedom)
            note = "; ".join(found.notes).replace(f"{self.store}/", "") or None
            return gain if measure.higher_is_better else _turned(gain), found.seeds, note
        ours, theirs = (list(side.values(measure).values()) for side in (row, base))
        if not ours or not theirs:
            return f"{test.measure} was not measured"
        gain = t_interval(ours, theirs)
        return gain if measure.higher_is_better else _turned(gain), None, None

    def _order(self, test: Contrast, scale: Scale, name: str) -> Outcome | None:
        """Spearman's ρ of published and measured differences from the base rows, over the rows that are not unfit."""
        sweep, rows = self._sweep(name)
        theirs, ours, counts, left_out = [], [], [], []
        for row in rows.values():
            base_definition = sweep.base_of(row.definition) if sweep else None
            base = rows.get(base_definition.row) if base_definition else None
            if base is None or not row.finished or not base.finished:
                continue
            task = table_task([row])
            measure = task.measure(test.measure)
            unfit = self._unfit(name, row) or self._unfit(name, base)
            if unfit or _unlike(row, base) or incomparable(task, row, base, measure):
                left_out.append(row.definition.row)
                continue
            printed = [side.definition.published.get(test.published) for side in (row, base)]
            difference = paired(row.values(measure), base.values(measure))
            if None in printed or difference is None:
                continue
            theirs.append(float(printed[0]) - float(printed[1]))  # type: ignore[arg-type]
            ours.append(difference.mean if _same_direction(task, test.published, measure) else -difference.mean)
            counts.append(difference.n)
        note = f"not trained, not judged, or not compared: {', '.join(left_out)}" if left_out else None
        rho = spearman(theirs, ours) if len(ours) >= FEW else None
        if rho is None:
            return Outcome(test, scale, "open", None, note) if note else None
        found = Finding(rho, *correlation_interval(rho, len(ours)), (min(counts), min(counts)))
        words = f"{len(ours)} rows" + (f"; {note}" if note else "")
        return Outcome(test, scale, bearing(test.expect, found, test.margin), found, words)


def _unlike(row: Row, base: Row) -> str | None:
    """What besides the two rows' own files differs between them, so that no claim is judged by their difference."""
    return other_inputs(row, base) or other_overrides(row, base) or "; ".join(edited_between(row, base)) or None


def _past_their_best(*rows: Row) -> list[str]:
    """A note for each row that was trained past its best step: it counts, but its score may be lower for it."""
    found = ((row, task_of(row.config).past_its_best(row.tested)) for row in rows if row.tested)
    return [f"{row.definition.row}: {note}" for row, note in found if note]


def _same_direction(task: Task, published: str, measure: Measure) -> bool:
    """Whether a published figure and a measure are better in the same direction."""
    ways = [task.measure(name).higher_is_better for name in task.published(published).measures[:1]]
    return not ways or ways[0] == measure.higher_is_better


def _levels(test: Contrast, row: Row, base: Row, seeds: Collection[int] | None) -> tuple[float, float]:
    measure = table_task([row]).measure(test.measure)
    ours, theirs = (side.values(measure) for side in (row, base))
    return fmean(ours[k] for k in seeds or ours), fmean(theirs[k] for k in seeds or theirs)


def _turned(found: Finding) -> Finding:
    """The effect of a difference in a measure for which lower is better."""
    return replace(found, effect=-found.effect, low=-found.high, high=-found.low)


def _sweep_config(name: str) -> SweepConfig | None:
    from variations.configuration.sweep_file import compose_sweep

    return compose_sweep(name) if doors.files(f"sweep/{glob.escape(name)}.yaml") else None


def _effort(name: str, scale: str, rows: Any) -> Effort:
    runs: list[SeedRun] = [run for row in rows for run in row.runs]
    trained = [run for run in runs if run.finished and trained_itself(run.result)]
    hardware = [run.result.get("hardware") for run in trained]
    devices = dict.fromkeys(str(found.get("device")) if isinstance(found, Mapping) else "unknown" for found in hardware)
    hours = sum(device_hours(run) or 0.0 for run in trained)
    return Effort(name, scale, sum(run.finished for run in runs), len(runs), hours, ", ".join(devices))


# Sooner ---------------------------------------------------------------------------------------------------------------


def _sooner(test: Contrast, scale: Scale, row: Row, base: Row) -> Outcome:
    """The share of the base row's budget after which the row reaches the base row's final dev loss.

    The target is the mean over seeds of the base row's last dev loss. A run that never reaches it counts with its whole
    length; the saving is then at most what is printed, and cannot support the claim.
    """
    curves = {"row": _curves(row, test.unit), "base": _curves(base, test.unit)}
    if not curves["row"] or not curves["base"]:
        return Outcome(test, scale, "open", None, f"no dev loss against {test.unit}")
    target = fmean(curve[-1][1] for curve in curves["base"])
    ours = [first_reached(curve, target) for curve in curves["row"]]
    theirs = [first_reached(curve, target) for curve in curves["base"]]
    budget = fmean(at for at, _ in theirs)
    found = t_interval([at for at, _ in theirs], [at for at, _ in ours])
    share = Finding(found.effect / budget, found.low / budget, found.high / budget, (len(ours), len(theirs)))
    short = sum(not reached for _, reached in ours)
    concluded = bearing(test.expect, share, test.margin)
    if short and concluded == "supports":
        concluded = "open"
    reached = f"the dev loss of {target:.3f} at which training of the base row ends"
    note = f"{short} of {len(ours)} seeds never reach {reached}" if short else None
    return Outcome(test, scale, concluded, share, note, at_most=short > 0)


def _curves(row: Row, unit: str) -> list[list[tuple[float, float]]]:
    return [found for run in row.finished if (found := dev_curve(run, unit))]


def dev_curve(run: SeedRun, unit: str) -> list[tuple[float, float]]:
    """(spent, dev loss) at each validation, in a `unit` that metrics.jsonl has; empty if it cannot be read."""
    try:
        lines: Sequence[Mapping[str, Any]] = RunFolder(run.folder).measurements.read() if run.folder else []
    except UserError:
        return []
    points = [(line.get(unit), line.get("dev/nll")) for line in lines]
    return [(float(x), float(y)) for x, y in points if isinstance(x, int | float) and isinstance(y, int | float)]


def first_reached(curve: Sequence[tuple[float, float]], target: float) -> tuple[float, bool]:
    """Where the dev loss first reaches `target`, interpolated, and True; or the end of the curve, and False."""
    if curve[0][1] <= target:
        return curve[0][0], True
    for (before, loss), (at, next_loss) in pairwise(curve):
        if next_loss <= target:  # and loss > target
            return before + (at - before) * (loss - target) / (loss - next_loss), True
    return curve[-1][0], False
