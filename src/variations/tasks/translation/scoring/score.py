"""A score and what it means: the data that every part of the ladder returns."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """One number, with everything needed to compare it with a published one."""

    name: str
    """Key in `result.json`, such as `bleu`."""
    value: float
    """Percent for all but perplexities."""
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


def perplexity(total_nll: float, units: int, *, per: str = "subword") -> Score:
    """exp(total NLL / units) as a Score named `ppl` (per sub-word) or `ppl_word`.

    `total_nll` is the sum, in nats, of the *unsmoothed* negative log-likelihoods of all target sub-words, EOS included;
    `units` is how many sub-words (EOS included) or words there are. Raises ValueError for other units
    or when there are none.
    """
    sentences = {
        "subword": "Perplexity per target sub-word, end of sentence included, from the loss without label smoothing; "
        "not comparable across vocabularies.",
        "word": "Perplexity per target word: the loss of all sub-words, without label smoothing, over the words.",
    }
    if per not in sentences:
        raise ValueError(f"perplexity per {per!r} is unknown; valid choices: {', '.join(sentences)}")
    if units < 1:
        raise ValueError("perplexity needs at least one sub-word or word")
    nll = total_nll / units
    value = math.exp(nll) if nll < 700 else math.inf
    return Score("ppl" if per == "subword" else "ppl_word", value, sentences[per], None, {"nll": nll, "units": units})
