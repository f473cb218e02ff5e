"""Concatenated sentences: a training batch without padding, for attention kernels with sequence boundaries.

Position-wise operations are the same as on a padded batch. Only embeddings need each token's position, and only
attention the segment boundaries. Shapes: n segments in N slots; h heads of width w.
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
    """(n + 1,) int32: the first slot of each segment, and N."""
    positions: Tensor
    """(N,) int64: each slot's position in its segment, from 0."""
    longest: int
    """An upper bound of a segment's slots; a Python number, to avoid a host synchronisation."""

    def padded(self, x: Tensor) -> Tensor:
        """(1, h, N, w) to (n, h, longest, w); entries beyond a segment's end belong to other segments."""
        slots = self.starts[:-1, None] + torch.arange(self.longest, device=x.device)
        return x[0][:, slots.clamp(max=x.size(2) - 1)].transpose(0, 1)

    def packed(self, x: Tensor) -> Tensor:
        """(n, h, longest, w) to (1, h, N, w)."""
        return x.transpose(1, 2)[_rows(self.starts, self.positions.size(0)), self.positions].transpose(0, 1)[None]

    def seen(self) -> Tensor:
        """(n, 1, 1, longest): True at the segment's slots."""
        place = torch.arange(self.longest, device=self.starts.device)
        return (place < self.starts.diff()[:, None])[:, None, None]


@dataclass
class Packed:
    """Concatenated queries and keys; queries of segment i attend to keys of segment i."""

    queries: Segments
    keys: Segments
    window: int | None = None
    """Largest distance between a query and a key; None: the whole segment."""

    def apart(self, attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], *qkv: Tensor) -> Tensor:
        """Apply `attend` to padded queries, keys and values with a mask. Arguments and result are (1, h, N, w)."""
        q, k, v = (side.padded(x) for side, x in zip((self.queries, self.keys, self.keys), qkv, strict=True))
        mask = self.keys.seen()
        mask = mask if self.window is None else near(self.window, q.size(2), k.size(2), mask)
        return self.queries.packed(attend(q, k, v, mask))


Mask = Tensor | Packed | None
"""True where a key is visible, broadcastable to (B, h, T, S); or segments; or None if all are visible."""


def among_queries(mask: Mask) -> Mask:
    """The mask of masked self-attention for a target whose cross-attention has `mask`.

    Padding is on the right, where no real token attends to it; only packed sentences need boundaries.
    """
    return Packed(mask.queries, mask.queries) if isinstance(mask, Packed) else None


def near(r: int, T: int, S: int, mask: Tensor) -> Tensor:
    """`mask` restricted to keys at most r positions from the query; the T queries are the last of S positions.

    Padding far from any real token attends to itself: a softmax over nothing is NaN, which would spread to all tokens.
    """
    distance = torch.arange(S - T, S, device=mask.device)[:, None] - torch.arange(S, device=mask.device)[None, :]
    return (mask & (distance.abs() <= r)) | (distance == 0)


def pack(source: Tensor, target: Tensor, tokens: tuple[int, int], *, pad: int = 0) -> tuple[Tensor, Tensor, Packed]:
    """Remove the padding of a batch, on its device and without host synchronisation.

    Args:
        source: (B, S) ids, padded on the right.
        target: (B, T) ids.
        tokens: Numbers of real tokens of the source and of the target.
        pad: The id of padding.

    Returns:
        Source (1, N_s) and target (1, N_t) ids, and the segments for cross-attention.
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
