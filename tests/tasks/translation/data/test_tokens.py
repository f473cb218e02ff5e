"""Token stores: each position has the right ids, dropped pairs are counted, and stores are shared."""

import gzip
import pickle
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from variations.data.special import EOS
from variations.system.errors import DataError
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data import tokens as module
from variations.tasks.translation.data.subwords import Subwords, subwords_for
from variations.tasks.translation.data.tokens import tokens_for

ENGLISH = ["one", "", "two two", "three three three three three three", "four", "five"]
GERMAN = ["eins", "nichts", "zwei zwei", "drei", " ", "fünf"]


@dataclass(frozen=True)
class Pair:
    name: str
    source: Path
    target: Path


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair("train", tmp_path / "train.en", tmp_path / "train.de")
    made.source.write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    made.target.write_text("".join(f"{line}\n" for line in GERMAN), encoding="utf-8")
    return made


def settings(folder: Path, **changes: Any) -> DataConfig:
    return DataConfig(cache=str(folder / "cache"), **{"vocabulary": 40, **changes})


@pytest.fixture
def subwords(pair: Pair, tmp_path: Path) -> Subwords:
    return subwords_for(SimpleNamespace(train=pair), settings(tmp_path))  # type: ignore[arg-type]


def test_dev_text_is_kept_line_by_line(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    store = tokens_for(pair, subwords, settings(tmp_path, max_length=3, train_pairs=2), drop_long=False)
    assert (len(store), store.dropped, store.blank, store.too_long) == (6, 0, 0, 0)
    assert [store.pair(i)[0].tolist() for i in range(6)] == subwords.encode(ENGLISH)
    assert [store.pair(i)[1].tolist() for i in range(6)] == subwords.encode(GERMAN)
    assert store.source_lengths.tolist() == [len(ids) for ids in subwords.encode(ENGLISH)]
    assert store.kept_index.tolist() == [0, 1, 2, 3, 4, 5]
    assert store.pair(1)[0].tolist() == [EOS]


def test_training_pairs_too_long_or_blank_are_dropped_and_counted(
    pair: Any, subwords: Subwords, tmp_path: Path
) -> None:
    lengths = [max(map(len, ids)) for ids in zip(*map(subwords.encode, (ENGLISH, GERMAN)), strict=True)]
    longest = lengths[3] - 1
    assert max(lengths[0], lengths[2], lengths[5]) <= longest  # the example is set up as intended
    store = tokens_for(pair, subwords, settings(tmp_path, max_length=longest), drop_long=True)
    assert (store.blank, store.too_long, store.dropped) == (2, 1, 3)
    assert store.kept_index.tolist() == [0, 2, 5]
    assert subwords.decode([ids.tolist() for ids in store.pair(2)]) == ["five", "fünf"]
    index, source, target = store[1]
    assert (index, source[-1], target[-1]) == (1, EOS, EOS)


def test_max_length_counts_eos(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    exact = max(len(ids) for ids in subwords.encode(["one", "eins"]))
    at_limit = tokens_for(pair, subwords, settings(tmp_path, max_length=exact, train_pairs=1), drop_long=True)
    assert len(at_limit) == 1
    with pytest.raises(DataError, match=rf"No pair of .*0 are blank, 1 exceed data\.max_length={exact - 1}"):
        tokens_for(pair, subwords, settings(tmp_path, max_length=exact - 1, train_pairs=1), drop_long=True)


def test_train_pairs_limits_training_text(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    store = tokens_for(pair, subwords, settings(tmp_path, train_pairs=3), drop_long=True)
    assert store.kept_index.tolist() == [0, 2]


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_chunks_make_no_difference(
    pair: Any, subwords: Subwords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    store = tokens_for(pair, subwords, settings(tmp_path), drop_long=True)
    assert [store.pair(i)[1].tolist() for i in range(len(store))] == subwords.encode(
        [GERMAN[i] for i in store.kept_index]
    )


def test_gz_files_give_the_same_ids(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    packed = Pair("train", tmp_path / "z.en.gz", tmp_path / "z.de.gz")
    packed.source.write_bytes(gzip.compress(pair.source.read_bytes()))
    packed.target.write_bytes(gzip.compress(pair.target.read_bytes()))
    pairs: list[Any] = [pair, packed]
    plain, gz = (tokens_for(p, subwords, settings(tmp_path), drop_long=False) for p in pairs)
    assert gz.folder != plain.folder
    assert (gz.folder / "target.bin").read_bytes() == (plain.folder / "target.bin").read_bytes()


def test_a_truncated_gz_file_is_named(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    packed = Pair("train", tmp_path / "z.en.gz", tmp_path / "z.de.gz")
    packed.source.write_bytes(gzip.compress(pair.source.read_bytes())[:-9])
    packed.target.write_bytes(gzip.compress(pair.target.read_bytes()))
    with pytest.raises(DataError, match=r"z\.en\.gz is not a complete gzip file"):
        tokens_for(packed, subwords, settings(tmp_path), drop_long=False)  # type: ignore[arg-type]


def test_files_of_different_length_are_named(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    pair.target.write_text("eins\nzwei\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.en has 6 lines, .*train\.de has 2"):
        tokens_for(pair, subwords, settings(tmp_path), drop_long=False)


def test_only_line_feeds_end_lines(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    pair.source.write_bytes("one\rone\u2028one\r\ntwo\n".encode())
    pair.target.write_bytes(b"eins\nzwei")
    store = tokens_for(pair, subwords, settings(tmp_path), drop_long=False)
    assert len(store) == 2
    assert store.source_lengths[0] == len(subwords.encode(["one one one"])[0])


@pytest.mark.parametrize("made", ["ids", "vocabulary"])
def test_a_text_that_is_edited_while_it_is_read_leaves_nothing_in_the_cache(
    made: str, pair: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subwords = subwords_for(SimpleNamespace(train=pair), settings(tmp_path)) if made == "ids" else None  # type: ignore[arg-type]
    before = sorted(path for path in (tmp_path / "cache").rglob("*") if "meta" in path.name)
    written, read = pair.target.read_text(), module.iterate_pairs

    def edited(*paths: Path) -> Any:
        pair.target.write_text(written.replace("eins", "zwei"))
        yield from read(*paths)

    monkeypatch.setattr(module, "iterate_pairs", edited)
    monkeypatch.setattr("variations.tasks.translation.data.subwords.iterate_pairs", edited)
    with pytest.raises(DataError, match=r"train\.de changed while this run read it: run the command again"):
        if subwords is None:
            subwords_for(SimpleNamespace(train=pair), settings(tmp_path))  # type: ignore[arg-type]
        else:
            tokens_for(pair, subwords, settings(tmp_path), drop_long=True)
    assert sorted(path for path in (tmp_path / "cache").rglob("*") if "meta" in path.name) == before


def test_a_store_is_built_once(pair: Any, subwords: Subwords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tokens_for(pair, subwords, settings(tmp_path), drop_long=True)
    monkeypatch.setattr(module, "_write", lambda *_: pytest.fail("built again"))
    again = tokens_for(pair, subwords, settings(tmp_path, workers=2), drop_long=True)
    assert again.folder == first.folder
    assert again.dropped == first.dropped


def test_a_damaged_store_is_rebuilt(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    path = tokens_for(pair, subwords, settings(tmp_path), drop_long=False).folder / "source.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    tokens_for(pair, subwords, settings(tmp_path), drop_long=False)
    assert path.read_bytes() == whole


def test_settings_and_vocabulary_make_another_store(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    other = subwords_for(SimpleNamespace(train=pair), settings(tmp_path, vocabulary=38))  # type: ignore[arg-type]
    folders = {
        tokens_for(pair, subwords, settings(tmp_path), drop_long=True).folder,
        tokens_for(pair, subwords, settings(tmp_path), drop_long=False).folder,
        tokens_for(pair, subwords, settings(tmp_path, max_length=99), drop_long=True).folder,
        tokens_for(pair, other, settings(tmp_path), drop_long=True).folder,
    }
    assert len(folders) == 4


def test_a_pickled_store_carries_nothing_that_is_mapped(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    store = tokens_for(pair, subwords, settings(tmp_path), drop_long=False)
    copy = pickle.loads(pickle.dumps(store))  # as loader processes receive the store
    assert not {"_ids", "_starts", "kept_index"} & set(store.__getstate__())
    assert copy.kept_index.tolist() == store.kept_index.tolist()
    assert copy.pair(3)[0].tolist() == store.pair(3)[0].tolist()


def test_ids_are_stored_in_two_bytes_and_read_only(pair: Any, subwords: Subwords, tmp_path: Path) -> None:
    store = tokens_for(pair, subwords, settings(tmp_path), drop_long=False)
    ids = store.pair(0)[0]
    assert ids.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 5
