"""Runs as jobs of a Slurm cluster, submitted through submitit as arrays.

Jobs outlive the sweep that submitted them: Ctrl-C leaves them in the queue, and the same command follows them again.
A job runs `slurm_job.py`.
"""

import os
import re
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.store.atomic import read_object, told_if_unwritable, write_json
from variations.sweeping import slurm_job
from variations.sweeping.pool import Ended, PooledRun
from variations.sweeping.settings import SlurmSettings
from variations.sweeping.slurm_queue import NoAnswerError, Queue, Seen, ask, cluster, comment_of, told_if_silent, user
from variations.sweeping.supervise import uses_gpus
from variations.system.errors import ConfigError, ExitCode, UserError
from variations.system.processes import signal_name

MOST_WAITING = 1000
"""Largest number of runs in the queue; Slurm's default MaxArraySize allows no larger array."""
JOB = "job.json"
"""File in the folder of Slurm's files, written once an array is submitted: its number, its user and its runs."""
PATIENCE = 30.0
"""Seconds until a submission that Slurm refused temporarily is tried again."""
PASSING = ("socket timed out", "unable to contact", "temporarily", "try again", "connection refused")
"""Words in a refusal of sbatch that is temporary."""
FULL = "submit limit"
"""Words in a refusal for want of room in the queue, which the end of other runs makes."""


@dataclass
class _Batch:
    """Runs of the same size, which become one array."""

    word: str
    size: tuple[int, int, int]
    """Devices, nodes, GPUs on each machine."""
    runs: list[PooledRun] = field(default_factory=list)
    attempts: int = 0
    """How often it was handed to sbatch."""
    retry: float = 0.0
    """When to try again, if Slurm refused it."""


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


