"""Fixture: small stories for memory networks."""

import sys
from pathlib import Path

import pytest

from variations.models.memory.stories import Stories

sys.path.insert(0, str(Path(__file__).parent))  # the tests in this folder share invented.py


@pytest.fixture
def stories() -> Stories:
    """Two restarts with three questions each, and memories of one to four sentences."""
    from invented import make_stories

    return make_stories([[2, 4, 1], [3, 3, 2]])
