"""Concatenated sentences: a training batch without padding, for attention that knows where each sentence begins.

What works position by position runs on such a row of tokens as it does on a padded batch. Only embeddings ask for each
token's position, and attention for who belongs together. Shapes: n segments in N slots; h heads of width w.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class Segments:
    """One side of a batch."""

    starts: Tensor
    """(n + 1,) int32: the slot where each segment begins, and N."""
    positions: Tensor
    """(N,) int64: each slot's place in its segment, from 0."""
    longest: int
    """No segment has more slots; a number, so that there is no host synchronisation."""

    def padded(self, x: Tensor) -> Tensor:
        """(1, h, N, w) to (n, h, longest, w); entries beyond a segment's end belong to other segments."""
        slots = self.starts[:-1, None] + torch.arange(self.longest, device=x.device)
        return x[0][:, slots.clamp(max=x.size(2) - 1)].transpose(0, 1)

    def packed(self, x: Tensor) -> Tensor:
        """(n, h, longest, w) to (1, h, N, w)."""
        return x.transpose(1, 2)[_rows(self.starts, self.positions.size(0)), self.positions].transpose(0, 1)[None]

    def seen(self) -> Tensor:
        """(n, 1, 1, longest): True at slots of the segment."""
        place = torch.arange(self.longest, device=self.starts.device)
        return (place < self.starts.diff()[:, None])[:, None, None]


@dataclass
class Packed:
    """Concatenated queries and keys: those of segment i belong together."""

    queries: Segments
    keys: Segments
    window: int | None = None
    """A query sees keys at most this number of positions away; None: all of its segment."""

    def apart(self, attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], *qkv: Tensor) -> Tensor:
        """`attend` to padded queries, keys and values under a mask; all of them, and the result, (1, h, N, w)."""
        q, k, v = (side.padded(x) for side, x in zip((self.queries, self.keys, self.keys), qkv, strict=True))
        mask = self.keys.seen()
        mask = mask if self.window is None else near(self.window, q.size(2), k.size(2), mask)
        return self.queries.packed(attend(q, k, v, mask))


Mask = Tensor | Packed | None
"""Who may be seen: True where a key may, broadcastable to (B, h, T, S); or by segments; or everyone."""


def among_queries(mask: Mask) -> Mask:
    """For masked self-attention of a target whose attention to the source has `mask`.

    Padding is on the right, where no real token attends to it; but packed sentences are adjacent.
    """
    return Packed(mask.queries, mask.queries) if isinstance(mask, Packed) else None


def near(r: int, T: int, S: int, mask: Tensor) -> Tensor:
    """`mask` confined to keys at most r positions from the query; T queries are the last of S positions.

    Padding far from any real token still sees itself: a softmax over nothing is NaN, and spreads to every token.
    """
    distance = torch.arange(S - T, S, device=mask.device)[:, None] - torch.arange(S, device=mask.device)[None, :]
    return (mask & (distance.abs() <= r)) | (distance == 0)


def pack(source: Tensor, target: Tensor, tokens: tuple[int, int], *, pad: int = 0) -> tuple[Tensor, Tensor, Packed]:
    """Take the padding out of a batch, on its device and without host synchronisation.

    Args:
        source: (B, S) ids, padded on the right.
        target: (B, T) ids.
        tokens: Real tokens of the source and of the target.
        pad: The id of padding.

    Returns:
        Source (1, N_s) and target (1, N_t) ids, and how targets see sources.
    """
    (source, keys), (target, queries) = (
        _end_to_end(ids, N, pad) for ids, N in zip((source, target), tokens, strict=True)
    )
    return source, target, Packed(queries, keys)


def _end_to_end(ids: Tensor, N: int, pad: int) -> tuple[Tensor, Segments]:
    starts = F.pad(ids.ne(pad).sum(1).cumsum(0), (1, 0)).int()
    rows = _rows(starts, N)
    positions = torch.arange(N, device=ids.device) - starts[rows]
    return ids[rows, positions][None], Segments(starts, positions, ids.size(1))


def _rows(starts: Tensor, N: int) -> Tensor:
    """The segment of each of N slots."""
    return torch.searchsorted(starts, torch.arange(N, device=starts.device, dtype=starts.dtype), right=True) - 1
