"""The stored results of a parsed set: trees, or counts in place of trees that may not be published."""

import gzip
import hashlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.store.atomic import read_stored, stored_path
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.parsing import scores
from variations.tasks.parsing.evalb import score_lines
from variations.tasks.parsing.parameters import COLLINS


def lines(folder: RunFolder, name: str) -> tuple[list[str], list[str]] | None:
    """Predicted and gold trees of a set, one per line; None if not stored. Raises DataError if their numbers differ."""
    paths = [folder.hypotheses / f"{name}.{side}" for side in ("hyp", "ref")]
    if any(stored_path(path) is None for path in paths):
        return None
    predicted, gold = (read_stored(path).decode("utf-8").removesuffix("\n").split("\n") for path in paths)
    if len(predicted) != len(gold):
        raise DataError(f"{paths[0]} has {len(predicted)} trees, the gold file {len(gold)}.")
    return predicted, gold


def counts(folder: RunFolder, name: str) -> NDArray[np.int64]:
    """EVALB's counts of each sentence of a set, (S, 7): see `scores.counts`. Raises DataError if nothing is stored."""
    if trees := lines(folder, name):
        predicted, gold = trees
        return scores.counts(score_lines(gold, predicted, COLLINS))
    try:
        packed = read_stored(folder.hypotheses / f"{name}.counts.npy")
        found: NDArray[np.int64] = np.load(io.BytesIO(packed), allow_pickle=False).astype(np.int64)
    except (OSError, ValueError, EOFError):
        raise DataError(f"{folder.path} has no trees of set={name}: test the run first.") from None
    return found


def gold_digest(folder: RunFolder, name: str) -> str | None:
    """SHA-256 of the gold trees of a set; None if not known."""
    gold, kept = folder.hypotheses / f"{name}.ref", folder.hypotheses / f"{name}.ref.sha256"
    if stored_path(gold) is not None:
        return hashlib.sha256(read_stored(gold)).hexdigest()
    return kept.read_text(encoding="utf-8").strip() if kept.is_file() else None


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
            files |= {
                f"hypotheses/{name}.{side}.gz": _packed(read_stored(place / f"{name}.{side}"))
                for side in ("hyp", "ref", "src")
            }
            continue
        file = io.BytesIO()
        np.save(file, counts(folder, name).astype(np.int16), allow_pickle=False)
        files[f"hypotheses/{name}.counts.npy.gz"] = _packed(file.getvalue())
        files[f"hypotheses/{name}.ref.sha256"] = f"{gold_digest(folder, name)}\n".encode()
    return files


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)  # no time stamp: the same trees give the same file
