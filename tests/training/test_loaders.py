"""Loaders of other packages' tasks, continued within an epoch."""

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from variations.system.errors import UserError
from variations.tasks.sequences import data
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.loaders import Continuing


def shuffling() -> Any:
    return DataLoader(range(8), batch_size=2, shuffle=True)  # type: ignore[arg-type]


def with_a_generator() -> Any:
    return DataLoader(range(8), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(7))  # type: ignore[arg-type]


def with_epochs() -> Any:
    return DataLoader(range(8), batch_size=2, sampler=DistributedSampler(range(8), 1, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [shuffling, with_a_generator, with_epochs])
def test_each_epoch_has_an_order_of_its_own_which_a_continued_run_repeats(make: Callable[[], Any]) -> None:
    def batches(loader: Continuing) -> list[list[int]]:
        return [batch.tolist() for batch in loader]

    place = [(0, 0)]
    whole = Continuing(make(), 4, lambda: place[0], seed=1, rank=0)
    first = batches(whole)
    place[0] = (1, 0)
    second = batches(whole)
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(8))
    assert first != second
    torch.rand(3)
    continued = Continuing(make(), 4, lambda: (1, 3), seed=1, rank=0)
    assert batches(continued) == second[3:]
    place[0] = (2, 0)
    third, other_seed = batches(whole), Continuing(make(), 4, lambda: (2, 0), seed=2, rank=0)
    assert batches(Continuing(make(), 4, lambda: (2, 0), seed=1, rank=1)) == third  # one order on all ranks
    assert (batches(other_seed) == third) == (make is not shuffling)  # the others have a seed of their own


def test_several_ranks_take_the_batches_in_turn() -> None:
    def batches(rank: int, place: tuple[int, int] = (1, 0)) -> list[list[int]]:
        loader = DataLoader(range(14), batch_size=2, shuffle=True)  # type: ignore[arg-type]
        found = Continuing(loader, 7, lambda: place, seed=1, rank=rank, ranks=2)
        assert len(found) == 3
        return [batch.tolist() for batch in found]

    loader = DataLoader(range(14), batch_size=2, shuffle=True)  # type: ignore[arg-type]
    alone = [batch.tolist() for batch in Continuing(loader, 7, lambda: (1, 0), seed=1, rank=0)]
    assert batches(0) == alone[0:6:2]
    assert batches(1) == alone[1:6:2]
    assert batches(1, (1, 2)) == alone[5:6]


def test_ranks_with_batches_of_their_own_keep_them() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter((3, 5))

    sampler = DistributedSampler(range(8), 2, 1, shuffle=False)  # type: ignore[arg-type]
    shard = DataLoader(range(8), batch_size=2, sampler=sampler)  # type: ignore[arg-type]
    batches = [batch.tolist() for batch in Continuing(shard, 2, lambda: (0, 0), seed=1, rank=1, ranks=2)]
    assert batches == [[1, 3], [5, 7]]
    stream = DataLoader(Stream(), batch_size=None)
    assert list(Continuing(stream, 2, lambda: (0, 0), seed=1, rank=1, ranks=2)) == [3, 5]
    with pytest.raises(UserError, match=r"^the training loader ended after 2 of 3 batches of an epoch: "):
        list(Continuing(stream, 3, lambda: (0, 0), seed=1, rank=0))
    with pytest.raises(UserError, match=r"^the training loader has 1 batches for 2 devices: "):
        Continuing(DataLoader([1]), 1, lambda: (0, 0), seed=1, rank=0, ranks=2)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_loader_process_that_gives_no_batch_is_an_error(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was forked beside threads may hang for ever."""

    def stuck(*_: Any, **__: Any) -> None:
        time.sleep(60)

    monkeypatch.setattr(data, "SILENT", 0.5)
    monkeypatch.setattr(data, "collated", stuck)
    with pytest.raises(RuntimeError, match=r"timed out after 0\.5 seconds"):
        fit(small("data.workers=1"), made(small("data.workers=1"), "run"), Interrupt())
