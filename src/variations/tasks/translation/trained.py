"""Whether a row was trained. A row that was not is marked as such, and is not compared.

It was not trained if it scores no better than a baseline that needs no training (a copy of the source, a word-by-word
dictionary), if it translates most sentences alike, or if its dev perplexity was still falling steeply when it ended: by
more than STEEP between four fifths of its steps and the end, on average over its seeds. Such a row shows how far
training got, not what the model can do.
"""

import gzip
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import expm1
from pathlib import Path
from statistics import fmean
from typing import Any

from variations.store.atomic import is_number, read_object, read_stored
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.base import TestedRun
from variations.tasks.sequences.stored import packed_counts, packed_texts, reference_digest
from variations.tasks.translation.measures import STEEP, measure
from variations.tasks.translation.scoring.ladder import BLEUS, EXACT_MATCH
from variations.tasks.translation.scoring.stored_text import StoredText

DICTIONARY = Path(__file__).parent / "data" / "toy" / "dictionary.tsv.gz"
"""English and German words of the toy corpus's grammar, written by `tools/make_toy_corpus.py`."""


def copy_baseline(sources: Sequence[str]) -> list[str]:
    """Return the source sentences as they are."""
    return list(sources)


def dictionary_baseline(sources: Sequence[str], target: str = "de") -> list[str]:
    """Return each sentence of the toy corpus translated to `target` word by word, in its own order of words."""
    return [_translate(source, _dictionary(target)) for source in sources]


@cache
def _dictionary(target: str) -> dict[str, str]:
    lines = gzip.decompress(DICTIONARY.read_bytes()).decode().splitlines()
    pairs = [line.split("\t") for line in lines]
    return dict(pairs) if target == "de" else {german.lower(): english for english, german in reversed(pairs)}


def _translate(sentence: str, entries: Mapping[str, str]) -> str:
    text = re.sub(r"[\w'-]+", lambda match: entries.get(match[0].lower(), match[0]), sentence)
    return text[:1].upper() + text[1:]


OWN_CORPORA = ("toy",)
"""Values of `data.kind` whose sentences may be published: those that this project generates."""


