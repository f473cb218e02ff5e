"""The data card, compared with hand-computed figures."""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data.card import data_card
from variations.tasks.translation.data.corpora import Corpus, TextPair, load

TRAIN_DE = "Ein Hund.\n\nEin Hund läuft sehr schnell weg.\nEin Hund.\n"
FILES = {
    "train.en": "A dog.\nA cat.\nA dog runs away fast.\nA dog.\n",
    "train.de": TRAIN_DE,
    "valid.en": "A bird.\n",
    "valid.de": "Ein Vogel.\n",
    "test.en": "A dog.\nOne two three four five six seven eight nine ten.\n",
    "test.de": "Ein Hund.\nEins.\n",
}


@dataclass
class Store:
    source_lengths: NDArray[Any]
    target_lengths: NDArray[Any]
    dropped: int
    too_long: int


@dataclass
class Vocabulary:
    size: int
    sha256: str


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "train.de").unlink()
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(TRAIN_DE.encode(), mtime=0))
    data = DataConfig(name="files", kind="folder", root=str(tmp_path), cache=str(tmp_path / "cache"))
    return load(data, progress=False)


def test_card_counts_pairs_blanks_repetitions_and_overlap(corpus: Corpus) -> None:
    card = data_card(corpus)
    assert (card["name"], card["languages"]) == ("files", {"source": "en", "target": "de"})
    assert card["licence"] == "not known: the user's own files"
    assert card["subwords"] is None
    train = card["sets"]["train"]
    assert {key: train[key] for key in ("pairs", "blank", "blank_lines", "duplicates", "overlap")} == {
        "pairs": 4,
        "blank": 1,
        "blank_lines": [2],
        "duplicates": 1,
        "overlap": {"dev": 0, "test": 1},
    }
    assert card["sets"]["test"]["pairs"] == 2
    assert card["fingerprint"] == corpus.fingerprint()


def test_lengths_are_words_without_token_stores(corpus: Corpus) -> None:
    lengths = data_card(corpus)["sets"]["train"]["lengths"]
    assert lengths["unit"] == "words"
    assert lengths["edges"] == [0, 1, 5, 10, 15, 20, 30, 40, 60, 80, 100, 150, 250]
    assert lengths["source"] == {"counts": [0, 3, 1] + [0] * 10, "mean": 2.75, "longest": 5}
    assert lengths["target"] == {"counts": [1, 2, 1] + [0] * 10, "mean": 2.5, "longest": 6}


def test_lengths_are_subwords_with_token_stores(corpus: Corpus) -> None:
    store = Store(np.array([4, 5, 300], dtype=np.int32), np.array([9, 10, 249], dtype=np.int32), 1, 0)
    card = data_card(corpus, Vocabulary(8000, "abc"), {"train": store})
    train = card["sets"]["train"]
    assert (train["used"], train["dropped"], train["too_long"]) == (3, 1, 0)
    assert train["lengths"]["unit"] == "sub-words"
    assert train["lengths"]["source"] == {"counts": [0, 1, 1] + [0] * 9 + [1], "mean": 103.0, "longest": 300}
    assert train["lengths"]["target"] == {"counts": [0, 0, 1, 1] + [0] * 7 + [1, 0], "mean": 89.33, "longest": 249}
    assert card["sets"]["dev"]["lengths"]["unit"] == "words"
    assert card["subwords"] == {"size": 8000, "sha256": "abc"}


def test_card_has_the_hash_of_every_file_as_it_is(corpus: Corpus) -> None:
    files = data_card(corpus)["sets"]["train"]["files"]
    assert files["target"] == {
        "name": "train.de.gz",
        "sha256": hashlib.sha256(gzip.compress(TRAIN_DE.encode(), mtime=0)).hexdigest(),
    }
    assert files["source"]["sha256"] == hashlib.sha256(FILES["train.en"].encode()).hexdigest()


def test_corpus_made_by_hand_is_surveyed_for_its_card(corpus: Corpus) -> None:
    bare = Corpus("files", "en", "de", corpus.train, corpus.dev, corpus.test, {"more": corpus.dev})
    card = data_card(bare)
    assert list(card["sets"]) == ["train", "dev", "test", "more"]
    assert card["sets"]["train"]["overlap"] == {"dev": 0, "test": 1, "more": 0}
    assert isinstance(bare.others["more"], TextPair)
