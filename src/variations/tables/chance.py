"""Is a row's difference from its base row more than chance? The tests of `significance` on what the runs stored.

For each seed that both rows have: paired bootstrap and approximate randomisation over items, such as sentences. For
the row: the difference of the means over those seeds, with the chance in seeds and items together.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from variations.configuration.schema import number
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.system.rounding import decimal
from variations.tables.collect import Row, SeedRun, trained_since
from variations.tables.resampling import SEED, Items, NoSpreadError, Resampled, UndefinedError
from variations.tables.significance import Comparison, across_restarts, across_seeds, paired_tests, refuse_constant
from variations.tasks.base import Measure, Restarts, TestedRun
from variations.tasks.intact import contradiction, stored_items
from variations.tasks.task import Task


@dataclass
class SignificanceConfig:
    """How differences between rows are tested."""

    show: bool = True
    """false: no tests, no intervals."""
    n: int = number(1000, ge=100)
    """Random draws of each test."""
    seed: int = number(SEED, ge=0)
    """Seed of the draws; sacreBLEU's own by default."""
    level: float = number(0.95, gt=0, lt=1)
    """Level of the confidence intervals; p-values below 1 - level are marked."""
    cache: bool = True
    """Store counts for each item, such as n-grams, in the run's folder if it can be written."""


def p_text(p: float) -> str:
    """`0.012`; `< 0.001` if three decimals would all be zero. The dashboard's `V.p` follows the same rule."""
    return decimal(p, 3) if p >= 0.0005 else "< 0.001"


@dataclass(frozen=True)
class RowTest:
    """A row against its base row."""

    measure: str
    across: Comparison
    """The test over common seeds; with one seed on either side, over items only."""
    seeds: dict[int, tuple[Comparison, Comparison] | NoSpreadError]
    """Paired bootstrap and approximate randomisation for each seed, or why a seed alone shows no chance."""
    notes: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    """Scores in result.json that are not those of the stored items, which were tested; among the notes as well."""

    @property
    def significant(self) -> bool | None:
        """Whether p is below 1 - level; None for a single training, which says nothing about others."""
        return self.across.significant if self.counts_seeds else None

    @property
    def p(self) -> float | None:
        """The probability of so large a difference by chance in trainings and items; None for a single training."""
        return self.across.p if self.counts_seeds else None

    @property
    def counts_seeds(self) -> bool:
        """Whether chance in training is accounted for, between seeds or between restarts."""
        return "seeds" in self.across.variance or self.counts_restarts

    @property
    def counts_restarts(self) -> bool:
        """Whether chance between restarts of one seed is accounted for."""
        return "restarts" in self.across.variance

    @property
    def agreeing_seeds(self) -> int:
        """Seeds in which both tests of items find a significant difference that has the sign of that over all."""
        pairs = (pair for pair in self.seeds.values() if not isinstance(pair, NoSpreadError))
        return sum(
            all(test.significant and test.difference * self.across.difference > 0 for test in pair) for pair in pairs
        )

    def document(self) -> dict[str, Any]:
        """As plain data."""
        seeds = {
            str(seed): None
            if isinstance(pair, NoSpreadError)
            else {"bootstrap": asdict(pair[0]), "randomisation": asdict(pair[1])}
            for seed, pair in self.seeds.items()
        }
        return {
            "measure": self.measure,
            "significant": self.significant,
            "across_seeds": asdict(self.across),
            "seeds": seeds,
            "notes": list(self.notes),
        }


