"""The ladder: all scores of one set of hypotheses, each with its convention.

Published figures are of different kinds: the papers' EN-DE BLEU is tokenised and compound-split, Multi30k's is
tokenised and lower-cased, today's standard is sacreBLEU. Each score states its convention, so that like is compared
with like.
"""

from collections.abc import Sequence

from variations.system.errors import DataError
from variations.tasks.translation.data.textfiles import looks_tokenised
from variations.tasks.translation.scoring.bleu import (
    Score,
    Tokenise,
    chrf,
    moses,
    multi30k_tokens,
    multi_bleu,
    replace_unicode_punctuation,
    sacre_bleu,
    split_compounds,
)
from variations.tasks.translation.scoring.gleu import corpus_gleu

EXACT_MATCH = "exact_match"
BLEUS = ("bleu", "bleu_lc", "bleu_tok", "bleu_tok_lc", "bleu_split")
"""The forms of BLEU, which differ in how the text is prepared before n-grams are counted."""


def score_all(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> list[Score]:
    """The whole ladder, the primary score `bleu` first.

    Both sides are detokenised lines, one sentence each. `bleu_split` exists only for German, where published figures
    use it.
    Raises DataError when there are no lines or the numbers of lines differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses)} hypotheses but {len(references)} references: line n of one "
            "belongs to line n of the other."
        )
    if not references:
        raise DataError("There are no lines to score.")
    return [
        sacre_bleu(hypotheses, references),
        sacre_bleu(hypotheses, references, lowercase=True),
        *tokenised(hypotheses, references, target_language),
        chrf(hypotheses, references),
        gleu(hypotheses, references, target_language),
        exact_match(hypotheses, references),
    ]


def tokenised(hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[Score]:
    """`bleu_tok`, `bleu_tok_lc` and, for German, `bleu_split`: BLEU after Moses tokenisation, as `multi-bleu.perl`."""
    names = [name for name in TOKENISED if name != "bleu_split" or language == "de"]
    return [_multi_bleu(hypotheses, references, name, language) for name in names]


LONGEST_NGRAM = 4
"""Words of the longest n-grams that BLEU counts."""
TOKENISED = {
    "bleu_tok": "multi-bleu on text tokenised by Moses ({language}), case-sensitive, not smoothed.",
    "bleu_tok_lc": "multi-bleu on text that is lower-cased, punctuation-normalised and then tokenised by Moses "
    "({language}), not smoothed: as in published Multi30k figures.",
    "bleu_split": "multi-bleu on text tokenised by Moses (de) with compounds split at hyphens and Unicode punctuation "
    "of the output replaced, case-sensitive: as in the published WMT14 EN-DE figures.",
}


def _multi_bleu(hypotheses: Sequence[str], references: Sequence[str], name: str, language: str) -> Score:
    ours, theirs, _ = preparation(name, language)
    return multi_bleu(
        [ours(line) for line in hypotheses],
        [theirs(line) for line in references],
        name=name,
        convention=TOKENISED[name].format(language=language),
    )


def preparation(name: str, language: str) -> tuple[Tokenise, Tokenise, str]:
    """How a form of BLEU prepares a hypothesis line and a reference line, and sacreBLEU's tokenisation of the result.

    `name` is one of BLEUS; KeyError for others.
    """
    if name == "bleu":
        return str, str, "13a"
    if name == "bleu_lc":
        return str.lower, str.lower, "13a"
    tokenise, lower = moses(language), multi30k_tokens(language)
    return {
        "bleu_tok": (tokenise, tokenise, "none"),
        "bleu_tok_lc": (lower, lower, "none"),
        "bleu_split": (
            lambda line: split_compounds(tokenise(replace_unicode_punctuation(line))),
            lambda line: split_compounds(tokenise(line)),
            "none",
        ),
    }[name]


def gleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Corpus GLEU in percent of Moses-tokenised text."""
    tokenise = moses(language)
    value = corpus_gleu(
        [tokenise(line).split() for line in hypotheses], [tokenise(line).split() for line in references]
    )
    convention = (
        "GLEU of Wu et al. 2016 in percent: matching 1- to 4-grams over the larger number of n-grams, on text "
        f"tokenised by Moses ({language}), case-sensitive."
    )
    return Score("gleu", 100 * value, convention)


def equal(hypothesis: str, reference: str) -> bool:
    """Whether a line equals its reference, apart from leading and trailing white space."""
    return hypothesis.strip() == reference.strip()


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Percentage of lines that equal their reference, apart from leading and trailing white space."""
    hits = sum(equal(ours, theirs) for ours, theirs in zip(hypotheses, references, strict=True))
    convention = "Percent of lines equal to their reference, case-sensitive."
    return Score(EXACT_MATCH, 100 * hits / len(references), convention, None, {"hits": hits, "lines": len(references)})


def remarks(hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
    """Remarks about the text that matter for the scores, one sentence each; usually empty."""
    found = []
    for side, lines in (("hypotheses", hypotheses), ("references", references)):
        if empty := [str(number) for number, line in enumerate(lines, start=1) if not line.strip()]:
            where = ", ".join(empty[:5]) + (", …" if len(empty) > 5 else "")
            noun = "line" if len(empty) == 1 else "lines"
            found.append(f"{len(empty)} of {len(lines)} {side} empty ({noun} {where}); they are scored as they are.")
        if looks_tokenised(lines):
            found.append(
                f"The {side} look tokenised already (lines end in ' .'): `bleu`, `bleu_lc` and `chrf` are meant for "
                "detokenised text."
            )
    if not any(len(line.split()) >= LONGEST_NGRAM for line in references):
        found.append(f"No reference has {LONGEST_NGRAM} words, so BLEU is meaningless here: use `exact_match`.")
    return found
