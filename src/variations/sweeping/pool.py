"""Where the runs of a sweep are executed: what a sweep requires from this machine, Slurm or Ray.

In every pool, a run is `python -m variations.commands.run FOLDER`, in the sweep's working directory (data paths may be
relative to it), with its output appended to the folder's `log.txt`. On several nodes it is started on each, with
NODE_RANK, MASTER_ADDR and MASTER_PORT in the environment; it starts its own processes, one per device. The folder
contains the frozen configuration. Only the files that the run writes there, above all `status.json`, say how it ended;
a pool merely starts processes and notices when they end.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class PooledRun:
    """One run to execute."""

    folder: Path
    """Its run folder, absolute, with `config.yaml` frozen in it."""
    name: str
    """Its name in queues and messages, such as `A_h16-seed1`."""
    devices: int = 1
    """GPUs on each machine; on a CPU, processes."""
    nodes: int = 1


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    run: PooledRun
    code: int | None
    """Exit code; negative: the signal that ended it; None: unknown to the pool."""
    reason: str = ""
    """What else the pool knows, such as `out of memory (Slurm job 17)`."""


class Pool(Protocol):
    """A place where runs are executed."""

    name: str

    @property
    def outlives(self) -> bool:
        """Whether runs are kept when the sweep that submitted them ends."""
        ...

    def room(self) -> int:
        """Return how many more runs can be submitted now."""
        ...

    def submit(self, run: PooledRun) -> str:
        """Start a run, or queue it, and return the key by which any later process can find it (`1234@host`, a job id).

        Raises:
            UserError: The pool does not accept it; the message says why.
        """
        ...

    def alive(self, key: str) -> bool | None:
        """Return whether a run submitted under `key`, possibly by another process, is queued or runs; None: unknown."""
        ...

    def adopt(self, run: PooledRun, key: str) -> None:
        """Watch a run that an earlier sweep process submitted, as if this one had."""
        ...

    def ended(self) -> list[Ended]:
        """Return the runs that ended since the last call, without waiting."""
        ...

    def stop(self) -> None:
        """Ask all runs to save and end, and wait for them; a queue may keep them running and say so."""
        ...
