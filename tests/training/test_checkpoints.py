"""Checkpoints: complete or absent, checked before use, and usable after a full disk."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from suite import sampled

from variations.commands import run
from variations.configuration.compose import compose_run, to_dict
from variations.store import naming
from variations.store.checksums import file_sha256, sidecar
from variations.store.departures import of_run
from variations.store.identity import identifying
from variations.store.ledger import RunFolder
from variations.system.errors import Interrupted, RunFailedError, UserError
from variations.training import checkpoints
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.step import Step
from variations.training.weights import final_weights, load_network


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lose_the_sum(path: Path) -> None:
    path.with_name(f"{path.name}.sha256").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("damage", sampled([flip_a_bit, truncate, lose_the_sum, empty], 2))
def test_a_damaged_newest_checkpoint_is_told_of_and_the_one_before_used(
    damage: Callable[[Path], None], small: Any, made: Any, stopped_at: Any, same_run: Any, caplog: Any
) -> None:
    config = small("recipe.average=3", "recipe.average_every=2")
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    with pytest.raises(Interrupted):
        fit(config, parts, stopped_at(10))
    assert [step for step, _ in checkpoints.full(parts.checkpoints)] == [8, 10]
    damage(parts.checkpoints / "step10.ckpt")
    with caplog.at_level(logging.WARNING):
        fit(config, parts, Interrupt())
    assert f"{parts.checkpoints / 'step10.ckpt'} is damaged" in caplog.text
    assert "step8.ckpt is used instead" in caplog.text
    assert [line["step"] for line in parts.measurements.read()] == list(range(1, 13))
    same_run(whole, parts)


@pytest.mark.slow
def test_a_run_of_which_all_checkpoints_are_damaged_does_not_begin_again_unasked(
    small: Any, made: Any, stopped_at: Any, caplog: Any
) -> None:
    folder = made(small(), "run")
    with pytest.raises(Interrupted):
        fit(small(), folder, stopped_at(10))
    for _, path in checkpoints.full(folder.checkpoints):
        truncate(path)
    with pytest.raises(RunFailedError, match=r"all checkpoints in .* are damaged .* restore one of them"):
        fit(small(), folder, Interrupt())
    assert len(folder.measurements.read()) == 10
    assert "is used instead" not in caplog.text


def test_a_file_appears_whole_with_its_sum_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "step1.ckpt"
    checkpoints.save(path, {"a": torch.arange(3)})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step1.ckpt", "step1.ckpt.sha256"]
    words = (tmp_path / "step1.ckpt.sha256").read_text().split()
    assert words == [subprocess.check_output(["sha256sum", str(path)], text=True).split()[0], "step1.ckpt"]
    assert checkpoints.load(path)["a"].tolist() == [0, 1, 2]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.save(tmp_path / "step1.ckpt", {"a": 1})

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(RunFailedError, match=r"step2\.ckpt: .*No space left.* Earlier checkpoints are untouched"):
        checkpoints.save(tmp_path / "step2.ckpt", {"a": 2})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step1.ckpt", "step1.ckpt.sha256"]
    assert checkpoints.load(tmp_path / "step1.ckpt") == {"a": 1}


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "made"),))

    path = tmp_path / "step1.ckpt"
    torch.save(Malicious(), path)
    sidecar(path).write_text(f"{file_sha256(path)}  {path.name}\n")
    with pytest.raises(UserError, match=r"step1\.ckpt cannot be used: it holds more than tensors"):
        checkpoints.load(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "state", [np.float64(0.5), np.zeros(2), object(), len, lambda: 0], ids=lambda v: type(v).__name__
)
def test_a_state_that_could_not_be_read_again_is_refused_before_older_checkpoints_go(
    state: Any, tmp_path: Path
) -> None:
    content = {"state_dict": {"w": torch.ones(2)}, "callbacks": {"Best": {"best": state}, "Other": {"n": 1}}}
    with pytest.raises(RunFailedError, match=r"no checkpoint can be written: the state of callback Best contains "):
        checkpoints.save(tmp_path / "step1.ckpt", content)
    assert not list(tmp_path.iterdir())
    content["callbacks"]["Best"] = {"best": 0.5, "seen": (1, "two", {3}, None), "weights": torch.ones(2)}
    checkpoints.save(tmp_path / "step1.ckpt", content)
    assert checkpoints.load(tmp_path / "step1.ckpt")["callbacks"]["Other"] == {"n": 1}


@pytest.mark.slow
def test_what_no_continuation_needs_is_deleted(tmp_path: Path) -> None:
    for name in ("step10.ckpt", "step20.ckpt", "step30.ckpt", "weights15.pt", "weights25.pt", "weights30.pt"):
        checkpoints.save(tmp_path / name, 0)
    for name in ("best5.pt", "best10.pt", "best20.pt", "best25.pt"):
        checkpoints.save(tmp_path / name, 0)
    (tmp_path / ".step40.ckpt.123.tmp").write_bytes(b"half")
    (tmp_path / "step40.ckpt.sha256").write_text("0  step40.ckpt\n")
    checkpoints.prune(tmp_path, planned={25, 30, 35})
    # If step30 is damaged, the run falls back to step20, when the best weights were those of step 20.
    kept = ["best20.pt", "best25.pt", "step20.ckpt", "step30.ckpt", "weights25.pt", "weights30.pt"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".sha256") == kept
    assert sorted(path.name[:-7] for path in tmp_path.glob("*.sha256")) == kept


@pytest.mark.slow
def test_the_best_dev_state_is_kept_and_found_again(small: Any, made: Any) -> None:
    config = small("trainer.val_every=1")
    folder = made(config, "run")
    trained = fit(config, folder, Interrupt())
    losses = {line["step"]: line["dev/nll"] for line in folder.measurements.read()}
    step, path = checkpoints.best(folder.checkpoints)[-1]
    assert losses[step] == min(losses.values())
    trained.step.model.load_state_dict(checkpoints.load(path)["model"])
    assert trained.step.validate()["dev/nll"] == losses[step]


@pytest.mark.slow
def test_the_last_checkpoints_are_averaged(small: Any, made: Any) -> None:
    config = small("recipe.average=3", "recipe.average_every=2")
    folder = made(config, "run")
    fit(config, folder, Interrupt())
    weights, steps = final_weights(config, folder)
    assert steps == [8, 10, 12]
    files = [checkpoints.load(folder.checkpoints / f"weights{step}.pt")["model"] for step in steps]
    for name, value in weights.items():
        expected = (files[0][name].double() + files[1][name].double() + files[2][name].double()) / 3
        assert torch.equal(value, expected.float())
    assert not torch.equal(weights["target_embedding"], files[2]["target_embedding"])


@pytest.mark.slow
def test_checkpoints_of_another_run_are_not_tested(small: Any, made: Any) -> None:
    """As after two stores were merged with cp: the files of a longer run beside those of a shorter one."""
    config = small("trainer.max_steps=6")
    folder = RunFolder(run.execute(config))
    for path in RunFolder(run.execute(small("trainer.max_steps=8", "name=longer"))).checkpoints.glob("step8.*"):
        shutil.copy(path, folder.checkpoints)
    with pytest.raises(UserError, match=r"step8\.ckpt is the checkpoint of another run \(trainer\.max_steps 8 there"):
        load_network(folder.path)
    result = json.loads((folder.path / "result.json").read_text())
    (folder.path / "result.json").write_text(json.dumps(result | {"averaged_steps": [4]}))
    for path in folder.checkpoints.glob("step8.*"):
        path.unlink()
    with pytest.raises(UserError, match="are of step 6, but its result is of step 4: restore those"):
        load_network(folder.path)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["damaged", "missing"])
def test_lost_weights_are_left_out_of_the_average_with_a_warning_and_a_mark(
    lost: str, small: Any, made: Any, caplog: Any
) -> None:
    config = small("recipe.average=3", "recipe.average_every=2")
    folder = made(config, "run")
    fit(config, folder, Interrupt())
    path = folder.checkpoints / "weights10.pt"
    truncate(path) if lost == "damaged" else path.unlink()
    with caplog.at_level(logging.WARNING):
        steps = final_weights(config, folder)[1]
    assert steps == [8, 12]
    assert "The weights of step 10 in" in caplog.text
    (mark,) = of_run(to_dict(config), {"steps": 12, "averaged_steps": steps})
    assert mark == "the weights of only 2 of 3 steps were averaged: the others are not stored"
    assert of_run(to_dict(config), {"steps": 12, "averaged_steps": [8, 10, 12]}) == []
    (folder.checkpoints / "weights8.pt").unlink()
    weights, steps = final_weights(config, folder)
    again, tested = final_weights(config, folder, steps)  # what was tested can be used, though it is one step alone
    assert steps == tested == [12]
    assert all(torch.equal(value, weights[name]) for name, value in again.items())


@pytest.mark.slow
def test_weights_that_were_tested_and_are_lost_are_not_replaced(small: Any) -> None:
    folder = RunFolder(run.execute(small("recipe.average=3", "recipe.average_every=2")))
    assert (folder.result() or {})["averaged_steps"] == [8, 10, 12]
    load_network(folder.path)
    (folder.checkpoints / "weights10.pt").unlink()
    with pytest.raises(UserError, match="the weights of step 10 are missing or damaged, but are part of the average"):
        load_network(folder.path)


@pytest.mark.slow
def test_a_run_that_ended_early_is_tested_with_its_current_weights(small: Any, made: Any) -> None:
    """As docs/resume.md says; the average is planned from the last step, which was not reached."""
    whole = small("recipe.average=3", "recipe.average_every=2")
    folder = made(whole, "run")
    fit(whole, folder, Interrupt())
    for path in folder.checkpoints.glob("weights12.*"):
        path.unlink()
    whole.trainer.max_steps = 14
    weights, steps = final_weights(whole, folder)
    assert steps == [12]
    state = checkpoints.load(folder.checkpoints / "step12.ckpt")["state_dict"]
    assert all(torch.equal(value, state[f"model.{name}"]) for name, value in weights.items())


@pytest.mark.slow
def test_the_moving_average_is_tested(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small("recipe.ema=0.7")
    folder, states = made(config, "run"), []
    original = Step.update_weights

    def update_weights(self: Step) -> None:
        states.append({name: value.clone() for name, value in self.model.state_dict().items()})
        original(self)
        states.append({name: value.clone() for name, value in self.model.state_dict().items()})

    monkeypatch.setattr(Step, "update_weights", update_weights)
    fit(config, folder, Interrupt())
    expected = {name: value.double() for name, value in states[0].items()}
    for updates, state in enumerate(states[1::2]):
        rate = min(0.7, (1 + updates) / (10 + updates))
        expected = {name: rate * value + (1 - rate) * state[name].double() for name, value in expected.items()}
    weights, steps = final_weights(config, folder)
    assert steps == [12] and weights.keys() == states[-1].keys()
    for name, value in weights.items():
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(weights["target_embedding"], states[-1]["target_embedding"], rtol=1e-3)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A 2 MB disk."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root on Linux")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("log_every", [1, 100], ids=["metrics", "checkpoint"])
def test_a_full_disk_stops_the_run_and_leaves_the_last_checkpoint_usable(
    log_every: int, disk: Path, overrides: Any, small: Any, same_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = (f"trainer.log_every={log_every}", "trainer.checkpoint_every=2", "trainer.val_every=12")
    config = compose_run(overrides(disk, *changes))
    folder = RunFolder(naming.run_folder(config))
    original, ballast = Step.training_step, disk / "ballast"

    def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 6:
            with ballast.open("wb", buffering=0) as file:
                for size in (4096, 1):  # fill it to the last byte
                    try:
                        while file.write(b"0" * size):
                            pass
                    except OSError:
                        continue
        return original(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(Step, "training_step", training_step)
        with pytest.raises(RunFailedError) as failure:
            run.execute(config)
    told = str(failure.value)
    assert ("the disk is full" if log_every == 1 else "cannot write the checkpoint") in told
    assert "No space left on device" in told and "free some space and run the same command again" in told
    assert "\n" not in told
    assert checkpoints.newest(folder.checkpoints) == folder.checkpoints / "step6.ckpt"
    assert not list(folder.checkpoints.glob(".*.tmp"))

    ballast.unlink()
    run.execute(config)
    assert folder.state() == "finished"
    whole = small(*changes)
    run.execute(whole)
    same_run(RunFolder(naming.run_folder(whole)), folder)


@pytest.mark.slow
def test_the_status_names_the_step_of_the_newest_checkpoint(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds for a step without logged metrics: a run that dies later can no longer report it."""
    config = small("trainer.checkpoint_every=3", "trainer.log_every=100", "trainer.val_every=12")
    folder, original = made(config, "dies"), Step.training_step

    def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 7:
            raise RuntimeError("dies")
        return original(self, batch, batch_idx)

    monkeypatch.setattr(Step, "training_step", training_step)
    with pytest.raises(RuntimeError, match="dies"):
        fit(config, folder, Interrupt())
    status = folder.status()
    assert checkpoints.newest(folder.checkpoints) == folder.checkpoints / "step6.ckpt"
    assert status is not None and status.step == 6


