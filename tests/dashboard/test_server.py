"""The verb and its server: addresses, following, ports, shutdown."""

import gc
import http.client
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from served import served

from variations.commands.dashboard import DashboardConfig, show
from variations.dashboard import sweeps
from variations.dashboard.api import KEPT, Api
from variations.dashboard.assets import BOKEH, bokeh_file
from variations.dashboard.server import Server
from variations.dashboard.store import Store
from variations.system.errors import UserError

PROJECT = Path(__file__).resolve().parents[2]


def test_the_page_and_its_files_are_served(client: Any) -> None:
    status, headers, body = client.ask("/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    for name in [part.split('"')[0] for part in body.decode().split('src="')[1:]]:
        status, headers, script = client.ask(name)
        assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8"), name
        assert len(script) == int(headers["content-length"])


def test_bokehs_scripts_come_from_the_installed_package() -> None:
    assert all(bokeh_file(name).is_file() for name in BOKEH)
    with pytest.raises(KeyError):
        bokeh_file("bokeh.js")


def test_head_answers_without_a_body(client: Any) -> None:
    status, headers, body = client.ask("/api/index", "HEAD")
    assert status == 200 and int(headers["content-length"]) > 0 and body == b""


def test_one_connection_serves_several_requests(client: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    for path, status in (("/api/index", 200), ("/nothing", 404), ("/api/index", 200)):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, bool(json.loads(answer.read()))) == (status, True)
    connection.close()


def test_the_collector_of_cycles_rests_only_while_a_payload_is_made(root: Path, run: Callable[..., Path]) -> None:
    run("q", "base", 1)
    api, seen = Api(Store(root)), []
    made = sweeps.sweep

    def spy(*arguments: Any, **options: Any) -> Any:
        seen.append(gc.isenabled())
        if len(seen) == 2:
            raise UserError("no")
        return made(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "sweep", spy)
        api.answer("sweep/q")
        assert gc.isenabled()
        with pytest.raises(UserError):
            api.answer("sweep/q", {"significance": "1"})
    assert gc.isenabled() and seen == [False, False]


def test_a_lock_that_was_dropped_while_its_request_waited_is_no_fault(root: Path) -> None:
    api = Api(Store(root))

    def made() -> bytes:
        api._locks.clear()  # as another request's eviction before this one took its lock
        return b"payload"

    for number in range(2 * KEPT):
        api._cached(("payload", str(number)), "1", made if number == 0 else lambda: b"payload")
    assert len(api._kept) == KEPT


@pytest.mark.slow
def test_a_follower_is_told_of_every_change(client: Any, run: Callable[..., Path]) -> None:
    folder = run("q", "base", 1, state="running", step=300)
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    first = _event(answer)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 400, "seconds": 200.0, "dev/bleu": 50.5}\n')
    assert _event(answer) != first
    assert client.json("/api/sweep/q")["runs"][0]["live_score"] == 50.5
    assert client.json("/api/curves/q/base/seed1")["metrics"]["dev/bleu"][1][-1] == 50.5
    connection.close()


def _event(answer: http.client.HTTPResponse) -> str:
    lines = []
    while line := answer.readline().decode().strip():
        lines.append(line)
    assert lines[0] == "event: revision"
    return lines[1].removeprefix("data: ")


def test_a_port_that_is_taken_is_told_in_a_sentence(root: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            UserError, match=rf"^Port {port} of 127\.0\.0\.1 is in use: choose another one with port=NUMBER"
        ):
            Server(Api(Store(root)), port=port)


def test_an_address_that_is_not_ours_is_told_in_a_sentence(root: Path) -> None:
    with pytest.raises(UserError, match=r"^Cannot listen on host=192\.0\.2\.1"):
        Server(Api(Store(root)), "192.0.2.1")


def test_a_file_or_a_single_run_is_no_store(tmp_path: Path, run: Callable[..., Path]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="is a file: give the root of the run store"):
        show(DashboardConfig(runs=str(tmp_path / "file")))
    with pytest.raises(UserError, match="is the folder of one run"):
        show(DashboardConfig(runs=str(run("q", "base", 1))))
    with pytest.raises(UserError, match="contains the rows of a sweep: give its parent, runs="):
        show(DashboardConfig(runs=str(run("q", "base", 1).parents[1])))


@pytest.mark.slow
def test_the_command_prints_its_address_and_ends_quietly_at_ctrl_c(root: Path, run: Callable[..., Path]) -> None:
    run("q", "base", 1)
    command = [sys.executable, str(PROJECT / "src" / "dashboard.py"), f"runs={root}", "port=0"]
    with served(command) as url:
        assert json.load(urlopen(f"{url}api/index", timeout=60))["sweeps"][0]["name"] == "q"
