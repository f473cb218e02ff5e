"""Sub-words: one shared vocabulary, trained once, safe under concurrency, never failing on a line."""

import gzip
import multiprocessing
import os
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from variations.data.entry import META
from variations.data.special import BOS, EOS, PAD, UNK
from variations.system.errors import DataError, UserError
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data import subwords as module
from variations.tasks.translation.data.subwords import Subwords, subwords_for

DATA = Path(os.environ.get("VARIATIONS_TEST_DATA", Path(__file__).parents[4].parent / "shared" / "data"))

ENGLISH = ["The cat sleeps.", "A small dog runs over the green street.", "Two men are playing in the snow."] * 4
GERMAN = ["Die Katze schläft.", "Ein kleiner Hund läuft über die grüne Straße.", "Zwei Männer spielen im Schnee."] * 4


@dataclass(frozen=True)
class Pair:
    name: str
    source: Path
    target: Path


def corpus(folder: Path, english: list[str] = ENGLISH, german: list[str] = GERMAN) -> Any:
    folder.mkdir(exist_ok=True)
    pair = Pair("train", folder / "train.en", folder / "train.de")
    pair.source.write_text("".join(f"{line}\n" for line in english), encoding="utf-8")
    pair.target.write_text("".join(f"{line}\n" for line in german), encoding="utf-8")
    return SimpleNamespace(train=pair)


def settings(folder: Path, **changes: Any) -> DataConfig:
    return DataConfig(cache=str(folder / "cache"), **{"vocabulary": 80, **changes})


def test_special_symbols_have_the_ids_0_to_3(tmp_path: Path) -> None:
    subwords = subwords_for(corpus(tmp_path / "text"), settings(tmp_path))
    assert subwords.size == 80
    assert subwords.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_encoded_sentences_end_in_eos_and_decode_to_the_same_text(tmp_path: Path) -> None:
    subwords = subwords_for(corpus(tmp_path / "text"), settings(tmp_path))
    encoded = subwords.encode(GERMAN[:3])
    assert [ids[-1] for ids in encoded] == [EOS, EOS, EOS]
    assert all(EOS not in ids[:-1] and UNK not in ids for ids in encoded)
    assert subwords.decode(encoded) == GERMAN[:3]


def test_blank_lines_and_no_lines_encode(tmp_path: Path) -> None:
    subwords = subwords_for(corpus(tmp_path / "text"), settings(tmp_path))
    assert subwords.encode(["", " \t "]) == [[EOS], [EOS]]
    assert subwords.encode([]) == []
    assert subwords.decode([]) == []
    assert subwords.decode([[EOS], []]) == ["", ""]


@pytest.mark.parametrize("line", ["日本語 Katze", "a\0b", "\x1b[31m", "😀", "Katze " * 50_000, "x" * 100_000])
def test_no_line_fails(tmp_path: Path, line: str) -> None:
    subwords = subwords_for(corpus(tmp_path / "text"), settings(tmp_path))
    (ids,) = subwords.encode([line])
    assert ids[-1] == EOS
    assert all(0 <= i < subwords.size for i in ids)


def test_decoding_stops_at_eos_and_leaves_out_what_is_no_text(tmp_path: Path) -> None:
    subwords = subwords_for(corpus(tmp_path / "text"), settings(tmp_path))
    cat, dog = subwords.encode(["The cat", "dog"])
    # 10,000: a row that only pads the embedding matrix.
    assert subwords.decode([[BOS, PAD, *cat[:-1], UNK, 10_000, EOS, *dog]]) == ["The cat"]


def test_lowercase_keeps_the_sharp_s(tmp_path: Path) -> None:
    subwords = subwords_for(corpus(tmp_path / "text"), settings(tmp_path, lowercase=True, vocabulary=64))
    assert subwords.decode(subwords.encode(["Die grüne Straße. ÜBER"])) == ["die grüne straße. über"]


def test_training_twice_gives_the_same_model(tmp_path: Path) -> None:
    text = corpus(tmp_path / "text")
    first, second = (subwords_for(text, settings(tmp_path / name)) for name in ("a", "b"))
    assert first.path != second.path
    assert first.sha256 == second.sha256


def test_cache_key_follows_content_and_settings(tmp_path: Path) -> None:
    text = corpus(tmp_path / "text")
    paths = {
        subwords_for(text, settings(tmp_path)).path,
        subwords_for(text, settings(tmp_path, vocabulary=90)).path,
        subwords_for(text, settings(tmp_path, lowercase=True)).path,
        subwords_for(text, settings(tmp_path, train_pairs=6)).path,
        subwords_for(corpus(tmp_path / "other", german=[*GERMAN[:-1], "Neu."]), settings(tmp_path)).path,
    }
    assert len(paths) == 5
    same = subwords_for(corpus(tmp_path / "copy"), settings(tmp_path, max_length=9))  # does not affect sub-words
    assert same.path in paths