def record(folder: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    """Baselines and texts of each translated set, by file name."""
    data = config.get("data") or {}
    sets = sorted(path.stem for path in folder.hypotheses.glob("*.hyp"))
    files: dict[str, Any] = {BASELINES: {name: baselines(folder.path, config, name) for name in sets}}
    for name in sets:
        files |= _texts(folder, name, own=data.get("kind") in OWN_CORPORA, language=str(data.get("target") or "de"))
    return files


def _texts(folder: RunFolder, name: str, *, own: bool, language: str) -> dict[str, bytes]:
    """The texts of a set, or their substitutes if the sentences may not be published."""
    place = folder.hypotheses
    if own:
        return packed_texts(place, name, "hyp", "src", "ref")
    texts = packed_texts(place, name, "hyp")
    texts[f"hypotheses/{name}.ref.sha256"] = f"{reference_digest(place, name)}\n".encode()
    for score in BLEUS:
        counts = StoredText(place, name).counts(score, language, cache=False)
        texts[f"hypotheses/{name}.{score}.counts.npy.gz"] = packed_counts(counts)
    texts[f"hypotheses/{name}.{EXACT_MATCH}.counts.npy.gz"] = packed_counts(StoredText(place, name).matches())
    return texts


ALIKE = 0.5
"""Part of a set's translations that may be one sentence."""
FEW = 20
"""Sentences of a set that are too few to judge that."""
LOW = 10.0
"""BLEU above which no text in which most sentences are alike is expected: only below it are translations read."""
LAST = 0.2
ROUNDING = 1e-6
"""Largest difference, in BLEU, between two ways of computing the same score."""
BASELINES = "baselines.json"
"""File of a record: BLEU of the baselines on each set, for texts that the record may not contain."""

Curve = Sequence[tuple[float, float]]
"""(step, dev loss in nats) of each validation, in order."""


def last_fall(curve: Curve) -> float | None:
    """The relative fall of the dev perplexity in the last fifth of the steps; negative if it rose.

    It is that of the lowest dev loss, so that a single bad validation does not count. Between validations the loss is
    interpolated linearly. None if the curve does not reach back to four fifths of its last step.
    """
    if len(curve) < 2:
        return None
    at = (1 - LAST) * curve[-1][0]
    for (step, loss), (later, next_loss) in pairwise(curve):
        if step <= at <= later:
            there = loss + (next_loss - loss) * (at - step) / (later - step)
            before = min([there, *(nll for place, nll in curve if place <= at)])
            return -expm1(min(nll for place, nll in curve if place > at) - before)
    return None


def untrained(curves: Sequence[Curve], scores: Sequence[float], baselines: Mapping[str, float]) -> str | None:
    """Why a row counts as not trained, in words; None if it counts as trained, or if there is no evidence.

    Args:
        curves: One for each seed.
        scores: BLEU of each seed.
        baselines: BLEU of baselines that need no training, on the same text, by name.
    """
    beaten = {name: value for name, value in baselines.items() if scores and fmean(scores) <= value + ROUNDING}
    if beaten:
        name = max(beaten, key=lambda key: beaten[key])
        return f"not above the {name} ({beaten[name]:.1f} BLEU)"
    falls = [fall for curve in curves if (fall := last_fall(curve)) is not None]
    if falls and fmean(falls) > STEEP:
        return f"dev perplexity fell by {100 * fmean(falls):.3g} % in the last fifth of its steps"
    return None


def too_few_validations(curves: Sequence[Curve]) -> str | None:
    """A note if some run has dev losses, but none that reach back to four fifths of its last step."""
    if any(curve and last_fall(curve) is None for curve in curves):
        return "too few validations to tell whether it was still improving at its end (trainer.val_every)"
    return None


def past_its_best(curves: Sequence[Curve]) -> str | None:
    """A note if dev perplexity ended clearly above its lowest value, on average over the runs."""
    rises = [expm1(curve[-1][1] - min(nll for _, nll in curve)) for curve in curves if curve]
    if not rises or fmean(rises) <= STEEP:
        return None
    return f"its dev perplexity ended {100 * fmean(rises):.3g} % above its lowest: it was trained past its best step"


def why_untrained(runs: Sequence[TestedRun]) -> str | None:
    """Why a row counts as not trained, by its seeds' measurements and by their BLEU on the test set.

    Runs that have not translated the test set are judged by the dev set.
    """
    scores, needless = _beside_baselines(runs)
    curves = [run.curve("dev/nll") for run in runs]
    return untrained(curves, scores, needless) or (_collapsed(runs) if scores and fmean(scores) < LOW else None)


def _collapsed(runs: Sequence[TestedRun]) -> str | None:
    """A note if most translations of a set are one sentence, on average over the runs."""
    for part in ("test", "dev"):
        texts = [RunFolder(run.folder.path).hypotheses / f"{part}.hyp" for run in runs]
        shares = [share for share in map(_alike, texts) if share is not None]
        if shares:
            mean = fmean(shares)
            return f"one sentence is {100 * mean:.0f} % of its translations" if mean > ALIKE else None
    return None


def _alike(path: Path) -> float | None:
    """The share of the most common line; None of a file that is too short or cannot be read."""
    try:
        lines = read_stored(path).decode("utf-8").splitlines()
    except (OSError, ValueError, DataError):
        return None
    return Counter(lines).most_common(1)[0][1] / len(lines) if len(lines) >= FEW else None


def unjudged(runs: Sequence[TestedRun]) -> str | None:
    """What could not be judged, in words: the fall of the dev loss, or BLEU against the baselines."""
    scores, needless = _beside_baselines(runs)
    without = "no seed's stored texts can be read, so its BLEU is not compared with that of a copy of the source"
    found = [too_few_validations([run.curve("dev/nll") for run in runs]), without if scores and not needless else None]
    return "; ".join(filter(None, found)) or None


def _beside_baselines(runs: Sequence[TestedRun]) -> tuple[list[float], dict[str, float]]:
    """BLEU of each seed, and of the baselines by name; their texts are those of the first run that has some."""
    for part in ("test", "dev"):
        values = [measure(f"{part}.bleu").value(run.result) for run in runs]
        if scores := [value for value in values if value is not None]:
            found = (baselines(run.folder.path, run.config, part) for run in runs)
            return scores, next(filter(None, found), {})
    return [], {}


# Baselines ------------------------------------------------------------------------------------------------------------


def baselines(folder: Path, config: Mapping[str, Any], part: str) -> dict[str, float]:
    """BLEU, by name, of baselines on the sentences that a run translated; empty if it stored none.

    Args:
        folder: A run, or the record of one.
        config: Its configuration.
        part: `test`, `dev`, …
    """
    kept = folder / BASELINES
    try:
        found = (read_object(kept) or {}).get(part)
        if isinstance(found, Mapping) and found and all(is_number(value) for value in found.values()):
            return {str(name): float(value) for name, value in found.items()}
        sides = [read_stored(RunFolder(folder).hypotheses / f"{part}.{side}") for side in ("src", "ref")]
        data = config.get("data") or {}
        toy = str(data.get("target") or "de") if data.get("kind") == "toy" else None
        return dict(_counted(sides[0], sides[1], toy, bool(data.get("lowercase"))))
    except (OSError, ValueError, AttributeError, DataError):
        return {}


@lru_cache(maxsize=16)
def _counted(source: bytes, reference: bytes, toy: str | None, lowercase: bool) -> tuple[tuple[str, float], ...]:
    """`toy` is the target language of the toy corpus; None for other corpora."""
    from variations.tasks.translation.scoring.counts import bleu, bleu_counts

    sources, references = (side.decode("utf-8").removesuffix("\n").split("\n") for side in (source, reference))
    systems = {"copy of the source": copy_baseline(sources)}
    if toy:
        found = dictionary_baseline(sources, toy)
        systems["word-by-word dictionary"] = [line.lower() for line in found] if lowercase else found
    return tuple((name, float(bleu(bleu_counts(lines, references).sum(0)))) for name, lines in systems.items())
