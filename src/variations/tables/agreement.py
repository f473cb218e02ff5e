"""Are rows in the same order in the paper and here? Rank correlation of differences from the base rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from variations.tasks.task import Task

FEW = 4
"""Rows below which a rank correlation says nothing: three rows agree perfectly by chance one time in six."""


@dataclass(frozen=True)
class Agreement:
    """Published against measured differences, over the rows that have both."""

    published: str
    """Key of the published figure."""
    measure: str
    """Our measure."""
    rho: float | None
    """Spearman's ρ; None where it is not defined (fewer than two rows, or one side all equal)."""
    rows: tuple[str, ...]

    def sentence(self, task: Task) -> str:
        """As the table's footnote says it."""
        names = f"Published {task.published(self.published).label} and measured {task.measure(self.measure).label}"
        n = len(self.rows)
        if self.rho is None:
            return f"{names}: no rank correlation of differences from the base row (n = {n})."
        few = ", too few rows to tell" if n < FEW else ""
        value = f"{self.rho:.2f}".replace("-", "−")
        return f"{names}: rank correlation of differences from the base row ρ = {value} (Spearman, n = {n} rows{few})."


def ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    below = (array[:, None] > array[None, :]).sum(1)
    equal = (array[:, None] == array[None, :]).sum(1)
    return np.asarray(below + (equal + 1) / 2)


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation: Pearson's of the ranks, which is right with ties too. None where undefined.

    Raises:
        ValueError: The sides differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values cannot be correlated with {len(second)}")
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])
