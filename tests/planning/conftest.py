"""Fixtures: an example measurement of a shape, and a quiet machine."""

from typing import Any

import pytest

from variations.planning import measuring

VALUES: dict[str, Any] = {
    "invented": False,
    "read": 1.0,
    "share": 1.0,
    "startup_seconds": 7.0,
    "update_seconds": 0.5,
    "validation_seconds": 3.0,
    "test_seconds": 30.0,
    "save_seconds_per_byte": 1e-6,
    "weights_bytes": 1_000_000,
    "memory_bytes": 3_000,
    "room_bytes": None,
    "prepare_seconds": 5.0,
}


@pytest.fixture(autouse=True)
def load(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The load of the machine, which a test may change; other tests run at the same time."""
    loads = [0.0, 0.0, 0.0]
    monkeypatch.setattr("os.getloadavg", lambda: tuple(loads))
    measuring._warn_of_load.cache_clear()
    measuring._load.cache_clear()
    return loads


@pytest.fixture
def values() -> dict[str, Any]:
    """One measurement in round numbers."""
    return dict(VALUES)
