"""The output of a sweep: a live table on a terminal, lines elsewhere, and a summary at the end."""

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Column, Table

from variations.configuration.doors import typed_again
from variations.configuration.places import spelled
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.sweeping.local import on_gpus
from variations.sweeping.outcomes import Outcome, untrained
from variations.system.quantities import hours_name, hours_text

COLOURS = {"finished": "green", "skipped": "green", "failed": "red", "interrupted": "yellow", "pending": "dim"}
REDRAW = 1.0
"""Seconds between updates of the table."""
LINE = 60.0
"""Seconds between lines about running rows, without a terminal."""
WIDE = 400
"""Width without a terminal."""


UNTRAINED = "It will not be compared: train all rows for more steps (trainer.max_steps) under a new sweep.name."


class Overview:
    """Shows the progress of a sweep on standard error.

    Args:
        console: Where to write.
        waiting: The state of a run that was submitted but has not started: on a cluster `queued`.
    """

    def __init__(self, console: Console | None = None, waiting: str = "starting") -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.live: Live | None = None
        self.pace = Pace(waiting)
        self._drawn = 0.0
        self._lost: set[str] = set()
        """Base rows of which `_tell_lost_base` has told."""

    def __enter__(self) -> Self:
        self._drawn = time.monotonic() if not self.console.is_terminal else 0.0
        if self.console.is_terminal:
            self.live = Live(console=self.console, auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(escape(text), soft_wrap=True)

    def started(self, outcomes: Sequence[Outcome], outcome: Outcome) -> None:
        """A run was submitted."""
        if base := outcome.job.config.variation.base:  # which an earlier command may have finished
            self._tell_lost_base(outcomes, base)
        if self.live is None:
            place = f"[{outcomes.index(outcome) + 1}/{len(outcomes)}]"
            at = outcome.former.checkpoint if outcome.former is not None else None
            begins = "started" if at is None else f"continues from step {at:,}"
            log = f"{begins}; log: {outcome.folder.log}" if self.pace.waiting == "starting" else "submitting"
            self.say(f"{place} {outcome.name}: {log}")

    def ended(self, outcomes: Sequence[Outcome], outcome: Outcome) -> None:
        """A run has ended."""
        self._drawn = 0.0 if self.live is not None else self._drawn
        if self.live is None or not outcome.ok:
            self._tell_end(outcomes, outcome)
        self._tell_lost_base(outcomes, outcome.job.row)

    def _tell_lost_base(self, outcomes: Sequence[Outcome], row: str) -> None:
        """Say once that a row is not trained, if others that are to be compared with it have not ended."""
        others = [o for o in outcomes if o.job.config.variation.base == row and o.job.row != row]
        own = [outcome for outcome in outcomes if outcome.job.row == row]
        if row in self._lost or not all(o.ended for o in own) or all(o.ended for o in others):
            return
        if why := untrained(own):
            self._lost.add(row)
            self.say(f"No row will be compared with {row}, which is not trained ({why}): Ctrl-C stops the sweep.")

    def _tell_end(self, outcomes: Sequence[Outcome], outcome: Outcome) -> None:
        words = [outcome.state + (", started by another launch" if outcome.by_other and outcome.ok else "")]
        if score := outcome.score():
            words.append(f"{_measure(outcome)} {score}")
        queued = self.pace.waiting == "queued"
        if outcome.seconds is not None and not (queued and outcome.by_other):  # which was submitted before
            queue = " since it was submitted" if queued else ""
            words.append(f"{outcome.seconds:.0f} s{queue}")
        if outcome.state == "finished" and not outcome.reason and (why := untrained([outcome])):  # or it is a copy
            words.append(f"not trained ({why})")
        reason = f": {outcome.reason}" if outcome.reason else ""
        self.say(f"[{outcomes.index(outcome) + 1}/{len(outcomes)}] {outcome.name}: {', '.join(words)}{reason}")

    def refresh(self, outcomes: Sequence[Outcome]) -> None:
        """Update the table or print a line, if due."""
        now = time.monotonic()
        if now - self._drawn < (REDRAW if self.live is not None else LINE):
            return
        self._drawn = now
        self.pace.look(outcomes, now)
        if self.live is not None:
            self.live.update(self.picture(outcomes), refresh=True)
        else:
            at_work = [o for o in outcomes if o.state in ("submitted", "elsewhere")]
            steps = "; ".join(f"{o.name}: {self.pace.words(o)}" for o in at_work)
            self.say(" · ".join(filter(None, [self._counts(outcomes), steps])) + self._left(outcomes))

    def picture(self, outcomes: Sequence[Outcome]) -> Table:
        """Return the table: all running rows, and as many others as fit the terminal."""
        room = max(3, self.console.height - 6)
        shown = list(outcomes)
        for dull in ("skipped", "finished", "pending"):
            while len(shown) > room and (extra := [o for o in shown if o.state == dull]):
                shown.remove(extra[0] if dull != "pending" else extra[-1])
        table = Table(
            "row",
            "seed",
            "state",
            "step",
            "score so far",
            "left",
            caption=self._counts(outcomes) + self._left(outcomes),
        )
        for o in shown:
            state = o.state if o.ended else self.pace.states.get(o.folder.path, o.state)
            score = o.score() if o.ended else self.pace.scores.get(o.folder.path, "")
            table.add_row(
                escape(o.job.row),
                str(o.job.seed),
                f"[{COLOURS.get(state, 'default')}]{state}[/]",
                self.pace.progress(o) if not o.ok else "",
                score,
                self.pace.time_left(o) if o.state in ("submitted", "elsewhere") else "",
            )
        return table

    def _counts(self, outcomes: Sequence[Outcome]) -> str:
        counts = Counter(self.pace.count_as(o) for o in outcomes)
        return ", ".join(f"{count} {state}" for state, count in counts.items())

    def _left(self, outcomes: Sequence[Outcome]) -> str:
        seconds = self.pace.sweep_left(outcomes)
        return "" if seconds is None else f" · about {_time(seconds)} left"


class Pace:
    """The speed of runs, from the steps that they report."""

    def __init__(self, waiting: str = "starting") -> None:
        self.waiting = waiting
        self.steps: dict[Path, int] = {}
        self.states: dict[Path, str] = {}
        self.scores: dict[Path, str] = {}
        """The latest validation of each running row."""
        self._first: dict[Path, tuple[float, int]] = {}
        self._last: dict[Path, tuple[float, int]] = {}
        self._apart: dict[Path, int] = {}
        """Steps between the latest two reports of each running row."""

    def look(self, outcomes: Sequence[Outcome], now: float) -> None:
        """Read what the running rows report."""
        for o in outcomes:
            self.states[o.folder.path] = o.state
            if o.state not in ("submitted", "elsewhere"):
                continue
            status = o.status()
            running = status is not None and status.state in ("running", "finished")  # and its process is ending
            here = "running" if running else self.waiting
            self.states[o.folder.path] = here if o.state == "submitted" else "elsewhere"
            step = status.step if status is not None and running else None
            if step is None:
                continue
            if step < self.steps.get(o.folder.path, 0):
                self._first.pop(o.folder.path, None)
            self.steps[o.folder.path] = step
            self._first.setdefault(o.folder.path, (now, step))
            before = self._last.get(o.folder.path)
            if before is None or step != before[1]:
                self._last[o.folder.path] = (now, step)
                self._apart[o.folder.path] = max(0, step - before[1]) if before else 0
                self.scores[o.folder.path] = o.so_far()

    def count_as(self, o: Outcome) -> str:
        """Return the state in which a run is counted; one that is in a cluster's queue does not run."""
        if o.ended or o.state == "pending":
            return o.state
        return "queued" if self.states.get(o.folder.path) == "queued" else "running"

    def progress(self, o: Outcome) -> str:
        """Return `300/900`; empty before the first step."""
        step = self.steps.get(o.folder.path)
        return "" if step is None else f"{step}/{o.job.config.trainer.max_steps}"

    def words(self, o: Outcome) -> str:
        """Return `step 300/900, dev BLEU 41.2`, or the state of a run that has not reported a step."""
        progress, score = self.progress(o), self.scores.get(o.folder.path, "")
        testing = "testing" if self._trained(o) else ""
        state = f"step {progress}" if progress else self.states.get(o.folder.path, self.waiting)
        return ", ".join(filter(None, (state, testing, score)))

    def time_left(self, o: Outcome) -> str:
        """Return the time that a running row still needs to train, or that it is being tested."""
        return "testing" if self._trained(o) else _time(self.left(o))

    def _trained(self, o: Outcome) -> bool:
        """Whether a run has made its last step, after which it is tested."""
        steps: int = o.job.config.trainer.max_steps
        return self.steps.get(o.folder.path, 0) >= steps

    def left(self, o: Outcome) -> float | None:
        """Return the seconds that a running row still needs to train; None: unknown."""
        step_seconds = self._present_step_seconds(o)
        if step_seconds is None:
            return None
        now, step = self._last[o.folder.path]
        return max(0.0, (_steps(o, step_seconds) - step) * step_seconds - (time.monotonic() - now))

    def _step_seconds(self, o: Outcome) -> float | None:
        """Return the seconds of one step of a running row, validation included; None: unknown."""
        first, last = self._first.get(o.folder.path), self._last.get(o.folder.path)
        if first is None or last is None or last[1] <= first[1]:
            return None
        return (last[0] - first[0]) / (last[1] - first[1])

    def _present_step_seconds(self, o: Outcome) -> float | None:
        """The same; longer where the next report is overdue, as when other work slows the machine down."""
        seconds = self._step_seconds(o)
        if seconds is None or self._trained(o):
            return seconds
        (began, first), (_, last), apart = (
            self._first[o.folder.path],
            self._last[o.folder.path],
            self._apart[o.folder.path],
        )
        return max(seconds, (time.monotonic() - began) / (last + apart - first))

    def _whole(self, o: Outcome) -> float:
        """Return the seconds of a whole run like this finished one, of which this command may have run the end only."""
        pace = self._step_seconds(o)
        return max(o.seconds or 0.0, _steps(o, pace) * pace if pace else 0.0)

    def sweep_left(self, outcomes: Sequence[Outcome]) -> float | None:
        """Return the seconds that the sweep still needs; None: unknown, as while its last rows are tested.

        Each waiting run counts as long as those that this command finished or, before the first, as the running ones at
        their present speed. Runs of earlier commands do not count: they may have had another machine.
        """
        at_work = [o for o in outcomes if o.state in ("submitted", "elsewhere")]
        waiting = [o for o in outcomes if o.state == "pending"]
        known = [seconds for o in at_work if (seconds := self.left(o)) is not None]
        paces = [(pace, o) for o in at_work if (pace := self._present_step_seconds(o)) is not None]
        tested = not waiting and all(self._trained(o) for o in at_work)
        if not at_work or len(known) < len(at_work) or tested:
            return None
        whole = [self._whole(o) for o in outcomes if o.state == "finished" and o.seconds] or [
            pace * _steps(o, pace) for pace, o in paces
        ]
        each = sum(whole) / len(whole)
        return max(max(known), (sum(known) + each * len(waiting)) / len(at_work))


def _steps(o: Outcome, step_seconds: float) -> float:
    """The updates that a run makes in the time that it is given."""
    trainer = o.job.config.trainer
    if trainer.max_minutes is None or not step_seconds:
        return float(trainer.max_steps)
    return float(min(trainer.max_steps, 60 * trainer.max_minutes / step_seconds))


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes:.0f} min" if minutes < 90 else f"{hours:.1f} h"