@dataclass
class SlurmPool:
    """A pool in Slurm's queue.

    Raises:
        ConfigError: Settings are invalid.
        UserError: This machine is not part of a cluster, or Slurm does not answer.
    """

    settings: SlurmSettings
    runs: Path
    """Root of the run store; Slurm's files are kept in `.slurm-USER/` below it. All machines must see it."""
    say: Callable[[str], None] = _say
    name: str = slurm_job.POOL
    outlives: bool = True
    _open: list[_Batch] = field(default_factory=list)
    _watched: dict[str, PooledRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if found := self.settings.faults():
            raise ConfigError(found)
        self._cluster = cluster()
        self._store = self.runs.expanduser().absolute()
        self._folders: dict[str | None, Path] = {}
        self._queue = Queue(self.settings.poll_s)
        self._told: set[str] = set()
        self._silent = False

    def room(self) -> int:
        """See `Pool`."""
        return MOST_WAITING - len(self._watched)

    def submit(self, run: PooledRun) -> str:
        """See `Pool`: the run is part of the array that the next call of `ended` hands to Slurm.

        Its key contains a word that is put into the job's comment, and so always identifies the job.
        """
        size = (run.devices, run.nodes, self._gpus(run))
        batch = next((batch for batch in self._open if batch.size == size and not batch.retry), None)
        if batch is None:
            batch = _Batch(secrets.token_hex(5), size)
            self._open.append(batch)
        key = f"{self._cluster}/{batch.word}_{len(batch.runs)}"
        batch.runs.append(run)
        self._watched[key] = run
        return key

    def alive(self, key: str) -> bool | None:
        """See `Pool`."""
        name, number = self._parts(key)
        if name is None:
            return None
        if any(batch.word == name for batch in self._open):
            return True
        if not self._queue.refresh(at_most=min(2.0, self.settings.poll_s)):
            return True  # unknown: a job may wait or run after its sweep has ended
        if self._is_live((name, number)):
            return True
        # Another sweep may not have submitted it yet; then it is live if that sweep is.
        submitted, has_ended = read_object(self._folder(name) / JOB), self._note(name, number).exists()
        if submitted is None and not has_ended:
            return None
        if submitted is not None and not has_ended and submitted.get("user", user()) != user():
            return None  # Slurm was not asked about another user's jobs: the lease will tell
        # It may have been submitted since Slurm's last answer: it is gone only if a later answer lacks it.
        return not self._queue.refresh(at_most=0.0) or self._is_live((name, number))

    def adopt(self, run: PooledRun, key: str) -> None:
        """See `Pool`."""
        self._watched[key] = run

    def ended(self) -> list[Ended]:
        """See `Pool`. Submits to Slurm what was added since the last call.

        Raises:
            UserError: Slurm refuses the jobs permanently.
        """
        for batch in list(self._open):
            if time.monotonic() >= batch.retry:
                self._hand_over(batch)
        waiting = {batch.word for batch in self._open}
        keys = [key for key in self._watched if self._parts(key)[0] not in waiting]
        if not keys or not self._answers():
            return []
        gone = [key for key in keys if not self._is_live(self._parts(key))]
        self._tell_of_held(keys)
        return [self._end(key) for key in gone]

    def stop(self) -> None:
        """See `Pool`: jobs stay in the queue."""
        dropped = sum(len(batch.runs) for batch in self._open)
        tried = unknown = any(batch.attempts for batch in self._open)  # until Slurm has answered
        with suppress(KeyboardInterrupt):  # a second Ctrl-C: what is known already is told
            self._queue.refresh(at_most=0.0)
            for batch in self._open:
                self._withdraw(batch)
            unknown = tried and self._queue.fault is not None
        for batch in list(self._open):
            self._forget(batch)
        jobs = [job for key in self._watched if (job := self._job(key)) is not None]
        if self._watched:
            count = len(self._watched)
            stay, them = (f"{count} runs stay in Slurm's queue and continue", "them")
            if count == 1:
                stay, them = "1 run stays in Slurm's queue and continues", "it"
            self.say(
                f"{stay}. The same command follows {them} again. To end {them}: "
                f"scancel {' '.join(sorted(jobs)) or '(ask squeue --me)'}"
            )
        runs = f"{dropped} run{'s' if dropped > 1 else ''}"
        if dropped and unknown:
            self.say(f"It is unknown whether Slurm has {runs} more: see squeue --me.")
        elif dropped:
            self.say(f"Not yet submitted to Slurm: {runs}; the same command submits them.")

    # Submitting -----------------------------------------------------------------------------------------------------

    def _gpus(self, run: PooledRun) -> int:
        if self.settings.gpus_per_node is not None:
            return self.settings.gpus_per_node
        return run.devices if uses_gpus(run.folder) else 0

    def _hand_over(self, batch: _Batch) -> None:
        self._withdraw(batch)
        try:
            refusal = self._sbatch(batch)
        except OSError as error:
            self._withdraw(batch)
            self._forget(batch)
            if error.filename is None or self._store not in Path(os.fsdecode(error.filename)).parents:
                raise UserError(f"sbatch cannot be started: {error.strerror or error}.") from error
            with told_if_unwritable(self._folder(batch.word), "; choose another place with runs=DIR."):
                raise
        if refusal is None:
            self._open.remove(batch)
            self._queue.asked = float("-inf")
            return
        said, several, others = refusal.lower(), len(batch.runs) > 1, len(self._watched) > len(batch.runs)
        passing = any(word in said for word in PASSING) and (several or others)
        if not passing and not (FULL in said and others):
            self._withdraw(batch)
            self._forget(batch)
            fewer = ""
            if FULL in said:
                fewer = "If other jobs of yours fill the queue, repeat the command when some have ended. "
                fewer += "sweep.at_once=N keeps at most N runs in the queue. " if several else ""
            raise UserError(
                f"Slurm refuses the jobs: {refusal}. {fewer}Partition, account, time and other resources are keys of "
                "hydra.launcher, such as hydra.launcher.partition=NAME; `sinfo -s` lists the partitions, "
                "docs/cluster.md the keys."
            )
        self.say(f"Slurm refuses {len(batch.runs)} runs for now ({refusal}); trying again.")
        batch.retry = time.monotonic() + PATIENCE

    def _withdraw(self, batch: _Batch) -> None:
        """Cancel the jobs of a submission that seemed to fail: if only the answer was lost, they have no orders."""
        if not batch.attempts:
            return
        self._queue.refresh(at_most=0.0)
        found = [seen for (word, _), seen in self._queue.jobs.items() if word == batch.word and seen.live]
        if not found:
            return
        self._queue.asked = float("-inf")
        jobs = " ".join(sorted({seen.job.partition("_")[0] for seen in found}))
        try:
            ask("scancel", *jobs.split())
        except NoAnswerError as error:
            self.say(f"Slurm has taken runs although sbatch failed, and they cannot start ({error}): scancel {jobs}")

    def _forget(self, batch: _Batch) -> None:
        """Forget runs that were not handed over."""
        self._open.remove(batch)
        for number in range(len(batch.runs)):
            self._watched.pop(self._key(batch.word, number), None)

    def _sbatch(self, batch: _Batch) -> str | None:
        """Submit an array; return Slurm's message if it refused."""
        import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        folder = self._folder(batch.word)
        orders = [
            slurm_job.Order(
                str(run.folder), str(self._note(batch.word, number)), self._key(batch.word, number), run.name
            )
            for number, run in enumerate(batch.runs)
        ]
        executor = submitit.SlurmExecutor(folder)
        executor.update_parameters(**self._parameters(batch))
        batch.attempts += 1
        try:
            with told_if_silent("sbatch", self.say):
                jobs = executor.map_array(slurm_job.work, orders)
        except (FailedJobError, FailedSubmissionError) as error:
            shutil.rmtree(folder, ignore_errors=True)  # no job finds its orders by now: sbatch has not told its number
            return _last_line(str(error))
        number = jobs[0].job_id.partition("_")[0]
        write_json(folder / JOB, {"job": number, "user": user(), "runs": [order.folder for order in orders]})
        count = len(orders)
        first, last = batch.runs[0].name, batch.runs[-1].name
        which = f": {number}_0 is {first}, {number}_{count - 1} is {last}" if count > 1 else ""
        self.say(f"{count} run{'s' if count > 1 else ''} in Slurm's queue as job {number}{which}.")
        return None

    def _parameters(self, batch: _Batch) -> dict[str, Any]:
        chosen, (devices, nodes, gpus) = self.settings, batch.size
        values: dict[str, Any] = {
            "job_name": batch.runs[0].name if len(batch.runs) == 1 else "variations",
            "partition": chosen.partition,
            "account": chosen.account,
            "qos": chosen.qos,
            "time": chosen.time_min,
            "mem": None if chosen.mem_gb is None else f"{round(1024 * chosen.mem_gb)}M",
            "nodes": nodes,
            "ntasks_per_node": 1,
            "cpus_per_task": chosen.cpus * devices,
            "gpus_per_node": gpus or None,
            "array_parallelism": chosen.array_parallelism,
            "signal_delay_s": chosen.signal_delay_s,
            "comment": comment_of(batch.word, batch.attempts),
            "stderr_to_stdout": True,
            "setup": _setup(chosen),
            "srun_args": [f"--cpus-per-task={chosen.cpus * devices}"],  # srun has not inherited it since Slurm 22.05
        }
        options = {
            key.replace("_", "-"): value for key, value in (chosen.additional or {}).items() if value is not None
        }
        return {
            **{key: value for key, value in values.items() if value is not None},
            "wckey": None,  # submitit's own value would be refused by clusters that check such keys
            "additional_parameters": {"requeue": True, **options},
        }

    # Watching -------------------------------------------------------------------------------------------------------

    def _key(self, word: str, number: int) -> str:
        return f"{self._cluster}/{word}_{number}"

    def _parts(self, key: str) -> tuple[str | None, int]:
        """The word and the number of a key of this cluster; None for others."""
        match = re.fullmatch(r"(.+)/([0-9a-f]+)_(\d+)", key)
        return (match[2], int(match[3])) if match and match[1] == self._cluster else (None, 0)

    def _folder(self, word: str | None) -> Path:
        """The folder of an array's files; other users, and an older version, have theirs elsewhere in the store."""
        found = self._folders.get(word) or next(self._store.glob(f".slurm*/{word}"), None)
        if found is None:
            return self._store / f".slurm-{user()}" / f"{word}"
        return self._folders.setdefault(word, found)

    def _note(self, word: str | None, number: int) -> Path:
        return self._folder(word) / f"{number}.json"

    def _is_live(self, part: tuple[str | None, int]) -> bool:
        seen = self._seen(part)
        return seen is not None and seen.live

    def _seen(self, part: tuple[str | None, int]) -> Seen | None:
        return None if part[0] is None else self._queue.jobs.get((part[0], part[1]))

    def _job(self, key: str) -> str | None:
        """The number for `scancel`: by Slurm's latest answer, else as it was at the submission."""
        word, number = self._parts(key)
        if (seen := self._seen((word, number))) is not None:
            return seen.job
        submitted = read_object(self._folder(word) / JOB) if word is not None else None
        return None if submitted is None else f"{submitted.get('job')}_{number}"

    def _end(self, key: str) -> Ended:
        part, run = self._parts(key), self._watched.pop(key)
        seen, note = self._seen(part), read_object(self._note(*part))
        if note is not None:
            reason = str(note.get("reason") or "")
            return Ended(run, note.get("code"), reason or _by_signal(note.get("code"), note.get("job")))
        return _without_note(run, seen)

    def _answers(self) -> bool:
        """Query Slurm if its last answer is too old; report once when it stops answering, and when it answers again."""
        silent = self._silent
        self._silent = not self._queue.refresh()
        if self._silent and not silent:
            self.say(f"Slurm does not answer ({self._queue.fault}): its jobs continue, and the sweep keeps trying.")
        elif silent and not self._silent:
            self.say("Slurm answers again.")
        return not self._silent

    def _tell_of_held(self, keys: Sequence[str]) -> None:
        """Report once which jobs will not start by themselves, and why."""
        held: dict[tuple[str, bool], list[str]] = {}
        for key in keys:
            seen = self._seen(self._parts(key))
            if seen is None or seen.state not in ("PENDING", *HELD) or seen.job in self._told:
                continue
            if seen.state in HELD or any(word in seen.reason for word in NEVER):
                self._told.add(seen.job)
                by_us = seen.state in HELD or "held" in seen.reason.lower() or "Hold" in seen.reason
                held.setdefault((seen.reason, by_us and "Admin" not in seen.reason), []).append(seen.job)
        for (reason, by_us), jobs in held.items():
            subject = f"Slurm job {jobs[0]} will not start by itself"
            if len(jobs) > 1:
                subject = f"Slurm jobs {', '.join(jobs)} will not start by themselves"
            release = f"; scontrol release {' '.join(jobs)} lets held jobs start" if by_us else ""
            self.say(f"{subject} ({reason}): see scontrol show job {jobs[0]}{release}")


HELD = ("REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
"""States of jobs that Slurm holds."""
NEVER = (
    *("Held", "held", "Hold", "BadConstraints", "DependencyNeverSatisfied"),
    *("PartitionConfig", "PartitionTimeLimit", "PartitionNodeLimit"),
)
"""Words in the reason that Slurm gives for a waiting job which will never start."""


def _without_note(run: PooledRun, seen: Seen | None) -> Ended:
    """Describe the end of a job that left no note."""
    if seen is None:
        return Ended(run, None, "its Slurm job disappeared without a message")
    job, state = f"Slurm job {seen.job}", seen.state
    match state:
        case "PREEMPTED":
            return Ended(run, ExitCode.PREEMPTED, f"preempted ({job})")
        case "CANCELLED":
            return Ended(run, ExitCode.TERMINATED, f"cancelled ({job})")
        case "OUT_OF_MEMORY":
            return Ended(run, None, f"out of memory ({job}): raise hydra.launcher.mem_gb")
        case "TIMEOUT" | "DEADLINE":
            return Ended(
                run,
                None,
                f"it reached its time limit before it could save ({job}): raise hydra.launcher.signal_delay_s",
            )
        case "NODE_FAIL" | "BOOT_FAIL":
            return Ended(run, None, f"its machine failed ({job})")
    return Ended(run, None, f"ended as {state} ({job})")


def _by_signal(code: Any, job: Any) -> str:
    if code == -9:
        return f"killed by SIGKILL, probably because memory ran out: raise hydra.launcher.mem_gb (Slurm job {job})"
    if code in (-15, ExitCode.TERMINATED):
        return f"stopped by SIGTERM before it began, as scancel does (Slurm job {job})"
    if isinstance(code, int) and code < 0:
        return f"ended by {signal_name(-code)} (Slurm job {job})"
    return f"Slurm job {job}" if code else ""


def _setup(settings: SlurmSettings) -> list[str]:
    """Return lines for the batch script; names are validated and values quoted."""
    source = str(Path(__file__).resolve().parents[2])
    paths: Mapping[str, str] = {"PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    exports = {**paths, "OMP_NUM_THREADS": str(settings.cpus), **(settings.environment or {})}
    return [
        *(f"module load {name}" for name in settings.modules),
        *(f"export {name}={shlex.quote(str(value))}" for name, value in exports.items()),
    ]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return (told or lines or ["sbatch failed"])[-1].removeprefix("sbatch: error: ").rstrip(".")
