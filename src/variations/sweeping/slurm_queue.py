"""The state of our jobs in Slurm, from one call of `squeue` for all of them.

Jobs are found by a word in their comment that was chosen before they were submitted, so they are found
even if a sweep died between `sbatch` and recording the job's number. Accounting (`sacct`) is not needed.
"""

import getpass
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
SECONDS = 20.0
"""How long a command of Slurm may take before the user is informed."""


class NoAnswerError(Exception):
    """Slurm's controller does not answer at the moment."""


@dataclass(frozen=True)
class Seen:
    """One job, or one element of an array."""

    job: str
    """The number in the form that `scancel` accepts: `17` or `17_3`."""
    state: str
    """In Slurm's words, such as `RUNNING`."""
    reason: str
    """Why the job is waiting, if it is."""
    attempt: int = 0
    """How often its array had been submitted before."""

    @property
    def live(self) -> bool:
        """Whether it is queued or running."""
        return self.state in LIVE


def ask(*command: str) -> str:
    """Return the output of a command of Slurm.

    Raises:
        NoAnswerError: The command failed or took too long.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(f"{command[0]} gave no answer for {SECONDS:g} s") from error
    except OSError as error:
        raise NoAnswerError(str(error)) from error
    if done.returncode:
        raise NoAnswerError(" ".join(done.stderr.split()) or f"{command[0]} ended with code {done.returncode}")
    return done.stdout


@contextmanager
def told_if_silent(command: str, say: Callable[[str], None]) -> Iterator[None]:
    """Report that a command does not answer, but keep waiting: it may have done its work, so it is not ended."""
    text = f"Slurm does not answer: no answer from {command} for {SECONDS:g} s; the sweep keeps waiting."
    timer = threading.Timer(SECONDS, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cluster() -> str:
    """Return the cluster's name.

    Raises:
        UserError: This machine belongs to no Slurm cluster, or the controller does not answer.
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
            f"hydra/launcher=slurm: Slurm does not answer ({error}): try again when `sinfo` works, on a login node "
            "of the cluster."
        ) from error
    names = [line.partition("=")[2].strip() for line in lines if line.split("=")[0].strip() == "ClusterName"]
    return names[0] if names else "slurm"


def parse(lines: Sequence[str]) -> dict[tuple[str, int], Seen]:
    """Parse the output of `squeue` in `FORMAT`: our jobs by (word in the comment, number in the array).

    Of an array that was submitted several times, only the last one has orders (see `comment_of`).
    """
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
        word, _, attempt = comment.removeprefix(MARK).partition(".")
        seen = Seen(name, state, reason, int(attempt) if attempt.isdigit() else 0)
        if (former := found.get((word, number))) is None or former.attempt <= seen.attempt:
            found[word, number] = seen
    return found


def comment_of(word: str, attempt: int) -> str:
    """Return the comment of an array's jobs.

    Args:
        word: The array's.
        attempt: How often it was submitted before. Slurm may have accepted it then, although its answer was lost; such
            jobs have no orders, and fail.
    """
    return f"{MARK}{word}.{attempt}" if attempt else MARK + word


def user() -> str:
    """Return the name of the user whose jobs `our_jobs` lists."""
    return getpass.getuser()


def our_jobs() -> dict[tuple[str, int], Seen]:
    """Return all jobs of this user that a sweep has submitted and Slurm still lists.

    Raises:
        NoAnswerError: Slurm does not answer at the moment.
    """
    text = ask("squeue", "--noheader", "--array", "--states=all", f"--user={user()}", f"--Format={FORMAT}")
    return parse(text.splitlines())


@dataclass
class Queue:
    """The latest answer of Slurm, refreshed when it is too old."""

    seconds: float = 10.0
    """How old an answer may be; `squeue` is a burden on the controller of a large cluster."""
    look: Callable[[], dict[tuple[str, int], Seen]] = our_jobs
    clock: Callable[[], float] = time.monotonic
    jobs: dict[tuple[str, int], Seen] = field(default_factory=dict)
    asked: float = float("-inf")
    fault: str | None = None
    """Why the latest query failed."""

    def refresh(self, *, at_most: float | None = None) -> bool:
        """Query again if the answer is older than `at_most` seconds (default: `seconds`); return whether it worked."""
        if self.clock() - self.asked >= (self.seconds if at_most is None else at_most):
            self.asked = self.clock()
            try:
                self.jobs, self.fault = self.look(), None
            except NoAnswerError as error:
                self.fault = str(error)
        return self.fault is None
