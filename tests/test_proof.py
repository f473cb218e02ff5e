"""What tools/proof.py reports as a difference between two run records."""

import copy
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "tools" / "proof.py"


@pytest.fixture(scope="module")
def proof() -> ModuleType:
    spec = importlib.util.spec_from_file_location("proof", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["proof"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a finished run's folder with the files that the script reads."""
    import torch

    for name in ("checkpoints", "hypotheses"):
        (tmp_path / name).mkdir()
    lines = [{"step": step, "train/loss": 4.0 / step, "seconds": 0.1} for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "result.json").write_text(json.dumps({"scores": {"test": {"bleu": {"value": 12.5}}}, "seconds": 1.0}))
    (tmp_path / "hypotheses" / "test.hyp").write_text("das Haus\nein Zug\n")
    for step in (1, 2):
        weights = {"model.W": torch.full((2, 3), float(step)), "model.b": torch.zeros(3, dtype=torch.bfloat16)}
        torch.save({"state_dict": weights, "global_step": step}, tmp_path / "checkpoints" / f"step{step}.ckpt")
    return tmp_path


Compare = Callable[[dict[str, Any]], tuple[int, str]]


@pytest.fixture
def compare(proof: ModuleType, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    """Compare the folder's run with another one: exit code, and the output about the run."""

    def make(run: dict[str, Any]) -> tuple[int, str]:
        paths = [tmp_path / "one.json", tmp_path / "other.json"]
        for path, content in zip(paths, (proof.read_run(folder), run), strict=True):
            path.write_text(
                json.dumps({"commit": "0" * 40, "changed": False, "machine": {}, "runs": {"tiny": content}})
            )
        code = proof.compare(*paths, [])
        return code, capsys.readouterr().out.partition("tiny: ")[2]

    return make


@pytest.fixture
def run(proof: ModuleType, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(proof.read_run(folder))
    return found


def test_the_clock_is_no_difference(proof: ModuleType, folder: Path, compare: Compare) -> None:
    metrics = folder / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace("0.1", "0.3"))
    assert compare(proof.read_run(folder)) == (0, "the same\nNothing differs.\n")


def test_the_first_update_with_another_loss_is_named(run: dict[str, Any], compare: Compare) -> None:
    run["metrics"]["2"]["train/loss"] = 2.0000000000000004
    code, told = compare(run)
    assert code == 1
    assert "train/loss: first differs at step 2: 2.0, 2.0000000000000004" in told


def test_a_renamed_parameter_is_told_and_is_no_difference(
    proof: ModuleType, folder: Path, run: dict[str, Any], compare: Compare
) -> None:
    import torch

    path = folder / "checkpoints" / "step2.ckpt"
    content = torch.load(path, weights_only=True)
    content["state_dict"] = {"model.b": content["state_dict"]["model.b"], "net.W": content["state_dict"]["model.W"]}
    torch.save(content, path)
    code, told = compare(run)  # the folder now, and its earlier record
    assert code == 0
    assert told.startswith("renamed\n  names in step2.ckpt: state_dict: net.W, model.W; values are the same\n")


def test_the_last_bit_of_the_newest_weights_is_a_difference(
    folder: Path, run: dict[str, Any], compare: Compare
) -> None:
    import torch

    path = folder / "checkpoints" / "step2.ckpt"
    content = torch.load(path, weights_only=True)
    content["state_dict"]["model.W"][1, 2] = torch.tensor(2.0).nextafter(torch.tensor(3.0))
    torch.save(content, path)
    code, told = compare(run)
    assert code == 1
    assert "values of step2.ckpt: state_dict" in told and "1 tensors, the first is model.W" in told
    assert "step1.ckpt" not in told


def test_hypotheses_scores_errors_and_missing_runs_are_differences(run: dict[str, Any], compare: Compare) -> None:
    run["hypotheses"]["test.hyp"] = {"sha256": "0", "text": ["das Haus", "ein Hut"]}
    run["result"]["scores.test.bleu.value"] = 12.25
    code, told = compare(run)
    assert code == 1
    assert "hypotheses/test.hyp: 'ein Zug', 'ein Hut'" in told
    assert "result scores.test.bleu.value: 12.5, 12.25" in told
    assert compare({"error": "exit code 2"}) == (1, "differs\n  exit code 2\n1 runs differ.\n")
