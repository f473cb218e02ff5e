"""Numbers with a fixed number of decimals, rounded alike wherever they are printed."""

import math

ROUNDING = 1e-9
"""Differences below it come from the last bits of a sum, not from what was measured."""


def decimal(value: float, digits: int = 2) -> str:
    """A number with a fixed number of decimals, as the dashboard's `V.fixed` prints it.

    A tie is rounded away from zero, whichever way its last bits were computed.
    """
    return f"{math.copysign(abs(value) + ROUNDING, value):.{digits}f}"
