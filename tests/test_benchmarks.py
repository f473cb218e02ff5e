"""The benchmarks run and report their measurements."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "growth"))
    import series

    return series


def test_an_exponent_is_that_of_the_upper_half(series: Any) -> None:
    steps = {n: float(max(n, 64) ** 2) for n in (1, 4, 16, 64, 256, 1024)}
    assert series.exponent(steps) == pytest.approx(2.0)
    assert series.exponent({n: 3.0 * n for n in (5, 7)}) == pytest.approx(1.0)
    assert math.isnan(series.exponent({}))
    assert math.isnan(series.exponent({1: 0.0, 2: 4.0}))


def test_what_grows_faster_than_counted_is_named(series: Any) -> None:
    xs = (1, 2, 4)
    line = series.Line("naive", {x: [x**2.0] for x in xs}, dict.fromkeys(xs, 8.0), {x: 1.0 * x for x in xs})
    text = "\n".join(series.summary([series.Axis("M", "branches M", "", lines=[line])]))
    assert "| branches M, naive | 1 to 4 | 2.00 | 1.00 | 0.00 | – |" in text
    assert "by more than 0.25: branches M, naive: time 2.00 for 1.00." in text


PEER = {
    "data_utils.py": "def tokenize(line): raise AssertionError('the old way')",
    "trainer.py": """
import data_utils, torch
from six.moves import range, reduce

class Trainer:
    def __init__(self, config):
        words = [len(data_utils.tokenize(line)) for line in open(config.dataset_dir + "/questions")]
        self.train_data = torch.utils.data.TensorDataset(torch.tensor(words))
        self.ce_fn = lambda scores, answers: (scores - answers).sum()
        self.seen = []
        print("settings")

    def _train_single_epoch(self, epoch):
        for (words,) in self.train_loader:
            self.seen.append(words)
            loss = self.ce_fn(words, 0)
        return loss.data[0]
""",
}
"""Old code as `benchmarks/restarts.py --peer` finds it: none of it runs unmodified with current versions."""


def test_the_peer_trains_full_batches_of_its_own_data_with_todays_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import restarts
    import torch

    (tmp_path / "memn2n").mkdir()
    (tmp_path / "en").mkdir()
    for name, text in PEER.items():
        (tmp_path / "memn2n" / name).write_text(text, encoding="utf-8")
    (tmp_path / "en" / "questions").write_text("Where is Mary?\n" * 70, encoding="utf-8")
    searched = list(sys.path)
    epoch, updates = restarts.peer_trainer(tmp_path, tmp_path, 1)
    told = epoch()
    peer = next(cell.cell_contents for cell in epoch.__closure__ if hasattr(cell.cell_contents, "seen"))
    assert updates == 2 == len(peer.seen)
    assert all(torch.equal(words, torch.full((32,), 4)) for words in peer.seen)
    assert 0 <= told < 1
    assert capsys.readouterr().out == ""
    assert (sys.path, {"trainer", "data_utils"} & set(sys.modules)) == (searched, set())


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["data.valid=0.001", "recipe.batch_size=32"]], ids=["own", "beside the peer"])
def test_ours_trains(words: list[str]) -> None:
    import restarts

    epoch, updates = restarts.trainer(["data=babi_toy", "data.tasks=[1]", "data.toy_questions=1000", *words], 2)
    assert epoch() > 0 and updates > 0


def test_a_row_costs_its_updates_and_two_rows_train_at_a_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import restarts

    listed = yaml.safe_load((ROOT / "sweeps" / "babi_memn2n_1k.yaml").read_text(encoding="utf-8"))["rows"]
    variations = ROOT / "conf" / "variation" / "babi_memn2n_1k"
    assert set(restarts.ROWS) == {row for row in listed if "model: memn2n" in (variations / f"{row}.yaml").read_text()}
    monkeypatch.setattr(restarts, "trainer", lambda words, count: (iter([0.03, 0.01]).__next__, 360_000))
    restarts.rows_table([])
    lines = capsys.readouterr().out.splitlines()
    assert "| joint_3hop_lw | 360,000 | 10.0 | 1.00 |" in lines
    assert lines[-2:] == ["| all nine | | | 9.00 |", "| on two cores, two rows at a time | | | 4.50 |"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--peer", "nowhere"], "name their folder with --root"),
        (["--rows"], "name their folder with --root"),
        (["--peer", "nowhere", "--root", "."], "--peer=nowhere: there is no memn2n/trainer.py in this folder"),
    ],
)
def test_a_comparison_without_its_folder_is_refused_in_one_sentence(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import restarts

    monkeypatch.setattr(sys, "argv", ["restarts.py", *words])
    with pytest.raises(SystemExit) as stopped:
        restarts.main()
    assert said in str(stopped.value)
    assert "\n" not in str(stopped.value)


def report(benchmark: str, words: str, output: Path) -> str:
    """Run a benchmark and return the report that it writes to `output`."""
    command = [sys.executable, str(ROOT / "benchmarks" / benchmark), *words.split(), "--threads", "1"]
    done = subprocess.run(
        [*command, "--output", str(output)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    written = output.read_text(encoding="utf-8")
    assert str(output.parent) not in written
    return written


@pytest.mark.parametrize("passed", ["medium", "highest"])
def test_the_fp32_ceiling_is_that_of_products_that_are_exact(
    passed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`matmul_precision` sets the fastest precision that passes the training check (tests/training)."""
    import torch

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "speed"))
    import ceiling

    reached = {"highest": 180.0, "medium": 210.0}
    monkeypatch.setattr(ceiling, "gflops", lambda w, dtype: reached[torch.get_float32_matmul_precision()])
    monkeypatch.setattr(ceiling, "matmul_precision", lambda: torch.set_float32_matmul_precision(passed))
    monkeypatch.setattr(sys, "argv", ["ceiling.py", "W1"])
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        ceiling.main()
    finally:
        torch.set_float32_matmul_precision(before)
    found = json.loads(capsys.readouterr().out)
    assert (found["fp32_default"], found["fp32"]) == (180.0, reached[passed])


