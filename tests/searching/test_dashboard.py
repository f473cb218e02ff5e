"""optuna-dashboard on the storage of a search."""

import json
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
from variations.searching.study import Study, open_storage

PROGRAM = Path(sys.executable).with_name("optuna-dashboard")
PATIENCE = 300
"""Seconds the server may take in total to start on a busy machine; requests repeat until it answers."""


def finished(definition: Definition) -> None:
    """Finish three trials with the values 0, 1, 2."""
    study = Study(definition)
    while (reserved := study.reserve("me")) is not None:
        study.tell(reserved[0], "COMPLETE", [float(reserved[0])])


def check(ask: Callable[[str], Any]) -> None:
    """Make the requests of the dashboard's own pages."""
    (found,) = ask("/api/studies")["study_summaries"]
    assert (found["study_name"], found["directions"]) == ("probe", ["maximize"])
    trials = ask(f"/api/studies/{found['study_id']}")["trials"]
    assert [trial["values"] for trial in trials] == [[0.0], [1.0], [2.0]]
    assert trials[0]["params"][0]["name"] == "model.dropout"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_it_reads_the_study(defined: Callable[..., Definition], tmp_path: Path, kind: str) -> None:
    dashboard = pytest.importorskip("optuna_dashboard")
    where = f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else "null"
    definition = defined(sweep__search__storage=where, sweep__search__trials=3)
    finished(definition)
    app = dashboard.wsgi(open_storage(definition.storage))
    check(lambda path: _call(app, path))


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.exists(), reason="optuna-dashboard is not installed")
def test_the_line_of_the_documentation_serves_the_study(defined: Callable[..., Definition], tmp_path: Path) -> None:
    definition = defined(sweep__search__trials=3)
    finished(definition)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "server.txt"
    with log.open("wb") as file:
        server = subprocess.Popen([PROGRAM, "--port", str(port), definition.storage], stdout=file, stderr=file)
    try:
        _wait(f"http://127.0.0.1:{port}/api/studies", server, log)
        check(lambda path: _get(f"http://127.0.0.1:{port}{path}"))
    finally:
        server.kill()
        server.wait()


def _call(app: Any, path: str) -> Any:
    """Return a WSGI application's response, without a server."""
    from wsgiref.util import setup_testing_defaults

    environ: dict[str, Any] = {"PATH_INFO": path}
    setup_testing_defaults(environ)
    heads: list[str] = []
    answer = b"".join(app(environ, lambda status, headers, exc_info=None: heads.append(status)))
    assert heads == ["200 OK"]
    return json.loads(answer)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return json.load(answer)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            _get(url)
            return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"optuna-dashboard does not answer: {log.read_text()}") from error
            time.sleep(0.3)
