"""g = Σ_i α_i relu(head_i C_i + b_i): the elementwise heart of the composed Weighted Transformer (SPEC section 3.5).

Kept by plain autograd, the M activations of width f would cost M·f numbers per token, and M trips to memory and
back. Here the tokens are worked in blocks small enough to stay in cache, nothing of width M·f is ever stored, and the
backward pass computes each block again.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from variations.models.kernels import Reference

BLOCK_BYTES = 1 << 20
"""Size of one branch's block of activations; of the order of a core's second-level cache."""


def branch_sum(
    heads: Tensor,
    C: Tensor,
    bias: Tensor | None,
    base: Tensor | None,
    alpha: Tensor,
    *,
    dropout: tuple[float, Reference] | None = None,
) -> Tensor:
    """Σ_i α_i relu(head_i C_i + bias_i + base).

    Args:
        heads: (M, n, w) inputs of the M branches for n tokens.
        C: (M, w, f).
        bias: (1 or M, f), or None.
        base: (n, f) added to every branch, or None.
        alpha: (1 or n, M) weights, the same for all tokens or not.
        dropout: Rate and kernels of dropout on each branch's activations; then all of them are kept for the backward
            pass, because their masks must be.

    Returns:
        (n, f).
    """
    if dropout is not None:
        return _plain(heads, C, bias, base, alpha, dropout)
    if torch.is_autocast_enabled(heads.device.type):
        dtype = torch.get_autocast_dtype(heads.device.type)
        heads, C = heads.to(dtype), C.to(dtype)
        base = None if base is None else base.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    out: Tensor = _BranchSum.apply(heads, C, bias, base, alpha)
    return out


def _plain(
    heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor, dropout: tuple[float, Reference]
) -> Tensor:
    rate, kernels = dropout
    total: Tensor | None = None
    for i in range(heads.size(0)):
        z = heads[i] @ C[i]
        z = z if bias is None else z + bias[min(i, bias.size(0) - 1)]
        z = z if base is None else z + base
        part = alpha[:, i, None] * kernels.dropout(F.relu(z), rate)
        total = part if total is None else total + part
    assert total is not None  # noqa: S101 - M is at least 1
    return total


class _BranchSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(heads, C, bias, base, alpha)
        M, n, _ = heads.shape
        g = heads.new_empty(n, C.size(2))
        common = alpha.size(0) == 1
        # On a GPU reading the weights would wait for the device; there they are multiplied as tensors.
        scalars = alpha[0].tolist() if common and heads.device.type == "cpu" else None
        for block in _blocks(n, C):
            for i in range(M):
                z = _first(heads[i, block], C, bias, base, i, block).relu_()
                if scalars is None:
                    z = z.mul_(alpha[0, i] if common else alpha[block, i, None])
                scale = 1.0 if scalars is None else scalars[i]
                if i == 0:
                    torch.mul(z, scale, out=g[block])
                else:
                    g[block].add_(z, alpha=scale)
        return g

    @staticmethod
    def backward(ctx: Any, dg: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """With s = dg where z_i > 0, and 0 elsewhere, everything else follows from products of s.

        d head_i = α_i s C_iᵀ;  d C_i = head_iᵀ (α_i s);  d b_i = Σ_n α_i s;  and since relu(z) = z where s is not 0,
        d α_i = Σ s·z_i = Σ head_i·(s C_iᵀ) + s·(b_i + base): no pass over M·f numbers but the one that makes s.
        """
        heads, C, bias, base, alpha = ctx.saved_tensors
        M, n, _ = heads.shape
        wide = torch.float64 if C.dtype == torch.float64 else torch.float32  # for sums over tokens
        dg = dg.contiguous()
        dheads, dC, dalpha = (
            torch.empty_like(heads),
            torch.zeros_like(C, dtype=wide),
            torch.zeros_like(alpha, dtype=wide),
        )
        dbias = None if bias is None else torch.zeros_like(bias, dtype=wide)
        dbase = None if base is None else torch.zeros_like(base)
        a = alpha.to(C.dtype)
        for block in _blocks(n, C):
            for i in range(M):
                head = heads[i, block]
                z = _first(head, C, bias, base, i, block)
                s = torch.ops.aten.threshold_backward(dg[block], z, 0)
                along = s @ C[i].t()  # (rows, w)
                weight = a[block, i, None] if a.size(0) > 1 else a[:, i, None]  # (rows or 1, 1)
                from_z = (head * along).sum(-1, dtype=wide)
                if bias is not None and dbias is not None:
                    row = min(i, bias.size(0) - 1)
                    dbias[row] += (weight.expand(s.size(0), 1).t() @ s)[0]
                    from_z += s @ bias[row]
                if base is not None and dbase is not None:
                    dbase[block].addcmul_(weight, s)
                    from_z += (s * base[block]).sum(-1, dtype=wide)
                if a.size(0) > 1:
                    dalpha[block, i] += from_z
                else:
                    dalpha[0, i] += from_z.sum()
                torch.mul(along, weight, out=dheads[i, block])
                dC[i] += (head * weight).t() @ s
        return dheads, dC.to(C.dtype), None if dbias is None else dbias.to(bias.dtype), dbase, dalpha.to(alpha.dtype)


def _blocks(n: int, C: Tensor) -> Iterator[slice]:
    rows = max(32, BLOCK_BYTES // (C.size(2) * C.element_size()))
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def _first(heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, i: int, block: slice) -> Tensor:
    """head_i C_i + bias_i + base for one block of tokens: (rows, f)."""
    z = heads @ C[i] if bias is None else torch.addmm(bias[min(i, bias.size(0) - 1)], heads, C[i])
    return z if base is None else z.add_(base[block])
