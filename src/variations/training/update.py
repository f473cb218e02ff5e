"""Sums over the batches of one update, and over the updates between two lines of metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Update:
    """The update in progress, on this rank."""

    batches: list[tuple[int | None, Any]] = field(default_factory=list)
    """The batches with the seeds of their random numbers."""
    sums: list[Tensor] = field(default_factory=list)
    """The experiment's losses for each batch, (k,), float64."""
    counts: list[int] = field(default_factory=list)
    """Totals so far, in the order of the task's units."""

    def begin(self, batch: Any, seed: int, counts: list[int]) -> None:
        """Start the next batch."""
        self.batches.append((seed, batch))
        self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)] if self.counts else counts


class Window:
    """Sums over the updates since the last line of metrics, over all ranks; they stay on the device until then.

    Args:
        losses: Names of the summed losses.
    """

    def __init__(self, losses: Sequence[str]) -> None:
        self.losses = losses
        self.sums: Tensor | None = None
        self.units = 0

    def add(self, sums: Tensor, units: int) -> None:
        """Add one update: its losses (k,), and the number of units that they are summed over."""
        self.sums = sums if self.sums is None else self.sums.to(sums.device) + sums
        self.units += units

    def take(self) -> dict[str, float]:
        """Means per unit since the last call; empty if every update was skipped."""
        state = self.state()
        self.sums, self.units = None, 0
        if not state["tokens"]:
            return {}
        return {f"train/{name}": state[name] / state["tokens"] for name in self.losses}

    def state(self) -> dict[str, Any]:
        """The state for checkpoints; `tokens` are units, which are tokens in translation."""
        sums = [0.0] * len(self.losses) if self.sums is None else self.sums.tolist()
        return {**dict(zip(self.losses, sums, strict=True)), "tokens": self.units}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        sums = [state[name] for name in self.losses]
        self.sums = torch.tensor(sums, dtype=torch.float64) if state["tokens"] else None
        self.units = state["tokens"]
