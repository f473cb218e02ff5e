"""A text that was changed after its run is noticed."""

import json
from pathlib import Path

from variations.data.entry import file_sha256
from variations.store.run_folder import RunFolder
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data.changes import changed_texts


def test_files_that_changed_after_the_run_are_named(tmp_path: Path) -> None:
    root, run = tmp_path / "text", tmp_path / "run"
    root.mkdir()
    run.mkdir()
    names = ["train.en", "train.de"]
    for name in names:
        (root / name).write_text("one\n", encoding="utf-8")
    sides = [{"name": name, "sha256": file_sha256(root / name)} for name in names]
    card = {"sets": {"train": {"files": dict(zip(("source", "target"), sides, strict=True))}}}
    (run / "data_card.json").write_text(json.dumps(card), encoding="utf-8")
    data = DataConfig(kind="folder", root=str(root))
    assert list(changed_texts(RunFolder(run), data)) == []
    (root / "train.de").write_text("two\n", encoding="utf-8")
    (warning,) = changed_texts(RunFolder(run), data)
    assert warning.startswith(f"train.de in {root} changed after this run")


def test_without_a_card_or_a_folder_of_ones_own_there_is_nothing_to_compare(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert list(changed_texts(folder, DataConfig(kind="folder", root=str(tmp_path)))) == []
    assert list(changed_texts(folder, DataConfig())) == []
    (tmp_path / "data_card.json").write_text("[]", encoding="utf-8")
    assert list(changed_texts(folder, DataConfig(root=str(tmp_path)))) == []
