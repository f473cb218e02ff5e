"""Signals that ask a run to stop: it saves at the end of the update and can be continued by the same command."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


class Interrupt:
    """Within this context the first signal is a request, the second one acts as usual (Ctrl-C twice stops at once)."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            try:
                self._previous[number] = signal.signal(number, self._handle)
            except ValueError:  # only the main thread may set handlers; elsewhere signals act as usual
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
