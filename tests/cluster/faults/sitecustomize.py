"""Make runs fail on demand. Python imports this module at startup if PYTHONPATH names its folder.

`VARIATIONS_TEST_FAULTS` names a folder. A file `<row>.<what>.<step>` in it, where row is the last part of the run's
folder, takes effect when the run has written its metrics of that step:

    hold    the run waits until the file is deleted
    raise   the run raises an exception, each time
    kill    the run receives SIGKILL, once
"""

import os
import signal
import sys
import time
from pathlib import Path


def strike(faults: Path, row: str, step: int) -> None:
    """Carry out the faults requested for this step."""
    hold, error, kill = (faults / f"{row}.{what}.{step}" for what in ("hold", "raise", "kill"))
    while hold.exists():
        time.sleep(0.02)
    if error.exists():
        raise RuntimeError(f"the test wants {row} to fail at step {step}")
    if kill.exists():
        kill.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def arm(faults: Path) -> None:
    """Intercept the metrics that this process's run writes."""
    from variations.store.measurements import Measurements

    append = Measurements.append

    def watched(self, values):
        append(self, values)
        strike(faults, self.path.parent.name, int(values.get("step", 0)))

    Measurements.append = watched


if "variations.commands.run" in sys.orig_argv and "VARIATIONS_TEST_FAULTS" in os.environ:
    arm(Path(os.environ["VARIATIONS_TEST_FAULTS"]))
