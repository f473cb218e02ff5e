"""A configuration's data as a Lightning data module: corpus, sub-words, token stores, loaders."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from variations.data.entry import refuse_edited, text_hashes
from variations.store import inputs
from variations.store.atomic import write_json
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.sequences.data import PairsData
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data import corpora, fingerprints
from variations.tasks.translation.data.card import data_card
from variations.tasks.translation.data.subwords import Subwords, subwords_for
from variations.tasks.translation.data.tokens import TokenPairs, tokens_for

if TYPE_CHECKING:
    from variations.tasks.translation.data.corpora import Corpus


@dataclass(frozen=True)
class Encoded:
    """A set line by line, as text and as ids, for loss and decoding."""

    sources: list[str]
    references: list[str]
    pairs: TokenPairs

    def first(self, number: int | None) -> "Encoded":
        """The first lines of the text; `pairs` remains complete."""
        return Encoded(self.sources[:number], self.references[:number], self.pairs)

    @property
    def ids(self) -> list[list[int]]:
        """Ids of the sources."""
        return [self.pairs.pair(index)[0].tolist() for index in range(len(self.sources))]


class TranslationData(PairsData):
    """Batches of sub-words of two languages.

    Attributes (after `setup`):
        corpus, subwords: the text and its vocabulary.
        train_tokens, dev_tokens, test_tokens: the token stores.
    """

    config: TranslationConfig
    corpus: "Corpus"
    subwords: Subwords
    train_tokens: TokenPairs
    dev_tokens: TokenPairs
    test_tokens: TokenPairs

    def __init__(self, config: TranslationConfig, corpus: corpora.Corpus | None = None) -> None:
        super().__init__(config)
        self._given = corpus
        self._encoded: dict[str, Encoded] = {}

    def setup(self, stage: str | None = None) -> None:
        """Open corpus, vocabulary and token stores, and make what is not yet in the cache; `stage` is not used."""
        if self._ready:
            return
        data, progress = self.config.data, self._progress
        self.corpus = self._given or corpora.load(data, progress=progress)
        names = {"train", "dev", "test", *self.config.decode.sets} & self.corpus.sets().keys()
        pairs = [self.corpus.sets()[name] for name in names]
        self._texts = text_hashes(path for pair in pairs for path in (pair.source, pair.target))
        tested = ["dev", "test", *self.corpus.others]
        if unknown := [name for name in self.config.decode.sets if name not in tested]:
            raise UserError(f"decode.sets names {', '.join(unknown)}, but the corpus has only {', '.join(tested)}.")
        if data.train_pairs is not None and data.train_pairs > (total := self.corpus.surveys["train"].pairs):
            raise UserError(
                f"data.train_pairs={data.train_pairs}, but the training text has only {total:,} pairs: leave the key "
                "out to use them all, or choose fewer."
            )
        self.subwords = subwords_for(self.corpus, data, progress=progress)
        self.train_tokens = tokens_for(self.corpus.train, self.subwords, data, drop_long=True, progress=progress)
        self.dev_tokens = tokens_for(self.corpus.dev, self.subwords, data, drop_long=False, progress=progress)
        self.test_tokens = self.tokens("test")
        self._ready = True

    def tokens(self, name: str) -> TokenPairs:
        """The complete token store of `dev`, `test` or a further test set of the corpus, line by line."""
        return tokens_for(
            self.corpus.sets()[name], self.subwords, self.config.data, drop_long=False, progress=self._progress
        )

    def encoded(self, name: str) -> Encoded:
        """Text and ids of a set, read once; with `data.lowercase`, the references are lower-cased as well."""
        if name not in self._encoded:
            sources, references = self.corpus.sets()[name].read()
            if self.config.data.lowercase:
                sources, references = ([line.lower() for line in side] for side in (sources, references))
            self._encoded[name] = Encoded(sources, references, self.tokens(name))
        return self._encoded[name]

    def keep_facts(self, folder: RunFolder) -> dict[str, str]:
        """Store the vocabulary and the data card with the run; return SHA-256 of texts, vocabulary and ids."""
        kept = inputs.keep(folder, self.subwords.path)
        for name in {"dev", "test", *self.config.decode.sets}:
            self.encoded(name)  # read now, as the fingerprints are: a file may change while the run trains
        refuse_edited(self._texts)
        texts = fingerprints.texts(self.corpus, self.config.decode.sets)
        facts = texts | kept | fingerprints.prepared(self.train_tokens)
        inputs.refuse_changed(folder, facts)  # before the card of the former ids is replaced
        stores = {"train": self.train_tokens, "dev": self.dev_tokens, "test": self.test_tokens}
        write_json(folder.path / "data_card.json", data_card(self.corpus, self.subwords, stores))
        return facts
