"""Scores on test sets that chance could have drawn: items drawn with replacement, and swapped between two systems.

A measure is a function of sums over items (the sentences of a test set, say): BLEU of ten counts, a mean of one value
and 1. So n draws are one matrix product. Shapes: S items, n draws, K runs; what each item adds to a run's sums is an
(S, k) array, and `aggregate` turns sums, (..., k), into the measure, (...).

Random draws are those of `sacrebleu.significance` with the same seed, so that its p-values can be reproduced.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Items = NDArray[Any]
"""What each item adds to a system's sums, (S, k)."""
Floats = NDArray[np.float64]
Aggregate = Callable[[NDArray[Any]], Floats]
"""The measure of sums over items, (..., k) to (...)."""

SEED = 12345
"""sacreBLEU's own default seed."""
CHUNK = 512
"""Resamples drawn at once; bounds memory to some 12 MB per 3,000 items.

A multiple of 32: NumPy draws 32 booleans from one number and drops what is left of it at the end of a call, so that
blocks of another length would not be sacreBLEU's draws.
"""
KEPT = 40_000_000
"""Numbers of items times resamples that are drawn once for a whole table (40 MB); more are drawn anew for each use."""
TOGETHER = 64
"""Runs whose sums are resampled in one product of matrices."""


class UndefinedError(ValueError):
    """Chance in the items cannot be estimated; the message says why: a single item, or 0/0 for some that are drawn."""


class NoSpreadError(UndefinedError):
    """All items differ alike between two systems, so nothing says how they would differ on others."""

    def __init__(self) -> None:
        super().__init__("all of them differ alike, which shows no spread")


def finite(draws: Floats) -> Floats:
    """The draws. Raises UndefinedError if one is not a finite number."""
    if not np.isfinite(draws).all():
        raise UndefinedError("the measure is not a number for some of the draws")
    return draws


def check(*systems: Items) -> int:
    """The common number of items S. Raises ValueError if it differs between systems, UndefinedError if it is one."""
    if len({len(items) for items in systems}) != 1:
        raise ValueError("the systems were not scored on the same items")
    if len(systems[0]) == 1:
        raise UndefinedError("a single one has no spread")
    return len(systems[0])


def _resamples(items: int, n: int, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
    """How often each item is drawn in each resample: blocks of (at most CHUNK, S), n rows in all."""
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        drawn = rng.choice(items, size=(rows, items), replace=True)
        drawn += items * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * items).reshape(rows, items)
        yield counts.astype(np.min_scalar_type(counts.max()))  # as a rule one byte each


def _swaps(items: int, n: int, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
    """Whether an item is swapped: blocks of (at most CHUNK, S), n rows in all."""
    for start in range(0, n, CHUNK):
        yield rng.integers(2, size=(min(CHUNK, n - start), items), dtype=bool)


Draw = Callable[[int, int, np.random.Generator], Iterator[NDArray[Any]]]


def resampled_sums(items: Items, n: int, seed: int) -> Iterator[Floats]:
    """Sums of `items`, (S, c), over each of n resamples: blocks of (at most CHUNK, c), n rows in all."""
    return _sums(_resamples, items, n, seed)


def _sums(draw: Draw, items: Items, n: int, seed: int) -> Iterator[Floats]:
    """Sums of `items`, (S, c), over the draws of `_resamples` or `_swaps` for a seed: blocks of (at most CHUNK, c).

    All runs of a table share the draws, which are kept if they are few. Sums of whole numbers below 2^24 are exact in
    single precision, too, in which the product takes half the time.
    """
    count = len(items)
    exact = count * np.abs(items).max(initial=0) < 1 << 24 and np.array_equal(items, np.rint(items))
    kind = np.float32 if exact else np.float64
    factors: NDArray[Any] = items.astype(kind)
    kept = count * n <= KEPT
    for block in _kept(draw, count, n, seed) if kept else draw(count, n, np.random.default_rng(seed)):
        drawn: NDArray[Any] = block.astype(kind)
        yield (drawn @ factors).astype(np.float64)


@lru_cache(maxsize=2)
def _kept(draw: Draw, items: int, n: int, seed: int) -> tuple[NDArray[Any], ...]:
    return tuple(draw(items, n, np.random.default_rng(seed)))


class Resampled:
    """Scores of runs on test sets drawn with replacement, the same ones for all runs. Each run is scored once."""

    def __init__(self, aggregate: Aggregate, n: int, seed: int) -> None:
        self.aggregate = aggregate
        self.n = n
        self.seed = seed
        self._known: dict[int, tuple[Items, Floats]] = {}
        """By `id` of a run's items, which are kept so that no others take their place."""

    def of(self, runs: Sequence[Items], n: int) -> Floats:
        """(K, n): of each run its score on the first n test sets, at most those drawn."""
        new = list({id(run): run for run in runs if id(run) not in self._known}.values())
        for start in range(0, len(new), TOGETHER):
            group = new[start : start + TOGETHER]
            scores = _scores(_resamples, group, self.aggregate, self.n, self.seed)
            self._known |= {id(run): (run, own) for run, own in zip(group, scores, strict=True)}
        return np.stack([self._known[id(run)][1][:n] for run in runs])


def _scores(draw: Draw, runs: Sequence[Items], aggregate: Aggregate, n: int, seed: int) -> Floats:
    """(K, n): what `aggregate` makes of each run's items (S, k), weighted by each of n draws."""
    check(*runs)
    stacked = np.concatenate(runs, axis=1)  # (S, K·k)
    blocks = [aggregate(sums.reshape(len(sums), len(runs), -1)) for sums in _sums(draw, stacked, n, seed)]
    return finite(np.concatenate(blocks).T)


def swapped(systems: Sequence[Items], bases: Sequence[Items], aggregate: Aggregate, n: int, seed: int) -> Floats:
    """(K, n): how far each system and its base differ after each of n random swaps."""
    check(*systems, *bases)
    found = []
    for start in range(0, len(systems), TOGETHER):
        ours, theirs = systems[start : start + TOGETHER], bases[start : start + TOGETHER]
        gap = np.concatenate([base - system for system, base in zip(ours, theirs, strict=True)], axis=1)  # (S, K·k)
        first = np.stack([system.sum(0) for system in ours])  # (K, k)
        total = first + np.stack([base.sum(0) for base in theirs])
        blocks = []
        for sums in _sums(_swaps, gap, n, seed):
            mixed = sums.reshape(len(sums), *first.shape) + first
            blocks.append(np.abs(aggregate(mixed) - aggregate(total - mixed)))
        found.append(finite(np.concatenate(blocks).T))
    return np.concatenate(found)
