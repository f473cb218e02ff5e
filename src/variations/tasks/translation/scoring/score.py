"""A score and what it means: the data that every part of the ladder returns."""

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
