"""Progress of a run: a bar on a terminal, a line per validation elsewhere."""

import re
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from variations.system.rounding import HUGE
from variations.tasks.task import Task
from variations.training.budget import Budget


class RunProgress:
    """Shows steps, loss, speed and time left on standard error."""

    def __init__(self, label: str, task: Task, *, enabled: bool = True) -> None:
        self.label, self.task, self.enabled = label, task, enabled
        self.unit = task.loss_unit.rpartition("_")[2]
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self._shown = ""
        self._origin = (0.0, 0)

    def start(self, step: int, steps: int) -> None:
        """Start at `step` of `steps`."""
        if not self.enabled or not sys.stderr.isatty():
            return
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[shown]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=4,
        )
        self.bar.start()
        self._bar = self.bar.add_task(self.label, total=steps, completed=step, shown="")

    def update(self, step: int, budget: Budget) -> None:
        """One update is done."""
        seconds, before = self._origin
        done = budget.counted[self.task.loss_unit]
        if before == 0:
            self._origin = (budget.elapsed(), done)
        if self.bar is not None:
            speed = (done - before) / max(budget.elapsed() - seconds, 1e-9)
            self.bar.update(self._bar, completed=step, shown=f"{self._shown} {speed:,.0f} {self.unit}/s")

    def metrics(self, step: int, metrics: dict[str, Any]) -> None:
        """A line of metrics was written."""
        loss = metrics.get(f"train/{self.task.losses[0]}")
        self._shown = "no update" if loss is None else f"loss {loss:.3f}"
        if self.task.monitor not in metrics or not self.enabled:
            return
        words = [f"{self.label} step {step}", self._shown]
        words += [_told(text, metrics[key]) for key, text in self.task.shown.items() if key in metrics]
        self.console.print(" · ".join(words), highlight=False, soft_wrap=self.bar is None)

    def close(self) -> None:
        """Restore the terminal."""
        if self.bar is not None:
            self.bar.stop()


def _told(text: str, value: float) -> str:
    """A measurement as its task prints it, but a huge one, as of a run that has diverged, with an exponent."""
    return (re.sub(r"\{:.*?\}", "{:.2e}", text) if value >= HUGE else text).format(value)