def test_a_cached_model_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = corpus(tmp_path / "text")
    trained = subwords_for(text, settings(tmp_path))
    monkeypatch.setattr(module, "_train", lambda *_: pytest.fail("trained again"))
    assert subwords_for(text, settings(tmp_path)).sha256 == trained.sha256


@pytest.mark.parametrize("damaged", ["subwords.model", META])
def test_a_damaged_cache_entry_is_rebuilt(tmp_path: Path, damaged: str) -> None:
    text = corpus(tmp_path / "text")
    whole = subwords_for(text, settings(tmp_path))
    path = whole.path.parent / damaged
    path.write_bytes(path.read_bytes()[:-10])
    assert subwords_for(text, settings(tmp_path)).sha256 == whole.sha256
    assert sorted(p.name for p in whole.path.parent.parent.iterdir() if ".tmp-" in p.name) == []


def train_once(folder: Path, barrier: Any, results: "Queue[tuple[str, int]]") -> None:
    trainings = 0
    train = module._train

    def counted(*arguments: Any) -> bytes:
        nonlocal trainings
        trainings += 1
        return train(*arguments)

    module._train = counted  # type: ignore[assignment]
    text: Any = SimpleNamespace(train=Pair("train", folder / "text" / "train.en", folder / "text" / "train.de"))
    barrier.wait(timeout=30)
    results.put((subwords_for(text, settings(folder)).sha256, trainings))


def test_processes_at_once_train_one_model(tmp_path: Path) -> None:
    corpus(tmp_path / "text")
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(3), context.Queue()
    processes = [context.Process(target=train_once, args=(tmp_path, barrier, results)) for _ in range(3)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len({sha256 for sha256, _ in outcomes}) == 1
    assert sum(trainings for _, trainings in outcomes) == 1


def test_too_large_a_vocabulary_names_the_largest(tmp_path: Path) -> None:
    text = corpus(tmp_path / "text")
    with pytest.raises(
        UserError, match=r"data\.vocabulary=8000 is too large .*train\.en.* possible value is (\d+)\."
    ) as e:
        subwords_for(text, settings(tmp_path, vocabulary=8000))
    largest = int(str(e.value).rstrip(".").rsplit(" ", 1)[1])
    assert subwords_for(text, settings(tmp_path, vocabulary=largest)).size == largest


def test_too_small_a_vocabulary_names_the_smallest(tmp_path: Path) -> None:
    text = corpus(tmp_path / "text")
    with pytest.raises(UserError, match=r"data\.vocabulary=32 is too small .* need at least (\d+)\.") as e:
        subwords_for(text, settings(tmp_path, vocabulary=32))
    smallest = int(str(e.value).rstrip(".").rsplit(" ", 1)[1])
    assert subwords_for(text, settings(tmp_path, vocabulary=smallest)).size == smallest


def test_text_without_words_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.en and .*train\.de contain no text"):
        subwords_for(corpus(tmp_path / "text", ["", " "], ["", ""]), settings(tmp_path))


def test_invalid_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    text = corpus(tmp_path / "text")
    text.train.target.write_bytes(b"gut\nschl\xe4ft\n" + b"gut\n" * 10)
    with pytest.raises(DataError, match=r"train\.de, line 2: not valid UTF-8"):
        subwords_for(text, settings(tmp_path))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(UserError, match=r"Cannot write .*data\.cache=DIR"):
        subwords_for(corpus(tmp_path / "text"), settings(tmp_path))


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "subwords.model").write_text("no model")
    with pytest.raises(UserError, match="not a readable SentencePiece model"):
        Subwords(tmp_path / "subwords.model")


def test_training_says_nothing_where_stderr_is_no_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    subwords_for(corpus(tmp_path / "text"), settings(tmp_path))
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason="needs multi30k in VARIATIONS_TEST_DATA")
def test_multi30k_sentences_come_back(tmp_path: Path) -> None:
    folder = DATA / "multi30k"
    train = Pair("train", folder / "train.en.gz", folder / "train.de.gz")
    corpus_of: Any = SimpleNamespace(train=train)
    subwords = subwords_for(corpus_of, settings(tmp_path, vocabulary=8000))
    with gzip.open(folder / "val.de.gz", "rt", encoding="utf-8", newline="\n") as stream:
        lines = [" ".join(line.split()) for line in stream]
    encoded = subwords.encode(lines)
    unknown = [UNK in ids for ids in encoded]
    back = subwords.decode(encoded)
    assert sum(unknown) < 5
    assert sum("ü" in line for line in back) > 100
    same = [line == text for line, text, lost in zip(lines, back, unknown, strict=True) if not lost]
    assert sum(same) / len(same) > 0.99  # NFKC rewrites … and similar characters
