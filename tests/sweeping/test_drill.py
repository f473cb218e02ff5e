"""The fault drill on this machine; see drill.py."""

from pathlib import Path

import pytest
from drill import Drill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_every_good_row_is_done_exactly_once_whatever_happens(tmp_path: Path) -> None:
    drill = Drill(tmp_path)
    try:
        drill.undisturbed()
        drill.disturbed()
        drill.check()
    finally:
        drill.close()
