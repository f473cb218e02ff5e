"""Data on which the cost of a translation run is measured: the corpus, a part of it, or invented lengths."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.data.special import EOS, UNK
from variations.tasks.base import Rehearsal
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.config import TranslationConfig as Config
from variations.tasks.translation.data import corpora
from variations.tasks.translation.data.corpora import cache_folder
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.data.subwords import subwords_key
from variations.tasks.translation.data.textfiles import find

LARGE = 300_000
"""Training pairs beyond which a corpus that has not been encoded yet is represented by its first SAMPLE pairs."""
SAMPLE = 50_000
INVENTED = 20_000
"""Training pairs of invented lengths."""
MEAN, SPREAD = 3.2, 0.55
"""Of the logarithm of the invented lengths: 28 sub-words on average, half of the sentences between 17 and 36."""


def rehearsal(config: Config) -> Rehearsal:
    """The corpus if it is here, or its first pairs if it is large and not encoded yet; else invented lengths."""
    if not is_here(config.data):
        return Rehearsal(InventedData(config), invented=True)
    if config.data.kind == "toy":
        return Rehearsal(TranslationData(config))
    corpus = corpora.load(config.data)
    pairs = corpus.surveys["train"].pairs
    pairs = min(pairs, config.data.train_pairs or pairs)
    known = cache_folder(config.data) / "subwords" / subwords_key(corpus.train, config.data)
    if pairs <= LARGE or known.is_dir():
        return Rehearsal(TranslationData(config))
    part = replace(config, data=replace(config.data, train_pairs=SAMPLE))
    return Rehearsal(TranslationData(part, corpus), share=SAMPLE / pairs)


def is_here(data: DataConfig) -> bool:
    """Whether the corpus can be read without a download."""
    if data.kind == "toy" or data.root is not None:
        return True
    cache = Path(data.cache).expanduser()
    if data.kind == "wmt14":
        return (cache / "wmt14" / f"{data.source}-{data.target}" / "sources.json").is_file()
    stems, languages = (data.train, data.dev, data.test), (data.source, data.target)
    return all(find(cache / "multi30k", stem, language) for stem in stems for language in languages)


class InventedPairs:
    """A token store of random sub-words; see `data.tokens.TokenPairs`."""

    def __init__(self, pairs: int, config: Config, seed: int) -> None:
        rng = np.random.default_rng(seed)
        longest = config.data.max_length
        source = np.exp(rng.normal(MEAN, SPREAD, pairs))
        target = source * np.exp(rng.normal(0, 0.2, pairs))
        self.source_lengths, self.target_lengths = (
            np.clip(np.rint(side), 2, longest).astype(np.int32) for side in (source, target)
        )
        self.dropped, self._vocabulary, self._seed = 0, config.data.vocabulary, seed

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getitem__(self, index: int) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        rng = np.random.default_rng([self._seed, int(index)])
        source, target = (
            np.append(rng.integers(UNK + 1, self._vocabulary, int(lengths[index]) - 1), EOS)
            for lengths in (self.source_lengths, self.target_lengths)
        )
        return int(index), source, target


class InventedData(TranslationData):
    """Data of invented lengths, for a corpus that is not on this machine."""

    def setup(self, stage: str | None = None) -> None:
        """Draw the lengths."""
        stores: list[Any] = [InventedPairs(n, self.config, i) for i, n in enumerate((INVENTED, 3_000, 3_000))]
        self.train_tokens, self.dev_tokens, self.test_tokens = stores
        size: Any = SimpleNamespace(size=self.config.data.vocabulary)
        self.subwords, self._ready = size, True

    def tokens(self, name: str) -> Any:
        """The same 3,000 pairs whatever the set's name."""
        return self.dev_tokens if name == "dev" else self.test_tokens
