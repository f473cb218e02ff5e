"""A task's batches in the same order after a stop, also from a loader that cannot itself continue within an epoch."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import CombinedLoader
from torch.utils.data import IterableDataset

from variations.data.batching import begun
from variations.system.errors import UserError
from variations.tasks.base import Data
from variations.training.seeding import seed_batch


class Continuing:
    """The batches of a loader that has no `state_dict`, from the place in the epoch that the run has reached.

    Batches of the epoch that were trained on before a stop are loaded again and dropped. The global random generators
    of Python, NumPy and torch are seeded before each batch, and before each epoch's order, from the seed of the run and
    the place, so that a continued run has the same order and the same batches. Generators of the loader's own are
    seeded for each epoch from their first seed, and samplers are told the epoch.

    Several ranks take the batches of a `DataLoader` in turn, as they do in the tasks of this package; those left over
    at the end of an epoch are dropped. Every rank loads all of them. A sampler with `num_replicas`, such as a
    `DistributedSampler`, and an iterable dataset are taken to give each rank batches of its own.

    Args:
        loader: Batches, in the same number in each epoch.
        batches: That number.
        place: Returns the epoch, and the number of this rank's batches in it that were begun.
        seed: Of the run; all ranks have the same order.
        rank: Of this process, whose random numbers in all batches but the first are its own.
        ranks: Number of processes.

    Raises:
        UserError: The loader has fewer batches than it says, or than there are ranks.
    """

    def __init__(
        self, loader: Any, batches: int, place: Callable[[], tuple[int, int]], seed: int, rank: int, ranks: int = 1
    ) -> None:
        self.loader, self.place, self.seed, self.rank = loader, place, seed, rank
        batch_sampler = getattr(loader, "batch_sampler", None)
        parts = (loader, getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None))
        self.parts = list({id(part): part for part in parts if part is not None}.values())
        iterable = isinstance(getattr(loader, "dataset", None), IterableDataset)
        shared = not iterable and not any(hasattr(part, "num_replicas") for part in self.parts)
        self.turns = ranks if shared else 1
        self.batches = batches // self.turns
        if not self.batches:
            raise UserError(
                f"the training loader has {batches} batches for {ranks} devices: set fewer devices or smaller batches."
            )
        own = (getattr(part, "generator", None) for part in self.parts)
        self.generators = {each: each.initial_seed() for each in own if isinstance(each, torch.Generator)}

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[Any]:
        epoch, begun_before = self.place()
        for part in self.parts:
            if callable(set_epoch := getattr(part, "set_epoch", None)):
                set_epoch(epoch)
        for generator, first in self.generators.items():
            generator.manual_seed(_drawn(first, epoch))
        seed_batch(_drawn(self.seed, epoch))
        batches = iter(self.loader)  # torch's samplers draw the order here or with the first batch
        for number in range(self.batches * self.turns):
            seed_batch(_drawn(self.seed, epoch, number + 1, *((self.rank,) if number else ())))
            try:
                batch = next(batches)
            except StopIteration:
                raise UserError(
                    f"the training loader ended after {number} of {self.batches * self.turns} batches of an epoch: its "
                    "length, or that of the task's Data.batches(), must be the number of batches in every epoch."
                ) from None
            turn, of = divmod(number, self.turns)
            if turn >= begun_before and of == self.rank % self.turns:
                yield batch

    def state_dict(self) -> dict[str, Any]:
        """Empty, because `place` tells the position; Lightning warns unless a loader has these two methods."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def _drawn(*words: int) -> int:
    return int(np.random.SeedSequence(words).generate_state(1, np.uint32)[0])


def continuing(data: Data, trainer: pl.Trainer, seed: int) -> Callable[[], Any]:
    """Return `data.train_dataloader`, with a loader that continues within an epoch; several are left as they are."""
    make = data.train_dataloader

    def place() -> tuple[int, int]:
        return divmod(begun(trainer), int(trainer.num_training_batches))

    def made() -> Any:
        loader = make()
        several = isinstance(loader, CombinedLoader | list | tuple | dict)
        if several or (hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")):
            return loader
        try:
            batches = len(loader)
        except TypeError:  # of an iterable dataset
            batches = data.batches()
        return Continuing(loader, batches, place, seed, trainer.global_rank, trainer.world_size)

    return made
