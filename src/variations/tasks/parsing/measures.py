"""Measures of a parser, published results, and when the two may be compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from variations.configuration.suggestions import did_you_mean
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.base import Measure, Published
from variations.tasks.parsing import scores, stored
from variations.tasks.parsing.treebank import DESCRIBED, find

CONVENTION = "EVALB with COLLINS.prm, all lengths"
SCORES = {
    "f1": ("F1", CONVENTION),
    "recall": ("recall", CONVENTION),
    "precision": ("precision", CONVENTION),
    "exact": ("exact match %", "sentences of which EVALB matches all brackets"),
    "tags": ("tags %", "words with the right part-of-speech tag, punctuation left out"),
    "valid": ("valid %", "lines of symbols that are a tree over the sentence before any repair"),
}
"""Scores of a parsed set: heading and convention."""
LOSSES = {
    "dev_ppl": ("dev PPL", "exponential of the dev loss per symbol, end of line included, without label smoothing"),
    "dev_nll": ("dev loss", "nats per symbol, end of line included, without label smoothing"),
    "test_ppl": ("test PPL", "exponential of the test loss per symbol, end of line included, without label smoothing"),
    "test_nll": ("test loss", "nats per symbol, end of line included, without label smoothing"),
}
METRICS = (*(f"dev.{name}" for name in SCORES), *LOSSES)
PUBLISHED = Published("f1_wsj23", "F1, WSJ 23", "section 23 of the Wall Street Journal", CONVENTION, ("test.f1",))
PAPERS_TREES = 40_000
"""Training trees of Table 4's WSJ rows, according to the paper."""


def measure(key: str) -> Measure:
    """The measure of a key: any score of any set, and any loss. Raises UserError if there is none."""
    part, _, score = key.partition(".")
    if key in LOSSES:
        label, convention = LOSSES[key]
        return Measure(key, label, higher_is_better=False, convention=convention, set=part.partition("_")[0])
    if score in SCORES:
        label, convention = SCORES[score]
        items = "" if score == "valid" else "sentences"
        return Measure(key, f"{part} {label}", higher_is_better=True, convention=convention, set=part, items=items)
    valid = [*SCORES, *METRICS]
    raise UserError(f"There is no measure '{key}' of parsing.{did_you_mean(key, valid)} Valid: {', '.join(valid)}.")


def columns(chosen: Measure) -> Sequence[Measure]:
    """The sweep's metric, then the other scores of its set."""
    if chosen.key in LOSSES:
        return [chosen]
    shown = [measure(f"{chosen.set}.{name}") for name in ("f1", "exact", "valid")]
    return [chosen, *(each for each in shown if each.key != chosen.key)]


def incomparable(published: Published, config: Mapping[str, Any]) -> str | None:
    """Why the run's F1 cannot be compared with F1 on section 23; None if it was tested on that section."""
    data = config.get("data") or {}
    if published.key != PUBLISHED.key:
        return None
    if data.get("kind") == "toy":
        return "the run was tested on built-in trees"
    found = split(data)
    if found is None:
        return f"the treebank of the run, {data.get('root')}, is not on this machine"
    return {
        "wsj": None,
        "part": "files of section 23 were missing",
        "sample": "the run was trained and tested on the free sample of the Penn Treebank",
    }[found]


def split(data: Mapping[str, Any]) -> str | None:
    """`wsj`, `part` or `sample`, for a configuration's treebank; None if it is not on this machine."""
    if data.get("kind") == "sample":
        return "sample"
    try:
        return find(Path(str(data.get("root"))).expanduser()).name
    except DataError:
        return None


def conditions(config: Mapping[str, Any]) -> str:
    """The treebank of a result, and the recipe."""
    data, recipe = config.get("data") or {}, config.get("recipe") or {}
    if data.get("kind") == "toy":
        trees = "built-in trees"
    else:
        trees = DESCRIBED.get(split(data) or "", f"a treebank that is not on this machine, {data.get('root')}")
    return f"{trees}; recipe {recipe.get('name')}"


def caveats(config: Mapping[str, Any]) -> list[str]:
    """What differs from the paper's run on the same test set."""
    data, recipe = config.get("data") or {}, config.get("recipe") or {}
    scale = recipe.get("scale") or {}
    found = []
    if (data.get("train_trees") or PAPERS_TREES) < PAPERS_TREES:
        found.append(f"{data['train_trees']} training trees of some 40,000")
    if any(scale.get(name, 1) != 1 for name in ("width", "depth", "steps")):
        found.append(f"recipe={recipe.get('name')} has scaled widths, depth or steps")
    return found


# Test items -----------------------------------------------------------------------------------------------------------


def items(folder: RunFolder, chosen: Measure) -> NDArray[Any]:
    """EVALB's counts of each sentence, (S, 7): see `scores.counts`.

    Raises DataError if the run has stored neither trees nor counts, or if the measure has no values by sentence.
    """
    score = chosen.key.partition(".")[2]
    if score not in SCORES or score == "valid":
        raise DataError(f"{chosen.label} has no counts by sentence.")
    return stored.counts(folder, chosen.set)


def aggregate(chosen: Measure, sums: NDArray[Any]) -> NDArray[Any]:
    """A score in percent of summed counts, (…, 7) to (…)."""
    return scores.rate(chosen.key.partition(".")[2], sums)
