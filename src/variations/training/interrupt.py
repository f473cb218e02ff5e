"""Signals that ask a run to stop: it saves at the end of the update and can be continued by the same command.

SIGINT (Ctrl-C), SIGTERM and SIGUSR2 are treated alike. During training a signal is a request, which `Loop` reads after
each update; a second SIGINT stops at once. Before and after the updates there is nothing to lose, so a signal stops at
once.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from variations.system.errors import Interrupted
from variations.system.processes import global_rank

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


class Interrupt:
    """Handles the signals within its context."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        """The first signal, if one came."""
        self._deferred = False
        self._process = os.getpid()
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._previous = {number: signal.getsignal(number) for number in SIGNALS}
        self._install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            self._set(number, handler)

    def defer(self) -> None:
        """Treat signals as requests from now on. Replaces handlers that Lightning has set meanwhile."""
        self._deferred = True
        self._install()

    def undefer(self) -> None:
        """Let signals stop the run at once from now on."""
        self._deferred = False

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Let signals stop the run only at the end of this block.

        Libraries are imported in it: some end the whole process if a handler raises an exception meanwhile.
        """
        self.defer()
        try:
            yield
        finally:
            self.undefer()
        if self.received is not None:
            raise Interrupted(self.received)

    def _install(self) -> None:
        for number in SIGNALS:
            self._set(number, self._handle)

    @staticmethod
    def _set(number: signal.Signals, handler: Any) -> None:
        try:
            signal.signal(number, handler)
        except ValueError:  # only the main thread may set handlers; in other threads, signals act as usual
            return

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a loader process, which Ctrl-C also reaches, is needed until the update is done
        again = self.received is not None
        self.received = self.received or signal.Signals(number)
        if self._deferred and not again and number == signal.SIGINT and os.isatty(2) and global_rank() == 0:
            os.write(2, b"\nStopping after this update, then saving (Ctrl-C again: stop at once, without saving).\n")
        if (number == signal.SIGINT) if again else not self._deferred:
            raise Interrupted(self.received)
        # Other repeated signals are ignored: a cluster sends them to a run and to its supervisor, and the second must
        # not interrupt the saving that the first has started.
