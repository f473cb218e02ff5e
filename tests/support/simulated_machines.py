"""Machines with their own clocks, and processes on them that take turns as determined by a seed.

Every thread of every process is a greenlet. It yields when it sleeps, and at disk operations at intervals drawn from
the seed; the driver of the world then chooses the next thread. A crashed process never continues; a paused one does,
and does not notice the pause.
"""

import itertools
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from greenlet import GreenletExit, getcurrent, greenlet
from simulated_disk import Disk


class Violation(AssertionError):
    """An event that must never happen."""


@dataclass(eq=False)
class Machine:
    """A computer with its own clock."""

    name: str
    offset: float
    rate: float
    boots: int = 1
    remembered: dict[int, tuple[float, list[str]]] | None = None
    """Its cached folder listings; None: it reads folders each time."""

    @property
    def place(self) -> str:
        return f"{self.name}-{self.boots}"


@dataclass(eq=False)
class Simulated:
    """A process, with the state that the modules under test keep per process."""

    pid: int
    born: int
    machine: Machine
    what: str
    parent: "Simulated | None" = None
    code: int | None = None
    """Exit code; None while it runs."""
    paused_until: float = 0.0
    stood_still: float = 0.0
    """Total seconds of pauses."""
    owned: bool = False
    """Whether it has ever taken over a run."""
    asked: signal.Signals | None = None
    """A signal that it has not handled yet."""
    by_default: bool = False
    """Whether SIGINT raises KeyboardInterrupt in it at once."""
    held: set[str] = field(default_factory=set)
    own: dict[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.what} {self.pid} (no. {self.born}, {self.machine.place})"


@dataclass(eq=False)
class Thread:
    """One thread of a process."""

    process: Simulated
    greenlet: greenlet
    wakes: float


