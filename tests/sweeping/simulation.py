"""Sweeps on simulated machines: real controllers, pools, leases, fences and runs; simulated clock, disk and processes.

    python tests/sweeping/simulation.py --schedules 10000 --processes 2
    python tests/sweeping/simulation.py --seed 4711        # one schedule, reported step by step

A schedule is determined by its seed. It starts sweeps of the same rows on several machines and injects faults:
processes and machines crash or pause for longer than a lease, clocks drift apart, folder listings are stale, users stop
a sweep, rows fail. Most faults hit the process that has just yielded, and so interrupt processes in mid-operation.
Then the faults stop: everything must come to an end, and two more sweeps must finish the remaining work.
"""

import argparse
import json
import os
import random
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from simulated_cluster import Cluster
from simulated_disk import ROOT, replaced
from simulated_machines import Machine, Simulated, Violation, World
from simulated_system import Event, HeartThread, Nowhere, Popen, Silent

from variations.commands import run
from variations.store import atomic, fence, lease, process_identity, run_folder, status
from variations.store.ledger import RunFolder
from variations.sweeping import control, local, outcomes, sources
from variations.sweeping.control import Control
from variations.sweeping.job import Job
from variations.sweeping.local import LocalPool
from variations.sweeping.outcomes import Outcome
from variations.system import processes, streams
from variations.system.errors import ExitCode, Interrupted, RunFailedError
from variations.training import interrupt

SECONDS = 6.0
"""Duration of a lease: short, so that few polls fall within it."""
STEPS = 3
"""Updates per run."""
POLL = 1.0
"""Seconds between two steps of a controller."""
PAUSES = (0.1, 0.3, 1.6, 4.0)
"""Durations of a single pause of a process, in lease durations."""
EXCUSED = 0.5
"""Total pause, in lease durations, from which a process is excused for losing its lease."""
TURNS, LATEST = 20_000, 60 * SECONDS
"""Turns and seconds within which everything must end after the faults stop."""
ROWS, SWEEPS = 2, 3
REMNANT = re.compile(r"\.lease(-\d+(-[0-9a-f]+|\.json\..*)|\..*\.tmp)")
"""Remnants of a fence, a heartbeat or an unfinished lease after a crash; the next run removes them."""


