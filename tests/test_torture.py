"""Kills by the torture harnesses; `make torture` kills a run fifty times and the preparation thirty times.

In `make test`, rows are killed by sweeping/test_drill.py.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = Path(__file__).with_name("torture.py")
MOMENTS = {"downloading", "unpacking or joining", "surveying", "training sub-words", "storing ids"}


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness forks and kills")
def test_a_run_killed_at_random_moments_ends_as_if_nothing_had_happened() -> None:
    done = subprocess.run([sys.executable, str(TORTURE), "--kills", "3"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills (SIGKILL): 3, over " in done.stdout
    assert "metrics: no gaps, no doubles" in done.stdout
    assert "equal to the last bit" in done.stdout
    assert int(re.findall(r"lines of metrics compared: (\d+)", done.stdout)[0]) >= 60


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness forks and kills")
def test_a_preparation_killed_at_random_moments_leaves_what_the_next_one_can_finish() -> None:
    met = preparation_killed(4)
    assert sum(met.values()) >= 2 and set(met) <= MOMENTS


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness forks and kills")
def test_thirty_kills_meet_every_part_of_a_preparation() -> None:
    assert set(preparation_killed(30)) == MOMENTS


def preparation_killed(times: int) -> dict[str, int]:
    """Return what the kills interrupted; the harness checks for unequal files, remnants and hanging processes."""
    line = [sys.executable, str(TORTURE.with_name("torture_preparation.py")), "--kills", str(times)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=1700)
    assert done.returncode == 0, done.stdout + done.stderr
    (files,) = re.findall(r"the same (\d+) files, no remnants, no hang", done.stdout)
    assert int(files) >= 20
    found = re.findall(r"^ +(\d+) (.+)$", done.stdout, re.MULTILINE)
    assert sum(int(count) for count, _ in found) == times
    return {what: int(count) for count, what in found if what in MOMENTS}