@dataclass
class Tester:
    """Tests rows against base rows and reads the items of each run once."""

    settings: SignificanceConfig
    task: Task
    measure: Measure
    _items: dict[tuple[str, str], Items | str] = field(default_factory=dict)
    """The items of each run folder and measure, or why there are none."""

    @cached_property
    def _resampled(self) -> Resampled:
        """The scores of all runs on the same resampled test sets."""
        return Resampled(self._aggregate, self.settings.n, self.settings.seed)

    @property
    def refusal(self) -> str | None:
        """Why this table has no tests; None if it has."""
        if not self.settings.show:
            return "Differences are not tested (significance.show=false)."
        if not self.measure.items:
            return f"Differences in {self.measure.label} are not tested: the task has no values of it for single items."
        return None

    def against(self, row: Row, base: Row) -> RowTest | str | None:
        """The tests, or why there are none; None if tests are switched off or a row has no result yet."""
        pairs = _common(row, base)
        if self.refusal or not pairs:
            return None
        found: dict[int, tuple[Items, Items]] = {}
        missing: dict[int, str] = {}
        for seed, runs in pairs.items():
            ours, theirs = (self._of(run, self.measure) for run in runs)
            unscored = [run for run in runs if self.measure.value(run.result) is None]
            if isinstance(ours, str) or isinstance(theirs, str):
                missing[seed] = ours if isinstance(ours, str) else f"base row: {theirs}"
            elif unscored:  # not among the differences of the table either
                missing[seed] = f"result.json of {unscored[0].folder} has no {self.measure.key}"
            elif len({items.shape for pair in (*found.values(), (ours, theirs)) for items in pair}) > 1:
                missing[seed] = "the row, its base row or their other seeds were tested on other " + self.measure.items
            else:
                found[seed] = (ours, theirs)
        if not found:
            return f"not tested: {next(iter(missing.values()))}"
        if self._perfect(run for seed in found for run in pairs[seed]):
            return f"not tested: both rows have the best possible {self.measure.label}, so no difference can be seen"
        notes = [f"seed {seed} is not tested: {reason}" for seed, reason in missing.items()]
        wrong = [note for seed in found for note in self._disagreement(pairs[seed][0], found[seed][0], self.measure)]
        wrong += [
            f"base row, {n}" for seed in found for n in self._disagreement(pairs[seed][1], found[seed][1], self.measure)
        ]
        try:
            tested = self._test(found, [pairs[seed] for seed in found])
            refuse_constant(tested.across)
        except DataError as error:
            return f"not tested: {str(error).rstrip('.')}"
        except UndefinedError as error:
            return f"not tested: chance in the {self.measure.items} cannot be estimated: {error}"
        return replace(tested, notes=(*notes, *wrong), contradictions=tuple(wrong))

    def contradictions(self, row: Row, measures: Sequence[Measure], tested: Collection[int] = ()) -> list[str]:
        """Scores of a row that its stored items do not have, seed by seed, or that cannot be computed from them.

        A run need not have stored any, nor those of further measures than the tested one. `tested`: seeds whose score
        of the tested measure `against` has verified.
        """
        found = []
        for measure in measures:
            for run in row.finished if measure.items else ():
                if measure.value(run.result) is None or (measure == self.measure and run.seed in tested):
                    continue
                stored = self._of(run, measure)
                if not isinstance(stored, str):
                    found += self._disagreement(run, stored, measure)
                elif measure == self.measure and run.folder and any(RunFolder(run.folder).hypotheses.glob("*")):
                    found.append(f"seed {run.seed}: its score cannot be verified: {stored}")
        return found

    def _perfect(self, runs: Iterable[SeedRun]) -> bool:
        """Whether all runs have the best possible score; their differences, all 0, say nothing of other test sets."""
        if self.measure.range is None:
            return False
        best = self.measure.range[1 if self.measure.higher_is_better else 0]
        return all(math.isclose(self.measure.value(run.result) or 0.0, best, abs_tol=1e-9) for run in runs)

    def _test(self, found: dict[int, tuple[Items, Items]], pairs: Sequence[tuple[SeedRun, SeedRun]]) -> RowTest:
        settings = self.settings
        aggregate = self._aggregate
        options: dict[str, Any] = {"n": settings.n, "seed": settings.seed, "level": settings.level}
        systems, bases = zip(*found.values(), strict=True)
        known = self._resampled
        tests = paired_tests(systems, bases, aggregate, resampled=known, **options)
        seeds = dict(zip(found, tests, strict=True))
        if len(found) == 1:
            ours, theirs = (self._restarts(run) for run in pairs[0])
            if ours and theirs:
                across = across_restarts(ours, theirs, aggregate, **options)
                return RowTest(self.measure.key, across, seeds)
            if isinstance(alone := tests[0], NoSpreadError):
                raise alone
            return RowTest(self.measure.key, alone[0], seeds)
        paired = all(_same_network(ours, theirs) for ours, theirs in pairs)
        across = across_seeds(systems, bases, aggregate, resampled=known, paired=paired, **options)
        return RowTest(self.measure.key, across, seeds)

    def _aggregate(self, sums: Items, measure: Measure | None = None) -> Items:
        with np.errstate(divide="ignore", invalid="ignore"):  # `significance` looks for what is not finite
            return self.task.aggregate(measure or self.measure, sums)

    def _of(self, run: SeedRun, measure: Measure) -> Items | str:
        key = (str(run.folder), measure.key)
        if key not in self._items:
            self._items[key] = self._read(run, measure)
        return self._items[key]

    def _read(self, run: SeedRun, measure: Measure) -> Items | str:
        if run.folder is None:
            return "no run"
        tested = TestedRun(RunFolder(run.folder), run.config, run.result)
        return stored_items(self.task, tested, measure, cache=self.settings.cache)

    def _restarts(self, run: SeedRun) -> Restarts | None:
        if run.folder is None:
            return None
        return self.task.restarts(TestedRun(RunFolder(run.folder), run.config, run.result), self.measure)

    def _disagreement(self, run: SeedRun, items: Items, measure: Measure) -> list[str]:
        """Report if the stored items do not have the score in `result.json`."""
        tested = TestedRun(RunFolder(run.folder or Path()), run.config, run.result)
        found = contradiction(tested, measure, float(self._aggregate(items.sum(0), measure)))
        which = "" if measure == self.measure else f"{measure.label}: "
        return [f"seed {run.seed}: {which}{found}"] if found else []


