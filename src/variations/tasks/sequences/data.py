"""Pairs of sequences as a LightningDataModule: loaders over token stores."""

import functools
import signal
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.seed import pl_worker_init_function
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from variations.configuration.transformer import TransformerConfig
from variations.data.batching import Batch, Indices, TokenBatchSampler, begun, collate
from variations.tasks.sequences.config import batches_of_device
from variations.tasks.sequences.decoding.translator import longest_source, shortened

Item = tuple[int, NDArray[Any], NDArray[Any]]
"""Index, source ids, target ids."""


class Pairs(Protocol):
    """A map-style dataset of `(index, source ids, target ids)`, each side ending in EOS."""

    source_lengths: NDArray[Any]
    target_lengths: NDArray[Any]

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Item: ...


class PairsData(pl.LightningDataModule):
    """Training batches that can be continued within an epoch, dev batches, and batches for decoding.

    `prepare_data` downloads and builds, in one process per node; `setup` opens what it built, in every process, and
    may be called without it. The Trainer must not replace the samplers: `use_distributed_sampler=False`.

    Attributes (after `setup`):
        train_tokens, dev_tokens, test_tokens: the pairs of each set.
    """

    train_tokens: Any
    dev_tokens: Any
    test_tokens: Any

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config: Any = config
        self._ready = False
        self._sampler: TokenBatchSampler | None = None
        trainer, self._progress = config.trainer, config.trainer.progress
        self._longest = longest_source(config)
        world = trainer.devices * trainer.nodes
        update = config.recipe.batch_tokens
        self.accumulate = batches_of_device(update, trainer.tokens_per_batch, world)
        """Batches of each device per update (Trainer's `accumulate_grad_batches`)."""
        # The update has the recipe's size on any hardware: tokens_per_batch is an upper limit.
        self.tokens_per_batch = max(1, update // (self.accumulate * world))
        """Budget of one batch on one device, padded tokens per side."""

    def prepare_data(self) -> None:
        """Build whatever is not yet in the cache."""
        self.setup("fit")

    @property
    def sampler(self) -> TokenBatchSampler:
        """The training batches of this process."""
        if self._sampler is None:
            overfit = self.config.debug.overfit_batches
            indices = self._first_batches(self.train_tokens, overfit, shuffle=True) if overfit else None
            self._sampler = self._sampler_of(self.train_tokens, shuffle=True, indices=indices)
        return self._sampler

    def train_dataloader(self) -> DataLoader[Any]:
        """Training batches, from the position given by the Trainer's count of batches."""
        if isinstance(self.trainer, pl.Trainer):
            self.sampler.follow(functools.partial(self._place, self.trainer))
        tokens = cast(Dataset[Any], self.train_tokens)
        return TrainingLoader(tokens, batch_sampler=self.sampler, **self._options(self.config.data.workers))

    def _place(self, trainer: pl.Trainer) -> tuple[int, int]:
        """The epoch, and the number of its batches on all ranks that were begun."""
        epoch, batches = divmod(begun(trainer), self.batches())
        return epoch, batches * trainer.world_size

    def batches(self) -> int:
        """The number of training batches of an epoch on one rank."""
        return len(self.sampler)

    def dev_dataloader(self) -> DataLoader[Any]:
        """Dev batches, long sentences first, each pair on one rank only; `trainer.limit_val_batches` over all ranks."""
        overfit, limit = self.config.debug.overfit_batches, self.config.trainer.limit_val_batches
        tokens = self.train_tokens if overfit else self.dev_tokens
        indices = self._first_batches(tokens, overfit, shuffle=True) if overfit else None
        if limit is not None:
            indices = self._first_batches(tokens, limit, shuffle=False, indices=indices)
        sampler = self._sampler_of(tokens, shuffle=False, indices=indices)
        return DataLoader(cast(Dataset[Any], tokens), batch_sampler=sampler, **self._options(0))

    def decoding_batches(self, tokens: Pairs, *, limit: int | None = None) -> Iterator[Batch]:
        """Batches to translate, long sentences first: B·S·beam ≤ decode.batch_tokens; the first `limit` sentences."""
        budget = max(1, self.config.decode.batch_tokens // self.config.decode.beam)
        chosen = np.arange(len(tokens) if limit is None else min(limit, len(tokens)))
        lengths = tokens.source_lengths
        for batch in TokenBatchSampler(lengths, lengths, budget, shuffle=False, indices=chosen):
            yield collated([tokens[i] for i in batch], self._longest)

    def _first_batches(self, tokens: Pairs, number: int, *, shuffle: bool, indices: Indices | None = None) -> Indices:
        """Pairs of the first batches of epoch 0 on one rank; of these `indices`, if any are given."""
        whole = TokenBatchSampler(
            tokens.source_lengths,
            tokens.target_lengths,
            self.tokens_per_batch,
            seed=self.config.seed,
            shuffle=shuffle,
            indices=indices,
        )
        return np.sort(np.concatenate(whole.plan(0)[:number]))

    def _sampler_of(self, tokens: Pairs, *, shuffle: bool, indices: Indices | None) -> TokenBatchSampler:
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
        # A separate generator: otherwise creating an iterator would draw from torch's global state, and a continued
        # run, which creates one more, would have other dropout masks.
        gpu = self.config.trainer.accelerator != "cpu" and torch.cuda.is_available()
        generator = torch.Generator().manual_seed(self.config.seed)
        return {
            "collate_fn": functools.partial(collated, longest=self._longest),
            "num_workers": workers,
            "timeout": SILENT if workers else 0,
            "pin_memory": gpu,
            "generator": generator,
            "worker_init_fn": start_worker,
        }


def collated(pairs: Sequence[Item], longest: int) -> Batch:
    """A batch of items of a token store; over-long sources are cut as in decoding."""
    return collate([(number, np.asarray(shortened(source, longest)), target) for number, source, target in pairs])


SILENT = 600
"""Seconds after which a loader process that gives no batch is an error: one that was forked beside threads may hang."""


class TrainingLoader(DataLoader[Any]):
    """A loader that Lightning may continue within an epoch, because `PairsData.train_dataloader` restores the position.

    Lightning warns unless a loader has these two methods; state stored by earlier versions of this package is not
    needed.
    """

    def state_dict(self) -> dict[str, Any]:
        """Empty: the position in the epoch is given by the Trainer's counts."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def start_worker(worker: int) -> None:
    """Seed a loader process, and let it outlive the signals that ask a run to stop.

    Ctrl-C, a cluster and `timeout` signal all processes of a run at once, but batches are needed until the update is
    done. A loader process ends when the run stops it or has ended.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    pl_worker_init_function(worker)
