"""A few kills of the torture harnesses; `make torture` makes fifty of a run and thirty of the preparation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = Path(__file__).with_name("torture.py")


@pytest.mark.slow
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
    line = [sys.executable, str(TORTURE.with_name("torture_preparation.py")), "--kills", "4"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    (met,) = re.findall(r"of which (\d+) met a process at work", done.stdout)
    (files,) = re.findall(r"the same (\d+) files, no remnants, no hang", done.stdout)
    assert int(met) >= 1 and int(files) >= 10
