"""Communication between the processes of a run (ranks, one per device) besides gradients."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from torch import Tensor, distributed

from variations.system import processes


class OwnRanks(LightningEnvironment):
    """The ranks that `system/processes.py` gives; those that other launchers left in the environment mean nothing."""

    @property
    def creates_processes_externally(self) -> bool:
        """Whether this process is one of several of the run."""
        return processes.is_rank()

    def local_rank(self) -> int:
        """This process's number on its machine."""
        return super().local_rank() if processes.is_rank() else 0

    def node_rank(self) -> int:
        """The machine's number among those of the run."""
        return super().node_rank() if processes.is_rank() else 0


class Ranks:
    """Sums and maxima of plain numbers over all ranks, on the CPU, so that no process waits for a device.

    Every rank makes the same calls in the same order. With one rank, each call returns its argument.
    """

    def __init__(self, world: int = 1) -> None:
        self.world = world
        self._group: Any = distributed.new_group(backend="gloo") if world > 1 else None

    def sum(self, values: list[int]) -> list[int]:
        """Exact sums, element by element."""
        return self._reduced(values, torch.int64, distributed.ReduceOp.SUM)

    def max(self, values: list[int]) -> list[int]:
        """Maxima, element by element."""
        return self._reduced(values, torch.int64, distributed.ReduceOp.MAX)

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, by rank."""
        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, value, group=self._group)
        return found

    def _reduced(self, values: list[int], dtype: torch.dtype, op: Any) -> list[int]:
        if self.world == 1:
            return values
        tensor = torch.tensor(values, dtype=dtype)
        distributed.all_reduce(tensor, op=op, group=self._group)
        reduced: list[int] = tensor.tolist()
        return reduced


class Place:
    """Where an experiment computes (`tasks/base.py`): a trainer's device and precision, and its ranks.

    Args:
        trainer: Lightning's trainer.
        alone: Whether the other ranks have ended, and this one does the rest.
    """

    def __init__(self, trainer: pl.Trainer, *, alone: bool = False) -> None:
        self.device = trainer.strategy.root_device
        self.rank, self.world = (0, 1) if alone else (trainer.global_rank, trainer.world_size)
        self._strategy, self._plugin = trainer.strategy, trainer.precision_plugin

    def precision(self) -> AbstractContextManager[Any]:
        """A context in which forward passes use `trainer.precision`."""
        return self._plugin.forward_context()

    def reduce(self, values: Tensor) -> Tensor:
        """Sums over all ranks, on the device."""
        if self.world == 1:
            return values
        summed: Tensor = self._strategy.reduce(values.clone(), reduce_op="sum")
        return summed

    def sum(self, values: Sequence[float]) -> list[float]:
        """Sums over all ranks, element by element."""
        if self.world == 1:
            return list(values)
        found: list[float] = self.reduce(torch.tensor(values, device=self.device, dtype=torch.float64)).tolist()
        return found
