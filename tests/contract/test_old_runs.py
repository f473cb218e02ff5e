"""The current code reads, shows, tabulates and continues runs of an earlier commit (tests/fixtures/runs_030d3b2).

The tests use only command lines and files of run folders, as owners of such runs do.
"""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ARCHIVE = PROJECT / "tests" / "fixtures" / "runs_030d3b2" / "runs.tar.xz"
ROWS = ("transformer", "weighted")
STEPS, STOPPED = 30, 13
TRAIN = (
    "data=files", "data.root=corpus", "data.cache=cache", "data.source=en", "data.target=de", "data.vocabulary=32",
    "data.max_length=64", "model.d_model=4", "model.d_ff=8", "model.h=2", "model.N=1", "recipe.batch_tokens=256",
    "recipe.warmup=6", "recipe.lr=0.3", f"trainer.max_steps={STEPS}", "trainer.val_every=10",
    f"trainer.checkpoint_every={STEPS}", "trainer.val_bleu=4", "trainer.log_every=1", "trainer.progress=false",
    "trainer.threads=1", "decode.beam=2", "decode.alpha=3", "decode.max_extra=5", "logger=none",
)  # fmt: skip
"""The remaining command-line arguments that produced the runs."""
SAME = 1e-4
"""Relative tolerance, for float32 on another processor over thirty updates. A wrong batch, mask or moment causes
errors that are orders of magnitude larger."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the corpus and the run stores `runs` and `stopped`."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def verb(name: str, *words: str, home: Path, stdin: str = "") -> str:
    """Run a verb, require success, and return its standard output."""
    line = [sys.executable, str(PROJECT / "src" / f"{name}.py"), *words]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    done = subprocess.run(
        line, cwd=home, input=stdin, capture_output=True, text=True, env=environment, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def folder(home: Path, row: str, store: str = "runs") -> Path:
    return home / store / "quickstart" / row / "seed1"


def result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def contents(run: Path) -> dict[str, str]:
    files = sorted(path for path in run.rglob("*") if path.is_file())
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_a_table_is_made_of_them(home: Path) -> None:
    table = json.loads(verb("table", "sweep=quickstart", f"rows=[{','.join(ROWS)}]", "format=json", home=home))
    assert [row["row"] for row in table["rows"]] == list(ROWS)
    assert table["missing"] == []
    for row in table["rows"]:
        stored = result(folder(home, row["row"]))
        assert row["seeds"][0]["state"] == "finished"
        assert row["measured"]["test.bleu"]["mean"] == stored["scores"]["test"]["bleu"]["value"]
        assert row["measured"]["dev_ppl"]["mean"] == stored["loss"]["dev_ppl"]
        assert row["parameters"] == stored["parameters"]
    assert "model transformer→weighted" in table["rows"][1]["changes"]


@pytest.mark.slow
def test_the_dashboard_shows_them(home: Path) -> None:
    verb("dashboard", "export=page.html", home=home)
    page = (home / "page.html").read_text(encoding="utf-8")
    payloads = dict(re.findall(r'data-path="(/api/[^"…]*)"[^>]*>(.*?)</script>', page, re.DOTALL))
    assert json.loads(payloads["/api/index"])["broken"] == []
    for row in ROWS:
        run = folder(home, row)
        shown = json.loads(payloads[f"/api/run/quickstart/{row}/seed1"])
        assert (shown["state"], shown["config"]["model.d_model"]) == ("finished", 4)
        curve = json.loads(payloads[f"/api/curves/quickstart/{row}/seed1"])["metrics"]["train/loss"]
        assert curve[-1] == pytest.approx([line["train/loss"] for line in metrics(run)], rel=1e-3)  # rounded
        sentences = json.loads(payloads[f"/api/attention/quickstart/{row}/seed1"])["sentences"]
        assert len(sentences) == len(json.loads((run / "attention.json").read_text())["sentences"]) > 0
    layers = json.loads(payloads["/api/branches/quickstart/weighted/seed1"])["layers"]
    assert [len(layer["kappa"]) for layer in layers] == [STEPS, STEPS]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_they_are_scored_and_translate(row: str, home: Path) -> None:
    run = folder(home, row)
    ladder = json.loads(verb("score", f"run={run.relative_to(home)}", "format=json", home=home))["scores"]
    scored = {name: score["value"] for name, score in ladder.items()}
    stored = result(run)
    expected = {name: score["value"] for name, score in stored["scores"]["test"].items()}
    losses = {key: stored["loss"][f"test_{key}"] for key in ("ppl", "ppl_per_word")}
    assert scored == expected | losses
    source, translation = (run / "hypotheses" / f"test.{kind}" for kind in ("src", "hyp"))
    assert verb("translate", f"run={run.relative_to(home)}", home=home, stdin=source.read_text()) == (
        translation.read_text()
    )


def train(home: Path, store: str, row: str) -> str:
    # At that commit, recipe=quick had 900 updates; TRAIN sets all of the recipe but the scale. The weighted row had the
    # paper's attention dropout; today it differs from its base in one factor.
    then = ["recipe.scale.steps=0.009", *(["model.attention_dropout=0.1"] if row == "weighted" else [])]
    return verb("train", "--multirun", "sweep=quickstart", f"rows=[{row}]", f"runs={store}", *TRAIN, *then, home=home)


@pytest.mark.slow
def test_the_same_command_leaves_finished_rows_alone(home: Path) -> None:
    before = {row: contents(folder(home, row)) for row in ROWS}
    for row in ROWS:
        assert "1 skipped" in train(home, "runs", row)
    assert {row: contents(folder(home, row)) for row in ROWS} == before


@pytest.mark.slow
def test_the_same_command_continues_a_stopped_row_to_the_end_that_it_would_have_had(home: Path) -> None:
    run, undisturbed = folder(home, "weighted", "stopped"), folder(home, "weighted")
    before = metrics(run)
    assert [line["step"] for line in before] == list(range(1, STOPPED + 1))
    assert json.loads((run / "status.json").read_text())["state"] == "interrupted"

    train(home, "stopped", "weighted")
    assert json.loads((run / "status.json").read_text())["state"] == "finished"
    after, expected = metrics(run), metrics(undisturbed)
    assert after[:STOPPED] == before
    assert [line["step"] for line in after] == list(range(1, STEPS + 1))
    for line, other in zip(after, expected, strict=True):
        for key in ("train/loss", "train/nll", "dev/nll", "branch/encoder.0.self.kappa", "lr"):
            assert (key in line) == (key in other), key
            if key in other:
                assert line[key] == pytest.approx(other[key], rel=SAME), (line["step"], key)
        for key in ("epoch", "source_tokens", "target_tokens", "padded_tokens"):
            assert line[key] == other[key], (line["step"], key)
    stored, wanted = result(run), result(undisturbed)
    assert stored["steps"] == STEPS
    assert stored["loss"].keys() == wanted["loss"].keys()
    for key, value in wanted["loss"].items():
        assert math.isclose(stored["loss"][key], value, rel_tol=SAME), key
    assert (run / "hypotheses" / "test.hyp").read_text() == (undisturbed / "hypotheses" / "test.hyp").read_text()
