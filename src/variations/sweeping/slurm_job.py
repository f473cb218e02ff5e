"""What Slurm starts on each machine of a run: the supervisor of `variations.commands.run`.

Before the end of a job Slurm sends SIGUSR2. The run then saves at the end of the update, on all ranks, and ends; the
supervisor keeps the run's lease in the name of the job and asks Slurm to requeue it. The run continues where it
stopped. Since accounting may be off, a note beside Slurm's files contains everything that the sweep must know.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

from variations.store import lease
from variations.store.atomic import read_object, write_json
from variations.store.ledger import RunFolder
from variations.sweeping import supervise
from variations.system import processes
from variations.system.errors import ExitCode

FRUITLESS = 3
"""Consecutive preemptions without a new checkpoint after which a run counts as failed."""
RENAMING_SECONDS = 60.0
"""How long a run waits for its name in the queue."""
FIRST_PORT, PORTS = 20_000, 40_000
POOL = "slurm"


@dataclass(frozen=True)
class Order:
    """What a job has to do."""

    folder: str
    """The run's folder."""
    note: str
    """File for the job's final message."""
    key: str
    name: str


def work(order: Order) -> None:
    """Execute one run; exits with its exit code."""
    node, nodes = int(os.environ.get("SLURM_NODEID", 0)), int(os.environ.get("SLURM_JOB_NUM_NODES", 1))
    if node > 0:
        sys.exit(_follow(order, node, nodes))
    folder, note = RunFolder(order.folder), Path(order.note)
    for stale in (note, *_notes_of_others(note, nodes)):
        stale.unlink(missing_ok=True)
    _rename_job(order.name)
    if not keep_lease(folder.path, order.key) and _queued_for_another(folder.path, order.key):
        reason = f"job {job_id()} started too late: the run was submitted again meanwhile"
        write_json(note, {"code": ExitCode.HELD, "reason": reason, "job": job_id()})
        sys.exit(ExitCode.HELD)
    before, failures = folder.newest_checkpoint(), folder.failures()
    code = supervise.run(
        folder.path, meeting_place(nodes), key=order.key, give_up=lambda: _other_failed(note, nodes) is not None
    )
    if code == ExitCode.TERMINATED and _runs_on():
        # SIGTERM, but the job was not cancelled: it is being preempted, within a grace period. A job that ends in that
        # period counts as completed, and Slurm would not requeue it.
        code = ExitCode.PREEMPTED
    elif code == ExitCode.PREEMPTED and _cancelled():
        code = ExitCode.TERMINATED  # by scancel while the run saved: requeued, the job would come back
    if code == ExitCode.PREEMPTED and keep_lease(folder.path, order.key):
        code, reason = _again(folder, order.key, note, before, failures)
    else:
        code, reason = _with_others(folder, order.key, code, _other_failed(note, nodes), failures)
    write_json(note, {"code": code, "reason": reason, "job": job_id()})
    sys.exit(code if code >= 0 else 128 - code)


def job_id() -> str:
    """Return the job's number in the form that `scancel` accepts: `17` or `17_3`."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID", "?")


def meeting_place(nodes: int) -> dict[str, str]:
    """Return the first machine's address, with a port derived from the job's number, for the ranks of all machines."""
    if nodes == 1:
        return {}
    first = subprocess.run(
        ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    address = subprocess.run(
        ["scontrol", "show", "node", "--oneliner", first], capture_output=True, text=True, check=True
    ).stdout
    addresses = [word.partition("=")[2] for word in address.split() if word.startswith("NodeAddr=")]
    port = FIRST_PORT + int(os.environ["SLURM_JOB_ID"]) % PORTS
    return {
        "MASTER_ADDR": addresses[0] if addresses else first,
        "MASTER_PORT": str(port),
        "NODE_RANK": os.environ["SLURM_NODEID"],
    }


def keep_lease(folder: Path, key: str) -> bool:
    """Hold the run's lease in the name of this job while it is queued or starts; False if another process holds it."""
    found = lease.read(folder)
    if found is not None and found.state == "queued":
        return found.key == key
    if found is not None and found.key not in (key, None):
        return False
    if found is not None and found.state == "running" and found.key is None:
        return False  # held by another process, or damaged: the run itself will wait for it and report
    return lease.Lease.claim(folder, found, "queued", pool=POOL, key=key) is not None