class Sweeps(World):
    """A run store in which sweeps and their runs work on the same rows."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed), self._swap)
        self.rows = [Path(ROOT, "sweep", f"row{number}", "seed1") for number in range(ROWS)]
        self.owners: dict[str, Simulated] = {}
        """The process that last took over each run."""
        self.training: dict[str, Simulated] = {}
        self.results: dict[str, Simulated] = {}
        """The process that finished each run."""
        self.failing: set[str] = set()
        """Runs that fail at their next update."""
        self.trained = 0
        """Total number of updates."""
        self.sweeps = 0
        self.step_seconds = self.rng.choice([1.0, 1.0, 4.0])
        """Duration of an update: a run takes half a lease, or two leases."""
        self.pools = self.rng.choice([["local"], ["queue"], ["local", "queue"]])
        self.cluster = Cluster(self, self.run)

    @staticmethod
    def _swap(process: Simulated) -> None:
        """Give each process its own variables."""
        lease._held, fence._own = process.held, process.own

    # Watching -------------------------------------------------------------------------------------------------------

    def changed(self, path: str) -> None:
        """Check that a run is changed only by the process that took it over, and not at all once it is finished."""
        name = path.rpartition("/")[2]
        if self.current is None or name.startswith((".", "lease-", "log", "config")):
            return
        home = next((home for home in self.owners if path.startswith(home + "/")), None)
        if home is None:
            return
        me, owner, former = self.me, self.owners[home], self.results.get(home)
        if owner is not me:
            self.violated(f"{me} wrote {path}, though {owner} has taken the run over")
        if former is not None and name in ("result.json", "status.json", "metrics.jsonl"):
            self.violated(f"{me} wrote {path}, though {former} has finished the run")
        if name == "status.json" and json.loads(self.disk.node(path).data)["state"] == "finished":
            self.results[home] = me
            steps = [json.loads(line)["step"] for line in self.disk.node(f"{home}/metrics.jsonl").data.splitlines()]
            if steps != list(range(1, STEPS + 1)):
                self.violated(f"{home} has measurements of the steps {steps}")

    def exit(self, process: Simulated, code: int) -> None:
        """See `World`: a process that sends its heartbeats must not lose its lease."""
        if code == ExitCode.HELD and process.owned and process.stood_still < EXCUSED * SECONDS:
            self.violated(f"{process} lost its lease without having been silent")
        first = process.code is None
        super().exit(process, code)
        if first:
            self.cluster.ended(process, code)

    def claimed(self, real: Callable[..., lease.Lease | None]) -> Callable[..., lease.Lease | None]:
        """Wrap `Lease.claim` to observe it."""

        def claim(folder: Path, over: lease.Record | None, state: str, **options: Any) -> lease.Lease | None:
            found = real(folder, over, state, **options)
            if found is not None:
                what = f"{self.me} takes {folder.parent.name} as number {found.record.number}, {state}"
                self.tell(f"{what}, after {over.state}, {over.key}, beat {over.beat}" if over else what)
                if state == "running":
                    self.owners[str(folder)] = self.me
                    self.me.owned = True
            return found

        return claim

    # Sweeps and runs ------------------------------------------------------------------------------------------------

    def sweep(self, machine: Machine) -> Simulated:
        """Start a sweep of all rows."""
        kind, most, at_once = self.rng.choice(self.pools), self.rng.choice([None, 1]), self.rng.choice([1, 2])

        def body() -> int:
            try:
                found = [Outcome.of(_job(path, most)) for path in self.rows]
                pool = self.cluster.pool(Path(ROOT)) if kind == "queue" else LocalPool(at_once)
                Control(pool, found, Silent()).run()  # type: ignore[arg-type]
            except KeyboardInterrupt:
                return ExitCode.INTERRUPTED
            for outcome in found:
                self.tell(f"{self.me}: {outcome.name} {outcome.state} {outcome.reason}")
                if not outcome.ended or not (outcome.ok or outcome.reason):
                    self.violated(
                        f"the sweep {self.me} has ended, and {outcome.name} is {outcome.state} without a word"
                    )
            return 0 if all(outcome.ok for outcome in found) else 1

        self.sweeps += 1
        process = self.start(machine, "sweep", body)
        process.by_default = True
        return process

    def run(self, folder: str, parent: Simulated, *key: str) -> Simulated:
        """Start `python -m variations.commands.run FOLDER [KEY]`."""

        def body() -> int:
            sys.argv = ["run", folder, *key]
            return run.main()

        return self.start(parent.machine, "run", body, parent)

    def train(self, config: Any, folder: RunFolder, interrupt: Any) -> dict[str, Any]:
        """Make a few updates with a checkpoint each, in place of training and testing."""
        home, me = str(folder.path), self.me
        other = self.training.get(home)
        # If one of the two was paused, it notices the loss when it next writes or renews its lease.
        both = other is not None and other.code is None
        if both and max(me.stood_still, other.stood_still) < EXCUSED * SECONDS:
            self.violated(f"{me} trains {home}, and so does {other}")
        self.training[home] = me
        done = max((int(path.stem.removeprefix("step")) for path in folder.checkpoints.glob("step*.ckpt")), default=0)
        folder.measurements.truncate(done)
        for step in range(done + 1, STEPS + 1):
            self.sleep(self.step_seconds)
            if home in self.failing:
                self.failing.discard(home)
                raise RunFailedError("as the schedule wants it")
            folder.measurements.append({"step": step, "by": me.born})
            folder.measurements.sync()
            with atomic.replaced(folder.checkpoints / f"step{step}.ckpt") as temporary:
                temporary.write_text(str(step))
            fence.remove(folder.checkpoints / f"step{step - 1}.ckpt")
            self.trained += 1
            if me.asked is not None:
                raise Interrupted(me.asked)
        del self.training[home]
        return {"by": me.born}

    # Faults ---------------------------------------------------------------------------------------------------------

    def fault(self, last: Simulated) -> None:
        """Inject a fault, mostly into the process that has just yielded."""
        rng, there = self.rng, self.there()
        victim = last if last.code is None and rng.random() < 0.7 else rng.choice(there)
        machine = rng.choice(self.machines)
        kinds = ["crash", "crash", "pause", "pause", "pause", "power", "stop", "fail", "old", "sweep", "freeze"]
        if "queue" in self.pools:
            kinds += ["preempt", "preempt", "silence"]
        match rng.choice(kinds):
            case "crash":
                self.exit(victim, -9)
            case "pause":
                self.pause(victim, rng.choice(PAUSES) * SECONDS)
            case "freeze":
                seconds = rng.choice(PAUSES) * SECONDS
                for process in there:
                    if process.machine is victim.machine:
                        self.pause(process, seconds)
            case "power":
                self.crash(victim.machine)
            case "stop" if victim.what == "sweep":
                victim.asked = signal.SIGINT
                self.tell(f"{victim} is stopped by its user")
            case "stop":
                victim.asked = signal.SIGTERM
                self.tell(f"{victim} gets SIGTERM")
            case "preempt":
                self.cluster.preempt()
            case "silence":
                self.cluster.silent_until = self.clock + rng.choice([1.0, 20.0])
                self.tell("Slurm does not answer")
            case "fail":
                self.failing.add(str(rng.choice(self.rows)))
                self.tell("a row fails at its next update")
            case "old":
                machine.remembered = {}
                self.tell(f"{machine.name} sees old listings from now on")
            case "sweep" if self.sweeps < SWEEPS:
                self.sweep(machine)

    def play(self) -> None:
        """Play the schedule: first with faults, then without.

        Raises:
            Violation: An invariant is broken.
        """
        rng = self.rng
        for _ in range(rng.choice([1, 1, 2])):
            self.sweep(rng.choice(self.machines))
        faults, often = rng.randint(0, 8), rng.choice([0.01, 0.05, 0.2])
        while faults and (ready := self.runnable()):
            thread = rng.choice(ready)
            self.go(thread)
            if rng.random() < often and self.there():
                faults -= 1
                self.fault(thread.process)
        self._end()
        self.tell("nothing goes wrong any more")
        for what in ("any", "all", "none"):  # the first may still inherit a job that was preempted and then lost
            trained, last = self.trained, self.sweep(rng.choice(self.machines))
            self._end()
            if what != "any" and (last.code != 0 or len(self.results) < len(self.rows)):
                self.violated(f"{last} had nobody in its way, and ended with {last.code}; finished: {[*self.results]}")
            if what == "none" and trained != self.trained:
                self.violated("a finished run was trained again")
        self._look_for_remnants()
        if self.violation is not None:
            raise self.violation

    def _end(self) -> None:
        """Run until every process has ended."""
        turns, latest = self.turn + TURNS, self.clock + LATEST
        while ready := self.runnable():
            if self.turn > turns or self.clock > latest:
                waiting = ", ".join(map(str, self.there()))
                raise Violation(f"{self.turn - turns + TURNS} turns later these have not ended: {waiting}")
            self.go(self.rng.choice(ready))

    def _look_for_remnants(self) -> None:
        for row in self.rows:
            for place in (row, row / "hypotheses", row / "checkpoints"):
                names = self.disk.names(str(place))
                if left := [name for name in names if name.startswith(".") and not REMNANT.fullmatch(name)]:
                    self.violated(f"{place} holds remnants: {', '.join(left)}")

    # Replacing the system -------------------------------------------------------------------------------------------

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Replace clock, disk and processes."""
        clock = SimpleNamespace(monotonic=self.monotonic, time=self.now, sleep=self.sleep)
        host = SimpleNamespace(gethostname=lambda: self.me.machine.name)
        threads = SimpleNamespace(Event=lambda: Event(self), Thread=lambda **options: HeartThread(self, **options))
        starter = SimpleNamespace(
            Popen=lambda command, **_: Popen(self, self.run, command[-1]),
            DEVNULL=None,
            STDOUT=None,
        )
        patches: dict[Any, dict[str, Any]] = {
            secrets: {"token_hex": lambda size: f"{self.rng.getrandbits(8 * size):0{2 * size}x}"},
            os: {"getpid": lambda: self.me.pid, "_exit": self._leave},
            sys: {"stdout": Nowhere(), "stderr": Nowhere(), "argv": []},
            lease: {"time": clock, "threading": threads, "_held": set()},
            lease.Lease: {"claim": staticmethod(self.claimed(lease.Lease.claim))},
            fence: {"_own": {}},
            control: {"time": clock, "POLL": POLL},
            process_identity: {"here": lambda: self.me.machine.place, "_born": self._born, "socket": host},
            run_folder: {"socket": host},
            status: {"socket": host, "answers": lambda pid: self._born(pid) is not None},
            local: {"subprocess": starter},
            outcomes: {"to_dict": lambda config: {"seed": config.seed}},
            sources: {"to_dict": lambda config: {"seed": config.seed}},
            processes: {"die_with_parent": lambda: None},
            streams: {"prepare": lambda **_: None},
            interrupt: {"Interrupt": nullcontext},
            run: {
                "load": lambda path: _config(None),
                "_begin_log": lambda path: None,
                "_refuse_what_has_changed": lambda *_, **__: None,
                "_train_and_test": self.train,
                "short_traceback": self._bug,
            },
        }
        patches |= self.cluster.changes(clock)
        with replaced(patches), self.cluster.submitit(), self.disk.mounted():
            try:
                yield
            finally:
                self.close()

    def _born(self, pid: int) -> int | None:
        machine = self.me.machine
        return next((p.born for p in self.processes if p.code is None and p.machine is machine and p.pid == pid), None)

    def _leave(self, code: int) -> None:
        self.exit(self.me, code)
        self.give_way()

    def _bug(self, error: BaseException) -> str:
        """Report a run that ended with a traceback, which no schedule justifies."""
        if not self.closed:
            self.violated(f"{self.me} ended with a traceback: {error!r}", error)
        return ""


