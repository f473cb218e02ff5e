"""The dashboard, served by a command."""

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
    """Yield the address that the command prints, `http://HOST:PORT/`; then send Ctrl-C and require a clean exit."""
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
