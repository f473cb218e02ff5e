"""Numbers with a fixed number of decimals, rounded alike wherever they are printed."""

import math

ROUNDING = 1e-9
"""Differences below it come from the last bits of a sum, not from what was measured."""


HUGE = 1e15
"""From here on, digits before the point tell nothing."""


def decimal(value: float, digits: int = 2) -> str:
    """A number with a fixed number of decimals, as the dashboard's `V.fixed` prints it.

    A tie is rounded away from zero, whichever way its last bits were computed. A number beyond HUGE, such as the
    perplexity of a run that has diverged, has an exponent.
    """
    if abs(value) >= HUGE:
        return f"{value:.2e}"
    return f"{math.copysign(abs(value) + ROUNDING, value):.{digits}f}"


def whole(value: float) -> str:
    """A count such as `1,200`, as the dashboard's `V.whole` prints it; a tie is rounded away from zero."""
    return f"{math.copysign(math.floor(abs(value) + 0.5), value):,.0f}"
