"""Test sets whose hypotheses have a known share of wrong words, and reading a table's cells."""

import random

from sacrebleu.metrics.bleu import BLEU

from variations.tables.chance import SignificanceConfig
from variations.tables.text import Cell, Grid

WORDS = ["Haus", "Garten", "Frau", "schläft", "sieht", "alte", "der", "die", "und", "Hund-Katze"]
SETTINGS = SignificanceConfig(n=200, seed=7)


def sentences(seed: int, count: int = 60) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(6, 14))) + "." for _ in range(count)]


def spoiled(lines: list[str], share: float, seed: int) -> list[str]:
    """Return the lines with about `share` of the words replaced."""
    rng = random.Random(seed)
    return [" ".join(word if rng.random() > share else "falsch" for word in line.split()) for line in lines]


REFERENCES = sentences(1)
SOURCES = ["a source sentence"] * len(REFERENCES)


def score(hypotheses: list[str]) -> float:
    return float(BLEU(force=True).corpus_score(hypotheses, [REFERENCES]).score)


def cells(grid: Grid, title: str) -> list[Cell]:
    index = [column.title for column in grid.columns].index(title)
    return [row[index] for row in grid.rows]