def other_references(task: Task, row: Row, base: Row, name: str) -> str | None:
    """A note if a row and its base row were measured on different references; None if not, or if unknown."""
    for seed, runs in _common(row, base).items():
        ours, theirs = (run.references(task, name) for run in runs)
        if ours and theirs and ours != theirs:
            return f"its {name} references differ from its base row's (seed {seed}): not compared"
    return None


def _same_network(ours: SeedRun, theirs: SeedRun) -> bool:
    """Whether two runs test the weights of one training."""
    again = _trained_again(ours, theirs) or _trained_again(theirs, ours)
    return _network(ours) == _network(theirs) and not again


def _trained_again(run: SeedRun, source: SeedRun) -> bool:
    """Whether the source of a run that tests its weights has trained a network anew in the same folder since."""
    if not run.folder or not source.folder or not run.result.get("reused") or source.result.get("reused"):
        return False
    return trained_since(RunFolder(source.folder), RunFolder(run.folder))


def _network(run: SeedRun) -> tuple[str, int, int]:
    """Row, seed and attempt of the training whose weights a run tests: its own, or those that it reused."""
    if reused := run.result.get("reused"):
        source = RunFolder(str(reused))
        return source.row, run.seed, source.attempt
    own = RunFolder(run.folder or Path())
    status = own.status()  # a record's folder does not name the attempt
    return own.row, run.seed, status.attempt if status else own.attempt


def _common(row: Row, base: Row) -> dict[int, tuple[SeedRun, SeedRun]]:
    theirs = {run.seed: run for run in base.finished if run.folder}
    return {run.seed: (run, theirs[run.seed]) for run in row.finished if run.folder and run.seed in theirs}
