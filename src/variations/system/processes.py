"""The processes of one run on several devices: started together, watched, and ended together.

Each process runs `python -m variations.commands.run FOLDER` and reads its rank from the environment variables that
`torchrun` would set. This module imports no torch.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from variations.system.errors import RunFailedError, UserError

GRACE_SECONDS = 15.0
"""How long processes may take to end by themselves after one has failed, or after a second SIGINT or SIGTERM."""
PARENT = "VARIATIONS_PARENT"
LEASE = "VARIATIONS_LEASE"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def run_ranks(folder: Path, devices: int, nodes: int, lease: str = "0") -> int:
    """Start one process per device of this machine and wait for all; they write under the lease of that name.

    Signals that stop a run are passed on, and the processes agree on what to do. If one fails, those that still wait
    for it are ended, so that none waits for ever; so are those that do not follow a second SIGINT or SIGTERM.

    Returns:
        0, or the first exit code that is not 0 (negative: ended by that signal). 128 + the signal, if not all followed.

    Raises:
        UserError: there are several machines, and the environment lacks the address of the first, or has a number that
            none of them has.
    """
    shared = _meeting_place(nodes) | {"WORLD_SIZE": str(devices * nodes), PARENT: str(os.getpid()), LEASE: lease}
    first = node_rank(nodes) * devices
    command = [sys.executable, "-P", "-m", "variations.commands.run", str(folder)]
    processes: list[subprocess.Popen[bytes]] = []
    with _passed_on(processes) as received:
        try:
            for local in range(devices):
                place = {"LOCAL_RANK": str(local), "RANK": str(first + local)}
                # A session of its own: Ctrl-C reaches it only through this process, and so only once.
                process = subprocess.Popen(command, env=environment(shared | place), start_new_session=True)
                processes.append(process)
                for number in tuple(received):  # while it was being started
                    process.send_signal(number)
            return _watch(processes, received)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a rank and, unless it ended well, end what it has started: a loader may be stuck or ignore signals."""
    if process.wait():
        with suppress(ProcessLookupError, PermissionError):  # nothing is left of its session
            os.killpg(process.pid, signal.SIGKILL)


def _watch(processes: list[subprocess.Popen[bytes]], received: list[int]) -> int:
    first_failure, deadline = 0, float("inf")
    while None in [process.poll() for process in processes] and time.monotonic() < deadline:  # all are asked
        failed = [process.returncode for process in processes if process.returncode]
        if failed and not first_failure:
            stopped = next((code for code in failed if -code in received), failed[0])  # others may have lost it
            first_failure, deadline = stopped, time.monotonic() + GRACE_SECONDS
        stops = [number for number in received if number != signal.SIGUSR2]
        if len(stops) > 1 and deadline == float("inf"):
            deadline = time.monotonic() + GRACE_SECONDS
        time.sleep(0.05)
    if not first_failure and None in [process.returncode for process in processes]:
        return 128 + received[-1]
    code = first_failure or next((process.returncode for process in processes if process.returncode), 0)
    return 128 - code if -code in received else code  # a signal that came before the process had set its handlers


@contextmanager
def _passed_on(processes: list[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    received: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for process in processes:
            process.send_signal(number)

    main = threading.current_thread() is threading.main_thread()  # no other thread may set handlers
    previous: dict[signal.Signals, Any] = {number: signal.signal(number, pass_on) for number in SIGNALS if main}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def environment(place: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, updated with `place`, in which `python -m variations...` finds the package."""
    source = str(Path(__file__).resolve().parents[2])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **place}


def cores() -> int:
    """Return the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _of_job() -> int | None:
    """Cores on this machine that Slurm has given to this job; it need not confine the job to them."""
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return max(1, int(given)) if given.isascii() and given.isdigit() else None


def machine_bytes() -> int | None:
    """Memory of this machine, or of the container if that has less; None if unknown."""
    found = []
    with suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # the file may say "max"
            found.append(int(Path(path).read_text(encoding="ascii")))
    return min(found) if found else None


def threads_each(runs: int) -> int | None:
    """Return the CPU threads of each run if `runs` runs share this machine; None: no limit but OMP_NUM_THREADS."""
    if runs == 1:
        return None if "OMP_NUM_THREADS" in os.environ else _of_job()
    given = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, min(cores(), _of_job() or cores()) // runs)
    return min(share, int(given)) if given.isdigit() and int(given) > 0 else share


def _meeting_place(nodes: int) -> dict[str, str]:
    if nodes == 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "NODE_RANK": "0"}
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in os.environ]
    if missing:
        raise UserError(
            f"trainer.nodes={nodes} needs {', '.join(missing)} in the environment: the address and a free port of "
            "the first machine, the same on all machines, and the number of this machine, from 0."
        )
    return {name: os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")}


def die_with_parent() -> None:
    """Ask the system to kill this process when the one that started it ends in any way (Linux only)."""
    parent = os.environ.get(PARENT)
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(parent):  # it ended before we asked
        sys.exit(1)


def is_rank() -> bool:
    """Whether this process was started by `run_ranks`, as one of several of a run."""
    return PARENT in os.environ and LEASE in os.environ  # Lightning removes WORLD_SIZE when a training ends


def global_rank() -> int:
    """This process's rank among all of the run."""
    return int(os.environ.get("RANK", 0)) if is_rank() else 0


def lease_name() -> str:
    """Number and token of the run's lease, which is held by the process that started this rank."""
    return os.environ.get(LEASE, "0")


def node_rank(nodes: int) -> int:
    """This machine's number among the `nodes` of a run, from 0. With one machine, NODE_RANK means nothing.

    Raises:
        UserError: NODE_RANK is not such a number.
    """
    given = os.environ.get("NODE_RANK", "0") if nodes > 1 else "0"
    if not given.isdecimal() or int(given) >= nodes:
        raise UserError(
            f"NODE_RANK={given!r} in the environment: with trainer.nodes={nodes} it is the number of this machine, "
            f"0 to {nodes - 1}; set it on each machine."
        )
    return int(given)


def forget_reason(folder: Path) -> None:
    """Remove the reason why ranks of an earlier start failed."""
    (folder / ".failure").unlink(missing_ok=True)


def write_reason(folder: Path, reason: str) -> bool:
    """Record why this rank failed, for the process that started it. The first rank's reason is kept.

    Returns:
        Whether the reason of a rank, this one or an earlier one, is recorded; False if this process is no rank.
    """
    if not is_rank():
        return False
    try:
        with (folder / ".failure").open("x", encoding="utf-8") as file:
            file.write(f"rank {global_rank()}: {reason}")
    except FileExistsError:
        return True
    except OSError:  # the disk is full: then it is on the terminal
        return False
    return True


def signal_name(number: int) -> str:
    """`SIGTERM`, or `signal 35` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def reason_of(folder: Path, code: int) -> str:
    """Why the processes of a run failed, the first of them with `code`; 0: they left no result."""
    if code == 0:
        return "its processes ended without an error, but left no result; the same command continues it"
    if code < 0:  # the others only lost their connection to it
        return f"one of its processes was ended by {signal_name(-code)}"
    try:
        return (folder / ".failure").read_text(encoding="utf-8")
    except OSError:
        return f"one of its processes ended with code {code}"


def failure(folder: Path, code: int) -> RunFailedError:
    """The error of a run whose processes ended with `code`."""
    return RunFailedError(f"the run in {folder} failed: {reason_of(folder, code)}")
