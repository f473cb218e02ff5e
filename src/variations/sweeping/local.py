"""Runs on this machine, each in its own process: one per GPU, several per GPU, or several on the CPU.

A run ends with the sweep that started it (on Linux also if the sweep is killed), so none is left behind; the same
command continues it from its last checkpoint.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from variations.store.ledger import RunFolder
from variations.store.process_identity import Process
from variations.sweeping.pool import Ended, PooledRun
from variations.system.errors import UserError
from variations.system.processes import PARENT, environment, signal_name, threads_each

PLACES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK")
"""Variables that would make a run act as one of several ranks."""


@dataclass
class _Own:
    run: PooledRun
    popen: subprocess.Popen[bytes]
    gpus: tuple[str, ...] = ()


@dataclass
class LocalPool:
    """A pool of this machine's GPUs, or of its cores."""

    at_once: int | None = None
    """Largest number of runs at the same time; None: as many as fit the GPUs, or one on the CPU."""
    gpus: Sequence[str] = ()
    """GPUs as CUDA_VISIBLE_DEVICES names them; empty: runs use the CPU."""
    per_gpu: int = 1
    """Runs that share a GPU."""
    devices: int = 1
    """GPUs per run."""
    name: str = "local"
    outlives: bool = False
    own: list[_Own] = field(default_factory=list)
    adopted: dict[str, PooledRun] = field(default_factory=dict)
    """Runs of other sweeps on this machine, by the keys of their processes."""

    def __post_init__(self) -> None:
        if self.gpus and self.devices > len(self.gpus):
            raise UserError(
                f"trainer.devices={self.devices}, but there are {len(self.gpus)} GPUs here ({', '.join(self.gpus)}): "
                "ask for fewer."
            )

    def room(self) -> int:
        """See `Pool`."""
        busy = len(self.own) + len(self.adopted)
        most = self.at_once if self.at_once is not None else sys.maxsize if self.gpus else 1
        if self.gpus:
            loads = sorted(self._load(gpu) for gpu in self.gpus)
            free = sum(max(0, self.per_gpu - load) for load in loads) // self.devices
            fits = sum(load < self.per_gpu for load in loads) >= self.devices
            unknown = sum(not _gpus_of(key) for key in self.adopted)  # somewhere
            return max(0, min(free - unknown, most - busy)) if fits else 0
        return max(0, most - busy)

    def threads(self) -> int | None:
        """Return each run's CPU threads when several share the cores, or in a job of Slurm; None: no limit."""
        fit = max(1, len(self.gpus) * self.per_gpu // self.devices)
        return threads_each(min(self.at_once or fit, fit) if self.gpus else self.at_once or 1)

    def submit(self, run: PooledRun) -> str:
        """See `Pool`."""
        gpus = tuple(sorted(self.gpus, key=self._load)[: run.devices])
        place = {PARENT: str(os.getpid()), "PYTHONUNBUFFERED": "1"}
        if gpus:
            place["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        if threads := self.threads():
            place["OMP_NUM_THREADS"] = str(threads)
        variables = {key: value for key, value in environment(place).items() if key not in PLACES}
        with RunFolder(run.folder).log.open("ab") as log:
            # A session of its own: Ctrl-C reaches it through `stop`, once.
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "variations.commands.run", str(run.folder)],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.own.append(_Own(run, popen, gpus))
        return Process.of(popen.pid).key

    def alive(self, key: str) -> bool | None:
        """See `Pool`; unknown for processes of other machines."""
        process = Process.from_key(key)
        return None if process is None else process.alive()

    def adopt(self, run: PooledRun, key: str) -> None:
        """See `Pool`: a run of another sweep on this machine."""
        self.adopted[key] = run

    def ended(self) -> list[Ended]:
        """See `Pool`."""
        gone = [one for one in self.own if one.popen.poll() is not None]
        self.own = [one for one in self.own if one.popen.returncode is None]
        lost = [key for key in self.adopted if not self.alive(key)]
        return [
            *(Ended(one.run, one.popen.returncode, _reason(one.popen.returncode)) for one in gone),
            *(Ended(self.adopted.pop(key), None) for key in lost),
        ]

    def stop(self) -> None:
        """See `Pool`; a second Ctrl-C ends the runs without saving. Runs of another sweep are left alone."""
        for one in self.own:
            one.popen.send_signal(signal.SIGINT)
        while any(one.popen.poll() is None for one in self.own):
            try:
                for one in self.own:
                    one.popen.wait()
            except KeyboardInterrupt:
                for one in self.own:
                    one.popen.send_signal(signal.SIGINT)

    def _load(self, gpu: str) -> int:
        return sum(gpu in one.gpus for one in self.own) + sum(gpu in _gpus_of(key) for key in self.adopted)


def _gpus_of(key: str) -> tuple[str, ...]:
    """The GPUs that a process of this machine was started with; empty if that is not known."""
    process, name = Process.from_key(key), "CUDA_VISIBLE_DEVICES="
    try:
        given = Path(f"/proc/{process.pid}/environ").read_text(errors="replace") if process else ""
    except OSError:
        return ()
    found = next((line.removeprefix(name) for line in given.split("\0") if line.startswith(name)), "")
    return tuple(filter(None, found.split(",")))


def visible_gpus(accelerator: str) -> list[str]:
    """Return the GPUs that runs with `trainer.accelerator` may use, as CUDA_VISIBLE_DEVICES names them."""
    if accelerator == "cpu":
        return []
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    return named[:count] or [str(number) for number in range(count)]


def on_gpus(accelerator: str) -> bool:
    """Return whether runs with `trainer.accelerator` use GPUs: `auto` does so where there are some."""
    return accelerator == "gpu" or bool(visible_gpus(accelerator))


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed by SIGKILL, probably because the machine ran out of memory"
    return f"ended by {signal_name(-code)}" if code < 0 else ""
