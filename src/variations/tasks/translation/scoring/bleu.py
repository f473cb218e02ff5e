"""BLEU and chrF by sacreBLEU, and Moses tokenisation by sacremoses, with conventions in words.

The tokenised forms equal `multi-bleu.perl`: text tokenised beforehand, no smoothing, one reference.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Score:
    """One number, with everything needed to compare it with a published one."""

    name: str
    """Key in `result.json`, such as `bleu`."""
    value: float
    """In percent, except perplexities."""
    convention: str
    """One plain sentence: which text, which tokenisation, which case."""
    signature: str | None = None
    """sacreBLEU's signature, where it computed the score."""
    details: dict[str, Any] = field(default_factory=dict)
    """Precisions, brevity penalty, lengths, … as plain numbers and lists."""


def as_dict(scores: Iterable[Score]) -> dict[str, dict[str, Any]]:
    """The `scores` entry of one test set in `result.json`: name -> value, signature, convention, details."""
    return {
        score.name: {
            "value": score.value,
            "signature": score.signature,
            "convention": score.convention,
            "details": dict(score.details),
        }
        for score in scores
    }


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


Tokenise = Callable[[str], str]


@lru_cache(maxsize=8)
def moses(language: str) -> Tokenise:
    """Moses' `tokenizer.perl -l language` as a function from a line to its tokens joined by spaces.

    A language without its own list of abbreviations gets the English one, as in Moses.
    """
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    return lru_cache(maxsize=100_000)(lambda line: str(tokenizer.tokenize(line, return_str=True)))


def moses_languages() -> list[str]:
    """Codes of the languages whose abbreviations Moses knows."""
    from sacremoses.corpus import NonbreakingPrefixes

    return sorted(set(NonbreakingPrefixes().available_langs.values()))


@lru_cache(maxsize=8)
def multi30k_tokens(language: str) -> Tokenise:
    """Lower-case, normalise punctuation, tokenise: in this order, the preparation behind published Multi30k figures.

    The order matters: lower-casing first changes what counts as an abbreviation before a full stop. The German side of
    test_2016_flickr then has 12,103 tokens, as reported with the published 41.02; cased, 12,102.
    """
    from sacremoses import MosesPunctNormalizer

    normaliser, tokenise = MosesPunctNormalizer(lang=language), moses(language)
    return lambda line: tokenise(str(normaliser.normalize(line.lower())))


def _details(result: Any) -> dict[str, Any]:
    """Parts of sacreBLEU's BLEUScore as plain numbers."""
    return {
        "precisions": [float(p) for p in result.precisions],
        "bp": float(result.bp),
        "hypothesis_tokens": int(result.sys_len),
        "reference_tokens": int(result.ref_len),
    }


def sacre_bleu(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """SacreBLEU of detokenised text, named `bleu` (`bleu_lc` when lower-cased), with its signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize="13a", force=True)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    case = "lower-cased" if lowercase else "case-sensitive"
    convention = f"sacreBLEU on detokenised text with its own 13a tokenisation, {case}."
    name = "bleu_lc" if lowercase else "bleu"
    return Score(name, float(result.score), convention, str(metric.get_signature()), _details(result))


def multi_bleu(hypotheses: Sequence[str], references: Sequence[str], *, name: str, convention: str) -> Score:
    """BLEU of tokenised text, as `multi-bleu.perl` computes it: not smoothed, 0 without 4-gram matches."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(name, float(result.score), convention, str(metric.get_signature()), _details(result))


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Character n-gram F-score (chrF2) by sacreBLEU, with its signature."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    convention = "chrF2 by sacreBLEU: F-score of character 1- to 6-grams of the detokenised text, case-sensitive."
    return Score("chrf", float(result.score), convention, str(metric.get_signature()))
