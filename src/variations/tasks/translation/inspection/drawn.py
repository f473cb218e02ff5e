"""Figures of a trained run's attention for one sentence, for `figures.py figure=attention`."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from variations.figures.attention import (
    AttentionMap,
    chosen_heads,
    heat_maps,
    lines,
    overview,
    positions_of,
    query_words,
)
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.base import Asked
from variations.tasks.sequences.stored import side_by_side
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data.subwords import Subwords
from variations.tasks.translation.inspection.sentences import run_maps


def attention_figures(
    folder: RunFolder, model: Any, subwords: Subwords, config: TranslationConfig, asked: Asked
) -> Iterator[tuple[str, Any]]:
    """An overview of each part; for one layer, heat maps and lines between words; each with a file name.

    The sentence and its translation are written to standard error.

    Raises:
        UserError: There is no such sentence, layer, head or word, or the network has no attention.
    """
    sentence = asked.sentence if asked.sentence is not None else _test_line(folder, asked.line or 1)
    maps, translation = run_maps(model, subwords, config, sentence, asked.target)
    maps = [item for item in maps if asked.part in ("all", item.part)]
    if not maps:
        kind = "attention" if asked.part == "all" else f"attention of part={asked.part}"
        raise UserError(f"There is nothing to draw: the run's network has no {kind} that can be recorded.")
    sys.stderr.write(f"{sentence}\n→ {translation}\n")
    if asked.layer is not None:
        deepest = max(item.layer for item in maps)
        maps = [item for item in maps if item.layer == asked.layer]
        if not maps:
            raise UserError(f"layer={asked.layer}: the model has layers 1 to {deepest}.")
    queries = [positions_of(item, asked.words) if asked.words is not None else None for item in maps]
    if asked.words is not None and not any(queries):
        raise UserError(_no_such_words(asked.words, maps))
    heads = [chosen_heads(item, asked.heads) for item in maps]
    if asked.layer is None:
        for part in dict.fromkeys(item.part for item in maps):
            yield f"attention-{part}", overview([item for item in maps if item.part == part])
    for item, positions, chosen in zip(maps, queries, heads, strict=True):
        stem = f"{item.part}-layer{item.layer}"
        stem += "" if asked.heads is None else "-heads" + "_".join(map(str, asked.heads))
        if asked.layer is not None:
            yield f"attention-{stem}", heat_maps(item, chosen)
        if (asked.layer is not None or asked.words is not None) and (positions is None or positions):
            named = ("".join(c for c in word if c.isalnum()) or "sign" for word in asked.words or ())
            yield "-".join(filter(None, [f"attention_lines-{stem}", "_".join(named)])), lines(item, chosen, positions)


def _no_such_words(words: Sequence[str], maps: Sequence[AttentionMap]) -> str:
    sides = {item.part: " ".join(query_words(item)) for item in maps}
    shown = "; ".join(f"{part}: {text}" for part, text in sides.items())
    return f"words={list(words)}: these maps have no such words; valid words are {shown}."


def _test_line(folder: RunFolder, line: int) -> str:
    stored = side_by_side(folder.hypotheses, "test", "src")
    if not stored:
        raise UserError(f"{folder.path} contains no test sentences yet: give sentence='SOME WORDS'.")
    if line > len(stored):
        raise UserError(f"line={line}: {folder.hypotheses / 'test.src'} has {len(stored)} lines.")
    return stored[line - 1][0]
