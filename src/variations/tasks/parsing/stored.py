"""The stored results of a parsed set: trees, or counts in place of trees that may not be published."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.parsing import scores
from variations.tasks.parsing.evalb import score_lines
from variations.tasks.parsing.parameters import COLLINS
from variations.tasks.sequences.stored import packed_counts, packed_texts, read_counts, reference_digest, side_by_side


def lines(folder: RunFolder, name: str) -> list[tuple[str, ...]]:
    """Predicted and gold trees of a set; empty if not stored. Raises DataError if their numbers differ."""
    return side_by_side(folder.hypotheses, name, "hyp", "ref")


def counts(folder: RunFolder, name: str) -> NDArray[np.int64]:
    """EVALB's counts of each sentence of a set, (S, 7): see `scores.counts`. Raises DataError if nothing is stored."""
    if trees := lines(folder, name):
        return scores.counts(score_lines([gold for _, gold in trees], [ours for ours, _ in trees], COLLINS))
    found = read_counts(folder.hypotheses / f"{name}.counts.npy", columns=scores.COUNTS)
    if found is None:
        raise DataError(f"{folder.path} has no trees of set={name}: test the run first.")
    return found


def sets(folder: RunFolder) -> list[str]:
    """Sets whose trees are stored."""
    return sorted(path.name.partition(".")[0] for path in folder.hypotheses.glob("*.hyp*"))


def record(folder: RunFolder, config: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a published record for each parsed set: trees of a generated corpus, otherwise counts by sentence.

    A predicted tree contains the words of its sentence, so trees of a treebank are not published; the hash of the gold
    trees shows whether two runs were tested on the same ones.
    """
    files: dict[str, bytes] = {}
    own = (config.get("data") or {}).get("kind") == "toy"
    for name in sets(folder):
        place = folder.hypotheses
        if own:
            files |= packed_texts(place, name, "hyp", "ref", "src")
        else:
            files[f"hypotheses/{name}.counts.npy.gz"] = packed_counts(counts(folder, name))
            files[f"hypotheses/{name}.ref.sha256"] = f"{reference_digest(place, name)}\n".encode()
    return files
