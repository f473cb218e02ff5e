"""Scores of a set of parses: EVALB's, and the percentage of valid trees before repair, also by sentence length."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.tasks.parsing.evalb import OK, Sentence, Summary, score_lines
from variations.tasks.parsing.linearise import Repairs
from variations.tasks.parsing.parameters import COLLINS, Parameters
from variations.tasks.parsing.trees import Tree

LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, None))
"""Classes of sentence length in words, from and to."""
WRONG = "WRONG"


def with_gold_punctuation(predicted: Tree, gold: Tree) -> Tree:
    """The predicted tree with the gold tag wherever that is one that EVALB deletes, and with no other such tag.

    EVALB removes such words before it compares, so a comma tagged as a noun would make the sentence an error and remove
    it from the sums, which would improve the score. A noun tagged as a comma gets the tag WRONG, which is none.
    Raises ValueError if the trees are over different words.
    """
    tags = [
        right.label if right.label in COLLINS.deleted else WRONG if ours.label in COLLINS.deleted else ours.label
        for ours, right in zip(predicted.leaves(), gold.leaves(), strict=True)
    ]
    finished: list[Tree] = []
    for node in reversed(list(predicted.nodes())):  # children before their parent, the last one first
        if node.word is not None:
            finished.append(Tree(tags.pop(), word=node.word))
        else:
            finished.append(Tree(node.label, tuple(finished.pop() for _ in node.children)))
    return finished.pop()


def compare(gold: Sequence[Tree], predicted: Sequence[Tree], parameters: Parameters = COLLINS) -> list[Sentence]:
    """EVALB's counts of each sentence."""
    patient = dataclasses.replace(parameters, max_errors=len(gold))
    mended = [with_gold_punctuation(ours, right) for ours, right in zip(predicted, gold, strict=True)]
    return score_lines([f"(TOP {tree})" for tree in gold], [f"(TOP {tree})" for tree in mended], patient)


def figures(sentences: Sequence[Sentence], repairs: Sequence[Repairs]) -> dict[str, float | int]:
    """F1, recall, precision, exact match, tagging and valid trees in percent: the columns of every report."""
    summary = Summary.of(sentences)
    return {
        "sentences": summary.sentences,
        "f1": 0.0 if summary.f1 != summary.f1 else summary.f1,
        "recall": summary.recall,
        "precision": summary.precision,
        "exact": 100 * summary.complete / max(1, summary.valid),
        "tags": 100 * summary.tags / max(1, summary.words),
        "valid": 100 * sum(not each for each in repairs) / max(1, len(repairs)),
        "errors": summary.errors + summary.skipped,
    }


def by_length(sentences: Sequence[Sentence], repairs: Sequence[Repairs]) -> dict[str, dict[str, float | int]]:
    """The same for sentences of each class of LENGTHS that occurs."""
    table = {}
    for low, high in LENGTHS:
        chosen = [
            pair
            for pair in zip(sentences, repairs, strict=True)
            if pair[0].length >= low and (high is None or pair[0].length <= high)
        ]
        if chosen:
            ours, mended = zip(*chosen, strict=True)
            table[f"{low}-{high}" if high else f"{low}+"] = figures(ours, mended)
    return table


COUNTS = 7
"""Counts of each sentence, see `counts`."""


def counts(sentences: Iterable[Sentence]) -> NDArray[np.int64]:
    """(matched, gold, test, complete, tags, words, scored) of each sentence, (S, 7): enough to resample scores."""
    rows = [
        (each.matched, each.gold, each.test, each.complete, each.tags, each.words, each.status == OK)
        for each in sentences
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, COUNTS)


def rate(name: str, sums: NDArray[Any]) -> NDArray[np.float64]:
    """A score in percent from summed counts, (…, 7) to (…); 0 for empty sums. F1 is 2PR / (P + R) of the sums."""
    matched, gold, test, complete, tags, words, scored = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    above, below = {
        "f1": (2 * matched, gold + test),
        "recall": (matched, gold),
        "precision": (matched, test),
        "exact": (complete, scored),
        "tags": (tags, words),
    }[name]
    score: NDArray[np.float64] = 100 * above / np.maximum(below, 1)
    return score


def f1(sums: NDArray[Any]) -> NDArray[np.float64]:
    """`rate` of F1."""
    return rate("f1", sums)
