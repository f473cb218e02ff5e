"""A real Slurm on this machine: munged, slurmctld and two slurmd, each with two simulated GPUs, on loopback.

    python tests/cluster/one_host_slurm.py /tmp/slurm     # runs until Ctrl-C; prints what to export

All keys, sockets, states and logs are in the folder; nothing outside it is changed. This needs root and Debian's
packages `slurm-wlm` and `munge`.
"""

import argparse
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
SECONDS = 40.0
"""Time limit for starting the daemons."""
CONF = """\
ClusterName=onehost
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A job that is requeued may start again after this many seconds (120 if not set).
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
# The nodes are told what they have; nothing is measured.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=0,bf_interval=5
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
JobRequeue=1
KillWait=5
MinJobAge=300
GresTypes=gpu
NodeName=first NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=8 RealMemory=4000 Gres=gpu:2
NodeName=second NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=8 RealMemory=4000 Gres=gpu:2
# Jobs of the partition urgent take machines away from those of batch, which get 20 s of grace and are queued again.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=DEFAULT Nodes=first,second MaxTime=INFINITE DefaultTime=10 State=UP
PartitionName=batch Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=urgent PriorityTier=2 PreemptMode=OFF
"""
GRES = "NodeName=first,second Name=gpu File={folder}/gpu[0-1]\n"


def missing() -> str | None:
    """Return why Slurm cannot be started here, or None."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "a Slurm of its own needs Linux and root"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return f"{', '.join(absent)} not found: apt-get install slurm-wlm munge" if absent else None


@dataclass
class Daemons:
    """The daemons of a Slurm, each of which a test may stop and start again."""

    folder: Path
    environment: dict[str, str]
    """Variables that clients need."""
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a daemon of `COMMANDS`; a controller goes on with the jobs that it had."""
        full = {**os.environ, **self.environment, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        munge = [f"--{option}={self.folder / file}" for option, file in MUNGE.items()] if name == "munged" else []
        with (self.folder / "daemons.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*COMMANDS[name], *munge],
                stdout=log,
                stderr=log,
                env=full,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def stop(self, *names: str) -> None:
        """Ask daemons to end, and kill those that do not."""
        for name in names:
            self.processes[name].terminate()
        for name in names:
            try:
                self.processes[name].wait(15)
            except subprocess.TimeoutExpired:
                self.processes[name].kill()
                self.processes[name].wait()


@contextmanager
def running(folder: Path) -> Iterator[Daemons]:
    """Start all daemons and yield them, then end all jobs and the daemons.

    Raises:
        RuntimeError: The nodes did not come up; the message holds the end of the logs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    daemons = Daemons(folder, {"SLURM_CONF": str(folder / "slurm.conf")})
    _write(folder)
    try:
        daemons.start("munged")
        _wait(lambda: (folder / "munge.socket").exists(), folder, "munged")
        for name in ("slurmctld", "first", "second"):
            daemons.start(name)
        _wait(lambda: _idle(daemons.environment), folder, "Slurm's nodes")
        yield daemons
    finally:
        _cancel_all(daemons.environment)
        daemons.stop(*reversed(daemons.processes))


COMMANDS = {
    "munged": ("munged", "--foreground", "--force", "--num-threads=2"),
    "slurmctld": ("slurmctld", "-D", "-i"),
    "first": ("slurmd", "-D", "-N", "first"),
    "second": ("slurmd", "-D", "-N", "second"),
}
"""The controller, and the daemons of the two nodes."""
MUNGE = {
    "socket": "munge.socket",
    "key-file": "munge.key",
    "log-file": "munged.log",
    "pid-file": "munged.pid",
    "seed-file": "munge.seed",
}


def _write(folder: Path) -> None:
    for name in ("state", "spool.first", "spool.second"):
        (folder / name).mkdir(exist_ok=True)
    for number in range(2):
        device = folder / f"gpu{number}"
        if not device.exists():
            os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))  # the device numbers of /dev/null
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    names = {"folder": folder, "host": socket.gethostname().partition(".")[0]}
    ports = dict(zip(("ctld", "first", "second"), _free_ports(3), strict=True))
    (folder / "slurm.conf").write_text(CONF.format(**names, **ports))
    (folder / "gres.conf").write_text(GRES.format(**names))


def _end_with_parent() -> None:
    """Make a daemon end with the test process, even if that process is killed."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _idle(environment: dict[str, str]) -> bool:
    command = ["sinfo", "--noheader", "--Node", "--partition=batch", "--format=%N %T"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=20)
    return sorted(done.stdout.split()) == ["first", "idle", "idle", "second"]


def _cancel_all(environment: dict[str, str]) -> None:
    """Cancel all jobs and wait until none is left in the queue."""
    full = {**os.environ, **environment}
    try:
        subprocess.run(["scancel", "--full", "--user=root"], env=full, capture_output=True, timeout=20)
        subprocess.run(["scancel", "--full", "--signal=KILL", "--user=root"], env=full, capture_output=True, timeout=20)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            command = ["squeue", "--noheader", "--user=root"]
            if not subprocess.run(command, env=full, capture_output=True, text=True, timeout=20).stdout.strip():
                return
            time.sleep(0.2)
    except subprocess.TimeoutExpired:
        return  # slurmctld is dead; slurmd ends the processes it started


def _wait(ready: Callable[[], bool], folder: Path, what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not ready():
        if time.monotonic() > deadline:
            logs = [path for path in sorted(folder.glob("*.log")) if path.is_file()]
            tails = "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in logs)
            raise RuntimeError(f"{what} did not come up within {SECONDS:.0f} s\n{tails}")
        time.sleep(0.1)


def main() -> None:
    """Run until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run a Slurm of two nodes on this machine until Ctrl-C.")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="for its keys, sockets, states and logs")
    folder: Path = parser.parse_args().folder
    if why := missing():
        sys.exit(why)
    with running(folder.resolve()) as daemons:
        print("Slurm runs until Ctrl-C. Type this in another shell:", file=sys.stderr)
        print("\n".join(f"export {name}={value}" for name, value in daemons.environment.items()), flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("ending Slurm")


if __name__ == "__main__":
    main()
