"""Batches by token budget: padded tensors of pairs, and the batches of each epoch.

A batch fills a budget of padded source tokens and of padded target tokens (Vaswani et al. 2017, section 5.1: "each
training batch contained a set of sentence pairs containing approximately 25000 source tokens and 25000 target tokens").

The order of an epoch is a pure function of (lengths, budget, seed, epoch). Devices take its batches in turn, so that
two devices see in one update what one device sees in two batches. A position in the epoch is a number of batches in
that common order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from variations.data.packing import Packing
from variations.data.special import PAD
from variations.system.errors import UserError

if TYPE_CHECKING:
    import pytorch_lightning as pl

Indices = NDArray[np.int64]
LAST_ROWS = 64
"""Smallest number of pairs in the last batch of an epoch, if batches have as many, since every device needs a share."""


@dataclass
class Batch:
    """A batch of B pairs.

    Attributes:
        source: ids, shape (B, S), int64, padded on the right with PAD.
        target: ids, shape (B, T), int64, each row ends in EOS, padded on the right with PAD.
        index: place of each pair in the token store, shape (B,), int64.
        source_tokens: source ids without padding, EOS included; a Python number, to avoid host synchronisation.
        target_tokens: the same for the target.
        products: Σ s², Σ t² and Σ s·t over the pairs' lengths s and t, for the cost of attention.
    """

    source: Tensor
    target: Tensor
    index: Tensor
    source_tokens: int
    target_tokens: int
    products: tuple[int, int, int]

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def padded_tokens(self) -> int:
        """Ids of both sides, padding included."""
        return self.source.numel() + self.target.numel()

    def pin_memory(self) -> "Batch":
        """The same in page-locked memory, from which copies to a GPU run in the background."""
        return replace(
            self, source=self.source.pin_memory(), target=self.target.pin_memory(), index=self.index.pin_memory()
        )

    def to(self, device: torch.device | str, non_blocking: bool = True) -> "Batch":
        """The same on `device`."""
        return replace(
            self,
            source=self.source.to(device, non_blocking=non_blocking),
            target=self.target.to(device, non_blocking=non_blocking),
            index=self.index.to(device, non_blocking=non_blocking),
        )


def collate(pairs: Sequence[tuple[int, NDArray[Any], NDArray[Any]]]) -> Batch:
    """Make a batch of `(index, source ids, target ids)`, the items of a token store."""
    index, sources, targets = zip(*pairs, strict=True)
    return Batch(
        source=_padded(sources),
        target=_padded(targets),
        index=torch.tensor(index, dtype=torch.int64),
        source_tokens=sum(map(len, sources)),
        target_tokens=sum(map(len, targets)),
        products=_products(sources, targets),
    )


def _products(sources: Sequence[NDArray[Any]], targets: Sequence[NDArray[Any]]) -> tuple[int, int, int]:
    s, t = (np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) for rows in (sources, targets))
    return int(s @ s), int(t @ t), int(s @ t)


def _padded(rows: Sequence[NDArray[Any]]) -> Tensor:
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    ids = np.full((len(rows), int(lengths.max())), PAD, dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(ids)


def begun(trainer: "pl.Trainer") -> int:
    """How many batches this rank has begun since the first update, also before its run was stopped and continued.

    Places in the data follow from it. Lightning's own count of epochs is too low after a run was continued at the ends
    of two epochs.
    """
    return trainer.fit_loop.epoch_loop.batch_progress.total.ready


class TokenBatchSampler(Sampler[list[int]]):
    """Yields the positions of the pairs of each batch; every pair exactly once per epoch over all ranks.

    All ranks yield equally many batches. If the number of batches is not a multiple of `world`, the remaining ones
    are split into `world` smaller ones, so the last update still has the same pairs. Without shuffling, as for a
    validation, too few remaining pairs go to the first ranks, and the others yield one batch less.

    The order is that of `epoch`, which `set_epoch` selects; `resume` continues in the middle of one, with any `world`.
    In an epoch whose last batches have fewer pairs than there are ranks, batches with more pairs come last, or if all
    have too few, large ones are halved until none remain; its order holds for that `world` only.
    """

    def __init__(
        self,
        source_lengths: NDArray[Any],
        target_lengths: NDArray[Any],
        budget_tokens: int,
        *,
        seed: int = 1,
        shuffle: bool = True,
        rank: int = 0,
        world: int = 1,
        indices: Indices | None = None,
    ) -> None:
        """Plan the batches.

        Args:
            source_lengths: sub-words of each pair's source, EOS included, shape (pairs,).
            target_lengths: the same for the target.
            budget_tokens: largest B·S and largest B·T of a batch of one rank. A longer pair is a batch of its own.
            seed: the seed of the order.
            shuffle: False gives the same batches in every epoch, long sentences first.
            rank: this device's number.
            world: the number of devices.
            indices: use only these pairs.

        Raises:
            UserError: there are too few pairs for every rank to have one in each of its batches, with shuffling.
        """
        self._indices = indices
        source, target = np.asarray(source_lengths), np.asarray(target_lengths)
        self._source = source if indices is None else source[indices]
        self._target = target if indices is None else target[indices]
        self._packing = Packing(self._source, self._target, budget_tokens)
        self.seed, self.shuffle, self.rank, self.world = seed, shuffle, rank, world
        self.epoch = self._resumed = self._done = 0
        self._place: Callable[[], tuple[int, int]] | None = None
        self._planned: tuple[int, list[Indices]] | None = None
        pairs, wanted = len(self._source), len(self) * world
        if shuffle and pairs < wanted:
            raise UserError(
                f"{pairs} training pairs are too few for {len(self)} batches on each of {world} devices: "
                "use fewer devices (trainer.devices), more pairs, or more trainer.tokens_per_batch."
            )

    def __len__(self) -> int:
        """The largest number of batches per epoch on a rank, equal for all epochs; see above for the other ranks."""
        return -(-self._packing.batches // self.world)

    def plan(self, epoch: int) -> list[Indices]:
        """All batches of an epoch, for all ranks; positions in the token store."""
        if self._planned is None or self._planned[0] != epoch:
            batches = self._shuffled(epoch) if self.shuffle else self._ordered()
            if self._indices is not None:
                batches = [self._indices[batch] for batch in batches]
            self._planned = (epoch, batches)
        return self._planned[1]

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's batches of the epoch that are not done yet; repeatable."""
        done = self._done if self.epoch == self._resumed else 0
        yield from (batch.tolist() for batch in self._shard(self.plan(self.epoch), done))

    @property
    def sampler(self) -> "TokenBatchSampler":
        """Itself: Lightning calls `set_epoch` on a batch sampler's sampler at the start of each epoch."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of the next iteration; one that follows a place goes there instead."""
        if self._place is None:
            self.epoch = epoch
        else:
            self.resume(*self._place())

    def follow(self, place: Callable[[], tuple[int, int]]) -> None:
        """Let iterations start at `place()`, which gives the arguments of `resume`, now and at each `set_epoch`."""
        self._place = place
        self.resume(*place())

    def resume(self, epoch: int, done: int) -> None:
        """Let iterations over `epoch` start after the first `done` batches of all ranks together.

        After its last batch, the next epoch follows.
        """
        over = done >= self._packing.batches
        self.epoch, self._done = (epoch + 1, 0) if over else (epoch, done)
        self._resumed = self.epoch

    def _ordered(self) -> list[Indices]:
        layouts = self._packing.layouts
        batches = self._packing.cut(layouts[0], None) if layouts else []
        longest = [-int(max(self._source[batch].max(), self._target[batch].max())) for batch in batches]
        ordered = [batches[i] for i in np.argsort(longest, kind="stable")]
        return _split(ordered, self._packing.batches)

    def _shuffled(self, epoch: int) -> list[Indices]:
        layouts = self._packing.layouts
        if not layouts:
            return []
        rng = np.random.default_rng([self.seed, epoch])
        batches = self._packing.cut(layouts[int(rng.integers(len(layouts)))], rng)
        batches = _split(batches, self._packing.batches)
        batches = [batches[i] for i in rng.permutation(len(batches))]
        rows = np.fromiter(map(len, batches), dtype=np.int64, count=len(batches))
        last = int(np.flatnonzero(rows >= min(LAST_ROWS, rows.max()))[-1])
        batches[last], batches[-1] = batches[-1], batches[last]
        left = len(batches) % self.world
        if left and sum(map(len, batches[-left:])) < self.world:  # too few rows for the ranks to share the rest
            largest = sorted(np.argsort([-len(batch) for batch in batches], kind="stable")[:left].tolist())
            if sum(len(batches[i]) for i in largest) < self.world:
                return _split(batches, len(self) * self.world)
            others = [batch for i, batch in enumerate(batches) if i not in largest]
            batches = [*others, *(batches[i] for i in largest)]
        return batches

    def _shard(self, batches: list[Indices], done: int) -> list[Indices]:
        """This rank's share of the batches after the first `done`."""
        rest = batches[done:]
        even = len(rest) - len(rest) % self.world
        mine, left = rest[self.rank : even : self.world], rest[even:]
        shares = _split(left, min(self.world, sum(map(len, left))))
        return [*mine, *shares[self.rank : self.rank + 1]]


