"""The server serves only the run store, and only to this machine."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.dashboard.api import Api
from variations.dashboard.server import POLICY, Server
from variations.dashboard.store import Store
from variations.store import measurements
from variations.store.atomic import LARGEST
from variations.store.hidden import HIDDEN, clean, is_secret, without_secrets

SECRET = "the-content-of-another-file"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e%2f%2e%2e%2frun.py",
        "/static/..%5cserver.py",
        "/static//etc/passwd",
        "/static/%00",
        "/bokeh/../../../../../../etc/passwd",
        "/bokeh/bokeh.js",
        "/bokeh/..%2fbokeh.min.js",
        "/api/run/../../secret.txt",
        "/api/run/q/base/seed1/../../../../secret.txt",
        "/api/run/q/base/seed1%2f..%2f..%2f..%2f..%2fsecret.txt",
        "/api/run/%2e%2e/%2e%2e/secret.txt",
        "/api/run//etc/passwd",
        "/api/attention/q/base/..%252f..%252fsecret.txt",
        "/api/sweep/..",
        "/api/sweep/%2e%2e%2f",
        "/api/config.yaml",
        "/q/base/seed1/config.yaml",
        "//evil.example/",
        "http://127.0.0.1/api/index",
    ],
)
def test_paths_out_of_the_store_lead_nowhere(client: Any, run: Callable[..., Path], root: Path, path: str) -> None:
    run("q", "base", 1)
    (root.parent / "secret.txt").write_text(SECRET, encoding="utf-8")
    status, _, body = client.ask(path)
    assert status == 404
    assert SECRET.encode() not in body and b"root:" not in body and b"import" not in body


def test_links_out_of_the_store_are_named_and_not_followed(client: Any, run: Callable[..., Path], root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text(f"secret: {SECRET}\n", encoding="utf-8")
    (run("q", "config", 1) / "config.yaml").unlink()
    (root / "q/config/seed1/config.yaml").symlink_to(outside / "secret")
    (root / "q" / "folder").symlink_to(outside, target_is_directory=True)
    texts = run("q", "texts", 1) / "hypotheses"
    (texts / "test.src").unlink()
    (texts / "test.src").symlink_to(outside / "secret")
    broken = {item["path"]: item["reason"] for item in client.json("/api/index")["broken"]}
    assert broken["q/folder"] == "is a link to another folder: links are not followed"
    assert broken["q/config/seed1"] == "config.yaml is a link: links are not followed"
    for path in ("run/q/config/seed1", "run/q/texts/seed1", "sweep/q", "compare?ids=q/config/seed1,q/texts/seed1"):
        assert SECRET not in str(client.json(f"/api/{path}"))
    assert client.json("/api/run/q/texts/seed1")["samples"] == []


def test_links_in_a_circle_and_names_that_are_no_text_hide_only_themselves(
    client: Any, run: Callable[..., Path], root: Path
) -> None:
    run("q", "base", 1)
    (root / "one").symlink_to(root / "two")
    (root / "two").symlink_to(root / "one")
    Path(os.fsdecode(os.fsencode(root) + b"/q/caf\xe9")).mkdir()
    index = client.json("/api/index")
    assert [sweep["name"] for sweep in index["sweeps"]] == ["q"]
    assert {item["path"]: item["reason"] for item in index["broken"]} == {
        "one": "is a link to another folder: links are not followed",
        "two": "is a link to another folder: links are not followed",
        "q/caf\N{REPLACEMENT CHARACTER}": "has a name that is not UTF-8: rename it",
    }
    assert len(client.json("/api/sweep/q")["runs"]) == 1


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8484",
        "127.0.0.1.evil.example",
        "",
        "[::1",
        "10.0.0.1",
        "a@localhost",
        "evil.example@127.0.0.1",
        "localhost/evil",
        "localhost#evil.example",
        "localhost:x",
    ],
)
def test_requests_that_name_another_host_are_refused(client: Any, host: str) -> None:
    status, _, body = client.ask("/api/index", Host=host)
    assert status == 403 and b"sweeps" not in body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "LOCALHOST", "[::1]:8484", "localhost."])
def test_requests_that_name_this_machine_are_answered_also_through_a_tunnel(client: Any, host: str) -> None:
    assert client.ask("/api/index", Host=host)[0] == 200


def test_a_server_told_to_listen_elsewhere_knows_addresses_but_no_strange_names(root: Path) -> None:
    server = Server(Api(Store(root)), "0.0.0.0")
    try:
        assert server.knows("192.168.1.7:8484") and server.knows("localhost")
        assert not server.knows("evil.example:8484")
        assert server.url.startswith("http://127.0.0.1:")
    finally:
        server.server_close()


def test_the_server_is_bound_to_loopback(client: Any) -> None:
    assert client.server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client: Any, method: str) -> None:
    status, headers, _ = client.ask("/api/index", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/static/api.js", "/bokeh/bokeh.min.js", "/api/index", "/nothing"])
def test_every_answer_carries_the_headers_that_restrain_a_browser(client: Any, path: str) -> None:
    _, headers, _ = client.ask(path)
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_the_policy_allows_our_scripts_alone() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'none'" and rules["script-src"] == "'self'"
    assert "unsafe-eval" not in POLICY and rules["frame-ancestors"] == "'none'"


def test_secrets_never_leave(client: Any, run: Callable[..., Path]) -> None:
    key = "0123456789abcdef0123456789abcdef01234567"
    folder = run(
        "q",
        "base",
        1,
        state="failed",
        reason=f"login failed: WANDB_API_KEY={key}",
        config={"logger": {"kind": "wandb", "api_key": key, "token": key, "tags": ["a", key]}},
        environment={
            "env": {"MY_SECRET": key},
            "git": {"commit": key[::-1], "remote": f"https://me:{key}@host/x.git", "diff": f"+password = '{key}'"},
        },
    )
    (folder / "train.log").write_text(f"using token: {key}\n", encoding="utf-8")
    run("q", "other", 1)
    for path in ("index", "sweep/q", "run/q/base/seed1", "compare?ids=q/other/seed1,q/base/seed1"):
        assert key.encode() not in client.ask(f"/api/{path}")[2], path
    shown = client.json("/api/run/q/base/seed1")
    assert shown["environment"]["git.commit"] == key[::-1]  # as long as a key, but not secret
    config = shown["config"]
    assert (config["logger.api_key"], config["logger.kind"]) == (HIDDEN, "wandb")


def test_names_of_secrets_are_told_from_names_like_them() -> None:
    assert all(map(is_secret, ["api_key", "logger.api_key", "WANDB_API_KEY", "password", "x.access_token", "HF_TOKEN"]))
    assert not any(map(is_secret, ["recipe.batch_tokens", "model.h", "data.tokenizer", "target_tokens", "key"]))
    assert without_secrets({"a": [{"password": "x"}], "seed": 1}) == {"a": [{"password": HIDDEN}], "seed": 1}
    assert clean("a sentence about a password: it is long") != "" and clean("batch_tokens=4096") == "batch_tokens=4096"


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("result.json", '{"scores": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested more than 60 levels deep"),
        ("status.json", '{"state": "finished", "x": ' + "[" * 100 + "]" * 100 + "}", "nested more than 60 levels deep"),
        ("config.yaml", BOMB, "it repeats parts of itself through YAML aliases"),
        ("config.yaml", "a: " + "[" * 200 + "]" * 200, "nested more than 60 levels deep"),
        ("status.json", None, "is not a regular file"),
        ("metrics.jsonl", None, "is not a regular file"),
        ("config.yaml", None, "is not a regular file"),
    ],
    ids=["deep JSON", "rather deep JSON", "aliases", "deep YAML", "status pipe", "metrics pipe", "config pipe"],
)
def test_a_damaged_folder_is_shown_as_damaged_beside_the_others(
    name: str, content: str | None, told: str, client: Any, run: Callable[..., Path]
) -> None:
    folder = run("q", "bad", 1)
    run("q", "good", 1)
    (folder / name).unlink()
    if content is None:
        os.mkfifo(folder / name)
    else:
        (folder / name).write_text(content, encoding="utf-8")
    client.json("/api/index")
    entries = {entry["id"]: entry for entry in client.json("/api/sweep/q")["runs"]}
    assert told in entries["q/bad/seed1"]["reason"]
    assert (entries["q/bad/seed1"]["state"], entries["q/good/seed1"]["state"]) == ("broken", "finished")
    assert told in client.json("/api/run/q/bad/seed1")["reason"]


def read_so_far() -> int:
    """Return the number of bytes that this process, the server included, has read from files."""
    (line,) = [line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar:")]
    return int(line.split()[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts what a process reads")
@pytest.mark.parametrize(
    ("name", "most", "told"),
    [
        ("config.yaml", LARGEST, "it is larger than 64 MiB"),
        ("status.json", LARGEST, "it is larger than 64 MiB"),
        ("result.json", LARGEST, "it is larger than 64 MiB"),
        ("metrics.jsonl", measurements.LARGEST, "metrics.jsonl is larger than 1024 MiB, and is not read"),
        ("metrics.jsonl.gz", measurements.LARGEST, "metrics.jsonl.gz is larger than 1024 MiB, and is not read"),
    ],
)
def test_a_file_that_is_too_large_is_shown_as_damaged_beside_the_others_and_not_read(
    name: str, most: int, told: str, client: Any, run: Callable[..., Path]
) -> None:
    folder = run("q", "bad", 1)
    run("q", "good", 1)
    (folder / name.removesuffix(".gz")).rename(folder / name)
    os.truncate(folder / name, most + 1)  # a hole, which takes no space
    client.json("/api/sweep/q")  # imports what it needs
    before = read_so_far()
    client.json("/api/index")
    entries = {entry["id"]: entry for entry in client.json("/api/sweep/q")["runs"]}
    assert told in entries["q/bad/seed1"]["reason"]
    assert (entries["q/bad/seed1"]["state"], entries["q/good/seed1"]["state"]) == ("broken", "finished")
    for path in ("run/q/bad/seed1", "compare?ids=q/good/seed1,q/bad/seed1", "curves/q/bad/seed1"):
        client.ask(f"/api/{path}")
    assert told in client.json("/api/run/q/bad/seed1")["reason"]
    assert client.json("/api/run/q/good/seed1")["state"] == "finished"
    assert read_so_far() - before < LARGEST // 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_named(client: Any, root: Path) -> None:
    (root / "closed").mkdir(mode=0)
    assert "cannot be read" in client.json("/api/index")["broken"][0]["reason"]
