"""Processes that wait for each other, so that each measures while all the others are at work."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

LOOK = 0.005
"""Seconds between looks."""


@dataclass(frozen=True)
class Meeting:
    """Where so many processes meet; whoever started them ends all when one of them fails."""

    folder: Path
    """Theirs alone."""
    count: int = 1

    def at(self, stage: str) -> float:
        """Wait until all have come to `stage`, and return the seconds that it took."""
        began = time.monotonic()
        (self.folder / f"{stage}.{os.getpid()}").touch()
        while sum(1 for _ in self.folder.glob(f"{stage}.*")) < self.count:
            time.sleep(LOOK)
        return time.monotonic() - began
