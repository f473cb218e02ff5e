"""What Slurm says of our jobs: one `squeue` for all of them, never one for each.

Jobs are found by a word in their comment, which was chosen before they were submitted: so a sweep that died between
`sbatch` and writing the job's number down still finds them. Accounting (`sacct`) is not needed.
"""

import getpass
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from variations.system.errors import UserError

MARK = "variations:"
"""Comments of our jobs begin with this."""
LIVE = frozenset(
    [
        "PENDING",
        "RUNNING",
        "CONFIGURING",
        "COMPLETING",
        "REQUEUED",
        "REQUEUE_HOLD",
        "REQUEUE_FED",
        "SUSPENDED",
        "STOPPED",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
        "SPECIAL_EXIT",
        "RESV_DEL_HOLD",
    ]
)
FORMAT = "ArrayJobID:24,ArrayTaskID:12,State:24,Reason:60,Comment:64"
WIDTHS = (24, 12, 24, 60, 64)
SECONDS = 60.0
"""How long a command of Slurm may take before it counts as unanswered."""


class NoAnswerError(Exception):
    """Slurm's controller does not answer just now."""


@dataclass(frozen=True)
class Seen:
    """One job, or one element of an array."""

    job: str
    """For `scancel` and people: `17`, or `17_3`."""
    state: str
    """As `RUNNING`."""
    reason: str
    """Why it waits, if it does."""

    @property
    def live(self) -> bool:
        """Whether it waits or runs."""
        return self.state in LIVE


def ask(*command: str) -> str:
    """Return what a command of Slurm prints.

    Raises:
        NoAnswerError: The command failed or took too long.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoAnswerError(str(error)) from error
    if done.returncode:
        raise NoAnswerError(" ".join(done.stderr.split()) or f"{command[0]} ended with code {done.returncode}")
    return done.stdout


def cluster() -> str:
    """Return the cluster's name.

    Raises:
        UserError: This is no machine of a Slurm cluster, or its controller does not answer.
    """
    absent = [name for name in ("sbatch", "squeue", "srun", "scontrol") if shutil.which(name) is None]
    if absent:
        raise UserError(
            f"hydra/launcher=slurm: {', '.join(absent)} not found on this machine: start the sweep on a login node of "
            "a Slurm cluster, or use hydra/launcher=local."
        )
    try:
        lines = ask("scontrol", "show", "config").splitlines()
    except NoAnswerError as error:
        raise UserError(
            f"hydra/launcher=slurm: Slurm does not answer ({error}): try again when `sinfo` works."
        ) from error
    names = [line.partition("=")[2].strip() for line in lines if line.split("=")[0].strip() == "ClusterName"]
    return names[0] if names else "slurm"


def parse(lines: Sequence[str]) -> dict[tuple[str, int], Seen]:
    """Read what `squeue` printed in `FORMAT`: our jobs by (word in the comment, number in the array)."""
    found: dict[tuple[str, int], Seen] = {}
    for line in lines:
        cells, start = [], 0
        for width in WIDTHS:
            cells.append(line[start : start + width].strip())
            start += width
        job, element, state, reason, comment = cells
        if not comment.startswith(MARK):
            continue
        number = int(element) if element.isdigit() else 0
        name = f"{job}_{element}" if element.isdigit() else job
        found[comment.removeprefix(MARK), number] = Seen(name, state, reason)
    return found


def our_jobs() -> dict[tuple[str, int], Seen]:
    """Return all jobs of this user that a sweep has submitted and Slurm still remembers.

    Raises:
        NoAnswerError: Slurm does not answer just now.
    """
    user = getpass.getuser()
    text = ask("squeue", "--noheader", "--array", "--states=all", f"--user={user}", f"--Format={FORMAT}")
    return parse(text.splitlines())


@dataclass
class Queue:
    """The last answer, asked for anew when it is older than wanted."""

    seconds: float = 10.0
    """How old an answer may be: `squeue` is a burden for a large cluster's controller."""
    look: Callable[[], dict[tuple[str, int], Seen]] = our_jobs
    clock: Callable[[], float] = time.monotonic
    jobs: dict[tuple[str, int], Seen] = field(default_factory=dict)
    asked: float = float("-inf")
    fault: str | None = None
    """Why the last question was not answered."""

    def refresh(self, *, at_most: float | None = None) -> bool:
        """Ask if the answer is older than `at_most` seconds (by default `seconds`); return whether it is known now."""
        if self.clock() - self.asked >= (self.seconds if at_most is None else at_most):
            self.asked = self.clock()
            try:
                self.jobs, self.fault = self.look(), None
            except NoAnswerError as error:
                self.fault = str(error)
        return self.fault is None