class World:
    """Machines, processes, and the disk that all of them see.

    Args:
        rng: Makes all random choices.
        resume: Called with a process before it continues.
    """

    def __init__(self, rng: random.Random, resume: Callable[[Simulated], None]) -> None:
        self.rng, self.resume = rng, resume
        self.clock, self.turn = 100.0, 0
        self.machines = [
            Machine(f"machine{n}", rng.choice([0.0, 1e5 * n]), rng.choice([1.0, 0.97, 1.03])) for n in range(3)
        ]
        self.processes: list[Simulated] = []
        self.threads: list[Thread] = []
        self.all_threads: list[Thread] = []
        """Includes threads of crashed processes: an unreferenced greenlet is ended and runs its cleanup code."""
        self.current: Thread | None = None
        self.closed = False
        self.driver = getcurrent()
        self.births = itertools.count(1)
        self.disk = Disk(self)
        self.spacing = rng.choice([3, 12, 50])
        """Average number of operations between two turns."""
        self.left = 0
        self.told: list[str] = []
        self.violation: Violation | None = None

    @property
    def me(self) -> Simulated:
        """The current process."""
        if self.current is None:
            raise GreenletExit
        return self.current.process

    # Callbacks of the disk ------------------------------------------------------------------------------------------

    def point(self) -> None:
        """Announce an operation of the current process that others can see."""
        if self.current is None:
            if self.closed and getcurrent() is not self.driver:
                raise GreenletExit
            return
        self.left -= 1
        if self.left < 0:
            self.give_way()

    def changed(self, path: str) -> None:
        """Announce that a name on the disk has changed."""

    def now(self) -> float:
        """Return the true time."""
        return self.clock

    def listings(self) -> "dict[int, tuple[float, list[str]]] | None":
        """Return the cached folder listings of the current machine."""
        return None if self.current is None else self.current.process.machine.remembered

    # Time and turns -------------------------------------------------------------------------------------------------

    def give_way(self) -> None:
        """Let the driver choose the next thread. Raises KeyboardInterrupt if the process was sent SIGINT."""
        if self.current is None:
            raise GreenletExit
        self.driver.switch()
        if self.closed:
            raise GreenletExit
        if self.me.asked == signal.SIGINT and self.me.by_default:
            self.me.asked = None
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Act as `time.sleep`."""
        if self.current is not None:
            self.current.wakes = self.clock + seconds / self.me.machine.rate
        self.give_way()

    def monotonic(self) -> float:
        """Act as `time.monotonic` on the current process's machine."""
        machine = self.me.machine
        return machine.offset + machine.rate * self.clock

    def runnable(self) -> list[Thread]:
        """Return the threads that can continue; advance the time until there is one."""
        clock = self.clock
        self.threads = there = [t for t in self.threads if t.process.code is None and not t.greenlet.dead]
        ready = [t for t in there if t.wakes <= clock and t.process.paused_until <= clock]
        if not ready and there:
            self.clock = clock = min(max(t.wakes, t.process.paused_until) for t in there)
            ready = [t for t in there if t.wakes <= clock and t.process.paused_until <= clock]
        return ready

    def go(self, thread: Thread) -> None:
        """Let a thread run until it yields."""
        self.turn += 1
        self.current = thread
        self.resume(thread.process)
        self.left = int(self.rng.expovariate(1 / self.spacing))
        try:
            thread.greenlet.switch()
        finally:
            self.current = None
        if self.violation is not None:
            raise self.violation

    def violated(self, what: str, cause: BaseException | None = None) -> None:
        """Record a violation, wherever it is detected; only the first one counts."""
        if self.closed or self.violation is not None:
            return
        self.tell(f"VIOLATED: {what}")
        self.violation = Violation(what)
        self.violation.__cause__ = cause

    def tell(self, text: str) -> None:
        """Record an event, for analysis of a schedule."""
        self.told.append(f"{self.clock:9.2f}  {text}")

    def close(self) -> None:
        """End all remaining threads without letting them do anything more."""
        self.closed = True
        for thread in self.all_threads:
            while not thread.greenlet.dead:
                thread.greenlet.throw(GreenletExit)

    # Processes ------------------------------------------------------------------------------------------------------

    def start(
        self,
        machine: Machine,
        what: str,
        body: Callable[[], int],
        parent: Simulated | None = None,
        *,
        delay: float = 0.0,
    ) -> Simulated:
        """Start a process that ends with its parent; its number may be that of an ended process."""
        taken = {process.pid for process in self.there() if process.machine is machine}
        pid = next(number for number in itertools.count(100) if number not in taken)
        process = Simulated(pid, next(self.births), machine, what, parent)
        self.processes.append(process)
        self.tell(f"{process} starts")
        self.thread(process, lambda: self.exit(process, body())).wakes += delay
        return process

    def thread(self, process: Simulated, body: Callable[[], object]) -> Thread:
        """Start another thread of a process."""

        def run() -> None:
            try:
                body()
            except GreenletExit:
                return
            except SystemExit as end:
                self.exit(process, int(end.code or 0))
            except BaseException as error:  # noqa: BLE001 - no schedule justifies any exception
                self.violated(f"{process} ended with a traceback: {error!r}", error)

        thread = Thread(process, greenlet(run, self.driver), self.clock)
        self.threads.append(thread)
        self.all_threads.append(thread)
        return thread

    def exit(self, process: Simulated, code: int) -> None:
        """End a process and its children."""
        if process.code is None:
            process.code = code
            self.tell(f"{process} ends with {code}")
        for other in self.processes:
            if other.parent is process and other.code is None:
                self.exit(other, -9)

    def there(self) -> list[Simulated]:
        """Return the processes that have not ended."""
        return [process for process in self.processes if process.code is None]

    def pause(self, process: Simulated, seconds: float) -> None:
        """Pause a process."""
        process.paused_until = self.clock + seconds
        process.stood_still += seconds
        self.tell(f"{process} stands still for {seconds:.1f} s")

    def crash(self, machine: Machine) -> None:
        """Make a machine lose power and restart."""
        self.tell(f"{machine.name} crashes")
        for process in self.there():
            if process.machine is machine:
                self.exit(process, -9)
        machine.boots += 1
        machine.remembered = None
