"""The exported file: contains page and data, is small enough to mail, and lets no data run as a script."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from variations.commands.dashboard import DashboardConfig, by_name, show
from variations.configuration.schema import SweepConfig
from variations.dashboard.api import Api
from variations.dashboard.export import page
from variations.dashboard.store import Store
from variations.system.errors import UserError
from variations.tables.records import published

HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> &amp; \u2028"


class Page(HTMLParser):
    """Scripts, payloads and addresses of a page, as a browser parses them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[str] = []
        self.payloads: dict[str, Any] = {}
        self.addresses: list[str] = []
        self.policy = self.title = ""
        self._open: dict[str, str | None] | None = None
        self._text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag in ("script", "title"):
            self._open, self._text = found, ""
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self.title = self._text
        if tag == "script" and self._open is not None:
            if self._open.get("type") == "application/json":
                self.payloads[str(self._open["data-path"])] = json.loads(self._text)
            else:
                self.scripts.append(self._text)
            self._open = None


@pytest.fixture
def exported(root: Path) -> Callable[..., Page]:
    return lambda names=None: Page(page(Api(Store(root)), names))


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_the_file_holds_every_payload_of_the_sweep_and_no_other(
    exported: Callable[..., Page], run: Callable[..., Path], client: Any
) -> None:
    run("other", "a", 1)
    found = exported(["q"])
    ids = ["q/base/seed1", "q/base/seed2", "q/wide/seed1", "q/wide/seed2"]
    wanted = {"/api/index", "/api/sweep/q"} | {f"/api/{kind}/{one}" for kind in ("run", "curves") for one in ids}
    wanted |= {f"/api/{kind}/{one}" for kind in ("branches", "attention") for one in ids[2:]}
    base = "/api/compare?ids=q%2Fbase%2Fseed1,q%2F"
    wanted |= {f"{base}{other}" for other in ("base%2Fseed2", "wide%2Fseed1", "wide%2Fseed2")}
    assert set(found.payloads) == wanted | {"/api/importance/q"}
    pair, live = found.payloads[f"{base}wide%2Fseed1"], client.json(f"{base}wide%2Fseed1")
    assert {**pair, "environment": [], "sentences": []} == {**live, "environment": [], "sentences": []}
    assert pair["sentences"] == live["sentences"][:5]
    assert found.title == "q · Variations"
    assert [entry["name"] for entry in found.payloads["/api/index"]["sweeps"]] == ["q"]
    assert found.payloads["/api/index"]["live"] is False
    assert found.payloads["/api/sweep/q"]["table"]["tested"] is True
    assert "/api/sweep/other" in exported().payloads


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_nothing_is_loaded_and_only_the_scripts_named_by_hash_may_run(exported: Callable[..., Page]) -> None:
    found = exported()
    assert [address for address in found.addresses if not address.startswith(("data:", "#"))] == []
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found.scripts]
    rules = dict(rule.strip().split(" ", 1) for rule in found.policy.split(";"))
    assert rules["default-src"] == "'none'" and "connect-src" not in rules
    assert rules["script-src"].split() == [f"'sha256-{item}'" for item in hashes]
    assert len(hashes) > 5


def test_text_of_the_runs_cannot_leave_its_element(
    exported: Callable[..., Page], run: Callable[..., Path], root: Path
) -> None:
    folder = run("q", "base", 1, label=HOSTILE, environment={"cpu": HOSTILE})
    for side in ("src", "ref", "hyp"):
        (folder / "hypotheses" / f"test.{side}").write_text(HOSTILE.replace("\u2028", "") + "\n", encoding="utf-8")
    run("q", "bad", 1, state="failed", reason=HOSTILE)
    (root / "q" / 'a"><script>').mkdir()
    text = page(Api(Store(root)))
    found = Page(text)
    scripts = len(found.scripts)
    assert found.payloads["/api/run/q/base/seed1"]["label"] == HOSTILE
    assert found.payloads["/api/run/q/base/seed1"]["samples"][0]["hypothesis"] == HOSTILE.replace("\u2028", "")
    assert found.payloads["/api/run/q/bad/seed1"]["reason"] == published(HOSTILE)
    assert not any("alert(" in script for script in found.scripts)
    assert "<script>alert" not in text and "<img" not in text and "\u2028" not in text
    (folder / "environment.json").write_text("{}", encoding="utf-8")
    assert len(Page(page(Api(Store(root)))).scripts) == scripts


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_what_a_colleague_need_not_know_stays_here(root: Path, run: Callable[..., Path]) -> None:
    own = run(
        "q", "own", 1, environment={"host": "my-machine", "git": {"diff": "+my unpublished idea", "commit": "abc"}}
    )
    status = json.loads((own / "status.json").read_text())
    (own / "status.json").write_text(json.dumps(status | {"process": "7@my-machine/a/1", "host": "my-machine"}))
    config = yaml.safe_load((own / "config.yaml").read_text())
    config["data"] |= {"root": "/home/me/secret-project/corpus", "cache": "~/.cache/me/variations"}
    (own / "config.yaml").write_text(yaml.safe_dump(config))
    run("q", "bad", 1, state="failed", reason="Cannot read /home/me/secret-project/corpus/train.en.")
    text = page(Api(Store(root)))
    assert str(root) not in text and "my-machine" not in text and "unpublished" not in text
    payloads = Page(text).payloads
    found = payloads["/api/run/q/own/seed1"]
    assert found["environment"] == {"git.commit": "abc"}
    told = [
        payloads["/api/sweep/q"]["runs"],
        *(item for path, item in payloads.items() if path.startswith("/api/run/")),
    ]
    assert "train.en" in json.dumps(told)
    assert "/me/" not in json.dumps(told)
    assert (found["config"]["data.root"], found["config"]["data.cache"]) == ("corpus", "variations")


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_compared_runs_show_their_commits_and_no_secrets_or_paths(
    exported: Callable[..., Page], run: Callable[..., Path]
) -> None:
    commit, key = "0123456789" * 4, "abcdef0123" * 4
    environment = {"cpu": f"/home/me/{key}", "note": key, "git": {"commit": commit}}
    config = {"callbacks": {"mine": {"folder": "/home/me/corpus"}}}
    run("q", "wide", 1, rows=["base", "wide"], base="base", environment=environment, config=config)
    found = exported().payloads["/api/compare?ids=q%2Fbase%2Fseed1,q%2Fwide%2Fseed1"]
    values = {item["key"]: item["values"][1] for part in ("config", "environment") for item in found[part]}
    assert (values["git.commit"], values["note"], values["cpu"]) == (commit, "hidden", "hidden")
    assert values["callbacks.mine.folder"] == "corpus"


