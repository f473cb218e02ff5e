"""Runs of a small sweep, which tests of records record."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sacrebleu

from variations.store.ledger import RunFolder
from variations.store.rows import SweepDefinition
from variations.tables.chance import SignificanceConfig
from variations.tables.formats import render
from variations.tables.table import build

Put = Callable[..., RunFolder]
REFERENCES = [f"Der Hund sieht das {word} im alten Garten ." for word in ("Haus", "Tier", "Kind", "Buch", "Dach")] * 8
SOURCES = [f"The dog sees the {word} ." for word in ("house", "animal", "child", "book", "roof")] * 8


def wrong(every: int) -> list[str]:
    return [line.replace("alten", "neuen") if at % every == 0 else line for at, line in enumerate(REFERENCES)]


def bleu(hypotheses: list[str]) -> float:
    return sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score


def table(sweep: SweepDefinition, store: Path) -> str:
    return render(build(sweep, store, SignificanceConfig(n=100)), "markdown")


def fill(put: Put, **keys: Any) -> None:
    for seed in (1, 2, 3):
        put("base", seed, 2 + seed, **keys)
        put("good", seed, 7 + seed, **keys)
