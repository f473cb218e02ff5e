"""Each text of a run has its own fingerprint; a text that was changed after its run is detected."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from variations.configuration.compose import to_dict
from variations.store import inputs, own_code
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


def test_a_text_whose_language_is_py_is_not_a_module_of_the_user(config: TranslationConfig) -> None:
    """`test` and `train` are modules that Python finds: the texts would be compared with them."""
    root = Path(str(config.data.root))
    for path in root.glob("*.de"):
        path.rename(path.with_suffix(".py"))
    config.data.target = "py"
    found = present(config)
    assert {*found} == {"train.en", "valid.en", "test.en", "train.py (text)", "valid.py (text)", "test.py (text)"}
    edited = found | {"test.py (text)": "another"}
    settings = to_dict(config)
    assert inputs.other_texts(found, edited, settings, settings) == ["test.py (text)"]
    assert inputs.other_modules(found, edited) == []
    assert own_code.edited(found) == []


def test_a_text_of_the_same_size_and_time_is_read_again(config: TranslationConfig) -> None:
    import os

    present(config)
    path = Path(str(config.data.root), "train.en")
    before = path.stat()
    path.write_text("train.en eno\ntwo\n", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert present(config)["train.en"] == sha256("train.en eno\ntwo\n")


def in_folders(config: TranslationConfig, files: dict[str, str]) -> TranslationConfig:
    """Move the texts: set and file below the root, of both languages."""
    root = Path(str(config.data.root))
    for name, stem in files.items():
        for language in ("en", "de"):
            (root / stem).parent.mkdir(parents=True, exist_ok=True)
            (root / f"{ {'dev': 'valid'}.get(name, name) }.{language}").rename(root / f"{stem}.{language}")
        setattr(config.data, name, stem)
    return config


def test_files_with_one_name_in_several_folders_have_a_fingerprint_each(
    config: TranslationConfig, tmp_path: Path
) -> None:
    in_folders(config, {"train": "train/text", "dev": "dev/text", "test": "test/text"})
    packed = Path(str(config.data.root), "dev", "text.en")
    packed.with_name("text.en.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    assert list(present(config)) == [
        f"{name}/text.{side}" for name in ("train", "dev", "test") for side in ("en", "de")
    ]
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    inputs.remember(folder, present(config))
    for name in ("train", "dev"):
        Path(str(config.data.root), name, "text.de").write_text("other\ntwo\n", encoding="utf-8")
    (warning,) = changed_texts(config, folder)
    assert warning.startswith(f"dev/text.de, train/text.de in {config.data.root} changed after this run")


def test_a_name_that_no_other_file_has_stays_plain_in_any_folder(config: TranslationConfig) -> None:
    in_folders(config, {"train": "train/text", "dev": "held_out/dev", "test": "held_out/text"})
    names = ["train/text.en", "train/text.de", "dev.en", "dev.de", "held_out/text.en", "held_out/text.de"]
    assert list(present(config)) == names
    config.data.test = config.data.dev
    assert list(present(config)) == ["text.en", "text.de", "dev.en", "dev.de"]


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
