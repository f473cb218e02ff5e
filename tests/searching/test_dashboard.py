"""optuna-dashboard on the storage of a search."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.searching.definition import Definition
from variations.searching.study import Study

PROGRAM = Path(sys.executable).with_name("optuna-dashboard")


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.exists() and shutil.which("optuna-dashboard") is None, reason="it is not installed")
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_it_serves_the_study(defined: Callable[..., Definition], tmp_path: Path, kind: str) -> None:
    where = f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else "null"
    definition = defined(sweep__search__storage=where, sweep__search__trials=3)
    study = Study(definition)
    while (reserved := study.reserve("me")) is not None:
        study.tell(reserved[0], "COMPLETE", [float(reserved[0])])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(PROGRAM) if PROGRAM.exists() else "optuna-dashboard"
    server = subprocess.Popen([program, "--port", str(port), definition.storage], stderr=subprocess.DEVNULL)
    try:
        (found,) = _ask(f"http://127.0.0.1:{port}/api/studies")["study_summaries"]
        assert (found["study_name"], found["directions"]) == ("probe", ["maximize"])
        trials = _ask(f"http://127.0.0.1:{port}/api/studies/{found['study_id']}")["trials"]
        assert [trial["values"] for trial in trials] == [[0.0], [1.0], [2.0]]
        assert trials[0]["params"][0]["name"] == "model.dropout"
    finally:
        server.terminate()
        server.wait()


def _ask(url: str) -> Any:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
