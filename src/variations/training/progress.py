"""Progress of a run: a bar on a terminal, a line per validation elsewhere."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from variations.training.budget import Budget


class RunProgress:
    """Shows steps, loss, speed and time left on standard error."""

    def __init__(self, label: str, *, enabled: bool = True) -> None:
        self.label, self.enabled = label, enabled
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self._shown = ""
        self._origin = (0.0, 0)

    def start(self, step: int, steps: int) -> None:
        """Begin at `step` of `steps`."""
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
        self._task = self.bar.add_task(self.label, total=steps, completed=step, shown="")

    def update(self, step: int, budget: Budget) -> None:
        """One update is done."""
        seconds, tokens = self._origin
        if tokens == 0:
            self._origin = (budget.elapsed(), budget.target_tokens)
        if self.bar is not None:
            speed = (budget.target_tokens - tokens) / max(budget.elapsed() - seconds, 1e-9)
            self.bar.update(self._task, completed=step, shown=f"{self._shown} {speed:,.0f} tokens/s")

    def metrics(self, step: int, metrics: dict[str, Any]) -> None:
        """A line of metrics was written."""
        loss = metrics.get("train/loss")
        self._shown = "no update" if loss is None else f"loss {loss:.3f}"
        if "dev/nll" not in metrics or not self.enabled:
            return
        words = [f"{self.label} step {step}", self._shown, f"dev ppl {metrics['dev/ppl']:.2f}"]
        if "dev/bleu" in metrics:
            words.append(f"dev BLEU {metrics['dev/bleu']:.1f}")
        self.console.print(" · ".join(words), highlight=False)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.bar is not None:
            self.bar.stop()
