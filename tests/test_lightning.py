"""Lightning starts without what only its metrics would use, and leaves no trace of that."""

import subprocess
import sys

STARTED = """
import sys
from variations.lightning import pl
assert pl.Trainer and "torchmetrics" in sys.modules
heavy = {"scipy.signal", "matplotlib", "matplotlib.axes", "matplotlib.pyplot"} & set(sys.modules)
assert not heavy, heavy
"""
AFTERWARDS = """
import scipy.signal
from matplotlib import axes, figure
assert abs(scipy.signal.windows.hamming(5)[2] - 1) < 1e-12
assert isinstance(figure.Figure().subplots(), axes.Axes)
"""
BEFORE = "import matplotlib.pyplot, scipy.signal, sys; there = sys.modules['scipy.signal']\n"
KEPT = "\nfrom variations.lightning import pl\nassert sys.modules['scipy.signal'] is there is scipy.signal\n"


def failure(code: str) -> str | None:
    """What a fresh Python says of the code, if it fails."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return done.stderr if done.returncode else None


def test_neither_scipys_signals_nor_matplotlib_is_loaded_and_both_work_afterwards() -> None:
    assert failure(STARTED + AFTERWARDS) is None


def test_what_was_loaded_before_stays() -> None:
    assert failure(BEFORE + KEPT + AFTERWARDS) is None


def test_matplotlib_without_its_parts_may_have_been_loaded_before() -> None:
    assert failure("import matplotlib\nfrom variations.lightning import pl" + AFTERWARDS) is None
