"""Spearman's rank correlation."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DECIMALS = 9
"""Decimals that decide whether two values are equal: differences of equal printed figures differ in the last bits."""


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
    first, second = ([round(value, DECIMALS) for value in side] for side in (first, second))
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])
