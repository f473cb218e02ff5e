"""g = Σ_i α_i relu(head_i C_i + b_i): the elementwise heart of the composed Weighted Transformer (SPEC section 3.5).

Kept by plain autograd, the M activations of width f would cost M·f numbers per token, and M trips to memory and
back. Here the tokens are worked in blocks small enough to stay in cache, nothing of width M·f is ever stored, and the
backward pass computes each block again.
"""

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


def _block_rows(C: Tensor) -> int:
    return int(max(32, BLOCK_BYTES // (C.size(2) * C.element_size())))


class _BranchSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(heads, C, bias, base, alpha)
        M, n, _ = heads.shape
        g = heads.new_empty(n, C.size(2))
        scalars = alpha[0].tolist() if alpha.size(0) == 1 and heads.device.type == "cpu" else None
        rows = _block_rows(C)
        for start in range(0, n, rows):
            block = slice(start, start + rows)
            for i in range(M):
                z = _first(heads[i, block], C, bias, base, i, block).relu_()
                if scalars is None:
                    z = z.mul_(alpha[block if alpha.size(0) > 1 else slice(None), i, None])
                if i == 0:
                    torch.mul(z, 1.0 if scalars is None else scalars[0], out=g[block])
                else:
                    g[block].add_(z, alpha=1.0 if scalars is None else scalars[i])
        return g

    @staticmethod
    def backward(ctx: Any, dg: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        heads, C, bias, base, alpha = ctx.saved_tensors
        M, n, _ = heads.shape
        dg = dg.contiguous()
        dheads, dC = torch.empty_like(heads), torch.zeros_like(C, dtype=_wide(C))
        dbias = None if bias is None else torch.zeros_like(bias, dtype=_wide(C))
        dbase = None if base is None else torch.zeros_like(base)
        dalpha = torch.zeros_like(alpha, dtype=_wide(C))
        per_token = alpha.size(0) > 1
        rows = _block_rows(C)
        for start in range(0, n, rows):
            block = slice(start, start + rows)
            for i in range(M):
                z = _first(heads[i, block], C, bias, base, i, block)
                hidden = z.relu()
                # The product of the two is summed at once; `relu` of z is also what tells where the gradient flows.
                along = torch.einsum("nf,nf->n", dg[block], hidden)
                if per_token:
                    dalpha[block, i] += along
                else:
                    dalpha[0, i] += along.sum(dtype=dalpha.dtype)
                weight = alpha[block, i, None] if per_token else alpha[0, i]
                dz = torch.where(z > 0, dg[block] * weight.to(dg.dtype), 0)
                torch.mm(dz, C[i].t(), out=dheads[i, block])
                dC[i] += heads[i, block].t() @ dz
                if dbias is not None:
                    dbias[min(i, dbias.size(0) - 1)] += dz.sum(0, dtype=dbias.dtype)
                if dbase is not None:
                    dbase[block] += dz
        return (
            dheads,
            dC.to(C.dtype),
            None if dbias is None else dbias.to(bias.dtype),
            dbase,
            dalpha.to(alpha.dtype),
        )


def _wide(x: Tensor) -> torch.dtype:
    """Sums over tokens are taken in float32 at least."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _first(heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, i: int, block: slice) -> Tensor:
    """head_i C_i + bias_i + base for one block of tokens: (rows, f)."""
    z = heads @ C[i] if bias is None else torch.addmm(bias[min(i, bias.size(0) - 1)], heads, C[i])
    return z if base is None else z.add_(base[block])
