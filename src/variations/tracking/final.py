"""What a tested run ends with, in plain values that any logger can show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from variations.store.ledger import RunFolder

SAMPLES = 50
"""Translations shown of each set."""
LONGEST = 25
"""Words of a sentence whose attention is drawn."""


@dataclass(frozen=True)
class Final:
    """The result of a run, some of its translations, and pictures of its attention."""

    result: Mapping[str, Any]
    """As in result.json."""
    samples: Mapping[str, list[tuple[str, str, str, float]]]
    """By set: source, reference, hypothesis and sentence GLEU in percent."""
    pictures: Mapping[str, Path] = field(default_factory=dict)
    """PNG files by part: encoder, decoder, cross."""

    def scores(self) -> dict[str, float]:
        """`test/bleu` and so on: every score of every set."""
        sets = self.result["scores"].items()
        return {f"{name}/{score}": entry["value"] for name, ladder in sets for score, entry in ladder.items()}

    def totals(self) -> dict[str, Any]:
        """Losses (as `final/dev_nll`) and the numbers of result.json: parameters, steps, tokens, FLOPs, seconds."""
        totals = {key: value for key, value in self.result.items() if _is_number(value)}
        return totals | {f"final/{key}": value for key, value in self.result["loss"].items() if _is_number(value)}

    def ladder(self) -> list[tuple[str, str, float, str]]:
        """Set, score, value, and how it was computed, with sacreBLEU's signature where there is one."""
        return [
            (name, score, entry["value"], "; ".join(str(entry[k]) for k in ("convention", "signature") if entry.get(k)))
            for name, ladder in self.result["scores"].items()
            for score, entry in ladder.items()
        ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def samples(folder: RunFolder, limit: int = SAMPLES) -> dict[str, list[tuple[str, str, str, float]]]:
    """The first translations of each set of a tested run, from its `hypotheses/`."""
    from variations.tasks.translation.scoring.bleu import moses
    from variations.tasks.translation.scoring.gleu import sentence_gleu

    tokenise = moses(folder.config()["data"]["target"])

    def split(text: str) -> list[str]:
        return tokenise(text).split()

    found = {}
    for path in sorted(folder.hypotheses.glob("*.hyp")):
        texts = [path.with_suffix(ending) for ending in (".src", ".ref", ".hyp")]
        columns = [text.read_text(encoding="utf-8").split("\n")[:limit] for text in texts]
        rows = [row for row in zip(*columns, strict=True) if any(row)]
        found[path.stem] = [
            (source, reference, hypothesis, round(100 * sentence_gleu(split(hypothesis), split(reference)), 2))
            for source, reference, hypothesis in rows
        ]
    return found


def attention_pictures(folder: RunFolder, model: Any, subwords: Any) -> dict[str, Path]:
    """Draw every layer and head for one test sentence as tested, one PNG a part, in `figures/` of the run.

    Args:
        folder: A tested run.
        model: The network with the tested weights.
        subwords: Its vocabulary.
    """
    from variations.figures.attention import overview
    from variations.figures.canvas import save, style
    from variations.tasks.translation.decoding.translator import clean
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
    """The first sentence that is not long, with its translation, or its reference where that is empty or long."""
    for path in sorted(folder.hypotheses.glob("*.hyp")):
        files = (path.with_suffix(".src"), path, path.with_suffix(".ref"))
        columns = [file.read_text(encoding="utf-8").split("\n") for file in files]
        for source, hypothesis, reference in zip(*columns, strict=True):
            if 0 < len(source.split()) <= LONGEST:
                for target in (hypothesis, reference):
                    if 0 < len(target.split()) <= LONGEST:
                        return source, target
    return None
