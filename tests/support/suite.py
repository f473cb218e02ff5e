"""Which cases of a long list `make test` runs; `make torture` runs all of them."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases as parameters, all but the first and each `every`-th after it marked `exhaustive`.

    Args:
        cases: Values of one parameter, or tuples of several.
        every: 1 marks none.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.exhaustive] if place % every else []
        )
        for place, case in enumerate(cases)
    ]