def _measure(outcome: Outcome) -> str:
    config = outcome.job.config
    label: str = named(config.task).primary(config.sweep.metric).label
    return label


def printer() -> Console:
    """Standard output; without a terminal so wide that no name or key is cut or wrapped in a log."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def summary(outcomes: Sequence[Outcome], *, repeat: bool = True, typed: Sequence[str] = ()) -> None:
    """Print a table of all runs with their training time, the reason and log of each failure, and what to do next.

    Args:
        outcomes: All runs.
        repeat: Whether the same command can do what is missing.
        typed: What was typed after `--multirun`.
    """
    console = printer()
    measures = {_measure(o) for o in outcomes}
    title = measures.pop() if len(measures) == 1 else "score"  # tasks have different ones
    # The name of a grid's row is wrapped, not cut: rows may differ only at its end.
    hours_of = hours_name("GPU" if on_gpus(o.job.config.trainer.accelerator) else "CPU" for o in outcomes)
    whole = [Column(heading, no_wrap=True) for heading in ("seed", "state", title, "training, s", hours_of)]
    table = Table(Column("row", overflow="fold"), *whole)
    for o in outcomes:
        state = f"[{COLOURS.get(o.state, 'default')}]{o.shown}[/]"
        seconds, trainer = o.trained(), o.job.config.trainer
        hours = None if seconds is None else seconds * trainer.devices * trainer.nodes / 3600
        costs = ("", "") if seconds is None or hours is None else (f"{seconds:.0f}", hours_text(hours))
        score = f"{_measure(o)} {o.score()}" if title == "score" and o.score() else o.score()
        table.add_row(escape(o.job.row), str(o.job.seed), state, score, *costs)
    console.print(table)
    for place in dict.fromkeys(o.folder.path.parent.parent for o in outcomes):
        console.print(f"Folders: {place}/ROW/seedN", soft_wrap=True, markup=False)
    counts = Counter(o.shown for o in outcomes)
    others = sum(o.by_other and o.ok for o in outcomes)
    told = ", ".join(f"{count} {state}" for state, count in counts.items())
    console.print(told + (f" ({others} of them started by another launch)" if others else ""))
    for o in outcomes:
        if not o.ok and o.reason:
            times = f" ({o.failures} times)" if o.failures > 1 else ""
            log = f" Log: {o.folder.log}" if o.folder.log.exists() else ""
            said = o.reason if o.reason.endswith((".", "!", "?")) else f"{o.reason}."
            line = f"[{COLOURS.get(o.state, 'default')}]{o.state}[/] {escape(o.name)}{times}: {escape(said)}"
            console.print(line + escape(log), soft_wrap=True)
    for row in dict.fromkeys(o.job.row for o in outcomes if o.state == "finished"):
        if why := untrained(o for o in outcomes if o.job.row == row):
            console.print(f"[yellow]not trained[/] {escape(row)}: {why}. {UNTRAINED}", soft_wrap=True)
    if repeat and any(not o.ok for o in outcomes):
        refused = any(o.refused for o in outcomes)
        how = "Fix the problems listed above, then run the" if refused else "Run the same"
        console.print(f"{how} command again to do what is missing.", soft_wrap=True)
    if any(o.ok for o in outcomes):
        console.print(f"Table: {_table_line(outcomes[0], typed)}", soft_wrap=True, markup=False)


def _table_line(outcome: Outcome, typed: Sequence[str]) -> str:
    """The command that prints the table of the rows and seeds that were `typed`, which works from this folder."""
    words = [word for word in outcome.job.overrides if word.startswith(("sweep=", "sweep.name=", "sweep.metric="))]
    words += [word for word in typed if word.startswith(("rows=", "seeds=", "sweep.seeds="))]
    return table_line(words, outcome.job.config.runs)


def table_line(words: Sequence[str], runs: str) -> str:
    """The command `table` with these words, for the run store `runs`, which works from this folder."""
    store = [f"runs={runs}"] if runs != RunConfig.runs else []
    return " ".join([spelled("table"), *map(shlex.quote, [*words, *store, *typed_again()])])
