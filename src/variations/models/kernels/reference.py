"""Attention, dropout and the sum over branches by torch's own kernels."""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from variations.models.kernels.branch_sum import branch_sum
from variations.models.kernels.segments import Packed


class Reference:
    """torch's own kernels, with which the others must agree."""

    name = "reference"

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """softmax(q kᵀ / √d_k) v (Vaswani et al. 2017, eq. 1).

        Args:
            q: (B, h, T, d_k).
            k: (B, h, S, d_k).
            v: (B, h, S, d_v).
            mask: True where a key is visible, broadcastable to (B, h, T, S); None if all are. Every query must see one.
            causal: Query t attends to keys up to S - T + t.
            dropout: Rate on the attention weights; 0 outside training.

        Returns:
            (B, h, T, d_v).
        """
        if q.size(2) == 1:  # the last position, which attends to all; `and` would make torch.compile break the graph
            causal = False
        if causal and (mask is not None or q.size(2) != k.size(2)):
            mask, causal = with_causal(mask, q, k), False
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal)

    def packed_attention(self, q: Tensor, k: Tensor, v: Tensor, packed: Packed, causal: bool, dropout: float) -> Tensor:
        """`attention` within each segment: (1, h, N, ·) to (1, h, N, d_v); here by restoring the padding."""
        return packed.apart(lambda q, k, v, mask: self.attention(q, k, v, mask, causal, dropout), q, k, v)

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        """Zero elements of `x` at `rate` and scale the others by 1 / (1 - rate); for training only."""
        return F.dropout(x, rate) if rate else x

    def branch_sum(
        self, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor, dropout: float
    ) -> Tensor:
        """Σ_i α_i relu(head_i C_i + bias_i + base); see `kernels.branch_sum`."""
        drop = functools.partial(self.dropout, rate=dropout) if dropout else None
        return branch_sum(heads, C, bias, base, alpha, dropout=drop)


def with_causal(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor:
    """`mask` combined with the causal mask; the T queries are the last of the S positions. (T, S), or as `mask`."""
    queries, keys = q.size(2), k.size(2)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    return seen if mask is None else mask & seen
