"""What a run has used so far, exact even after resumes."""

import re
import time
from collections.abc import Sequence
from typing import Any

SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
"""The paper's sustained single-precision figures (Vaswani et al. 2017, Table 2); its cost is seconds × GPUs × these."""


class Budget:
    """Totals over all updates of a run, over all ranks and attempts.

    Args:
        units: The units in which batches are counted (`Task.units`). All are whole numbers, also FLOPs, so that sums do
            not depend on their order.

    Attributes:
        counted: the total of each unit.
        seconds: elapsed time in training, including validation, without interruptions.
        nan_steps: updates left out because the loss or a gradient was not finite.
        oom_splits: how often a batch was halved because memory ran out.
    """

    def __init__(self, units: Sequence[str]) -> None:
        self.counted = dict.fromkeys(units, 0)
        self.seconds = 0.0
        self.nan_steps = self.oom_splits = 0
        self._since: float | None = None

    def add(self, update: Sequence[int]) -> None:
        """Add one update: the counts of its batches over all ranks, in the order of `units`."""
        for unit, value in zip(self.counted, update, strict=True):
            self.counted[unit] += value

    def start_clock(self) -> None:
        """Start counting seconds."""
        self._since = time.monotonic()

    def stop_clock(self) -> None:
        """Stop counting seconds."""
        self.seconds, self._since = self.elapsed(), None

    def elapsed(self) -> float:
        """Seconds so far."""
        running = 0.0 if self._since is None else time.monotonic() - self._since
        return self.seconds + running

    def state(self) -> dict[str, Any]:
        """Plain numbers, for checkpoints and results."""
        further = {"seconds": self.elapsed(), "nan_steps": self.nan_steps, "oom_splits": self.oom_splits}
        return self.counted | further

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state()` of an earlier process."""
        self.counted = {unit: state[unit] for unit in self.counted}
        self.seconds, self.nan_steps, self.oom_splits = state["seconds"], state["nan_steps"], state["oom_splits"]
        if self._since is not None:
            self.start_clock()


def paper_cost(seconds: float, gpus: int, device: str | None) -> float | None:
    """FLOPs by the paper's rule: time × number of GPUs × sustained TFLOPS.

    None for a device without a figure in the paper, since a figure for it would be our choice.
    """
    name = (device or "").upper().replace("-", " ").split()
    known = [
        tflops
        for model, tflops in SUSTAINED_TFLOPS.items()
        if any(re.fullmatch(f"{model}[A-Z]*", word) for word in name)
    ]
    return seconds * gpus * known[0] * 1e12 if known else None
