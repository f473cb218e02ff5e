"""What became of each run of a sweep, and the summary at its end."""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from variations.compose import to_dict
from variations.errors import UserError
from variations.experiments.ledger import RunFolder, config_hash, latest
from variations.jobs import Job

COLOURS = {"finished": "green", "skipped": "green", "failed": "red", "interrupted": "yellow", "pending": "dim"}


@dataclass
class Outcome:
    """One job of a sweep and how it ended."""

    job: Job
    state: str = "pending"
    """`pending`, `skipped` (finished before), or a state of the run store."""
    reason: str = ""
    seconds: float | None = None
    """Wall-clock time of this launch, or of the run itself if it was skipped."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return a job's outcome before anything is started: skipped if the same run is finished already."""
        outcome = cls(job)
        folder = latest(job.folder)
        if folder is None or job.config.force:
            return outcome
        try:
            same = folder.config_hash() == config_hash(to_dict(job.config))
            if same and folder.state() == "finished":
                outcome.state, outcome.reason = "skipped", "finished before"
                outcome.seconds = (folder.result() or {}).get("seconds")
        except UserError as error:
            outcome.reason = str(error)
        return outcome

    @property
    def ok(self) -> bool:
        """Whether the run is finished, now or before."""
        return self.state in ("finished", "skipped")

    def end(self, state: str, error: BaseException | None, seconds: float) -> None:
        """Note how a launch ended; of one that seems to be finished, status.json has the last word."""
        self.state, self.seconds = state, seconds
        if error is not None:
            self.reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            if not isinstance(error, UserError):
                traceback.print_exception(error, file=sys.stderr)
            return
        if state != "finished":
            return
        folder = latest(self.job.folder)
        status = folder.status() if folder is not None else None
        if folder is not None and status is not None:
            self.state, self.reason = folder.state(), status.reason or ""

    def score(self) -> str:
        """Return the test score of the sweep's metric, as `27.31`, or nothing."""
        folder = latest(self.job.folder)
        if folder is None or not self.ok:
            return ""
        result = folder.result() or {}
        found = result.get("scores", {}).get("test", {}).get(self.job.config.sweep.metric, {})
        value = found.get("value") if isinstance(found, dict) else found
        return "" if value is None else f"{value:.2f}"

    def home(self) -> str:
        """Return the folder to look into."""
        folder: RunFolder | None = latest(self.job.folder)
        return str(folder.path if folder is not None else self.job.folder)


def announce(index: int, total: int, job: Job) -> None:
    """Print one line before a run starts."""
    Console(highlight=False).print(f"[bold]\\[{index + 1}/{total}][/] {escape(job.row)}, seed {job.seed}")


def summary(outcomes: Sequence[Outcome]) -> None:
    """Print a table of all runs, then each failure's reason."""
    console = Console(highlight=False)
    metric = outcomes[0].job.config.sweep.metric if outcomes else "bleu"
    table = Table("row", "seed", "state", metric.upper(), "seconds", "folder")
    for o in outcomes:
        state = f"[{COLOURS.get(o.state, 'default')}]{o.state}[/]"
        seconds = "" if o.seconds is None else f"{o.seconds:.0f}"
        table.add_row(escape(o.job.row), str(o.job.seed), state, o.score(), seconds, escape(o.home()))
    console.print(table)
    counts: dict[str, int] = {}
    for o in outcomes:
        counts[o.state] = counts.get(o.state, 0) + 1
    console.print(", ".join(f"{count} {state}" for state, count in counts.items()))
    for o in outcomes:
        if not o.ok and o.reason:
            console.print(
                f"[red]{o.state}[/] {escape(o.job.row)}, seed {o.job.seed}: {escape(o.reason)}", soft_wrap=True
            )
    if any(not o.ok for o in outcomes):
        console.print("The same line again runs only what is missing.")
