"""Drives the runs of a sweep through any pool: starts those that are ready, retries those that failed.

A run belongs to this sweep while the sweep, or the process that it submitted, holds the lease. A run held by another
process is watched, and its result is reported as another sweep's.
"""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from variations.store.atomic import disk_refusals_told
from variations.store.lease import Lease, Record, Watch, read
from variations.store.status import Status
from variations.sweeping.outcomes import DONE, Outcome
from variations.sweeping.overview import Overview
from variations.sweeping.pool import Ended, Pool
from variations.sweeping.sources import Sources
from variations.system.errors import ExitCode, InUseError, TakenOverError, UserError

POLL = 0.1
LOOK = 1.0
"""Seconds between checks of runs that other processes hold."""
STOPPED = (ExitCode.INTERRUPTED, ExitCode.TERMINATED, -signal.SIGINT, -signal.SIGTERM)


class Control:
    """The runs of a sweep in a pool.

    Args:
        pool: Where runs are executed.
        outcomes: The sweep's runs in the order to start them; more may be added between steps.
        show: Is informed of every change.
    """

    def __init__(self, pool: Pool, outcomes: Sequence[Outcome], show: Overview) -> None:
        self.pool, self.outcomes, self.show = pool, list(outcomes), show
        self.sources = Sources(self.outcomes)
        self.watch = Watch(lambda name, key: pool.alive(key) if name == pool.name else None)
        self.stopping = False
        self._beaten = self._looked = 0.0

    def run(self) -> None:
        """Run until every run has ended.

        Raises:
            KeyboardInterrupt: The user stopped the sweep; runs in progress have saved themselves.
            UserError: The pool accepts no runs; the message says what to change.
        """
        with self.show:
            try:
                self._give_back_lost()
                while not all(outcome.ended for outcome in self.outcomes):
                    self.step()
                    time.sleep(POLL)
            except BaseException:  # also a defect here, which would otherwise kill the runs in progress unsaved
                self.stop()
                raise

    def step(self) -> None:
        """Do what is due now, without waiting."""
        for ended in self.pool.ended():
            self._settle(ended)
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            for outcome in self.outcomes:
                if outcome.state == "elsewhere":
                    self._look(outcome)
        self._start_ready()
        self._beat(now)
        self.show.refresh(self.outcomes)

    def stop(self) -> None:
        """Stop the runs of this machine; runs in a cluster's queue stay submitted."""
        self.stopping = True
        if not self.pool.outlives:
            self.show.say("Stopping: runs in progress are saving (Ctrl-C again: stop at once, without saving).")
        self.pool.stop()
        for ended in self.pool.ended():
            self._settle(ended)
        for outcome in self.outcomes:
            if outcome.state == "submitted":
                self._left_behind(outcome)
            elif outcome.lease is not None:
                with self._told(outcome, "its lease cannot be released"):
                    outcome.lease.release()

    def _left_behind(self, outcome: Outcome) -> None:
        """Set the state of a run that has not ended: still in a queue, held by another sweep, or pending."""
        record = outcome.lease.record if outcome.lease is not None else read(outcome.folder.path)
        if record is None or not (record.key and self.pool.alive(record.key)):
            self._give_back(outcome)
            outcome.state = "pending"
        elif not self.pool.outlives:
            outcome.state = "elsewhere"

    def _give_back_lost(self) -> None:
        """Release leases of runs that left a queue unseen, as by scancel: they are not queued until they start."""
        for outcome in self.outcomes:
            path = outcome.folder.path
            record = read(path) if outcome.state == "pending" else None
            if record is not None and record.state == "queued" and self.watch.free(path, record):
                with self._told(outcome, "its lease cannot be released"):
                    outcome.lease = Lease.claim(path, record, "queued", pool=self.pool.name)
                    self._give_back(outcome)

    # Starting -------------------------------------------------------------------------------------------------------

    def _start_ready(self) -> None:
        interrupted = any(outcome.state == "interrupted" for outcome in self.outcomes)
        for outcome in self.outcomes:
            if interrupted and outcome.state == "pending" and (reason := self.sources.stopped(outcome)):
                self._end(outcome, "interrupted", reason)
            if self.pool.room() < 1 or self._full(outcome):
                return
            if outcome.state == "pending" and self.sources.ready(outcome):
                try:
                    with disk_refusals_told():
                        self._start(outcome)
                except (UserError, OSError) as error:
                    self._give_back(outcome)
                    outcome.refused = getattr(error, "exit_code", None) == ExitCode.USAGE
                    self._end(outcome, "failed", str(error))

    def _full(self, outcome: Outcome) -> bool:
        most = outcome.job.config.sweep.most
        return most is not None and sum(other.state == "submitted" for other in self.outcomes) >= most

    def _start(self, outcome: Outcome) -> None:
        path, sweep = outcome.folder.path, outcome.job.config.sweep
        record = read(path)
        if not self.watch.free(path, record):
            self._leave(outcome, record.pool if record else None, record.key if record else None)
            return
        outcome.lease = Lease.claim(path, record, "queued", pool=self.pool.name, seconds=sweep.lease_seconds)
        if outcome.lease is None:  # another sweep was faster
            outcome.state = "elsewhere"
            return
        if state := outcome.done():
            self._give_back(outcome)
            outcome.by_other = True
            self._end(outcome, state)
            return
        try:
            copied = self.sources.copy(outcome, self.show.say)
        except (InUseError, TakenOverError):
            self._give_back(outcome)
            outcome.state = "elsewhere"
            return
        if copied:
            self._give_back(outcome)
            self._end(outcome, "finished", f"copied from {copied}, which is the same run")
            return
        if reason := self.sources.refusal(outcome):
            self.show.say(f"{outcome.name} {reason}")
        outcome.folder.create(self.sources.configuration(outcome))
        outcome.former = outcome.status()
        key = self.pool.submit(outcome.pooled())
        outcome.state, outcome.began = "submitted", time.monotonic()
        with self._told(outcome, "its lease cannot be written"):
            outcome.lease.beat(key=key)
        self.show.started(self.outcomes, outcome)

    def _leave(self, outcome: Outcome, pool: str | None, key: str | None) -> None:
        """Another process holds this run: watch it through the pool if that knows it, else through its lease."""
        found = key if key is not None and pool == self.pool.name and self.pool.alive(key) else None
        if not outcome.by_other:
            elsewhere = "another process is running it; its result will be used"
            followed = f"another launch started it ({pool}), and this one follows it"
            self.show.say(f"{outcome.name}: {elsewhere if found is None else followed}.")
        outcome.by_other = True
        if found is not None:
            outcome.former = outcome.status()
            self.pool.adopt(outcome.pooled(), found)
            outcome.state, outcome.began = "submitted", time.monotonic()
            self._take_over(outcome, read(outcome.folder.path))
        else:
            outcome.state = "elsewhere"

    def _take_over(self, outcome: Outcome, record: Record | None) -> None:
        """Renew a queued run's lease here if the sweep that queued it, on this machine, has ended."""
        if record is None or record.state != "queued" or record.process.alive() is not False:
            return
        seconds = outcome.job.config.sweep.lease_seconds
        with self._told(outcome, "its lease cannot be written"):
            outcome.lease = Lease.claim(
                outcome.folder.path, record, "queued", pool=self.pool.name, key=record.key, seconds=seconds
            )

    def _beat(self, now: float) -> None:
        queued = [outcome for outcome in self.outcomes if outcome.lease is not None]
        if not queued or now - self._beaten < min(o.job.config.sweep.lease_seconds for o in queued) / 6:
            return
        self._beaten = now
        for outcome in queued:
            with self._told(outcome, "its lease cannot be written"):
                if outcome.lease is not None and not outcome.lease.beat():
                    outcome.lease = None  # the run itself holds it now

    @contextmanager
    def _told(self, outcome: Outcome, what: str) -> Iterator[None]:
        """Report an error of the disk and continue: a lease that is not renewed or released expires by itself."""
        try:
            yield
        except (UserError, OSError) as error:
            self.show.say(f"{outcome.name}: {what} ({error}).")

    # Ending ---------------------------------------------------------------------------------------------------------

    def _settle(self, ended: Ended) -> None:
        """A process has ended: the status of the run decides the outcome."""
        outcome = next((o for o in self.outcomes if o.pooled().folder == ended.run.folder and not o.ended), None)
        if outcome is None:
            return
        outcome.seconds = (outcome.seconds or 0.0) + time.monotonic() - (outcome.began or time.monotonic())
        status = outcome.status()
        stop = status if status is not None and status.state == "interrupted" and status != outcome.former else None
        self._give_back(outcome)
        if status is not None and status.state in DONE:
            self._take(outcome, status)
        elif ended.code == ExitCode.HELD or (outcome.by_other and not ended.reason and ended.code is None):
            outcome.state, outcome.by_other = "elsewhere", True  # its lease will tell
        elif ended.code == ExitCode.PREEMPTED and not self.stopping:
            outcome.state = "pending"
        elif ended.code in (*STOPPED, ExitCode.PREEMPTED) or stop is not None:
            reason = stop.reason if stop is not None else None
            self._end(outcome, "interrupted", reason or ended.reason or "stopped before it started")
        elif self.stopping and ended.code is None:
            self._end(outcome, "interrupted", ended.reason)
        else:
            self._failed(outcome, ended)

    def _take(self, outcome: Outcome, status: Status) -> None:
        """A run is done: its result is used, unless another process has done it with another configuration."""
        try:
            same = not outcome.by_other or outcome.same()
        except UserError:  # its configuration cannot be read
            same = False
        if same:
            self._end(outcome, status.state, status.reason or "")
        else:
            outcome.state, outcome.by_other = "pending", False  # to start it is refused, with the reason

    def _failed(self, outcome: Outcome, ended: Ended) -> None:
        status = outcome.status()
        gone = "its process disappeared" if ended.code is None else f"its process ended with code {ended.code}"
        said = outcome.last_error() if (ended.code or 0) > 0 else None
        how = f"{said} ({ended.reason})" if said and ended.reason else said or ended.reason or gone
        if status is None or status.state != "failed" or status == outcome.former:  # it could not record that itself
            record = read(outcome.folder.path)
            seconds = outcome.job.config.sweep.lease_seconds
            free, declared = self.watch.free(outcome.folder.path, record), True  # if the disk allows it
            before = outcome.former.failures if outcome.former is not None else 0
            with self._told(outcome, "its failure cannot be recorded"):
                declared = bool(free) and outcome.folder.declare_failed(how, record, before=before, seconds=seconds)
            if not declared:
                outcome.state, outcome.by_other = "elsewhere", True  # another sweep noticed it too, and was faster
                return
            status = outcome.status()
        recorded = status.reason if status is not None and (ended.code or 0) >= 0 else None
        outcome.refused = ended.code == ExitCode.USAGE
        self._try_again(outcome, recorded or how)

    def _try_again(self, outcome: Outcome, reason: str) -> None:
        status = outcome.status()
        in_all = (status.failures if status is not None else 0) - outcome.failed_before
        outcome.failures = max(outcome.failures + 1, in_all)
        if outcome.refused or self.stopping or outcome.failures > outcome.job.config.sweep.retries:
            self._end(outcome, "failed", reason)
        else:
            outcome.state = "pending"
            self.show.say(f"{outcome.name}: failed, will be retried: {reason}")

    def _look(self, outcome: Outcome) -> None:
        """Check on a run that another process holds."""
        record = read(outcome.folder.path)
        free = self.watch.free(outcome.folder.path, record)
        if not free:
            if record is not None and record.pool == self.pool.name and record.key and self.pool.alive(record.key):
                self._leave(outcome, record.pool, record.key)
            return
        status = outcome.status()
        if status is not None and status.state in DONE:
            self._take(outcome, status)
        elif status and status.state == "failed" and status.failures > outcome.failed_before + outcome.failures:
            self._try_again(outcome, status.reason or "")
        else:
            outcome.state, outcome.by_other = "pending", False

    def _give_back(self, outcome: Outcome) -> None:
        if outcome.lease is not None:
            with self._told(outcome, "its lease cannot be released"):
                outcome.lease.release()
            outcome.lease = None

    def _end(self, outcome: Outcome, state: str, reason: str = "") -> None:
        outcome.state, outcome.reason = state, reason
        self.show.ended(self.outcomes, outcome)