def test_a_run_without_a_checkpoint_cannot_be_tested(small: Any) -> None:
    folder = RunFolder(naming.run_folder(small())).create(to_dict(small()))
    with pytest.raises(UserError, match="has no readable checkpoint: train the run first"):
        final_weights(small(), folder)


@pytest.mark.slow
def test_losses_in_the_result_are_measured_without_dropout(small: Any) -> None:
    config = small("model.dropout=0.5", "decode.sets=[dev,test]")
    folder = RunFolder(run.execute(config))
    first = folder.result()
    assert first is not None
    folder.set_status("interrupted")
    torch.manual_seed(99)
    run.execute(config)
    again = folder.result()
    assert again is not None and again["loss"] == first["loss"]
    assert first["loss"]["dev_nll"] == folder.measurements.read()[-1]["dev/nll"]


def test_a_checkpoint_may_differ_in_keys_that_have_no_effect(configuration: Any) -> None:
    written = identifying(configuration(recipe__beta1=0.5, recipe__optimizer="sgd"))
    checkpoints.refuse_foreign(Path("step1.ckpt"), written, configuration(recipe__optimizer="sgd"))
    with pytest.raises(UserError, match=r"step1\.ckpt is the checkpoint of another run .*recipe\.beta1 0\.5 there"):
        checkpoints.refuse_foreign(Path("step1.ckpt"), written, configuration(recipe__optimizer="adam"))
