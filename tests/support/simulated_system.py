"""Substitutes for threads, processes and streams in the modules that run on simulated machines."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulated_machines import Simulated, World


class Silent:
    """An overview that shows nothing."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, as there is nothing to restore."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Nowhere:
    """A stream that discards its text."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Do nothing, as nothing is buffered."""


@dataclass
class Event:
    """A substitute for `threading.Event`."""

    world: World
    happened: bool = False

    def set(self) -> None:
        self.happened = True
        for thread in self.world.threads:  # any thread of this process may wait for it
            if thread.process is self.world.me and thread is not self.world.current:
                thread.wakes = self.world.clock

    def wait(self, seconds: float) -> bool:
        if not self.happened:
            self.world.sleep(seconds)
        return self.happened


class HeartThread:
    """A substitute for `threading.Thread`."""

    def __init__(self, world: World, target: Callable[..., None], args: tuple[Any, ...], **_: object) -> None:
        self.world, self.body = world, lambda: target(*args)

    def start(self) -> None:
        self.thread = self.world.thread(self.world.me, self.body)

    def join(self) -> None:
        while not self.thread.greenlet.dead:
            self.world.sleep(0.0)


class Popen:
    """A substitute for `subprocess.Popen` of a run, which ends with the process that starts it."""

    def __init__(self, world: World, start: Callable[[str, Simulated], Simulated], folder: str) -> None:
        self.world, self.returncode = world, None
        self.process = start(folder, world.me)
        self.pid = self.process.pid

    def poll(self) -> int | None:
        self.returncode = self.process.code
        return self.returncode

    def wait(self) -> None:
        while self.poll() is None:
            self.world.sleep(1.0)

    def send_signal(self, number: int) -> None:
        self.process.asked = signal.Signals(number)
