"""Packing sentence pairs into batches with little padding.

Pairs of equal length on both sides form a *cell*. A *layout* is an order of the cells in which neighbours have similar
lengths on both sides: strips of similar length on one side, and inside a strip the other side alternately ascending and
descending. This order is cut into batches greedily. The cut depends only on the lengths, so a layout has equally many
batches in every epoch; random in an epoch are the layout, the order of pairs inside their cells, and the order of the
batches. All work is on cells (some thousands), not on pairs (millions).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int32]
STRIPS = (1.0, 1.06, 1.12, 1.2, 1.3, 1.45, 1.7)
"""Candidate ratios of a strip's longest to its shortest length, for either side."""
TOLERANCE = 0.01
"""Layouts whose efficiency is within this of the best one are also used, so that epochs differ."""


@dataclass(frozen=True)
class Layout:
    """One way to cut the corpus.

    Attributes:
        rank: each cell's place in the order, shape (cells,).
        sizes: pairs per batch, in that order.
        padded: source and target tokens, padding included, of all batches together.
    """

    rank: NDArray[np.int64]
    sizes: list[int]
    padded: int


class Packing:
    """The layouts of one corpus for one budget.

    A batch of B pairs, S source and T target tokens wide, has B·S ≤ budget and B·T ≤ budget; a pair that is longer
    than the budget is a batch of its own.

    Attributes:
        batches: batches of an epoch, the same in every epoch.
    """

    def __init__(self, source: Lengths, target: Lengths, budget: int) -> None:
        self.pairs = len(source)
        self._budget = budget
        self._real = int(source.sum(dtype=np.int64) + target.sum(dtype=np.int64))
        width = int(target.max(initial=0)) + 1
        keys, cell, counts = np.unique(
            source.astype(np.int64) * width + target, return_inverse=True, return_counts=True
        )
        self._sides = (keys // width, keys % width)
        self._counts = counts
        # 16 bits make numpy's stable sort a radix sort.
        self._cell = cell.reshape(-1).astype(np.uint16 if len(keys) <= 1 << 16 else np.int64)
        self.batches = max((len(layout.sizes) for layout in self.layouts), default=0)

    @cached_property
    def layouts(self) -> list[Layout]:
        """The best layout and those that are nearly as good, best first."""
        if not self.pairs:
            return []
        found = [self._layout(ratio, first) for first in (0, 1) for ratio in STRIPS]
        found.sort(key=lambda layout: layout.padded)
        worst = self.efficiency(found[0]) - TOLERANCE
        distinct = {tuple(layout.rank[:: max(1, len(layout.rank) // 512)]): layout for layout in reversed(found)}
        return [layout for layout in reversed(distinct.values()) if self.efficiency(layout) >= worst]

    def efficiency(self, layout: Layout) -> float:
        """Real tokens as a share of padded tokens, both sides together."""
        return self._real / max(1, layout.padded)

    def cut(self, layout: Layout, rng: np.random.Generator | None) -> list[NDArray[np.int64]]:
        """Positions of the pairs of each batch; pairs of equal lengths are shuffled if `rng` is given."""
        order = np.arange(self.pairs) if rng is None else rng.permutation(self.pairs)
        rank = layout.rank.astype(self._cell.dtype)
        order = order[np.argsort(rank[self._cell[order]], kind="stable")]
        return np.split(order, np.cumsum(layout.sizes)[:-1])

    def _layout(self, ratio: float, first: int) -> Layout:
        along, across = self._sides[first], self._sides[1 - first]
        edges = [1]
        while edges[-1] <= int(along.max()):
            edges.append(max(edges[-1] + 1, int(edges[-1] * ratio)))
        strip = np.searchsorted(edges, along, side="right")
        order = np.lexsort((along, np.where(strip % 2, across, -across), strip))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        sizes, padded = self._greedy(order)
        return Layout(rank, sizes, padded)

    def _greedy(self, order: NDArray[np.int64]) -> tuple[list[int], int]:
        """Fill each batch up to the budget, cell after cell."""
        budget, sizes, padded = self._budget, [], 0
        rows = longest_source = longest_target = 0
        cells = (values[order].tolist() for values in (*self._sides, self._counts))
        for source, target, count in zip(*cells, strict=True):
            while count:
                s, t = max(longest_source, source), max(longest_target, target)
                room = min(count, budget // max(s, t) - rows)
                if rows and room <= 0:
                    sizes.append(rows)
                    padded += rows * (longest_source + longest_target)
                    rows = longest_source = longest_target = 0
                    continue
                room = max(room, 1)
                rows, count, longest_source, longest_target = rows + room, count - room, s, t
        sizes.append(rows)
        return sizes, padded + rows * (longest_source + longest_target)
