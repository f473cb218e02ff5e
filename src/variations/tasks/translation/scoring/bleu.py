"""BLEU and chrF by sacreBLEU, and Moses tokenisation by sacremoses, with conventions in words.

The tokenised forms equal `multi-bleu.perl`: text tokenised beforehand, no smoothing, one reference.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from variations.tasks.translation.scoring.score import Score

Tokenise = Callable[[str], str]


@lru_cache(maxsize=8)
def moses(language: str) -> Tokenise:
    """Moses' `tokenizer.perl -l language` as a function from a line to its tokens joined by blanks.

    A language without a list of abbreviations of its own gets the English one, as in Moses.
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


def sacre_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> Score:
    """SacreBLEU of detokenised text, named `bleu` (`bleu_lc` when lower-cased), with its signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    case = "lower-cased" if lowercase else "case-sensitive"
    convention = f"sacreBLEU on detokenised text with its own {tokenize} tokenisation, {case}."
    name = "bleu_lc" if lowercase else "bleu"
    return Score(name, float(result.score), convention, str(metric.get_signature()), _details(result))


def multi_bleu(hypotheses: Sequence[str], references: Sequence[str], *, name: str, convention: str) -> Score:
    """BLEU of text that is tokenised already, as `multi-bleu.perl` gives it: not smoothed, 0 without 4-gram matches."""
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
