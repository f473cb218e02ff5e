"""The state and result of each run of a sweep."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from variations.configuration.compose import to_dict
from variations.configuration.foreign import filled
from variations.configuration.schema import RunConfig
from variations.configuration.suggestions import shortened
from variations.configuration.tasks import named, task_of
from variations.store.contents import refuse_damaged, score
from variations.store.differences import equal_rows, foreseen
from variations.store.identity import changed_keys
from variations.store.lease import Lease, read
from variations.store.ledger import RunFolder, Status, workplace
from variations.store.own_code import changed_inputs, inputs_here, refuse_changed_inputs
from variations.store.row_files import replaced
from variations.sweeping.job import Job
from variations.sweeping.pool import PooledRun
from variations.system.errors import UserError
from variations.tasks.base import TestedRun

DONE = ("finished", "pruned")
"""States of a run that need no further work; only searches prune."""
ENDED = ("skipped", *DONE, "failed", "interrupted")
TAIL = 100_000
"""Number of bytes at the end of metrics.jsonl that are searched for the latest validation."""


@dataclass
class Outcome:
    """One job of a sweep, its state, and how it ended."""

    job: Job
    folder: RunFolder
    """Where it runs: the run's home, or a further attempt."""
    state: str = "pending"
    """`pending`; `queued` or running in the pool (`submitted`); `elsewhere`: held by another process; or ENDED."""
    reason: str = ""
    seconds: float | None = None
    """Wall-clock time of this sweep's launches, start and test included; of the training if it was skipped."""
    by_other: bool = False
    """Whether another sweep has finished it meanwhile."""
    failures: int = 0
    """Times it has failed in this sweep."""
    failed_before: int = 0
    """Times it had failed before this sweep."""
    refused: bool = False
    """Whether a user's fault has ended it, which the same command would meet again."""
    began: float | None = None
    """Monotonic time of the current launch."""
    former: Status | None = field(default=None, repr=False)
    """The run's status when this sweep launched or adopted it, which the run's own process replaces."""
    lease: Lease | None = field(default=None, repr=False)
    """While the run is queued by this sweep."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return a job's outcome before anything is started: `skipped` if the same run is already finished."""
        outcome = cls(job, RunFolder(workplace(job.folder, job.config)))
        try:
            status = outcome.folder.status()
            outcome.failed_before = status.failures if status is not None else 0
            if (done := outcome.done()) == "pruned":
                outcome.state, outcome.reason = "pruned", (status.reason if status is not None else None) or ""
            elif done:
                result = outcome.folder.result() or {}
                outcome.state, outcome.refused = "failed", True  # unless its result can be used
                refuse_damaged(outcome.folder.path, result, job.config.task, outcome.folder.config())
                outcome.state, outcome.refused, outcome.reason = "skipped", False, "finished before"
                outcome.seconds = result.get("seconds")
        except UserError as error:
            outcome.reason = str(error)
        return outcome

    @property
    def name(self) -> str:
        """The run's name in messages, `A_h16, seed 1`."""
        return f"{self.job.row}, seed {self.job.seed}"

    @property
    def ok(self) -> bool:
        """Whether the run is finished, by this sweep or before it."""
        return self.state in ("skipped", *DONE)

    @property
    def ended(self) -> bool:
        """Whether this sweep is done with it."""
        return self.state in ENDED

    @property
    def shown(self) -> str:
        """Its state for the user: a submitted run is `queued` or `running`, as its lease says, or has just ended."""
        record = read(self.folder.path) if self.state == "submitted" else None
        if record is None or record.state in ("queued", "running"):
            return self.state if record is None else record.state
        status = self.status()
        return self.state if status is None else status.state

    def same(self) -> bool:
        """Whether the folder contains a run of the same configuration."""
        return self.folder.exists() and not changed_keys(self.folder.config(), to_dict(self.job.config))

    def done(self) -> str | None:
        """Return the state of this run in the folder if it is one of DONE; None if there is work left."""
        if not self.same():
            return None
        return "finished" if self.folder.finished() else "pruned" if self.folder.state() == "pruned" else None

    def pooled(self) -> PooledRun:
        """Return the run in the form that a pool accepts."""
        trainer = self.job.config.trainer
        path = Path(self.folder.path).absolute()
        return PooledRun(path, f"{self.job.row}-seed{self.job.seed}", trainer.devices, trainer.nodes)

    def status(self) -> Status | None:
        """Return the latest status of the run; None if there is none or it cannot be read."""
        try:
            return self.folder.status()
        except UserError:
            return None

    def trained(self) -> float | None:
        """Return the seconds of training over all launches, as last written by the run; None: unknown."""
        try:
            if not (self.ok or self.same()):
                return None
            last = self.folder.result() or next(iter(self.folder.measurements.read()[-1:]), {})
        except UserError:
            return None
        seconds = last.get("seconds")
        return float(seconds) if isinstance(seconds, int | float) else None

    def score(self) -> str:
        """Return the score in the sweep's metric, such as `27.31`; empty if there is none."""
        if not self.ok:
            return ""
        try:
            found = score(self.job.config, self.folder.result() or {})
        except UserError:
            return ""
        return "" if found is None else found[0].text(found[1])

    def so_far(self) -> str:
        """Return the result of the latest validation, such as `dev BLEU 41.2`; empty before the first one."""
        task = named(self.job.config.task)
        try:
            lines = _end_of(self.folder.measurements.path).split(b"\n")
        except OSError:
            return ""
        for line in reversed(lines):
            try:
                measured = json.loads(line)
            except ValueError:  # the first or the last line, cut off
                continue
            if isinstance(measured, dict) and task.monitor in measured:
                found = [text.format(measured[key]) for key, text in task.shown.items() if key in measured]
                return found[-1] if found else ""
        return ""

    def last_error(self) -> str | None:
        """Return the error with which its last process ended, by the log; None if that has none."""
        try:
            text = _end_of(self.folder.log).decode("utf-8", errors="replace")
        except OSError:
            return None
        _, found, error = text.rpartition("== ")[2].rpartition("\nerror: ")
        return " ".join(error.split()) if found else None