def _split(batches: list[Indices], wanted: int) -> list[Indices]:
    """Halve the batch with most rows (of equal ones the first) until there are `wanted` batches."""
    # A part's key is its batch's place and its path of halves, so that sorting keeps the batches' order.
    parts: dict[tuple[int, ...], Indices] = {(place,): batch for place, batch in enumerate(batches)}
    heap: list[tuple[int, tuple[int, ...]]] = [(-len(batch), key) for key, batch in parts.items()]
    heapify(heap)
    while len(parts) < wanted:
        _, most = heappop(heap)
        batch = parts.pop(most)
        for half in (0, 1):
            # Every other row, so that the halves have similar lengths.
            key = (*most, half)
            parts[key] = batch[half::2]
            heappush(heap, (-len(parts[key]), key))
    return [parts[key] for key in sorted(parts)]


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Alternate pairs, so that both halves have long and short ones; all-padding columns are removed."""
    return _rows(batch, 0), _rows(batch, 1)


def _rows(batch: Batch, first: int) -> Batch:
    source, target = _trimmed(batch.source[first::2]), _trimmed(batch.target[first::2])
    s, t = source.ne(PAD).sum(1), target.ne(PAD).sum(1)
    return replace(
        batch,
        source=source,
        target=target,
        index=batch.index[first::2],
        source_tokens=int(s.sum()),
        target_tokens=int(t.sum()),
        products=(int((s * s).sum()), int((t * t).sum()), int((s * t).sum())),  # CUDA has no dot product of integers
    )


def _trimmed(ids: Tensor) -> Tensor:
    return ids[:, : int(ids.ne(PAD).sum(1).max())]
