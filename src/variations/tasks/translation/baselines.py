"""Translations that need no training, which a trained model must leave far behind."""

import gzip
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

DICTIONARY = Path(__file__).parent / "data" / "toy" / "dictionary.tsv.gz"
"""English and German words of the toy corpus' grammar, written by `tools/make_toy_corpus.py`."""


def copy_baseline(sources: Sequence[str]) -> list[str]:
    """Return the source sentences as they are."""
    return list(sources)


def dictionary_baseline(sources: Sequence[str]) -> list[str]:
    """Return each sentence of the toy corpus translated word by word, in the order of the English words."""
    return [_translate(source) for source in sources]


@cache
def _dictionary() -> dict[str, str]:
    lines = gzip.decompress(DICTIONARY.read_bytes()).decode().splitlines()
    return dict(line.split("\t") for line in lines)


def _translate(sentence: str) -> str:
    entries = _dictionary()
    text = re.sub(r"[\w'-]+", lambda match: entries.get(match[0].lower(), match[0]), sentence)
    return text[0].upper() + text[1:]
