"""Losses and gradients that are not finite: the run fails with their location, or skips and counts the update.

An update with a finite gradient can be too large as well. Then the dev loss after it is not finite, and the run fails.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from variations.system.errors import RunFailedError
from variations.training.ranks import Ranks

log = logging.getLogger(__name__)


@dataclass
class Seen:
    """One update on one rank."""

    step: int
    where: str
    """Epoch and batch, as text."""
    loss: Tensor
    """The loss, summed over this rank's batches of the update."""
    items: list[Any]
    """Indices of each batch's items in the data; empty if the task names none."""
    norm: Tensor
    """The norm of the gradient, averaged over ranks."""

    def bad(self) -> Tensor:
        """Whether anything is not finite."""
        return ~(self.loss.isfinite() & self.norm.isfinite())


class Guard:
    """Checks every update.

    On a CPU, or if updates may be skipped, each is checked before it is applied. Otherwise the check would be a host
    synchronisation, so it is deferred to the next `settle`, which comes before anything is saved.

    Args:
        allowed: Number of updates that may be skipped.
        eager: Whether each update is checked before it is applied, even if none may be skipped.
        ranks: The run's processes.
        advice: The task's `steadier`.
        at_fault: Whether this rank's own gradient of the present update is not finite; it computes it again.
    """

    def __init__(
        self, allowed: int, eager: bool, ranks: Ranks, advice: str, at_fault: Callable[[], bool] = lambda: False
    ) -> None:
        self.allowed, self.eager, self.ranks, self.advice = allowed, eager or allowed > 0, ranks, advice
        self.at_fault = at_fault
        self._pending: deque[Seen] = deque()

    def skips(self, seen: Seen, skipped: int) -> bool:
        """Whether the update must be skipped; `skipped` is the number skipped so far.

        Raises:
            RunFailedError: the update is bad, and no more may be skipped.
        """
        if not self.eager:
            self._pending.append(seen)
            return False
        (bad,) = self.ranks.max([int(seen.bad())])
        if not bad:
            return False
        told = self._tell(seen, applied=False)
        if skipped >= self.allowed:
            raise RunFailedError(self._failure(told))
        log.warning("%s The update is skipped (%d of at most %d).", told, skipped + 1, self.allowed)
        return True

    def settle(self) -> None:
        """Make the deferred checks.

        Raises:
            RunFailedError: an update since the last call was bad.
        """
        if not self._pending:
            return
        seen = list(self._pending)
        self._pending.clear()
        bad = torch.stack([one.bad() for one in seen]).tolist()
        first = bad.index(True) if True in bad else len(seen)
        (agreed,) = self.ranks.max([len(seen) - first])  # the earliest on any rank
        if agreed:
            raise RunFailedError(self._failure(self._tell(seen[len(seen) - agreed], applied=True)))

    def _tell(self, seen: Seen, *, applied: bool) -> str:
        mine = None
        if not bool(seen.loss.isfinite()):
            rows = [int(i) for i in torch.cat([torch.as_tensor(items).flatten() for items in seen.items])[:5]]
            mine = seen.where + (f", with the training items {', '.join(map(str, rows))}, …" if rows else "")
        found = self.ranks.gather(mine)
        what = "loss" if any(found) else "gradient"
        # Averaged over ranks, the gradient is bad on all: each computes its own again, unless the weights have changed.
        if not any(found) and len(found) > 1 and not applied:
            found = self.ranks.gather(seen.where if self.at_fault() else None)
        at_fault = [f"{text}{f' (rank {rank})' * (len(found) > 1)}" for rank, text in enumerate(found) if text]
        return f"The {what} is not finite at step {seen.step} ({'; '.join(at_fault) or seen.where})."

    def _failure(self, told: str) -> str:
        if self.allowed:
            told += f" {self.allowed} such updates have been skipped already (trainer.max_nan_steps)."
        advice = self.advice[0].upper() + self.advice[1:]
        return f"{told} {advice}, or let trainer.max_nan_steps such updates be skipped."


def refuse_diverged(dev_loss: float, step: int, advice: str) -> None:
    """Refuse to go on with weights whose dev loss is not finite; `advice` is the task's `steadier`.

    Raises:
        RunFailedError: It is infinite or NaN.
    """
    if not math.isfinite(dev_loss):
        raise RunFailedError(f"The dev loss is not finite after step {step}: training has diverged; {advice}.")


def refuse_bad_weights(weights: Iterable[Tensor], advice: str) -> None:
    """Refuse to test weights that are not finite: training may end without a validation after its last update.

    `advice` is the task's `steadier`.

    Raises:
        RunFailedError: A number is infinite or NaN.
    """
    if not all(bool(tensor.isfinite().all()) for tensor in weights):
        raise RunFailedError(f"The trained weights are not finite: training has diverged; {advice}.")
