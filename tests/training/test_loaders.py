"""Loaders of other packages' tasks, continued in mid-epoch."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

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
