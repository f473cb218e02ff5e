"""The two vocabularies: words of sentences, with classes for rare ones, and symbols of linearised trees."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from variations.data.special import BOS, EOS, PAD, UNK
from variations.store.atomic import read_json, write_text
from variations.system.errors import DataError

SUFFIXES = ("ing", "ed", "ly", "s", "ion", "er", "est", "al", "able", "y")
SPECIAL = max(PAD, BOS, EOS, UNK) + 1
"""Smaller ids are special symbols."""


def signature(word: str) -> str:
    """The class of a rare or unknown word: capital, digit, hyphen, suffix."""
    marks = ("C" if word[:1].isupper() else "") + ("D" if any(c.isdigit() for c in word) else "")
    suffix = next((each for each in SUFFIXES if len(word) > len(each) + 2 and word.lower().endswith(each)), "")
    return f"UNKNOWN-{marks}{'-' if '-' in word else ''}{suffix}"


class Vocabulary:
    """Names with ids from SPECIAL on, in a fixed order; smaller ids are PAD, BOS, EOS, UNK.

    A word without its own id gets that of its class, or UNK if the class has none either.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._ids = {name: number for number, name in enumerate(self.names, SPECIAL)}
        self.size = SPECIAL + len(self.names)

    @classmethod
    def of_words(cls, sentences: Iterable[Sequence[str]], size: int) -> "Vocabulary":
        """The most frequent words that occur at least twice, and a class for each of the others.

        At most `size` rows, or more if the classes alone need more.
        """
        counts = Counter(word for sentence in sentences for word in sentence)
        classes = sorted({signature(word) for word in counts})
        room = max(0, size - SPECIAL - len(classes))
        frequent = sorted((-count, word) for word, count in counts.items() if count > 1)[:room]
        return cls([*classes, *sorted({word for _, word in frequent} - set(classes))])

    @classmethod
    def of_symbols(cls, lines: Iterable[Sequence[str]]) -> "Vocabulary":
        """Every symbol of the training trees."""
        return cls(sorted({symbol for line in lines for symbol in line}))

    def encode_words(self, words: Sequence[str]) -> list[int]:
        """Ids of a sentence, with EOS at the end."""
        return [*(self._ids.get(word) or self._ids.get(signature(word), UNK) for word in words), EOS]

    def encode_symbols(self, symbols: Sequence[str]) -> list[int]:
        """Ids of a line of symbols, with EOS at the end; a symbol unknown from training becomes UNK."""
        return [*(self._ids.get(symbol, UNK) for symbol in symbols), EOS]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The names up to the first EOS; special symbols and ids beyond the vocabulary are left out."""
        found = []
        for number in ids:
            if number == EOS:
                break
            if SPECIAL <= number < self.size:
                found.append(self.names[number - SPECIAL])
        return found

    def write(self, path: Path) -> None:
        """Store the names, one per line."""
        write_text(path, json.dumps(self.names, ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Read a file of `write`. Raises DataError for any other file."""
        try:
            names = read_json(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is not a vocabulary: {error}") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{path} is not a vocabulary: it must contain a list of names.")
        return cls(names)
