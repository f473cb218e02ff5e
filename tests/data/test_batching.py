"""Batches: within budget, every pair once, little padding, equal on any number of devices, exact after a resume."""

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from variations.data.batching import TokenBatchSampler, _split, collate
from variations.data.special import EOS, PAD
from variations.system.errors import UserError
from variations.tasks.translation.config import DataConfig
from variations.tasks.translation.data.subwords import subwords_for
from variations.tasks.translation.data.tokens import tokens_for

DATA = Path(os.environ.get("VARIATIONS_TEST_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


@dataclass(frozen=True)
class Pair:
    name: str
    source: Path
    target: Path


class Sentences:
    """A stub of a token store: pair i has the ids 4 + i % 50."""

    def __init__(self, source: Any, target: Any) -> None:
        self.lengths = np.stack([source, target])

    def __len__(self) -> int:
        return int(self.lengths.shape[1])

    def __getitem__(self, index: int) -> tuple[int, Any, Any]:
        source, target = ([*[4 + index % 50] * (n - 1), EOS] for n in self.lengths[:, index])
        return index, np.array(source, np.uint16), np.array(target, np.uint16)


def lengths(pairs: int, seed: int = 1) -> tuple[Any, Any]:
    """Return log-normal lengths, as in natural text; source and target lengths correlate."""
    rng = np.random.default_rng(seed)
    source = np.exp(rng.normal(2.6, 0.4, pairs))
    target = source * np.exp(rng.normal(0.05, 0.18, pairs))
    return np.clip(source, 2, 120).astype(np.int32), np.clip(target, 2, 120).astype(np.int32)


def sampler(pairs: int = 2000, budget: int = 600, **arguments: Any) -> TokenBatchSampler:
    return TokenBatchSampler(*lengths(pairs), budget, **arguments)


pairs_of_lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=40, max_size=150).map(
    lambda rows: np.array(rows, np.int32).T
)


# Batches ------------------------------------------------------------------------------------------------------------


def test_collate_pads_on_the_right_and_counts_real_tokens() -> None:
    rows = [
        (7, np.array([5, 6, 2], np.uint16), np.array([8, 2], np.uint16)),
        (3, np.array([2]), np.array([9, 9, 9, 2])),
    ]
    batch = collate(rows)
    assert batch.source.tolist() == [[5, 6, 2], [2, PAD, PAD]]
    assert batch.target.tolist() == [[8, 2, PAD, PAD], [9, 9, 9, 2]]
    assert batch.index.tolist() == [7, 3]
    assert (batch.source_tokens, batch.target_tokens, batch.padded_tokens, len(batch)) == (4, 6, 14, 2)
    assert {batch.source.dtype, batch.target.dtype, batch.index.dtype} == {torch.int64}
    assert (type(batch.source_tokens), type(batch.target_tokens)) == (int, int)


def test_batch_moves_to_a_device_whole() -> None:
    batch = collate([(7, np.array([5, 2]), np.array([8, 2]))]).to("meta")
    assert {batch.source.device.type, batch.target.device.type, batch.index.device.type} == {"meta"}
    assert (batch.source_tokens, batch.target_tokens) == (2, 2)


# One epoch ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(pairs_of_lengths, st.integers(20, 200), st.booleans(), st.integers(0, 5))
@settings(max_examples=60)
def test_an_epoch_holds_each_pair_once_within_both_budgets(rows: Any, budget: int, shuffle: bool, epoch: int) -> None:
    source, target = rows
    batches = TokenBatchSampler(source, target, budget, shuffle=shuffle)
    plan = batches.plan(epoch)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(source)))
    assert len(plan) == len(batches)
    for batch in plan:
        widest = max(source[batch].max(), target[batch].max())
        assert len(batch) * widest <= budget or len(batch) == 1


def test_epochs_differ_and_are_a_function_of_seed_and_epoch() -> None:
    plans = {
        (seed, epoch): [batch.tolist() for batch in sampler(seed=seed).plan(epoch)]
        for seed in (1, 2)
        for epoch in (0, 1)
    }
    assert len({str(plan) for plan in plans.values()}) == 4
    assert plans[2, 1] == [batch.tolist() for batch in sampler(seed=2).plan(1)]
    together = [{frozenset(batch) for batch in plans[1, epoch]} for epoch in (0, 1)]
    assert len(together[0] & together[1]) < 0.5 * len(together[0])  # the batches change, not only their order


def test_without_shuffling_epochs_are_alike_and_long_sentences_come_first() -> None:
    source, target = lengths(2000)
    batches = TokenBatchSampler(source, target, 600, shuffle=False)
    plan = [batch.tolist() for batch in batches.plan(0)]
    assert plan == [batch.tolist() for batch in batches.plan(3)]
    longest = [max(source[batch].max(), target[batch].max()) for batch in plan]
    assert longest[0] == max(source.max(), target.max())
    assert np.mean(longest[:10]) > 2 * np.mean(longest[-10:])


