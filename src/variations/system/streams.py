"""Standard streams in whatever state a command finds them: closed, in another encoding, or without a reader."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from variations.system.errors import ExitCode, RunFailedError


class Output(io.TextIOWrapper):
    """Standard output or error that reports in one sentence that it cannot be written, or ignores it."""

    endured: type[OSError] | None = None
    """Errors that are ignored; all further output is then dropped."""

    def write(self, text: str) -> int:
        """As for any text stream. Raises RunFailedError or SystemExit if it cannot be written."""
        with self._told():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """As for any stream. Raises the same as `write`."""
        with self._told():
            super().flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._let_go()
            if self.endured is not None and isinstance(error, self.endured):
                return
            if isinstance(error, BrokenPipeError):
                raise SystemExit(ExitCode.UNREAD) from None
            raise RunFailedError(f"Standard output cannot be written: {error.strerror}.") from error

    def _let_go(self) -> None:
        """Send what is still buffered, and all that follows, nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def prepare(*, work_goes_on: bool) -> None:
    """Make the standard streams of this process usable, whatever their state.

    Characters that an encoding lacks are written as `\\u03ba`. A closed input is empty; output to a standard error
    that is closed or cannot be written is dropped.

    Args:
        work_goes_on: A closed standard output, or one without a reader, does not stop the command (training);
            otherwise the command ends (a table that is read by `head`).
    """
    _open_closed(0, os.O_RDONLY)
    _open_closed(1, os.O_WRONLY if work_goes_on else os.O_RDONLY)  # reading only: it cannot be written, and says so
    _open_closed(2, os.O_WRONLY)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the life of the process
    sys.stdout = _own(1, sys.stdout, sys.__stdout__, BrokenPipeError if work_goes_on else None)
    sys.stderr = _own(2, sys.stderr, sys.__stderr__, OSError)


def _open_closed(number: int, mode: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        nowhere = os.open(os.devnull, mode)
        if nowhere != number:
            os.dup2(nowhere, number)
            os.close(nowhere)


def _own(number: int, stream: TextIO | None, first: TextIO | None, endured: type[OSError] | None) -> TextIO:
    """`stream`, or an Output in its place; a stream that was replaced before, as by a test, is kept."""
    if stream is not None and (stream is not first or type(stream) is not io.TextIOWrapper):
        if isinstance(stream, Output):
            stream.endured = endured
        return stream
    if stream is None:
        raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
        own = Output(raw, encoding="utf-8", errors="backslashreplace", line_buffering=number == 2)
    else:
        own = Output(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
    own.endured = endured
    return own
