"""Each text of a run has its own fingerprint; a text that was changed after its run is detected."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from variations.store import inputs
from variations.store.run_folder import RunFolder
from variations.tasks.translation.config import DataConfig, TranslationConfig
from variations.tasks.translation.data.fingerprints import changed_texts, present

NAMES = [f"{stem}.{language}" for stem in ("train", "valid", "test") for language in ("en", "de")]


@pytest.fixture
def config(tmp_path: Path) -> TranslationConfig:
    root = tmp_path / "text"
    root.mkdir()
    for name in NAMES:
        (root / name).write_text(f"{name} one\ntwo\n", encoding="utf-8")
    config = TranslationConfig(data=DataConfig(kind="folder", root=str(root), cache=str(tmp_path / "cache")))
    config.trainer.progress = False
    return config


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_every_text_is_named_with_its_hash_packed_or_not(config: TranslationConfig) -> None:
    expected = {name: sha256(f"{name} one\ntwo\n") for name in NAMES}
    assert present(config) == expected
    plain = Path(str(config.data.root), "train.de")
    plain.with_name("train.de.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert present(config) == expected


def test_a_text_of_the_same_size_and_time_is_read_again(config: TranslationConfig) -> None:
    import os

    present(config)
    path = Path(str(config.data.root), "train.en")
    before = path.stat()
    path.write_text("train.en eno\ntwo\n", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert present(config)["train.en"] == sha256("train.en eno\ntwo\n")


@pytest.mark.parametrize("by_card", [False, True])
def test_files_that_changed_after_the_run_are_named(by_card: bool, config: TranslationConfig, tmp_path: Path) -> None:
    folder, found = RunFolder(tmp_path / "run"), present(config)
    folder.path.mkdir()
    if by_card:
        sides = {name: {"name": name, "sha256": found[name]} for name in ("train.en", "train.de")}
        card = {"sets": {"train": {"files": {"source": sides["train.en"], "target": sides["train.de"]}}}}
        (folder.path / "data_card.json").write_text(json.dumps(card), encoding="utf-8")
    else:
        inputs.remember(folder, found)
    assert changed_texts(config, folder) == []
    Path(str(config.data.root), "train.de").write_text("other\ntwo\n", encoding="utf-8")
    (warning,) = changed_texts(config, folder)
    assert warning.startswith(f"train.de in {config.data.root} changed after this run")


def test_where_nothing_is_known_or_no_text_is_left_there_is_nothing_to_compare(
    config: TranslationConfig, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    assert changed_texts(config, folder) == []
    (folder.path / "data_card.json").write_text("[]", encoding="utf-8")
    assert changed_texts(config, folder) == []
    inputs.remember(folder, {"train.de": "0"})
    assert len(changed_texts(config, folder)) == 1
    Path(str(config.data.root), "train.de").unlink()
    assert changed_texts(config, folder) == []
