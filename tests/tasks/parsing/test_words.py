"""Vocabularies of words and of symbols."""

from pathlib import Path

import pytest

from variations.data.special import EOS, UNK
from variations.system.errors import DataError
from variations.tasks.parsing.words import SPECIAL, Vocabulary, signature

SENTENCES = [["the", "cat", "saw", "Ada"], ["the", "cat", "walked"], ["the", "dog", "walked"]]


def test_rare_words_share_the_id_of_their_class() -> None:
    words = Vocabulary.of_words(SENTENCES, 100)
    assert set(words.names) == {"the", "cat", "walked", *(signature(word) for line in SENTENCES for word in line)}
    saw, dog = words.encode_words(["saw"]), words.encode_words(["dog"])
    assert saw == dog != words.encode_words(["cat"])
    assert words.encode_words(["talked"]) == words.encode_words(["hoped"]) != words.encode_words(["walked"])
    assert words.encode_words(["1987"]) == [UNK, EOS]


def test_the_most_frequent_words_get_the_room_there_is() -> None:
    classes = len({signature(word) for line in SENTENCES for word in line})
    words = Vocabulary.of_words(SENTENCES, SPECIAL + classes + 1)
    assert words.size == SPECIAL + classes + 1
    assert [name for name in words.names if not name.startswith("UNKNOWN")] == ["the"]


def test_the_classes_have_rows_also_where_there_is_no_room_for_them() -> None:
    classes = {signature(word) for line in SENTENCES for word in line}
    words = Vocabulary.of_words(SENTENCES, SPECIAL + len(classes) - 1)
    assert set(words.names) == classes and words.size == SPECIAL + len(classes)


def test_symbols_there_and_back() -> None:
    lines = [["S", "NP", "DT", "/NP", "/S"], ["S", "VB", "/S"]]
    symbols = Vocabulary.of_symbols(lines)
    assert symbols.size == SPECIAL + 6
    for line in lines:
        assert symbols.decode([*symbols.encode_symbols(line), 5]) == line
        assert symbols.decode([symbols.size, *symbols.encode_symbols(line)]) == line
    assert symbols.decode(symbols.encode_symbols(["S", "QP", "/S"])) == ["S", "/S"]


def test_a_vocabulary_is_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    Vocabulary(["über", "a"]).write(path)
    assert Vocabulary.read(path).names == ("über", "a")
    path.write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(DataError, match="list of names"):
        Vocabulary.read(path)
    with pytest.raises(DataError, match="is not a vocabulary"):
        Vocabulary.read(tmp_path / "absent.json")
