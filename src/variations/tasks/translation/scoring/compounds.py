"""Compound splitting and punctuation, as behind the published English-German BLEU figures.

Source: tensor2tensor's `get_ende_bleu.sh`, which both papers' EN-DE numbers follow. Three steps come
before multi-bleu: replace Unicode punctuation in the *output*, tokenise both sides with Moses, then write every hyphen
between two non-spaces as a token of its own, on both sides.
"""

import re
from functools import lru_cache
from typing import Any

HYPHEN = re.compile(r"(\S)-(\S)")


def split_compounds(line: str) -> str:
    """Write `rich-text` as `rich ##AT##-##AT## text`.

    Matches do not overlap, as in the original's `s{(\\S)-(\\S)}{…}g`: in `a-b-c` the first match takes the `b`, so that
    the second hyphen stays: `a ##AT##-##AT## b-c`.
    """
    return HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)


@lru_cache(maxsize=1)
def _normaliser() -> Any:
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer()


def replace_unicode_punctuation(line: str) -> str:
    """Full-width and curly punctuation as ASCII: Moses' `replace-unicode-punctuation.perl`."""
    return line if line.isascii() else str(_normaliser().replace_unicode_punct(line))
