"""A simulated Slurm: a queue that outlives sweeps and restarts jobs that were preempted or lost their machine."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simulated_machines import Simulated, World

from variations.sweeping import slurm, slurm_job, supervise
from variations.sweeping.settings import SlurmSettings
from variations.sweeping.slurm import SlurmPool
from variations.sweeping.slurm_queue import MARK, NoAnswerError, Seen


@dataclass(eq=False)
class Job:
    """An element of a job array."""

    order: slurm_job.Order
    name: str
    """The name for `scancel`, such as `17_0`."""
    state: str = "PENDING"
    process: Simulated | None = None


class Cluster:
    """The queue, its machines, and the commands that pools and jobs send to it.

    Args:
        world: The owner of the machines.
        train: Starts a run for the current job, given its folder, the process and the key.
    """

    def __init__(self, world: World, train: Callable[[str, Simulated, str], Simulated]) -> None:
        self.world, self.train = world, train
        self.jobs: dict[tuple[str, int], Job] = {}
        self.silent_until = 0.0

    def pool(self, root: Path) -> SlurmPool:
        """Return a real pool that uses this cluster."""
        pool = SlurmPool(SlurmSettings(gpus_per_node=0, poll_s=2.0), root, say=lambda text: None)
        pool._queue.look, pool._queue.clock = self.look, self.world.monotonic
        return pool

    def look(self) -> dict[tuple[str, int], Seen]:
        """Stand in for `squeue`."""
        self.world.point()
        if self.world.clock < self.silent_until:
            raise NoAnswerError("Unable to contact slurm controller")
        return {key: Seen(job.name, job.state, "") for key, job in self.jobs.items()}

    def submit(self, word: str, orders: Sequence[slurm_job.Order]) -> list[SimpleNamespace]:
        """Stand in for `sbatch` with a job array."""
        self.world.point()
        number = 10 + len(self.jobs)
        made = [Job(order, f"{number}_{index}") for index, order in enumerate(orders)]
        for index, job in enumerate(made):
            self.jobs[word, index] = job
            self._queue(job)
        self.world.point()
        return [SimpleNamespace(job_id=job.name) for job in made]

    def _queue(self, job: Job) -> None:
        rng, machines = self.world.rng, self.world.machines
        job.state = "PENDING"

        def body() -> int:
            job.state = "RUNNING"
            slurm_job.work(job.order)
            return 0

        job.process = self.world.start(rng.choice(machines), "job", body, delay=rng.choice([0.0, 1.0, 5.0]))

    def ended(self, process: Simulated, code: int) -> None:
        """Handle the end of a process; if it belonged to a job, Slurm may restart or forget that job."""
        job = next((job for job in self.jobs.values() if job.process is process), None)
        if job is None:
            return
        job.process, job.state = None, "COMPLETED" if code == 0 else "FAILED"
        if code == -signal.SIGKILL:
            match self.world.rng.choice(["again", "told", "forgotten"]):
                case "again":
                    self._queue(job)
                case "told":
                    job.state = "NODE_FAIL"
                case "forgotten":
                    self.jobs = {key: other for key, other in self.jobs.items() if other is not job}

    def preempt(self) -> None:
        """Ask a running job's run to save itself."""
        runs = [p for p in self.world.there() if p.what == "run" and p.parent is not None and p.parent.what == "job"]
        if runs:
            victim = self.world.rng.choice(runs)
            victim.asked = signal.SIGUSR2
            self.world.tell(f"{victim} is preempted")

    def command(self, line: Sequence[str], **_: Any) -> SimpleNamespace:
        """Stand in for `scontrol` within a job."""
        self.world.point()
        if line[1] == "requeue":
            job, process = self._mine(), self.world.me
            self._queue(job)
            self.world.exit(process, -signal.SIGTERM)
            self.world.give_way()  # never returns
        return SimpleNamespace(returncode=0, stdout="JobState=RUNNING", stderr="")

    def cancel(self, *command: str) -> str:
        """Stand in for `scancel`, which kills at once here."""
        self.world.point()
        for job in [job for job in self.jobs.values() if job.name.partition("_")[0] in command[1:]]:
            if job.process is not None:
                self.world.exit(job.process, -signal.SIGTERM)
            job.state = "CANCELLED"
        return ""

    def _mine(self) -> Job:
        return next(job for job in self.jobs.values() if job.process is self.world.me)

    def supervise(self, folder: Path, *_: Any, key: str, **__: Any) -> int:
        """Stand in for `supervise.run`."""
        run = self.train(str(folder), self.world.me, key)
        while run.code is None:
            self.world.sleep(1.0)
        return run.code

    def executor(self, folder: Path) -> SimpleNamespace:
        """Stand in for `submitit.SlurmExecutor`."""
        chosen: dict[str, Any] = {}
        return SimpleNamespace(
            update_parameters=chosen.update,
            map_array=lambda work, orders: self.submit(chosen["comment"].removeprefix(MARK), orders),
        )

    def changes(self, clock: SimpleNamespace) -> dict[Any, dict[str, Any]]:
        """Return the system replacements for the modules that talk to Slurm."""
        return {
            slurm: {"time": clock, "cluster": lambda: "cluster", "ask": self.cancel},
            slurm_job: {
                "time": clock,
                "job_id": lambda: self._mine().name,
                "subprocess": SimpleNamespace(run=self.command),
            },
            supervise: {"run": self.supervise},
        }

    @contextmanager
    def submitit(self) -> Iterator[None]:
        """Replace the library that submits jobs."""
        errors = SimpleNamespace(FailedJobError=RuntimeError, FailedSubmissionError=RuntimeError)
        modules = {"submitit": SimpleNamespace(SlurmExecutor=self.executor), "submitit.core.utils": errors}
        former = {name: sys.modules.get(name) for name in modules}
        try:
            sys.modules.update(modules)  # type: ignore[arg-type]
            yield
        finally:
            for name, module in former.items():
                del sys.modules[name]
                if module is not None:
                    sys.modules[name] = module