@pytest.mark.slow
def test_60_runs_fit_into_3_megabytes(root: Path, fabricate: Callable[..., list[str]]) -> None:
    ids = fabricate(20, 3, points=600, steps=60_000, sentences=30)
    text = page(Api(Store(root)))
    assert len(text.encode()) < 3_000_000
    payloads = Page(text).payloads
    assert all(f"/api/curves/{one}" in payloads and f"/api/run/{one}" in payloads for one in ids)
    assert len(payloads[f"/api/curves/{ids[0]}"]["metrics"]["dev/bleu"][0]) >= 25
    rows = payloads["/api/sweep/big"]["table"]["rows"]
    assert all(row["ci"] or "vary" in row["not_tested"] for row in rows[1:])


def test_the_command_writes_the_file_and_prints_its_name(
    root: Path, run: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("q", "base", 1)
    show(DashboardConfig(runs=str(root), export=str(tmp_path / "out" / "q.html")))
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'q.html'}\n"
    assert re.match(r"<!doctype html>", (tmp_path / "out" / "q.html").read_text(encoding="utf-8"))


def test_a_file_that_cannot_be_small_says_how_large_it_is(
    root: Path,
    run: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run("q", "base", 1)
    monkeypatch.setattr("variations.dashboard.export.LIMIT", 1_000)
    path = tmp_path / "q.html"
    for sweep, advice in ((None, " sweep=NAME exports one sweep."), ("q", "")):
        show(DashboardConfig(runs=str(root), export=str(path), sweep=SweepConfig(sweep)))
        size = f"{path.stat().st_size / 1e6:.1f}"
        assert capsys.readouterr() == (
            f"{path}\n",
            f"{path} has {size} MB, with as little of each run as a file may contain.{advice}\n",
        )


def test_nothing_to_export_a_wrong_sweep_and_a_folder_are_told(
    root: Path, run: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="nothing to export"):
        show(DashboardConfig(runs=str(root), export=str(tmp_path / "x.html")))
    run("q", "base", 1)
    with pytest.raises(UserError, match="is a folder: give a file"):
        show(DashboardConfig(runs=str(root), export=str(tmp_path)))
    with pytest.raises(UserError, match="has no sweep 'none'; it has: q"):
        page(Api(Store(root)), ["none"])


@pytest.mark.slow
def test_a_sweep_of_the_store_needs_no_file(root: Path, run: Callable[..., Path], tmp_path: Path) -> None:
    run("check", "base", 1)
    program = [sys.executable, str(Path(__file__).resolve().parents[2] / "src" / "dashboard.py"), f"runs={root}"]
    export = f"export={tmp_path / 'q.html'}"
    done = subprocess.run([*program, "sweep=check", export], capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path / 'q.html'}\n", "")
    done = subprocess.run([*program, "sweep=chek", export], capture_output=True, text=True, cwd="/")
    assert done.returncode == 2 and "sweep=chek: there is no such option." in done.stderr
    done = subprocess.run(
        [*program, "sweep=check", "sweep.metric=chrf", export], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 2 and "with the metric of their runs: leave sweep.metric out" in done.stderr
    assert by_name([f"runs={root}", "sweep=quickstart"]) == [f"runs={root}", "sweep=quickstart"]


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_the_server_offers_the_file(client: Any) -> None:
    status, headers, body = client.ask("/api/export?sweep=q")
    assert status == 200 and headers["content-disposition"] == 'attachment; filename="q.html"'
    assert "/api/sweep/q" in Page(body.decode()).payloads


def test_a_run_with_damaged_measurements_has_no_curves_and_the_others_have(
    run: Callable[..., Path], exported: Callable[..., Page]
) -> None:
    run("q", "base", 1)
    bad = run("q", "base", 2)
    content = (bad / "metrics.jsonl").read_bytes()
    (bad / "metrics.jsonl").unlink()
    (bad / "metrics.jsonl.gz").write_bytes(gzip.compress(content)[:-20])
    payloads = exported().payloads
    assert "/api/curves/q/base/seed1" in payloads and "/api/run/q/base/seed2" in payloads
    assert "/api/curves/q/base/seed2" not in payloads
