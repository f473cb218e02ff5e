"""The exponents p and q of work ~ n^p · d^q, and what Table 1 says they should be. Imports no torch."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Cell = tuple[int, int]
"""(n, d)."""


@dataclass(frozen=True)
class Exponents:
    """Least squares of log work on log n and log d, over the large end of a grid."""

    n: float
    d: float
    n_error: float | None
    """Standard error; None where there are too few cells to have one."""
    d_error: float | None
    cells: int


@dataclass(frozen=True)
class Claim:
    """A row of Table 1."""

    label: str
    work: str
    sequential: str
    path: str
    formula: Callable[[int, int, int, int], float]
    """Work from n, d, k, r."""


CLAIMS = {
    "self_attention": Claim("Self-attention", "O(n²·d)", "O(1)", "O(1)", lambda n, d, k, r: n * n * d),
    "recurrent": Claim("Recurrent", "O(n·d²)", "O(n)", "O(n)", lambda n, d, k, r: n * d * d),
    "convolution": Claim("Convolutional", "O(k·n·d²)", "O(1)", "O(log_k n)", lambda n, d, k, r: k * n * d * d),
    "separable": Claim("Separable convolution", "O(k·n·d + n·d²)", "–", "–", lambda n, d, k, r: k * n * d + n * d * d),
    "restricted": Claim("Self-attention, restricted", "O(r·n·d)", "O(1)", "O(n/r)", lambda n, d, k, r: r * n * d),
}
"""Vaswani et al. 2017, Table 1; the separable convolution stands in the text of section 4 alone, with its work only."""


def large_end(values: Sequence[int]) -> list[int]:
    """The upper half of the values, three at least where there are so many: there the leading term is seen."""
    ordered = sorted(set(values))
    return ordered[-max(len(ordered) // 2, min(3, len(ordered))) :]


def exponents(work: Mapping[Cell, float]) -> Exponents:
    """Fit over the large end of both axes.

    Raises:
        ValueError: n or d takes a single value there.
    """
    ns, ds = (large_end([cell[axis] for cell in work]) for axis in (0, 1))
    if len(ns) < 2 or len(ds) < 2:
        raise ValueError("an exponent needs two values of n and two of d at least")
    cells = [cell for cell in work if cell[0] in ns and cell[1] in ds]
    columns = np.array([[1.0, math.log(n), math.log(d)] for n, d in cells])
    values = np.array([math.log(work[cell]) for cell in cells])
    found, *_ = np.linalg.lstsq(columns, values, rcond=None)
    free = len(cells) - 3
    errors: list[float | None] = [None, None]
    if free > 0:
        variance = float(((values - columns @ found) ** 2).sum()) / free
        errors = [float(e) for e in np.sqrt(np.diag(np.linalg.inv(columns.T @ columns))[1:] * variance)]
    return Exponents(float(found[1]), float(found[2]), errors[0], errors[1], len(cells))
