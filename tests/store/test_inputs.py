"""Fingerprints of a run's inputs: stored, compared by name, and enforced once there is data to lose."""

from pathlib import Path

import pytest

from variations.store import inputs
from variations.store.reuse import trained_in
from variations.store.run_folder import RunFolder
from variations.system.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run").create({"seed": 1})


def test_what_changed_is_named_and_what_is_new_is_not(folder: RunFolder) -> None:
    inputs.remember(folder, {"a": "1", "b": "2", "c": "3"})
    assert inputs.changed(folder, {"a": "1", "b": "0", "c": "0", "d": "4"}) == ["b", "c"]
    assert inputs.changed(folder, {"a": "1"}) == []


def test_a_run_refuses_other_inputs_from_its_first_checkpoint_on(folder: RunFolder) -> None:
    inputs.remember(folder, {"a": "1", "b": "1"})
    inputs.refuse_changed(folder, {"a": "2"})
    inputs.remember(folder, {"a": "2"})
    assert inputs.remembered(folder) == {"a": "2"}
    folder.measurements.append({"step": 1})  # they are dropped when the run starts anew
    inputs.refuse_changed(folder, {"a": "3"})
    folder.set_status("running", checkpoint=1)
    with pytest.raises(
        UserError, match=r"was started with other inputs: a has changed since\. Restore the former inputs"
    ):
        inputs.refuse_changed(folder, {"a": "3"})
    inputs.remember(folder, {"c": "1"})
    assert inputs.remembered(folder) == {"a": "2", "c": "1"}


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_damaged_fingerprints_are_told_of(text: str, folder: RunFolder) -> None:
    (folder.path / inputs.FILE).write_text(text)
    with pytest.raises(UserError, match=r"Cannot read .*inputs\.json"):
        inputs.changed(folder, {})


def test_a_kept_file_stays_what_it_was(folder: RunFolder, tmp_path: Path) -> None:
    source = tmp_path / "words.model"
    source.write_text("one")
    with pytest.raises(UserError, match="has not started training"):
        inputs.kept(folder, "words.model")
    folder.write_result({"steps": 1})
    with pytest.raises(UserError, match="it was deleted, or this is a record"):
        inputs.kept(folder, "words.model")
    (folder.path / "result.json").unlink()
    inputs.remember(folder, inputs.keep(folder, source))
    assert inputs.kept(folder, "words.model").read_text() == "one"
    (folder.checkpoints / "step1.ckpt").touch()
    assert inputs.keep(folder, source) == inputs.remembered(folder)
    source.write_text("two")
    with pytest.raises(UserError, match=r"words\.model does not match the present inputs"):
        inputs.keep(folder, source)
    (folder.path / "words.model").write_text("three")
    with pytest.raises(UserError, match=r"words\.model is not the file that the run was trained with"):
        inputs.kept(folder, "words.model")


def test_weights_that_were_trained_on_another_text_are_not_tested_again(tmp_path: Path) -> None:
    source, row = (RunFolder(tmp_path / "row" / name).create({"seed": 1}) for name in ("seed1", "seed2"))
    inputs.remember(source, {"train.en": "1"})
    source.write_result({"schema": 1})
    source.set_status("finished")
    inputs.remember(row, {"train.en": "1"})
    assert trained_in(row, "../seed1").path == source.path
    inputs.remember(row, {"train.en": "2"})
    with pytest.raises(UserError, match=r"whose inputs were different \(train\.en changed since\)"):
        trained_in(row, "../seed1")