def _config(most: int | None) -> Any:
    return SimpleNamespace(
        task="translation",
        seed=1,
        force=False,
        sweep=SimpleNamespace(lease_seconds=SECONDS, most=most, retries=1, reuse=False, shares=[]),
        variation=SimpleNamespace(reuse=None),
        trainer=SimpleNamespace(devices=1, nodes=1, progress=False),
    )


def _job(path: Path, most: int | None) -> Job:
    return Job(path.parent.name, 1, (), _config(most), path)


# Playing many schedules -----------------------------------------------------------------------------------------------


def simulate(seed: int) -> Sweeps:
    """Play one schedule.

    Raises:
        Violation: An invariant is broken; the message ends with the preceding events and the seed.
    """
    world = Sweeps(seed)
    with world.mounted():
        try:
            world.play()
        except Violation as error:
            told = "\n".join(world.told)
            again = f"Again: python tests/sweeping/simulation.py --seed {seed}"
            raise Violation(f"{error}\n{told}\n{again}") from error.__cause__
    return world


def main() -> int:
    """Play schedules; report the events of the first failing one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="of one schedule, which is told")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print("\n".join(simulate(arguments.seed).told))
        return 0
    began = time.monotonic()
    with ProcessPoolExecutor(arguments.processes) as processes:
        seconds = list(processes.map(_timed, range(arguments.schedules), chunksize=100))
    each = 1000 * sum(seconds) / len(seconds)
    print(f"{len(seconds)} schedules held, in {time.monotonic() - began:.0f} s; {each:.1f} ms of a processor each")
    return 0


def _timed(seed: int) -> float:
    began = time.process_time()
    simulate(seed)
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
