"""Attention maps of sentences, made with a run's own sub-words and search."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from variations.figures.attention import AttentionMap, readable
from variations.models import SequenceToSequence
from variations.system.errors import UserError
from variations.tasks.sequences.decoding.protocol import EOS
from variations.tasks.sequences.decoding.translator import Translation, Translator, as_tested, clean
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data.subwords import Subwords
from variations.tasks.translation.inspection.attention import attention_weights


@dataclass(frozen=True)
class Alignment:
    """Cross-attention of one translation, averaged over heads."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: NDArray[np.float32]
    """(T, S): rows sum to 1."""

    def document(self) -> dict[str, Any]:
        """For JSON: sub-words of both sides, and for each target sub-word one row of weights with four decimals."""
        rows = [[round(float(value), 4) for value in row] for row in self.weights]
        return {"source": list(self.source), "target": list(self.target), "weights": rows}


def maps(model: SequenceToSequence, pieces: Any, source: Sequence[int], target: Sequence[int]) -> list[AttentionMap]:
    """The maps of all attention sub-layers for one sentence and its translation.

    Args:
        model: The network.
        pieces: Returns the sub-words of ids, as `Subwords.pieces` does.
        source: Ids ending in EOS.
        target: Ids, with EOS if the translation ended.
    """
    read = readable(pieces(source))
    predicted, before = readable(pieces(target)), ("⟨start⟩", *readable(pieces(target[:-1])))
    sides = {"encoder": (read, read), "decoder": (predicted, before), "cross": (predicted, read)}
    return [
        AttentionMap(item.part, item.layer, item.values[0].numpy(), *sides[item.part])
        for item in attention_weights(model, source, target)
    ]


def run_maps(
    model: SequenceToSequence, subwords: Subwords, config: TranslationConfig, sentence: str, target: str | None
) -> tuple[list[AttentionMap], str]:
    """All maps of a trained run for one sentence, and the text of the translation that they show.

    Args:
        model: The network of the run as it was tested.
        subwords: Its vocabulary.
        config: Its configuration.
        sentence: A source sentence.
        target: Its translation; None: the run's own, from its own search.

    Raises:
        UserError: The sentence has no sub-words, or too many.
    """
    translator = Translator(cast(Any, model), subwords, config.decode, device="cpu", **as_tested(config))
    longest, rows = translator.max_source or 0, translator.max_target
    source = subwords.encode([clean(sentence)])[0]
    if len(source) == 1:
        raise UserError("The sentence contains no sub-words: give sentence='SOME WORDS'.")
    if len(source) > longest:
        raise UserError(f"The sentence has {len(source)} sub-words; the run accepts {longest}: shorten it.")
    if target is None:
        found = translator.translate([sentence], progress=False)[0].outputs[0]
        ids = _identifiers(found.hypothesis.tokens, finished=found.hypothesis.finished)
        target = found.text
    else:
        ids = subwords.encode([clean(target)])[0]
        if rows is not None and len(ids) > rows:
            raise UserError(f"target has {len(ids)} sub-words; the run accepts {rows}: shorten it.")
    return maps(model, subwords.pieces, source, ids), target


def alignments(translator: Translator, found: Translation, layer: int | None) -> list[Alignment | None]:
    """The cross-attention of each translation of a line, averaged over heads, and over layers unless one is given.

    Args:
        translator: The search that made `found`.
        found: A line's translations.
        layer: Counted from 1; None: the mean over all layers.

    Returns:
        None for an empty source or translation, and for a network without attention of type `Heads`.

    Raises:
        UserError: The model has no such layer.
    """
    subwords = cast(Subwords, translator.subwords)
    source = subwords.encode([clean(found.source)])[0]
    if found.truncated:
        source = [*source[: found.translated_length - 1], EOS]
    results: list[Alignment | None] = []
    for output in found.outputs:
        ids = _identifiers(output.hypothesis.tokens, finished=output.hypothesis.finished)
        if len(source) == 1 or not ids or not isinstance(translator.model, SequenceToSequence):
            results.append(None)
            continue
        crossed = [m for m in maps(translator.model, subwords.pieces, source, ids) if m.part == "cross"]
        if not crossed:
            results.append(None)
            continue
        chosen = [item for item in crossed if layer is None or item.layer == layer]
        if not chosen:
            raise UserError(f"attention_layer={layer}: the model has layers 1 to {len(crossed)}.")
        mean = np.mean([item.weights.mean(axis=0) for item in chosen], axis=0).astype(np.float32)
        results.append(Alignment(chosen[0].keys, chosen[0].queries, mean))
    return results


def _identifiers(tokens: Sequence[int], *, finished: bool) -> list[int]:
    return [*tokens, EOS] if finished else list(tokens)


def draw_alignment(alignment: Alignment, path: Path, layer: int | None) -> None:
    """Write an alignment as a heat map. Raises UserError if `path` cannot be written."""
    from variations.figures.attention import alignment_map
    from variations.figures.canvas import save, style

    where = "mean over heads and layers" if layer is None else f"mean over heads, layer {layer}"
    with style():
        save(alignment_map(alignment.weights, alignment.target, alignment.source, where), path)
