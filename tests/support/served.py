"""The dashboard as a command serves it."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(
    command: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Iterator[str]:
    """The address that the command prints, `http://HOST:PORT/`, until Ctrl-C, at which it must end well and quietly."""
    with subprocess.Popen(
        command, cwd=folder, env={**environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
