"""The treebank of a configuration as a Lightning data module: trees, vocabularies, loaders."""

import logging
from collections.abc import Iterator
from typing import Any

from variations.data.entry import refuse_edited, text_hashes
from variations.store.atomic import write_json
from variations.store.checksums import file_sha256
from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.parsing.config import SYMBOLS, WORDS, ParsingConfig
from variations.tasks.parsing.corpus import Corpus, Encoding, TreePairs, load
from variations.tasks.parsing.trees import read_trees
from variations.tasks.sequences.data import PairsData

log = logging.getLogger(__name__)

CARD = "treebank.json"
"""The description of the treebank in a run's folder."""


class ParsingData(PairsData):
    """Batches of sentences and lines of symbols.

    Attributes (after `setup`):
        corpus, encoding: the trees, and their encoding in ids.
        seen_before: a sentence for each held-out set of which trees are in `data.extra`.
    """

    config: ParsingConfig
    corpus: Corpus
    encoding: Encoding
    seen_before: list[str]

    def setup(self, stage: str | None = None) -> None:
        """Read the treebank and build its vocabularies; `stage` is not used."""
        if self._ready:
            return
        data = self.config.data
        self.corpus = load(data)
        self._files = text_hashes((*self.corpus.files, *self.corpus.extra))
        symbols = self.config.model.target_vocabulary or 0
        self.encoding = Encoding.of(self.corpus, data.form, data.vocabulary, symbols)
        self.train_tokens = TreePairs(self.corpus.training(), self.encoding, data.max_length)
        if not len(self.train_tokens):
            raise DataError(
                f"All {self.train_tokens.too_long} training trees are longer than data.max_length={data.max_length}: "
                "raise it."
            )
        self.dev_tokens, self.test_tokens = (
            TreePairs(trees, self.encoding) for trees in (self.corpus.dev, self.corpus.test)
        )
        self.seen_before = list(_seen_before(self.corpus))
        for text in self.seen_before:
            log.warning("%s", text)
        self._ready = True

    @property
    def vocabulary(self) -> int:
        """Rows of the source vocabulary."""
        return self.encoding.words.size

    def trees(self) -> dict[str, int]:
        """The number of trees in each set, without those of `data.extra`."""
        return {name: len(getattr(self.corpus, name)) for name in ("train", "dev", "test")}

    def keep_facts(self, folder: RunFolder) -> dict[str, str]:
        """Store vocabularies and a description of the treebank with the run; return their fingerprints and its own."""
        self.encoding.words.write(folder.path / WORDS)
        self.encoding.symbols.write(folder.path / SYMBOLS)
        refuse_edited(self._files)
        files = self.corpus.fingerprint()
        card: dict[str, Any] = {
            "treebank": self.corpus.described,
            "form": self.encoding.form.name,
            "trees": self.trees(),
            "dropped": self.train_tokens.dropped,
            "files": files,
        }
        write_json(folder.path / CARD, card)
        vocabularies = {name: file_sha256(folder.path / name) for name in (WORDS, SYMBOLS)}
        return vocabularies | files | self.corpus.composition(files)


def _seen_before(corpus: Corpus) -> Iterator[str]:
    """Say how many held-out trees are also among those of `data.extra`."""
    if not corpus.extra:
        return
    sets = {name: [*map(str, trees)] for name, trees in (("dev", corpus.dev), ("test", corpus.test))}
    known = {tree for trees in sets.values() for tree in trees}
    further = {text for path in corpus.extra for tree in read_trees([path]) if (text := str(tree)) in known}
    for name, trees in sets.items():
        if count := sum(tree in further for tree in trees):
            yield f"{count:,} of {len(trees):,} {name} trees are also in data.extra: {name} scores are too high."


def changed_files(card: dict[str, Any], now: dict[str, str]) -> list[str]:
    """Files of a run's treebank that have been changed, removed or added since, one sentence each; at most five."""
    before: dict[str, str] = card.get("files", {})
    found = [
        f"{name} has changed since the run was trained on it."
        if name in now and name in before
        else f"{name} has been {'added' if name in now else 'removed'} since the run was trained."
        for name in {**before, **now}
        if now.get(name) != before.get(name)
    ]
    return found[:5]


def current_files(config: ParsingConfig) -> dict[str, str]:
    """SHA-256 of the treebank's files as they are now. Raises DataError as `load`."""
    return load(config.data).fingerprint()
