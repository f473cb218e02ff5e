"""`profile=auto` and `profile=reference` train the same model; the choice is reported and stored."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from suite import sampled

from variations.commands import run
from variations.configuration.schema import TrainerConfig
from variations.store.environment import code_hash, version
from variations.store.ledger import RunFolder
from variations.system.errors import Interrupted
from variations.training.fit import fit
from variations.training.performance import matmul_precision

DROPOUT = ("model.dropout=0", "model.attention_dropout=0", "model.relu_dropout=0")
STILL = (*DROPOUT, "trainer.max_steps=12", "trainer.log_every=1", "trainer.val_bleu=0")


def losses(folder: RunFolder) -> list[float]:
    return [line["train/loss"] for line in folder.measurements.read()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "tolerance", "kind"),
    sampled(
        [(*of, kind) for of in (("32-true", 1e-4), ("bf16-mixed", 5e-3)) for kind in ("transformer", "weighted")], 3
    ),
)
def test_both_profiles_give_the_same_losses(kind: str, precision: str, tolerance: float, small: Any) -> None:
    """Relative, in each of twelve updates; rounding errors grow with the updates."""
    found = {}
    for profile in ("reference", "auto"):
        changes = (*STILL, f"model={kind}", f"trainer.precision={precision}", f"profile={profile}", f"name={profile}")
        found[profile] = losses(RunFolder(run.execute(small(*changes))))
    assert len(found["auto"]) == 12
    assert found["auto"] == pytest.approx(found["reference"], rel=tolerance)
    assert found["auto"][-1] < found["auto"][0]


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["auto", "reference"])
def test_the_profile_is_told_and_recorded(profile: str, small: Any, capfd: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(
        run.execute(small(f"profile={profile}", "trainer.max_steps=1", "trainer.val_bleu=0", "trainer.progress=true"))
    )
    recorded = json.loads((folder.path / "environment.json").read_text())["performance"]
    assert recorded["profile"] == profile
    [told] = [line for line in capfd.readouterr().err.splitlines() if line.startswith(f"profile {profile}")]
    assert f"on cpu · {recorded['threads']} thread" in told


@pytest.fixture
def interrupted(small: Any, made: Any, stopped_at: Any) -> tuple[RunFolder, dict[str, Any]]:
    """A run that was stopped at step 5, and its environment."""
    config = small("name=interrupted")
    folder = made(config, "interrupted")
    with pytest.raises(Interrupted):
        fit(config, folder, stopped_at(5))
    return folder, json.loads((folder.path / "environment.json").read_text())


def remarks(result: dict[str, Any]) -> list[str]:
    """Those of a result after the two on its texts, which all these runs have."""
    told, further = result["remarks"][:2], result["remarks"][2:]
    assert [text.partition(" looks tokenised")[0] for text in told] == ["files: valid.de", "files: test.de"]
    return further


@pytest.mark.slow
def test_another_number_of_threads_in_a_continued_run_is_told(
    interrupted: tuple[RunFolder, dict[str, Any]],
) -> None:
    folder, environment = interrupted
    before = environment["performance"]["threads"]
    environment["performance"]["threads"] = before + 3  # as if that process had had more
    (folder.path / "environment.json").write_text(json.dumps(environment))
    result = run.run(folder.path)
    assert result["hardware"]["threads"] == before
    assert remarks(result) == [
        f"trained with {before + 3} and {before} threads in turn: its last bits are those of no run with one number of "
        "threads"
    ]


@pytest.mark.slow
def test_another_number_of_threads_in_a_repeated_test_is_none_in_which_the_run_was_trained(
    small: Any, made: Any
) -> None:
    config = small("name=tested_again")
    folder = made(config, "tested_again")
    run.run(folder.path)
    path = folder.path / "environment.json"
    environment = json.loads(path.read_text())
    threads = environment["performance"]["threads"]
    for before in ({}, {"threads_before": [threads + 1]}):
        environment["performance"] |= {"threads": threads + 3, **before}  # as if it had been trained with more
        path.write_text(json.dumps(environment))
        (folder.path / "result.json").unlink()
        result = run.run(folder.path)
        assert result["hardware"]["threads"] == threads
        assert json.loads(path.read_text())["performance"] == environment["performance"]
        told = [remark.partition(":")[0] for remark in result.get("remarks", []) if "threads" in remark]
        assert told == ([f"trained with {threads + 1} and {threads + 3} threads in turn"] if before else [])


@pytest.mark.slow
@pytest.mark.parametrize("damage", [None, ""])
def test_a_continued_run_that_has_lost_its_environment_was_trained_by_unknown_code(
    damage: str | None, interrupted: tuple[RunFolder, dict[str, Any]]
) -> None:
    folder, present = interrupted
    path = folder.path / "environment.json"
    path.unlink() if damage is None else path.write_text(damage)
    for _ in range(2):  # a test that is stopped and repeated trains nothing
        folder.write_environment(present, trains=False)
        assert folder.trained_by()[-1].startswith("code unknown")
    path.unlink() if damage is None else path.write_text(damage)
    (remark,) = remarks(run.run(folder.path))
    assert remark.startswith("trained with several versions of this project's code (code unknown; ")
    assert str(present["code"]) in remark


@pytest.mark.slow
def test_a_run_of_a_version_that_did_not_store_its_code_was_trained_by_unknown_code(
    interrupted: tuple[RunFolder, dict[str, Any]],
) -> None:
    folder, present = interrupted
    former = {key: value for key, value in present.items() if key != "code"} | {"git": {"commit": "1" * 40}}
    (folder.path / "environment.json").write_text(json.dumps(former))
    result = run.run(folder.path)
    (remark,) = remarks(result)
    assert "project's code (code unknown, commit 11111111; then code " in remark
    assert json.loads((folder.path / "environment-5.json").read_text())["git"] == former["git"]

    (folder.path / "environment-5.json").unlink()
    (folder.path / "environment.json").write_text(json.dumps(former))
    (folder.path / "result.json").unlink()
    assert run.run(folder.path)["code"] == "unknown"  # which only tests


@pytest.mark.slow
def test_other_code_of_the_project_in_a_continued_run_is_told(
    interrupted: tuple[RunFolder, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    folder, present = interrupted
    other = present | {"code": "0" * 12, "git": {"commit": "1" * 40}}
    former = f"code {'0' * 12}, commit 11111111"
    (folder.path / "environment.json").write_text(json.dumps(other))
    folder.write_environment(present | {"code": "f" * 12})
    assert folder.write_environment(other) is False  # the code in between has trained nothing
    assert folder.trained_by() == [former]
    result = run.run(folder.path)
    now = version(folder.environment() or {})
    assert result["code"] == code_hash() and now.startswith(f"code {code_hash()}")
    told = f"continues with other code of this project ({now}) than that of its checkpoints ({former})"
    assert told in caplog.text
    assert remarks(result) == [
        f"trained with several versions of this project's code ({former}; then {now}), so the result belongs to none "
        "of them"
    ]
    assert json.loads((folder.path / "environment-5.json").read_text()) == other

    (folder.path / "environment.json").write_text(json.dumps(present | {"code": "e" * 12}))
    (folder.path / "result.json").unlink()
    again = run.run(folder.path)  # which only tests: the former code has trained it
    assert (again["code"], len(remarks(again))) == ("e" * 12, 1)
    assert sorted(path.name for path in folder.path.glob("environment*")) == ["environment-5.json", "environment.json"]


@pytest.fixture
def restored() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("bits", "chosen"), [(torch.float32, "medium"), (torch.bfloat16, "highest")], ids=str)
def test_a_fast_product_is_taken_only_where_it_is_float32(
    bits: torch.dtype, chosen: str, restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a processor with AMX, `medium` computes float32 products in bfloat16."""
    multiply = torch.Tensor.__matmul__

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype == torch.float32 and torch.get_float32_matmul_precision() == "medium":
            torch.set_float32_matmul_precision("highest")  # the processor of this test may have AMX, too
            found = multiply(a.to(bits).float(), b.to(bits).float())
            torch.set_float32_matmul_precision("medium")
            return found
        return multiply(a, b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    assert matmul_precision() == torch.get_float32_matmul_precision() == chosen


def may_start(threads: int) -> bool:
    """Return whether the limits of user and container leave room for this many threads."""
    limits = [path.read_text().strip() for path in Path("/sys/fs/cgroup").glob("pids.max")]
    limits += [str(resource.getrlimit(resource.RLIMIT_NPROC)[0])]
    return all(not limit.isdigit() or int(limit) > threads for limit in limits)


MOST_THREADS = """
import sys
import torch
from variations.training import performance

threads = int(sys.argv[1])
chosen = performance.apply("auto", "cpu", threads, {})
assert chosen["threads"] == torch.get_num_threads() == threads, chosen
a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
assert torch.allclose((a @ b)[0, 0], a[0] @ b[:, 0], atol=1e-2)
print("alive")
"""


@pytest.mark.slow
@pytest.mark.skipif(not may_start(8192), reason="this user or container may not start thousands of threads")
def test_the_largest_number_of_threads_that_is_accepted_computes() -> None:
    (threads,) = [item for item in fields(TrainerConfig) if item.name == "threads"]
    most = threads.metadata["bounds"]["le"]
    line = [sys.executable, "-c", MOST_THREADS, str(most)]
    variables = os.environ | {"OMP_WAIT_POLICY": "passive"}  # a thread that waits leaves its core to the others
    done = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
