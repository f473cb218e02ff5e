"""What is summed up over the batches of one update, and over the updates between two lines of metrics."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from variations.data.batching import Batch


@dataclass
class Update:
    """The update in progress, on this rank."""

    batches: list[tuple[int | None, Batch]] = field(default_factory=list)
    """Each batch with the seed of its random numbers."""
    sums: list[Tensor] = field(default_factory=list)
    """Loss and negative log-likelihood of each, summed over target tokens; shape (2,), float64."""
    counts: list[int] = field(default_factory=list)
    """Totals so far, as `budget.counts` has them."""

    def begin(self, batch: Batch, seed: int, counts: list[int]) -> None:
        """Take in the next batch."""
        self.batches.append((seed, batch))
        self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)] if self.counts else counts


class Window:
    """Sums over the updates since the last line of metrics, over all ranks; read, and so waited for, only then."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None
        self.tokens = 0

    def add(self, sums: Tensor, tokens: int) -> None:
        """Count one update: loss and negative log-likelihood, and target tokens."""
        self.sums = sums if self.sums is None else self.sums.to(sums.device) + sums
        self.tokens += tokens

    def take(self) -> dict[str, float]:
        """Means per target token since the last call; nothing if every update was skipped."""
        state = self.state()
        self.sums, self.tokens = None, 0
        if not state["tokens"]:
            return {}
        return {f"train/{key}": state[key] / state["tokens"] for key in ("loss", "nll")}

    def state(self) -> dict[str, Any]:
        """For checkpoints."""
        loss, nll = (0.0, 0.0) if self.sums is None else self.sums.tolist()
        return {"loss": loss, "nll": nll, "tokens": self.tokens}

    def load(self, state: dict[str, Any]) -> None:
        """From checkpoints."""
        self.sums = torch.tensor([state["loss"], state["nll"]], dtype=torch.float64) if state["tokens"] else None
        self.tokens = state["tokens"]
