"""What a published record of a run holds of its translations."""

import gzip
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from variations.store.ledger import RunFolder
from variations.tasks.translation.scoring.ladder import BLEUS
from variations.tasks.translation.scoring.stored_text import StoredText
from variations.tasks.translation.trained import BASELINES, baselines

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
    """The texts of a set, or the substitute for sentences that we may not publish."""
    place = folder.hypotheses
    kept = ("hyp", "src", "ref") if own else ("hyp",)
    texts = {f"hypotheses/{name}.{side}.gz": _packed((place / f"{name}.{side}").read_bytes()) for side in kept}
    if own:
        return texts
    stored = StoredText(place, name)
    texts[f"hypotheses/{name}.ref.sha256"] = f"{stored.reference_hash}\n".encode()
    for score in BLEUS:
        file = io.BytesIO()
        np.save(file, stored.counts(score, language, cache=False).astype(np.int16), allow_pickle=False)
        texts[f"hypotheses/{name}.{score}.counts.npy.gz"] = _packed(file.getvalue())
    return texts


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)  # no time in it: the same text gives the same file
