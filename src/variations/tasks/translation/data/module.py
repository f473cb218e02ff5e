"""A configuration's data as Lightning wants it: corpus, sub-words, token stores, loaders."""

import signal
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from variations.data.batching import Batch, Indices, TokenBatchSampler, collate
from variations.errors import UserError
from variations.lightning import pl, pl_worker_init_function
from variations.store import inputs
from variations.store.atomic import write_json
from variations.store.ledger import RunFolder
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.data import corpora, fingerprints
from variations.tasks.translation.data.card import data_card
from variations.tasks.translation.data.subwords import Subwords, subwords_for
from variations.tasks.translation.data.tokens import TokenPairs, tokens_for

if TYPE_CHECKING:
    from variations.tasks.translation.data.corpora import Corpus


class TranslationData(pl.LightningDataModule):
    """Training batches that can be continued in mid-epoch, dev batches, and batches for decoding.

    `prepare_data` downloads and builds, in one process per node; `setup` opens what it built, in every process, and
    may be called without it. The Trainer must not replace the samplers: `use_distributed_sampler=False`.

    Attributes (after `setup`):
        corpus, subwords: the text and its vocabulary.
        train_tokens, dev_tokens, test_tokens: the token stores.
    """

    corpus: "Corpus"
    subwords: Subwords
    train_tokens: TokenPairs
    dev_tokens: TokenPairs
    test_tokens: TokenPairs

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__()
        self.config = config
        self._ready = False
        self._sampler: TokenBatchSampler | None = None
        trainer, self._progress = config.trainer, config.trainer.progress
        world = trainer.devices * trainer.nodes
        update = config.recipe.batch_tokens
        at_once = (trainer.tokens_per_batch or -(-update // world)) * world
        self.accumulate = -(-update // at_once)
        """Batches of each device per update (Trainer's `accumulate_grad_batches`)."""
        # The update keeps the recipe's size whatever the hardware: tokens_per_batch is an upper limit.
        self.tokens_per_batch = max(1, update // (self.accumulate * world))
        """Budget of one batch on one device, padded tokens per side."""

    def prepare_data(self) -> None:
        """Download, train the vocabulary, write the token stores: whatever is not yet in the cache."""
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Open corpus, vocabulary and token stores; `stage` makes no difference."""
        if self._ready:
            return
        data, progress = self.config.data, self._progress
        self.corpus = corpora.load(data, progress=progress)
        tested = ["dev", "test", *self.corpus.others]
        if unknown := [name for name in self.config.decode.sets if name not in tested]:
            raise UserError(f"decode.sets names {', '.join(unknown)}, but the corpus has only {', '.join(tested)}.")
        self.subwords = subwords_for(self.corpus, data, progress=progress)
        self.train_tokens = tokens_for(self.corpus.train, self.subwords, data, drop_long=True, progress=progress)
        self.dev_tokens = tokens_for(self.corpus.dev, self.subwords, data, drop_long=False, progress=progress)
        self.test_tokens = self.tokens("test")
        self._ready = True

    def tokens(self, name: str) -> TokenPairs:
        """The whole token store of `dev`, `test` or a further test set of the corpus, line by line."""
        pair = {"dev": self.corpus.dev, "test": self.corpus.test, **self.corpus.others}[name]
        return tokens_for(pair, self.subwords, self.config.data, drop_long=False, progress=self._progress)

    @property
    def sampler(self) -> TokenBatchSampler:
        """The training batches of this process."""
        if self._sampler is None:
            overfit = self.config.debug.overfit_batches
            indices = self._first_batches(overfit) if overfit else None
            self._sampler = self._sampler_of(self.train_tokens, shuffle=True, indices=indices)
        return self._sampler

    def train_dataloader(self) -> StatefulDataLoader:
        """Training batches; the loader's state is the position in the epoch, the same on every rank."""
        options = self._options(self.config.data.workers)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="'set_vital' is deprecated")  # torchdata 0.11 under torch 2.13
            return StatefulDataLoader(self.train_tokens, batch_sampler=self.sampler, **options)

    def batches(self) -> int:
        """Training batches of an epoch on one rank."""
        return len(self.sampler)

    def keep_facts(self, folder: RunFolder) -> dict[str, str]:
        """Keep with the run its vocabulary and a card of its corpus; return SHA-256 of texts, vocabulary and ids."""
        kept = inputs.keep(folder, self.subwords.path)
        stores = {"train": self.train_tokens, "dev": self.dev_tokens, "test": self.test_tokens}
        write_json(folder.path / "data_card.json", data_card(self.corpus, self.subwords, stores))
        return (
            fingerprints.texts(self.corpus, self.config.decode.sets) | kept | fingerprints.prepared(self.train_tokens)
        )

    def dev_dataloader(self) -> DataLoader[Any]:
        """Dev batches, long sentences first, each pair on one rank only."""
        overfit = self.config.debug.overfit_batches
        tokens = self.train_tokens if overfit else self.dev_tokens
        indices = self._first_batches(overfit) if overfit else None
        sampler = self._sampler_of(tokens, shuffle=False, indices=indices)
        return DataLoader(cast(Dataset[Any], tokens), batch_sampler=sampler, **self._options(0))

    def decoding_batches(self, tokens: TokenPairs, *, limit: int | None = None) -> Iterator[Batch]:
        """Batches to translate, long sentences first: B·S·beam ≤ decode.batch_tokens; the first `limit` sentences."""
        budget = max(1, self.config.decode.batch_tokens // self.config.decode.beam)
        chosen = np.arange(len(tokens) if limit is None else min(limit, len(tokens)))
        lengths = tokens.source_lengths
        for batch in TokenBatchSampler(lengths, lengths, budget, shuffle=False, indices=chosen):
            yield collate([tokens[i] for i in batch])

    def _first_batches(self, number: int) -> Indices:
        """Pairs of the first batches of epoch 0, for debug.overfit_batches."""
        tokens = self.train_tokens
        whole = TokenBatchSampler(
            tokens.source_lengths, tokens.target_lengths, self.tokens_per_batch, seed=self.config.seed
        )
        return np.sort(np.concatenate(whole.plan(0)[:number]))

    def _sampler_of(self, tokens: TokenPairs, *, shuffle: bool, indices: Indices | None) -> TokenBatchSampler:
        return TokenBatchSampler(
            tokens.source_lengths,
            tokens.target_lengths,
            self.tokens_per_batch,
            seed=self.config.seed,
            shuffle=shuffle,
            rank=self.trainer.global_rank if self.trainer else 0,
            world=self.trainer.world_size if self.trainer else 1,
            indices=indices,
        )

    def _options(self, workers: int) -> dict[str, Any]:
        # A generator of its own: making an iterator would else draw from torch's global state, and a continued run,
        # which makes one more, would see other dropout masks.
        gpu = self.config.trainer.accelerator != "cpu" and torch.cuda.is_available()
        generator = torch.Generator().manual_seed(self.config.seed)
        return {
            "collate_fn": collate,
            "num_workers": workers,
            "pin_memory": gpu,
            "generator": generator,
            "worker_init_fn": start_worker,
        }


def start_worker(worker: int) -> None:
    """Seed a loader process, and let it outlive the signals that ask a run to stop.

    Ctrl-C, a cluster and `timeout` signal all processes of a run at once, but batches are needed until the update is
    done. A loader process ends when the run tells it to, or has ended itself.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    pl_worker_init_function(worker)
