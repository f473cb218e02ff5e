"""The golden path: train a plain and a weighted model with the command, then run every other command on the results.

No expected value is made up: each number that a command shows is compared with another one that it must equal.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from sacrebleu import corpus_bleu
from served import served

from variations.store.ledger import RunFolder

SRC = Path(__file__).resolve().parents[1] / "src"
ROWS = {"transformer": "Transformer", "weighted": "Weighted Transformer"}
STEPS, LINES = 120, 24
SWEEP = ("sweep=quickstart", f"rows=[{','.join(ROWS)}]")
"""The table that every command works on."""
SMALL = (
    "debug=limit",
    "data.train_pairs=300",
    "data.vocabulary=150",
    "model.d_model=32",
    "model.d_ff=64",
    "model.h=2",
    "model.N=1",
    "model.dropout=0",
    "recipe.warmup=40",
    f"trainer.max_steps={STEPS}",
    f"trainer.val_every={STEPS}",
    f"trainer.limit_test={LINES}",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Place:
    """A folder with a run store, and the commands run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, row: str) -> RunFolder:
        return RunFolder(self.folder / "runs" / "quickstart" / row / "seed1")

    def typed(self, verb: str, *words: str, text: bytes = b"") -> bytes:
        """Run a command, which must succeed, and return its standard output."""
        command = [sys.executable, str(SRC / f"{verb}.py"), *words]
        done = subprocess.run(command, cwd=self.folder, input=text, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def train(self) -> str:
        return self.typed("train", "--multirun", *SWEEP, *SMALL, "logger=wandb").decode()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Run the sweep and return its folder."""
    made = Place(tmp_path_factory.mktemp("golden"))
    made.train()
    return made


def bleu(place: Place, row: str) -> float:
    value: float = (place.run(row).result() or {})["scores"]["test"]["bleu"]["value"]
    return value


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_trained_to_its_end_and_its_score_is_sacrebleus(place: Place, row: str) -> None:
    run = place.run(row)
    assert run.state() == "finished"
    lines = run.measurements.read()
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert lines[-1]["train/loss"] < 0.8 * lines[0]["train/loss"]  # the model learns
    hypotheses, references = (
        (run.hypotheses / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("hyp", "ref")
    )
    assert len(hypotheses) == len(references) == LINES
    assert len(set(hypotheses)) > 1  # not one constant sentence, which any decoder would reproduce
    assert bleu(place, row) == pytest.approx(corpus_bleu(hypotheses, [references]).score, abs=1e-9)


@pytest.mark.parametrize("row", ROWS)
def test_the_page_of_files_explains_the_names_of_its_measurements(place: Place, row: str) -> None:
    page = (SRC.parent / "docs" / "files.md").read_text(encoding="utf-8")
    measured = {name for line in place.run(row).measurements.read() for name in line}
    names = {re.sub(r"branch/.*[.](kappa|alpha)", r"branch/LAYER.\1", name) for name in measured}
    assert {name for name in names if f"`{name}`" not in page} == set()
    result = place.run(row).result() or {}
    unexplained = {name for name in [*result, *result["loss"]] if f"`{name}`" not in page}
    assert unexplained <= {"scores", "schema", "row_file", "flops_paper_rule"}


@pytest.mark.parametrize("row", ROWS)
def test_the_test_source_is_translated_into_the_runs_own_hypotheses(place: Place, row: str) -> None:
    run = place.run(row)
    said = place.typed("translate", f"run={run.path}", text=(run.hypotheses / "test.src").read_bytes())
    assert said == (run.hypotheses / "test.hyp").read_bytes()


def test_an_unfinished_run_translates_with_a_warning(place: Place, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "half" / "transformer" / "seed1")
    shutil.copytree(place.run("transformer").path, run.path)
    run.set_status("interrupted")
    command = [sys.executable, str(SRC / "translate.py"), f"run={run.path}"]
    done = subprocess.run(command, input=b"a dog\n", capture_output=True, check=True, timeout=120)
    assert len(done.stdout.splitlines()) == 1
    told = f"{run.path} is interrupted, not finished: its test may use other weights than these."
    assert told in done.stderr.decode()


def test_ctranslate2_says_what_our_own_decoder_says(place: Place) -> None:
    """An independent implementation of layers and search, run on the exported weights."""
    pytest.importorskip("ctranslate2")
    run = place.run("transformer")
    source = (run.hypotheses / "test.src").read_bytes()
    said = place.typed("translate", f"run={run.path}", "decoder=ctranslate2", text=source)
    assert said == (run.hypotheses / "test.hyp").read_bytes()


def test_every_score_is_the_runs_own(place: Place) -> None:
    run = place.run("transformer")
    printed = json.loads(place.typed("score", f"run={run.path}", "format=json"))
    result = run.result() or {}
    found = {name: score["value"] for name, score in printed["scores"].items()}
    stored = {name: score["value"] for name, score in result["scores"]["test"].items()}
    loss = result["loss"]
    assert found == stored | {"ppl": loss["test_ppl"], "ppl_per_word": loss["test_ppl_per_word"]}
    assert printed["lines"] == LINES


def test_table_and_report_hold_the_rows_of_the_sweep(place: Place) -> None:
    table = json.loads(place.typed("table", *SWEEP, "format=json"))
    assert {row["row"]: row["label"] for row in table["rows"]} == ROWS
    assert table["missing"] == []
    for row in table["rows"]:
        assert row["measured"]["test.bleu"]["mean"] == bleu(place, row["row"])
        assert row["cost"]["steps"] == STEPS
    place.typed("table", SWEEP[0], "format=html")
    page = (place.folder / "runs" / "quickstart" / "report.html").read_text(encoding="utf-8")
    for row, label in ROWS.items():
        assert label in page
        assert json.dumps(bleu(place, row)) in page
        assert (place.run(row).hypotheses / "test.hyp").read_text(encoding="utf-8").splitlines()[0] in page


def test_figures_are_drawn(place: Place) -> None:
    drawn = [place.folder / line for line in place.typed("figures", *SWEEP).decode().splitlines()]
    pictures = {path.stem: path.read_text(encoding="utf-8") for path in drawn if path.suffix == ".svg"}
    assert {"loss_against_loss", "branch_weights-weighted-seed1"} < pictures.keys()
    assert all("</svg>" in picture for picture in pictures.values())
    assert len(drawn) == len(set(drawn)) == len(list((place.folder / "runs" / "quickstart" / "figures").iterdir()))


def test_the_dashboard_serves_the_sweep(place: Place) -> None:
    command = [sys.executable, str(SRC / "dashboard.py"), "port=0"]
    with served(command, folder=place.folder) as url:
        index, sweep, curves = (
            json.load(urlopen(f"{url}api/{path}", timeout=60))
            for path in ("index", "sweep/quickstart", "curves/quickstart/weighted/seed1")
        )
    (entry,) = index["sweeps"]
    assert (entry["name"], entry["states"]) == ("quickstart", {"finished": len(ROWS)})
    assert {run["row"]: run["score"] for run in sweep["runs"]} == {row: bleu(place, row) for row in ROWS}
    assert curves["step"] == list(range(1, STEPS + 1))


def test_wandb_has_a_run_for_each_row_and_a_dry_report_shows_the_table(place: Place) -> None:
    for row in ROWS:
        assert [path.stat().st_size > 0 for path in place.run(row).path.glob("wandb/offline-run-*/*.wandb")] == [True]
    written = place.folder / place.typed("wandb_report", *SWEEP, "dry_run=true").decode().strip()
    blocks = json.loads(written.read_text(encoding="utf-8"))["report"]["blocks"]
    (table,) = [block["content"] for block in blocks if block["type"] == "markdown-block"]
    for row, label in ROWS.items():
        (line,) = [line for line in table.splitlines() if line.startswith((f"| {label} ", f"| {label}<"))]
        assert f"| {bleu(place, row):.2f} |" in line


def test_the_same_sweep_again_trains_nothing_and_writes_nothing(place: Place) -> None:
    def files() -> dict[Path, tuple[int, int]]:
        found = [path for row in ROWS for path in place.run(row).path.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = files()
    told = place.train()
    assert f"{len(ROWS)} skipped" in told
    assert files() == before