def test_indices_restrict_the_pairs() -> None:
    chosen = np.array([5, 900, 17, 3, 1999])
    assert sorted(i for batch in sampler(indices=chosen) for i in batch) == [3, 5, 17, 900, 1999]


@pytest.mark.slow
@given(rows=st.lists(st.integers(1, 9), min_size=1, max_size=12), more=st.integers(0, 12))
def test_the_batch_of_most_rows_is_halved_in_its_place(rows: list[int], more: int) -> None:
    edges = np.cumsum([0, *rows])
    plain = [np.arange(a, b) for a, b in pairwise(edges)]
    wanted = min(len(plain) + more, int(edges[-1]))
    found = [batch.tolist() for batch in _split(plain, wanted)]
    while len(plain) < wanted:
        most = max(range(len(plain)), key=lambda i: len(plain[i]))
        plain[most : most + 1] = [plain[most][::2], plain[most][1::2]]
    assert found == [batch.tolist() for batch in plain]


def test_no_pairs_make_no_batches() -> None:
    empty = np.zeros(0, np.int32)
    assert list(TokenBatchSampler(empty, empty, 100)) == []


def efficiency(batches: TokenBatchSampler, source: Any, target: Any, epoch: int) -> float:
    """Return the ratio of real to padded tokens, source and target together."""
    padded = sum(len(batch) * (int(source[batch].max()) + int(target[batch].max())) for batch in batches.plan(epoch))
    return (int(source.sum()) + int(target.sum())) / padded


def test_padding_is_below_7_percent_on_log_normal_lengths() -> None:
    source, target = lengths(29_000)
    batches = TokenBatchSampler(source, target, 4096)
    assert all(efficiency(batches, source, target, epoch) >= 0.93 for epoch in range(6))


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason="needs multi30k in VARIATIONS_TEST_DATA")
def test_padding_is_below_7_percent_on_multi30k(tmp_path: Path) -> None:
    train: Any = Pair("train", DATA / "multi30k" / "train.en.gz", DATA / "multi30k" / "train.de.gz")
    data = DataConfig(cache=str(tmp_path), vocabulary=8000)
    corpus: Any = SimpleNamespace(train=train)
    store = tokens_for(train, subwords_for(corpus, data), data, drop_long=True)
    assert len(store) == 29_000
    batches = TokenBatchSampler(store.source_lengths, store.target_lengths, 4096)
    sides = store.source_lengths, store.target_lengths
    assert all(efficiency(batches, *sides, epoch) >= 0.93 for epoch in range(6))
    padded = sum(collate([store[i] for i in batch]).padded_tokens for batch in batches)
    real = int(store.source_lengths.sum() + store.target_lengths.sum())
    assert real / padded == pytest.approx(efficiency(batches, *sides, 0))


# Devices ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(pairs_of_lengths, st.integers(1, 4))
@settings(max_examples=40)
def test_ranks_yield_equally_many_batches_and_each_pair_once(rows: Any, world: int) -> None:
    source, target = rows
    ranks = [TokenBatchSampler(source, target, 200, rank=rank, world=world) for rank in range(world)]
    yielded = [list(batches) for batches in ranks]
    assert {len(batches) for batches in yielded} == {len(ranks[0])}
    assert sorted(i for batches in yielded for batch in batches for i in batch) == list(range(rows.shape[1]))
    assert all(batch for batches in yielded for batch in batches)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_an_update_sees_the_same_pairs_on_any_number_of_devices(world: int) -> None:
    alone = list(sampler())
    together = zip(*(list(sampler(rank=rank, world=world)) for rank in range(world)), strict=True)
    updates = [sorted(i for batch in batches for i in batch) for batches in together]
    expected = [sorted(i for batch in alone[at : at + world] for i in batch) for at in range(0, len(alone), world)]
    assert updates == expected


def test_the_rest_of_every_epoch_is_enough_for_the_devices() -> None:
    """Where the last batches happen to be too small, larger ones take their place; other epochs stay as they are."""
    rng = np.random.default_rng(4)
    long = rng.integers(60, 128, 63).astype(np.int32)
    alone = TokenBatchSampler(long, long, 200)
    ranks = [TokenBatchSampler(long, long, 200, rank=rank, world=8) for rank in range(8)]
    moved = 0
    for epoch in range(60):
        left = len(alone.plan(epoch)) % 8
        enough = not left or sum(map(len, alone.plan(epoch)[-left:])) >= 8
        moved += not enough
        for sampler in (alone, *ranks):
            sampler.set_epoch(epoch)
        yielded = [list(batches) for batches in ranks]
        assert all(batch for batches in yielded for batch in batches)
        assert sorted(i for batches in yielded for batch in batches for i in batch) == list(range(63))
        same = [batch.tolist() for batch in alone.plan(epoch)] == [batch.tolist() for batch in ranks[0].plan(epoch)]
        assert same == enough
    assert 0 < moved < 60


