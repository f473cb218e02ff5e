"""Python reads this first where PYTHONPATH names its folder: it makes runs fail as a test wants.

`VARIATIONS_TEST_FAULTS` names a folder. A file `<row>.<what>.<step>` in it, row being the last part of the run's
folder, strikes when the run has written its metrics of that step:

    hold    it waits there until the file is gone
    raise   an exception, each time
    kill    SIGKILL, once
"""

import os
import signal
import sys
import time
from pathlib import Path


def strike(faults: Path, row: str, step: int) -> None:
    """Do what is to happen at this step."""
    hold, error, kill = (faults / f"{row}.{what}.{step}" for what in ("hold", "raise", "kill"))
    while hold.exists():
        time.sleep(0.02)
    if error.exists():
        raise RuntimeError(f"the test wants {row} to fail at step {step}")
    if kill.exists():
        kill.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def arm(faults: Path) -> None:
    """Watch the metrics of this process's run."""
    from variations.store.run_folder import RunFolder

    append = RunFolder.append_metrics

    def watched(self, values):
        append(self, values)
        strike(faults, self.path.name, int(values.get("step", 0)))

    RunFolder.append_metrics = watched


if "variations.commands.run" in sys.orig_argv and "VARIATIONS_TEST_FAULTS" in os.environ:
    arm(Path(os.environ["VARIATIONS_TEST_FAULTS"]))
