"""Attention maps that a tested run stores in its folder, for the dashboard: attention.json.

They are of a few short sentences with the run's own translations, every layer and head, weights with three decimals. A
run that has learned little may have no short translations: references are then used instead.
"""

from collections.abc import Sequence
from typing import Any

from variations.figures.attention import AttentionMap
from variations.models import SequenceToSequence
from variations.store.atomic import json_text, write_text
from variations.store.ledger import RunFolder
from variations.tasks.sequences.decoding.translator import clean
from variations.tasks.sequences.stored import side_by_side
from variations.tasks.translation.inspection.sentences import maps

SHORTEST, LONGEST = 4, 16
"""Sub-words of a sentence on either side, EOS included, so that a drawing is legible."""
MOST = 200_000
"""Largest number of weights, about 1 MB: further sentences are left out, so that deep networks store fewer."""
AXES = {"encoder": ("source", "source"), "decoder": ("target", "before"), "cross": ("target", "source")}
SETS = ("dev", "test")
"""Sets from which sentences may be taken: the first that was translated."""
REFERENCES = "The targets are references: no stored translation of this run is short enough to be drawn."


def store_maps(folder: RunFolder, model: SequenceToSequence, subwords: Any, count: int) -> None:
    """Write attention.json of a tested run; nothing if `count` is 0, no stored sentence is short enough, or the
    network has no attention.

    Args:
        folder: A run with `hypotheses/`.
        model: The network with the tested weights.
        subwords: Its vocabulary.
        count: Largest number of sentences.
    """
    for side in ("hyp", "ref") if count else ():
        texts = (side_by_side(folder.hypotheses, name, "src", side) for name in SETS)
        sentences = _sentences(next(filter(None, texts), []), model, subwords, count)
        if sentences:
            document: dict[str, Any] = {"schema": 1, "sentences": sentences}
            if side == "ref":
                document |= {"references": True, "note": REFERENCES}
            elif len(sentences) < count:
                left = f"{len(sentences)} of {count} sentences: the others were too long, or would take too much space."
                document["note"] = left
            write_text(folder.path / "attention.json", json_text(document, indent=None) + "\n")
            return


def _sentences(
    pairs: Sequence[tuple[str, ...]], model: SequenceToSequence, subwords: Any, count: int
) -> list[dict[str, Any]]:
    """The first pairs that are short, at most `count`, with their maps, as long as there is space."""
    sentences: list[dict[str, Any]] = []
    room = MOST
    for source, target in pairs:
        ids = subwords.encode([clean(source), clean(target)])
        if not all(SHORTEST <= len(side) <= LONGEST for side in ids):
            continue
        found = maps(model, subwords.pieces, *ids)
        if not {"decoder", "cross"} <= {item.part for item in found}:
            return []  # a network of another package, without attention of the kinds that are drawn
        size = sum(item.weights.size for item in found)
        if size > room:
            break
        room -= size
        sentences.append(_sentence(source, target, found))
        if len(sentences) == count:
            break
    return sentences


def _sentence(source: str, target: str, found: Sequence[AttentionMap]) -> dict[str, Any]:
    decoder = next(item for item in found if item.part == "decoder")
    cross = next(item for item in found if item.part == "cross")
    return {
        "source": source,
        "target": target,
        "source_tokens": list(cross.keys),
        "target_tokens": list(cross.queries),
        "before_tokens": list(decoder.keys),
        "layers": [_layer(item) for item in found],
    }


def _layer(item: AttentionMap) -> dict[str, Any]:
    queries, keys = AXES[item.part]
    return {
        "name": f"{item.part}.{item.layer - 1}",
        "label": item.title,
        "kind": item.part,
        "heads": len(item.weights),
        "queries": queries,
        "keys": keys,
        "weights": [[[round(float(w), 3) for w in row] for row in head] for head in item.weights],
    }
