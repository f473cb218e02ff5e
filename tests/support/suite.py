"""Which cases of a long list `make test` runs; `make torture` runs all of them."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int, *, ids: bool = False) -> list[Any]:
    """Return the cases, of which `make test` runs the first and each `every`-th after it.

    Args:
        cases: Values of one parameter, or tuples of several.
        every: 1 runs them all.
        ids: Name each test by its case, which must be a string.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.exhaustive] if place % every else [],
            id=case if ids else None,
        )
        for place, case in enumerate(cases)
    ]