def _queued_for_another(folder: Path, key: str) -> bool:
    """Return whether the run's lease is held for another job."""
    found = lease.read(folder)
    return found is not None and found.state == "queued" and found.key not in (key, None)


def _follow(order: Order, node: int, nodes: int) -> int:
    """Execute the share of a machine other than the first; report a failure to the first."""
    note = _notes_of_others(Path(order.note), nodes)[node - 1]
    code = supervise.run(Path(order.folder), meeting_place(nodes), log=f"log.node{node}.txt")
    if code and code not in supervise.SAVED:
        write_json(note, {"code": code, "reason": processes.reason_of(Path(order.folder), code), "job": job_id()})
    return 0  # the first machine's process ends last, and its code is the job's


def _notes_of_others(note: Path, nodes: int) -> list[Path]:
    return [note.with_name(f"{note.stem}.node{node}.json") for node in range(1, nodes)]


def _other_failed(note: Path, nodes: int) -> Path | None:
    return next((path for path in _notes_of_others(note, nodes) if path.exists()), None)


def _with_others(folder: RunFolder, key: str, code: int, other: Path | None, failures: int) -> tuple[int, str]:
    """Return the code and reason of a run; if the part of another machine failed, so did the run."""
    if other is None:
        return code, ""
    told = read_object(other) or {}
    reason = f"on another machine of the job: {told.get('reason') or 'its process ended'}"
    _declare_failed(folder, key, reason, failures)
    return int(told.get("code") or ExitCode.FAILED), reason


def _declare_failed(folder: RunFolder, key: str, reason: str, failures: int) -> None:
    """Record that the run, which had failed `failures` times before this job, has failed, unless another holds it."""
    if keep_lease(folder.path, key):
        folder.declare_failed(reason, lease.read(folder.path), before=failures)


def _again(folder: RunFolder, key: str, note: Path, before: int | None, failures: int) -> tuple[int, str]:
    """Ask Slurm to requeue the job. Returns only if the run cannot continue in this job."""
    counter = note.with_name(f"{note.stem}.fruitless.json")
    fruitless = (read_object(counter) or {}).get("times", 0) + 1 if folder.newest_checkpoint() == before else 0
    write_json(counter, {"times": fruitless})
    if fruitless >= FRUITLESS:
        reason = (
            f"was preempted {FRUITLESS} times without reaching a new checkpoint: raise hydra.launcher.time_min, or "
            "hydra.launcher.signal_delay_s if there is not enough time to save."
        )
        _declare_failed(folder, key, reason, failures)
        return int(ExitCode.FAILED), reason
    done = subprocess.run(["scontrol", "requeue", job_id()], capture_output=True, text=True)
    if done.returncode:
        return int(ExitCode.PREEMPTED), f"Slurm did not requeue job {job_id()}: {' '.join(done.stderr.split())}"
    time.sleep(600)  # Slurm ends this process, and restarts it when it can
    return int(ExitCode.PREEMPTED), f"Slurm did not end job {job_id()}, which it was asked to requeue"


def _runs_on() -> bool:
    """Whether Slurm still considers this job running: neither cancelled nor out of time."""
    return "JobState=RUNNING" in _described()


def _cancelled() -> bool:
    """Whether Slurm is ending this job, neither at its time limit nor for a more urgent one."""
    found = _described()
    preempted = any(word.startswith("PreemptTime=") and word != "PreemptTime=None" for word in found)
    ends = not {"JobState=COMPLETING", "JobState=CANCELLED"}.isdisjoint(found)
    return ends and "Reason=TimeLimit" not in found and not preempted


def _described() -> list[str]:
    """What Slurm knows of this job: `JobState=RUNNING`, `Reason=None`, …; empty if it does not answer."""
    done = subprocess.run(["scontrol", "show", "job", "--oneliner", job_id()], capture_output=True, text=True)
    return done.stdout.split()


def _rename_job(name: str) -> None:
    """Make `squeue` show the row instead of the name that all jobs of an array share."""
    # Not by SLURM_JOB_ID, which can be the number of the whole array: that would rename all of its jobs.
    command = ["scontrol", "update", f"JobId={job_id()}", f"JobName={name}"]
    with suppress(OSError, TimeoutExpired):  # the run starts all the same, under the array's name
        subprocess.run(command, capture_output=True, timeout=RENAMING_SECONDS)  # a refusal does no harm