def test_where_all_batches_of_an_epoch_have_too_few_pairs_large_ones_are_halved() -> None:
    """Another layout of the same pairs may need none, so that only some epochs are concerned."""
    rng = np.random.default_rng(314)
    pairs, budget = int(rng.integers(20, 400)), int(rng.choice([512, 1024, 2048]))
    world = int(rng.choice([2, 4, 8]))
    drawn = np.exp(rng.normal(np.log(budget / 4), 0.6, pairs))
    source = np.clip(np.rint(drawn), 2, budget).astype(int)
    target = np.clip(np.rint(source * np.exp(rng.normal(0, 0.15, pairs))), 2, budget).astype(int)
    alone = TokenBatchSampler(source, target, budget)
    ranks = [TokenBatchSampler(source, target, budget, rank=rank, world=world) for rank in range(world)]
    halved = []
    for epoch in range(12):
        for sampler in ranks:
            sampler.set_epoch(epoch)
        yielded = [list(batches) for batches in ranks]
        assert {len(batches) for batches in yielded} == {len(ranks[0])}
        assert all(batch for batches in yielded for batch in batches)
        assert sorted(i for batches in yielded for batch in batches for i in batch) == list(range(pairs))
        for batch in (batch for batches in yielded for batch in batches):
            assert len(batch) * max(source[batch].max(), target[batch].max()) <= budget or len(batch) == 1
        halved.append(len(ranks[0].plan(epoch)) > len(alone.plan(epoch)))
        for sampler, whole in zip(ranks, yielded, strict=True):  # as a run that was stopped in it
            sampler.resume(epoch, 3 * world)
            assert list(sampler) == whole[3:]
    assert set(halved) == {False, True} and not halved[0]


def test_too_few_pairs_for_the_devices_is_told_at_once() -> None:
    with pytest.raises(UserError, match="2 training pairs are too few for 1 batches on each of 4 devices"):
        sampler(pairs=2, world=4)


@pytest.mark.parametrize("pairs", [1, 2, 3, 5, 7])
def test_a_validation_gives_devices_no_batch_for_which_no_pair_is_left(pairs: int) -> None:
    long = np.full(pairs, 200, np.int32)  # a batch each
    ranks = [list(TokenBatchSampler(long, long, 256, shuffle=False, rank=rank, world=4)) for rank in range(4)]
    assert [len(batches) for batches in ranks] == [len(range(rank, pairs, 4)) for rank in range(4)]
    assert sorted(ranks, key=len, reverse=True) == ranks
    assert sorted(i for batches in ranks for (i,) in batches) == list(range(pairs))


# Stops --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3]), st.floats(0, 1))
@settings(max_examples=40)
def test_a_continued_epoch_yields_exactly_the_remaining_pairs(
    seed: int, epoch: int, before: int, after: int, share: float
) -> None:
    def ranks(world: int) -> list[TokenBatchSampler]:
        return [sampler(300, 200, seed=seed, rank=rank, world=world) for rank in range(world)]

    stopped, continued, undisturbed = ranks(before), ranks(after), ranks(after)
    steps = int(share * len(stopped[0]))
    seen: list[int] = []
    for batches in stopped:
        batches.set_epoch(epoch)
        iterator = iter(batches)
        seen += [i for _ in range(steps) for i in next(iterator)]
    if steps == len(stopped[0]):  # the epoch is complete; the next one begins
        seen = []
    for batches in continued:
        batches.resume(epoch, steps * before)
    rest = [list(batches) for batches in continued]
    assert rest == [list(batches) for batches in continued]  # a loader may iterate more than once
    assert len({len(batches) for batches in rest}) == 1
    assert sorted(seen + [i for batches in rest for batch in batches for i in batch]) == list(range(300))
    following = epoch + (steps == len(stopped[0]))
    assert continued[0].epoch == following
    for batches, left in zip(undisturbed, rest, strict=True):
        batches.set_epoch(following)
        if before == after:
            assert left == list(batches)[steps if seen else 0 :]


def test_the_epoch_chosen_is_the_order() -> None:
    batches = sampler()
    first = list(batches)
    assert list(batches) == first
    batches.sampler.set_epoch(1)  # as Lightning does
    assert list(batches) != first
    batches.set_epoch(0)
    assert list(batches) == first


def test_after_a_continued_epoch_the_next_one_is_whole() -> None:
    whole = list(sampler())
    batches = sampler()
    batches.resume(0, 5)
    batches.set_epoch(0)  # Lightning calls this hook after creating the loader
    assert list(batches) == whole[5:]
    batches.set_epoch(1)
    assert len(list(batches)) == len(batches) == len(whole)
