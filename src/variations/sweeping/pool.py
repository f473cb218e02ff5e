"""Where the runs of a sweep are done: what a sweep asks of this machine, of Slurm or of Ray.

Whatever the pool, a run is `python -m variations.commands.run FOLDER`, in the sweep's working directory (data may be
named from there), with all it prints added to the folder's `log.txt`. On several nodes it is started on each, with
NODE_RANK, MASTER_ADDR and MASTER_PORT in the environment; it starts its own processes, one a device. The folder holds
the frozen configuration, and what the run leaves there (`status.json` before all) is the only truth about how it
ended. A pool merely starts processes and notices that they are gone.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Task:
    """One run to be done."""

    folder: Path
    """Its run folder, absolute, with `config.yaml` frozen in it."""
    name: str
    """For people and queues, as `A_h16-seed1`."""
    devices: int = 1
    """GPUs on each machine; on a CPU, processes."""
    nodes: int = 1


@dataclass(frozen=True)
class Ended:
    """A process that is gone."""

    task: Task
    code: int | None
    """Exit code, negative: by that signal; None: the pool cannot tell."""
    reason: str = ""
    """What the pool knows beyond the code, as `out of memory (Slurm job 17)`."""


class Pool(Protocol):
    """A place for runs."""

    name: str

    @property
    def outlives(self) -> bool:
        """Whether runs are kept when the sweep that submitted them ends."""
        ...

    def room(self) -> int:
        """Return how many more runs can be submitted now."""
        ...

    def submit(self, task: Task) -> str:
        """Start a run, or queue it, and return the key by which any later process can find it (`1234@host`, a job id).

        Raises:
            UserError: The pool does not take it; the sentence says why.
        """
        ...

    def alive(self, key: str) -> bool | None:
        """Return whether a run submitted under `key`, maybe by another process, waits or runs; None: unknown."""
        ...

    def adopt(self, task: Task, key: str) -> None:
        """Watch a run that an earlier sweep process submitted, as if this one had."""
        ...

    def ended(self) -> list[Ended]:
        """Return the runs that ended since the last call, without waiting."""
        ...

    def stop(self) -> None:
        """Ask all runs to save themselves and end, and wait for them; a queue may leave them running, and say so."""
        ...
