"""Fixtures: fabricated run stores of any size, and a server on loopback that serves one."""

import copy
import http.client
import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from variations.dashboard.api import Api
from variations.dashboard.server import Server
from variations.dashboard.store import Store
from variations.tasks.translation.config import TranslationConfig

WORDS = ("the", "old", "teacher", "draws", "a", "red", "house", "behind", "this", "garden", "while", "my", "friend")
COSTS = {"source_tokens": 100, "target_tokens": 110, "seconds": 0.5, "flops": 1e9, "padded_tokens": 230}
CONVENTION = "sacreBLEU on detokenised text with its own 13a tokenisation, case-sensitive."
ENVIRONMENT = {"schema": 1, "host": "machine", "python": "3.11.7", "packages": {"torch": "2.13.0"}, "gpus": []}


def _sentence(n: int) -> str:
    return " ".join(WORDS[(n * 7 + k * 3) % len(WORDS)] for k in range(6 + n % 5)).capitalize() + "."


def _texts(count: int, errors: int) -> dict[str, list[str]]:
    """Return sources, references, and hypotheses with a wrong word in every `errors`-th line."""
    references = [_sentence(n) for n in range(count)]
    hypotheses = [
        line.replace(" the ", " no ", 1) + " Ach." if n % errors == 0 else line for n, line in enumerate(references)
    ]
    return {"src": [line[::-1] for line in references], "ref": references, "hyp": hypotheses}


def _metrics(score: float, points: int, branches: int, steps: int) -> list[dict[str, Any]]:
    lines = []
    for point in range(1, points + 1):
        part = point / points
        step = round(steps * part)
        line: dict[str, Any] = {key: value * step for key, value in COSTS.items()} | {"step": step, "epoch": 0}
        line |= {"lr": 0.001 / point, "train/loss": 1 + 5 * math.exp(-3 * part), "train/nll": 5 * math.exp(-3 * part)}
        if point % 3 == 0 or point == points:
            line |= {"dev/bleu": score * (1 - math.exp(-4 * part)), "dev/nll": 0.5 + 4 * math.exp(-8 * part)}
            line["dev/ppl"] = math.exp(line["dev/nll"])
        if branches:
            for name in ("encoder.0.self", "encoder.1.self", "decoder.0.cross", "decoder.1.cross"):
                for letter, slope in (("kappa", 0.5), ("alpha", -0.4)):
                    drift = [slope * part * (b / (branches - 1) - 0.5) / branches for b in range(branches)]
                    line[f"branch/{name}.{letter}"] = [1 / branches + item for item in drift]
            line["branch/dead"] = 0
        lines.append(line)
    return lines


def _result(score: float, steps: int) -> dict[str, Any]:
    names = ("bleu", "bleu_lc", "bleu_tok", "bleu_tok_lc", "bleu_split", "chrf", "gleu", "exact_match")
    details = {"bp": 1.0, "precisions": [90.0, 80.0, 70.0, 60.0], "hypothesis_tokens": 5000, "reference_tokens": 5010}
    entry = {"convention": CONVENTION, "signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"}
    ladder = {name: entry | {"value": score - k, "details": details} for k, name in enumerate(names)}
    costs = {key: value * steps for key, value in COSTS.items()}
    loss = {"dev_nll": 0.5, "dev_ppl": math.exp(0.5), "test_nll": 0.6, "test_ppl": math.exp(0.6)}
    facts = {"schema": 1, "parameters": 1_500_000, "steps": steps, "dropped_pairs": 0, "debug": None}
    hardware = {"accelerator": "cpu", "device": "a processor", "devices": 1, "threads": 1}
    return {"scores": {"test": ladder, "dev": ladder}, "loss": loss, "hardware": hardware} | facts | costs


def _attention(layers: int = 2, heads: int = 4) -> dict[str, Any]:
    source, target = ["the", "old", "house", "⟨end⟩"], ["das", "alte", "Haus", "⟨end⟩"]
    before = ["⟨start⟩", *target[:-1]]
    axes = {"encoder": ("source", "source"), "decoder": ("target", "before"), "cross": ("target", "source")}
    matrix = [[0.7 if q == k else 0.1 for k in range(4)] for q in range(4)]
    found = [
        {
            "name": f"{kind}.{layer}",
            "label": f"{kind}, layer {layer + 1}",
            "kind": kind,
            "heads": heads,
            "queries": queries,
            "keys": keys,
            "weights": [matrix] * heads,
        }
        for kind, (queries, keys) in axes.items()
        for layer in range(layers)
    ]
    tokens = {"source_tokens": source, "target_tokens": target, "before_tokens": before}
    return {
        "schema": 1,
        "sentences": [{"source": "the old house", "target": "das alte Haus", **tokens, "layers": found}],
    }


