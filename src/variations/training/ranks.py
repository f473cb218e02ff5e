"""What the processes of a run (ranks, one per device) tell each other besides gradients."""

from typing import Any

import torch
from torch import distributed


class Ranks:
    """Sums and maxima of plain numbers over all ranks, through the CPU, so that nobody waits for a device.

    Every rank makes the same calls in the same order. With one rank each call returns what it was given.
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
