"""Samples of a tested run for people to look at: translations, and pictures of attention."""

from pathlib import Path
from typing import Any

from variations.store.ledger import RunFolder
from variations.tasks.base import Samples

SAMPLES = 50
"""Number of translations that are shown of each set."""
LONGEST = 25
"""Largest number of words of a sentence whose attention is drawn."""


def samples(folder: RunFolder) -> dict[str, Samples]:
    """The first translations of each set of a tested run, from its `hypotheses/`."""
    from variations.tasks.sequences.stored import side_by_side
    from variations.tasks.translation.scoring.bleu import moses
    from variations.tasks.translation.scoring.gleu import sentence_gleu

    tokenise = moses(folder.config()["data"]["target"])

    def split(text: str) -> list[str]:
        return tokenise(text).split()

    found = {}
    for path in sorted(folder.hypotheses.glob("*.hyp")):
        rows = side_by_side(folder.hypotheses, path.stem, "src", "ref", "hyp")[:SAMPLES]
        scored = [
            (source, reference, hypothesis, round(100 * sentence_gleu(split(hypothesis), split(reference)), 2))
            for source, reference, hypothesis in rows
        ]
        found[path.stem] = Samples(("source", "reference", "hypothesis", "gleu"), scored)
    return found


def attention_pictures(folder: RunFolder, model: Any, subwords: Any) -> dict[str, Path]:
    """Draw every layer and head for one test sentence, one PNG for each part, in `figures/` of the run.

    Args:
        folder: A tested run.
        model: The network with the tested weights.
        subwords: Its vocabulary.
    """
    from variations.figures.attention import overview
    from variations.figures.canvas import save, style
    from variations.tasks.sequences.decoding.translator import clean
    from variations.tasks.translation.inspection.sentences import maps

    pair = _short_sentence(folder)
    if pair is None:
        return {}
    source, target = (subwords.encode([clean(text)])[0] for text in pair)
    drawn = maps(model, subwords.pieces, source, target)
    place = folder.path / "figures"
    with style():
        return {
            part: save(overview([item for item in drawn if item.part == part]), place / f"attention-{part}.png")
            for part in dict.fromkeys(item.part for item in drawn)
        }


def _short_sentence(folder: RunFolder) -> tuple[str, str] | None:
    """The first short sentence with its translation, or with its reference if the translation is empty or long."""
    from variations.tasks.sequences.stored import side_by_side

    for path in sorted(folder.hypotheses.glob("*.hyp")):
        for source, *targets in side_by_side(folder.hypotheses, path.stem, "src", "hyp", "ref"):
            if 0 < len(source.split()) <= LONGEST:
                for target in targets:
                    if 0 < len(target.split()) <= LONGEST:
                        return source, target
    return None