def write_run(
    store: Path,
    sweep: str,
    row: str,
    seed: int,
    *,
    score: float = 80.0,
    state: str = "finished",
    reason: str | None = None,
    rows: list[str] | None = None,
    label: str | None = None,
    base: str | None = None,
    h: int = 8,
    branches: int = 0,
    points: int = 24,
    steps: int = 1200,
    sentences: int = 40,
    errors: int = 5,
    attention: bool = False,
    step: int | None = None,
    config: dict[str, Any] | None = None,
    environment: dict[str, Any] | None = None,
) -> Path:
    """Write one run as `train.py` does and return its folder. `state=running` records this process as the run's."""
    import os
    import socket

    folder = store / sweep / row / f"seed{seed}"
    (folder / "hypotheses").mkdir(parents=True, exist_ok=True)
    document = copy.deepcopy(asdict(TranslationConfig()))
    document["model"] |= {"h": h, "kind": "weighted" if branches else "transformer"}
    document["trainer"] |= {"max_steps": steps, "accelerator": "cpu"}
    document["variation"] |= {"row": row, "label": label or row, "base": base}
    document["seed"] = seed
    if sweep != "single":
        document["sweep"] |= {"name": sweep, "rows": rows or [row], "seeds": [seed]}
    document |= config or {}
    status = {
        "state": state,
        "reason": reason,
        "step": step or steps,
        "attempt": 1,
        "epoch": 0,
        "command": "src/train.py",
    }
    status |= {"started": "2026-01-01T10:00:00+00:00", "updated": "2026-01-01T10:10:00+00:00"}
    status |= {"pid": os.getpid(), "host": socket.gethostname()}
    lines = [line for line in _metrics(score, points, branches, steps) if step is None or line["step"] <= step]
    (folder / "config.yaml").write_text(
        yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)), encoding="utf-8"
    )
    (folder / "environment.json").write_text(json.dumps(environment or ENVIRONMENT), encoding="utf-8")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if state == "finished":
        (folder / "result.json").write_text(json.dumps(_result(score, steps)), encoding="utf-8")
        for side, text in _texts(sentences, errors).items():
            (folder / "hypotheses" / f"test.{side}").write_text("".join(f"{item}\n" for item in text), encoding="utf-8")
    if attention:
        (folder / "attention.json").write_text(json.dumps(_attention()), encoding="utf-8")
    (folder / "status.json").write_text(json.dumps(status), encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of an empty run store."""
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def run(root: Path) -> Callable[..., Path]:
    """`run("q", "base", 1, score=80.0, state="running", …)`: write one run; keys are those of `write_run`."""

    def write(sweep: str = "q", row: str = "base", seed: int = 1, **more: Any) -> Path:
        return write_run(root, sweep, row, seed, **more)

    return write


@pytest.fixture
def fabricate(root: Path) -> Callable[..., list[str]]:
    """`fabricate(rows=20, seeds=3)`: a finished sweep `big` of rows × seeds runs; returns their identifiers."""

    def make(rows: int, seeds: int, *, sweep: str = "big", **more: Any) -> list[str]:
        names = [f"row{number:03d}" for number in range(rows)]
        for number, name in enumerate(names):
            for seed in range(1, seeds + 1):
                options = {
                    "branches": 4 if number % 4 == 1 else 0,
                    "h": 8 if number % 2 else 16,
                    "errors": 3 + number % 7,
                }
                options |= {"score": 70 + number % 20 + seed / 10, "base": names[0], "rows": names}
                write_run(root, sweep, name, seed, **{**options, **more})
        return [f"{sweep}/{name}/seed{seed}" for name in names for seed in range(1, seeds + 1)]

    return make


@pytest.fixture
def pair(run: Callable[..., Path]) -> None:
    """The sweep `q`: `base` and `wide` with seeds 1 and 2, `wide` better, with branches and attention maps."""
    names = ["base", "wide"]
    for seed in (1, 2):
        run("q", "base", seed, score=80.0 + seed, rows=names, errors=3)
        run("q", "wide", seed, score=84.0 + seed, rows=names, errors=20, h=16, branches=4, attention=True, base="base")


class Client:
    """A client of a server on loopback."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port: int = server.server_address[1]
        self.url = server.url

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send a request; return status, headers (names in lower case) and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    def json(self, path: str) -> Any:
        """Return the payload of a path that must exist."""
        status, _, body = self.ask(path)
        assert status == 200, body
        return json.loads(body)

    def fault(self, path: str, status: int) -> str:
        """Return the message of an error response."""
        found, _, body = self.ask(path)
        assert found == status, body
        return str(json.loads(body)["error"])


@pytest.fixture
def serve(root: Path) -> Iterator[Callable[..., Client]]:
    """`serve()`: start a server of the store; it is stopped after the test."""
    started: list[tuple[Server, threading.Thread]] = []

    def start(**options: Any) -> Client:
        server = Server(Api(Store(root), **options))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        started.append((server, thread))
        return Client(server)

    yield start
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


@pytest.fixture
def client(serve: Callable[..., Client]) -> Client:
    """A client of a running server of the store."""
    return serve()
