"""A search from the first trial to the last: gets trials from the study, runs them in a pool, reports their results.

A trial belongs to the search process that started it, which holds a lease. If that process dies, the next one takes
the trial over: it reports a run that has ended, and continues an interrupted one from its last checkpoint.
A run that dies while its search process is alive has failed, and the search continues.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from variations.searching.definition import TRIAL, Definition
from variations.searching.show import Show, runs_of
from variations.searching.study import Study
from variations.store.lease import Watch, hold, read
from variations.store.naming import run_folder
from variations.sweeping.control import POLL, Control
from variations.sweeping.job import Job
from variations.sweeping.outcomes import Outcome
from variations.sweeping.pool import Pool
from variations.system.errors import ConfigError, UserError

SEARCHES = ".searches"
"""Folder of the leases of search processes."""
LOOK = 2.0
"""Seconds between checks for trials whose search process has died."""


@dataclass
class Trial:
    """A trial that this process executes."""

    number: int
    values: dict[str, Any]
    outcomes: list[Outcome] = field(default_factory=list)
    """One run per seed."""


class Search:
    """One process's share of a search.

    Args:
        definition: What is searched.
        pool: Where runs execute.
        show: Reports progress.
    """

    def __init__(self, definition: Definition, pool: Pool, show: Show | None = None) -> None:
        self.definition, self.pool = definition, pool
        self.study = Study(definition)
        self.show = show or Show(definition)
        self.show.begins(self.study)
        self.control = Control(pool, [], self.show)
        self.trials: list[Trial] = []
        self.owner = secrets.token_hex(6)
        self.watch = Watch()
        self._live: set[str | None] = set()  # other search processes that were seen to run
        self._doubtful: set[str | None] = set()  # owners of open trials of which that is not known yet
        self._looked = float("-inf")
        self._full = self._waits = False

    def run(self) -> None:
        """Run until the total is reached and the trials of this process have ended.

        Raises:
            KeyboardInterrupt: The user stopped the search; trials in progress have saved themselves, and stay open.
            UserError: The pool accepts no runs; the message says what to change.
        """
        place = self.definition.home / SEARCHES / self.owner
        with hold(place, seconds=self.definition.base.sweep.lease_seconds), self.show:
            try:
                self._test_again()
                while not self._done():
                    self.step()
                    time.sleep(POLL)
            except BaseException:  # also a defect here, which would otherwise kill the trials in progress unsaved
                self.control.stop()
                self._tell_ended()
                raise

    def step(self) -> None:
        """Do what is due now, without waiting."""
        self._take_over()
        self._begin_trials()
        self.control.step()
        self._tell_ended()

    def _done(self) -> bool:
        return self._full and not self.trials and not self._doubtful

    # Beginning ------------------------------------------------------------------------------------------------------

    def _begin_trials(self) -> None:
        while not self._full and self._room() > 0:
            reserved = self.study.reserve(self.owner)
            if reserved is None:
                self._full = True
                return
            self._begin(*reserved)

    def _room(self) -> int:
        waiting = [o for trial in self.trials for o in trial.outcomes if o.state == "pending"]
        at_work = [o for trial in self.trials for o in trial.outcomes if o.state == "submitted"]
        most = self.definition.base.sweep.most
        room = self.pool.room() if most is None else min(self.pool.room(), most - len(at_work))
        return room - len(waiting)

    def _test_again(self) -> None:
        """Continue the runs of finished trials that have lost their results; the study keeps the trials' values."""
        for trial in self.study.trials():
            home = self.definition.home / f"{TRIAL}{trial.number}"
            if trial.state.name == "COMPLETE" and not all(run.finished() for run in runs_of(home)):
                self.show.say(f"trial {trial.number}: a result of its runs is missing, so they are continued.")
                self._begin(trial.number, trial.params)

    def _begin(self, number: int, values: dict[str, Any]) -> None:
        """Start the runs of a trial; an invalid combination of values is a failed trial."""
        try:
            configs = self.definition.configs(number, values)
            if self.study.repeats(number):  # then its runs are copied
                sweep = configs[0].sweep
                sweep = replace(sweep, shares=[*sweep.shares, self.definition.name])
                configs = [replace(config, sweep=sweep) for config in configs]
            overrides = tuple(self.definition.trial_overrides(values))
            jobs = [Job(config.name or "", config.seed, overrides, config, run_folder(config)) for config in configs]
            outcomes = [Outcome.of(job) for job in jobs]
        except UserError as error:
            reason = "; ".join(error.faults) if isinstance(error, ConfigError) else str(error)
            self.study.tell(number, "FAIL", reason=reason)
            self.show.closed(number, values, "failed", None, reason)
            return
        self.show.began(number, values)
        self.trials.append(Trial(number, values, outcomes))
        self.control.outcomes.extend(outcomes)

    def _take_over(self) -> None:
        """Take over the trials of search processes that have died."""
        if time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        others = {number: owner for number, owner in self.study.running().items() if owner != self.owner}
        gone = {owner: self._gone(owner) for owner in set(others.values())}
        self._live |= {owner for owner, ended in gone.items() if ended is False}
        self._doubtful = {owner for owner, ended in gone.items() if ended is None} - self._live
        if self._doubtful and self._full and not self.trials and not self._waits:
            self._waits = True
            seconds = self.definition.base.sweep.lease_seconds
            self.show.say(
                f"Waiting up to {seconds:.0f} s to see whether processes of this search elsewhere still run …"
            )
        for number, owner in others.items():
            if not gone[owner]:
                continue
            values = self.study.adopt(number, owner, self.owner)
            if values is None:
                continue
            self.show.say(f"trial {number}: its search process has ended; this process continues the trial.")
            self._begin(number, values)
            self._close_what_had_failed(number)

    def _gone(self, owner: str | None) -> bool | None:
        """Whether a search process has ended; None: not known yet."""
        if owner is None:
            return True
        place = self.definition.home / SEARCHES / owner
        return self.watch.free(place, read(place))

    def _close_what_had_failed(self, number: int) -> None:
        """A run that failed before its search process died is not retried."""
        for trial in self.trials:
            for outcome in trial.outcomes if trial.number == number else []:
                status = outcome.status()
                if status is not None and status.state == "failed":
                    outcome.state, outcome.reason = "failed", status.reason or ""

    # Ending ---------------------------------------------------------------------------------------------------------

    def _tell_ended(self) -> None:
        for trial in list(self.trials):
            if all(outcome.ended for outcome in trial.outcomes):
                if any(outcome.state == "interrupted" for outcome in trial.outcomes):
                    self._go_on_or_leave(trial)
                else:
                    self._tell(trial)
                    self._forget(trial)

    def _go_on_or_leave(self, trial: Trial) -> None:
        """Continue a run that this search did not stop; if the search itself stops, leave the trial open."""
        if self.control.stopping:
            self._forget(trial)
            return
        for outcome in trial.outcomes:
            if outcome.state == "interrupted":
                outcome.state = "pending"

    def _forget(self, trial: Trial) -> None:
        self.trials.remove(trial)
        for outcome in trial.outcomes:
            self.control.outcomes.remove(outcome)

    def _tell(self, trial: Trial) -> None:
        failed = next((o for o in trial.outcomes if o.state == "failed"), None)
        if failed is not None:
            state, values, reason = "FAIL", None, failed.reason
        elif any(outcome.state == "pruned" for outcome in trial.outcomes):
            state, values, reason = "PRUNED", None, next(o.reason for o in trial.outcomes if o.state == "pruned")
        else:
            state, values, reason = self._measured(trial)
        self.study.tell(trial.number, state, values, reason or None)
        words = {"FAIL": "failed", "PRUNED": "pruned", "COMPLETE": "finished"}
        self.show.closed(trial.number, trial.values, words[state], values, reason)

    def _measured(self, trial: Trial) -> tuple[str, Sequence[float] | None, str]:
        try:
            results = [outcome.folder.result() or {} for outcome in trial.outcomes]
            unlike = self.study.unlike([outcome.folder for outcome in trial.outcomes])
        except UserError as error:
            return "FAIL", None, str(error)
        if unlike is not None:
            self._full = True
            return "FAIL", None, f"{unlike}; nothing further is tried"
        found = [objective.mean(results) for objective in self.study.objectives]
        missing = [o.key for o, value in zip(self.study.objectives, found, strict=True) if value is None]
        if missing:
            return "FAIL", None, f"its result has no {', '.join(missing)}"
        return "COMPLETE", [value for value in found if value is not None], ""
