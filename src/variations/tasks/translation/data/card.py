"""The data card: what a run was trained and tested on, in one JSON document.

    {"name", "languages", "url", "licence", "fingerprint",
     "sets": {NAME: {"files", "pairs", "blank", "blank_lines", "duplicates", "overlap" (train, dev),
                     "dropped", "too_long" and "used" (if token stores are given),
                     "lengths": {"unit", "edges", "source", "target"}}},
     "subwords": {"size", "sha256"}, "origins": [downloads with checksums]}

`lengths`: the i-th count is the number of sentences whose length L has edges[i] <= L < edges[i+1]; the last has no
upper limit. With `data.train_pairs`, `dropped`, `too_long`, `used` and `lengths` are of the first pairs of the training
text, the other counts of the whole file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from variations.tasks.translation.data.corpora import Corpus, surveys
from variations.tasks.translation.data.textfiles import Side, Survey

if TYPE_CHECKING:
    from variations.tasks.translation.data.subwords import Subwords
    from variations.tasks.translation.data.tokens import TokenPairs

EDGES = (0, 1, 5, 10, 15, 20, 30, 40, 60, 80, 100, 150, 250)


def data_card(
    corpus: Corpus, subwords: "Subwords | None" = None, tokens: "Mapping[str, TokenPairs] | None" = None
) -> dict[str, Any]:
    """Describe a corpus as it is used (format: see the module's docstring).

    Args:
        corpus: as returned by `corpora.load`; any other is surveyed now.
        subwords: the vocabulary, if there is one.
        tokens: token stores by "train", "dev", "test" or the name of a further test set; lengths of these sets are
            counted in sub-words, those of the others in words.

    Raises:
        DataError: the corpus was not surveyed before, and its files are faulty.
    """
    found = corpus.surveys or surveys(corpus)
    stores, names = tokens or {}, corpus.file_names()
    return {
        "name": corpus.name,
        "languages": {"source": corpus.source_language, "target": corpus.target_language},
        "url": corpus.url,
        "licence": corpus.licence,
        "fingerprint": corpus.fingerprint(),
        "sets": {
            name: _set_card(names[pair.source], names[pair.target], found[name], stores.get(name))
            for name, pair in corpus.sets().items()
        },
        "subwords": {"size": subwords.size, "sha256": subwords.sha256} if subwords else None,
        "origins": corpus.origins,
    }


def _set_card(source: str, target: str, found: Survey, store: "TokenPairs | None") -> dict[str, Any]:
    card: dict[str, Any] = {
        "files": {
            "source": {"name": source, "sha256": found.source.sha256},
            "target": {"name": target, "sha256": found.target.sha256},
        },
        "pairs": found.pairs,
        "blank": found.blank,
        "blank_lines": found.blank_lines,
        "duplicates": found.duplicates,
    }
    if found.overlap:
        card["overlap"] = found.overlap
    if store is None:
        sides = {name: _of_words(side) for name, side in (("source", found.source), ("target", found.target))}
        return {**card, "lengths": {"unit": "words", "edges": list(EDGES), **sides}}
    sides = {"source": _of_lengths(store.source_lengths), "target": _of_lengths(store.target_lengths)}
    used = {"used": len(store.source_lengths), "dropped": store.dropped, "too_long": store.too_long}
    return {**card, **used, "lengths": {"unit": "sub-words", "edges": list(EDGES), **sides}}


def _of_words(side: Side) -> dict[str, Any]:
    return _histogram(list(side.words), list(side.words.values()))


def _of_lengths(lengths: NDArray[Any]) -> dict[str, Any]:
    values, counts = np.unique(np.asarray(lengths), return_counts=True)
    return _histogram(values.tolist(), counts.tolist())


def _histogram(lengths: Sequence[int], counts: Iterable[int]) -> dict[str, Any]:
    """Counts per bin, mean and longest; `counts[i]` sentences have `lengths[i]`."""
    weights = np.array(list(counts), dtype=np.int64)
    values = np.array(lengths, dtype=np.int64)
    bins = np.bincount(np.searchsorted(EDGES, values, side="right") - 1, weights=weights, minlength=len(EDGES))
    total = int(weights.sum())
    return {
        "counts": [int(count) for count in bins],
        "mean": round(float((values * weights).sum()) / total, 2) if total else 0.0,
        "longest": int(values.max()) if total else 0,
    }