def untrained(outcomes: Iterable[Outcome]) -> str | None:
    """Why the networks of finished runs of one row count as not trained, as its table says it; None if they do not.

    Quick checks (`debug=…`) are not judged.
    """
    tested: list[TestedRun] = []
    for outcome in outcomes:
        try:
            if outcome.ok and not outcome.job.config.debug.name and (result := outcome.folder.result()):
                tested.append(TestedRun(outcome.folder, outcome.folder.config(), result))
        except UserError:  # its score is not shown either
            continue
    return task_of(tested[0].config).untrained(tested) if tested else None


def _end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        return file.read()


def refuse_changed(outcomes: Iterable[Outcome]) -> None:
    """Check that no run which is left to do has begun with another configuration or with other inputs.

    Raises:
        UserError: Some have; the message lists the keys or inputs that differ, once for all runs in which the same do.
    """
    found: dict[str, list[tuple[str, Outcome]]] = {}
    for outcome in outcomes:
        if not outcome.ended and outcome.folder.exists():
            config, folder = outcome.job.config, outcome.folder
            try:
                folder.refuse_change(to_dict(config), certain=False)
                if folder.state() not in DONE and inputs_here(config):
                    refuse_changed_inputs(config, folder)
            except UserError as error:
                found.setdefault(str(error).replace(str(outcome.folder.path), ""), []).append((str(error), outcome))
    texts = []
    for (text, _), *others in found.values():
        texts.append(text + (f"\nThe same is true of {_named([o for _, o in others])}." if others else ""))
    if texts:
        raise UserError("\n".join(texts))


def _named(outcomes: Sequence[Outcome]) -> str:
    return shortened([outcome.name for outcome in outcomes], "; ")


def idle_rows(outcomes: Iterable[Outcome]) -> list[str]:
    """Warnings about rows that train equal networks, values of their files that are replaced, and what is foreseen."""
    configs: dict[str, RunConfig] = {}
    for outcome in outcomes:
        config, row = outcome.job.config, outcome.job.row
        if row not in configs and not (config.sweep.reuse and config.variation.reuse):
            configs[row] = config
    return of_rows(configs)


def of_rows(configs: Mapping[str, RunConfig]) -> list[str]:
    """The same of rows that are to be trained: their configurations by name."""
    whole = {row: filled(to_dict(config)) for row, config in configs.items()}
    return [*equal_rows(whole), *replaced(whole), *foreseen(configs)]


def other_inputs(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Warnings about runs that are skipped although their inputs have changed since: one sentence for each change."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.state == "skipped":
            config = outcome.job.config
            try:
                found = changed_inputs(config, outcome.folder)
            except UserError as error:
                found = [str(error)]
            for sentence in found:
                rows.setdefault(sentence, []).append(outcome)
    for sentence, concerned in rows.items():
        yield f"{_named(concerned)}: {sentence} Runs started now cannot be compared with them."