@pytest.mark.slow
def test_step_time_benchmark_reports_every_form(tmp_path: Path) -> None:
    small = "--size tiny --rounds 3 --warmup 0 --sentences 2 --length 4 --vocabulary 50 --precision 32-true --branches"
    written = report("step_time.py", small, tmp_path / "report.md")
    rows = [line.split("|")[1].strip() for line in written.splitlines() if line.startswith("| ")]
    assert rows == ["form", "baseline", "naive", "composed", "split"]


@pytest.mark.exhaustive
def test_the_scaling_benchmark_reports_every_axis_beside_theory(tmp_path: Path) -> None:
    output = tmp_path / "scaling.md"
    written = report("scaling.py", "--quick --rounds 3", output)
    rows = [line.split(" | ") for line in written.split("\n![")[0].splitlines() if line.startswith("| ")]
    assert [row[0].removeprefix("| ") for row in rows[1:]] == [
        "sentence length n",
        "width d_model",
        "layers N",
        "vocabulary V",
        "branches M, composed",
        "branches M, naive",
        "decoding, length n",
        *(f"pairs, data preparation, {part}" for part in ("check", "sub-words", "encode", "batches", "open again")),
        "pairs, epoch plans",
    ]
    assert "### 4.5M pairs" in written
    assert "Goal: at most 30 minutes" in written
    assert output.with_suffix(".svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.slow
def test_a_large_store_is_measured_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import scale

    monkeypatch.setenv("VARIATIONS_CACHE", str(tmp_path / "cache"))
    store = tmp_path / "runs"
    scale.fabricate(store, runs=50, seeds=2, sentences=10)
    found = {name: scale.PARTS[name](store, 2) for name in ("view", "curves", "skip")}
    assert set(found["view"]) == {scale.FIRST, "of these, the index"}
    assert 0 < found["curves"][scale.DRAWN] < found["curves"][scale.WHOLE] / 3
    assert "skip-check of the sweep" in found["skip"] and "skip-check of the sweep" in scale.GOALS


def test_an_import_counts_for_the_package_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from first_step import OWNERS, by_owner

    lines = [  # a module follows the modules that it imports, which are indented further
        "import time:   1000000 |    1000000 |     numpy",
        "import time:   2000000 |    3000000 |   torch",
        "import time:   4000000 |    4000000 |         sympy",
        "import time:   8000000 |   12000000 |       torch.fx",
        "import time:  16000000 |   28000000 |     torch._dynamo",
        "import time:  32000000 |   60000000 |   lightning_fabric",
        "Seed set to 1",
        "import time:  64000000 |  124000000 | variations.training",
    ]
    assert by_owner("\n".join(lines)) == {
        OWNERS["torch"]: 3.0,
        OWNERS["torch._dynamo"]: 28.0,
        OWNERS["lightning_fabric"]: 32.0,
        OWNERS["variations"]: 64.0,
    }
