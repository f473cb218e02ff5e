"""g = Σ_i α_i relu(head_i C_i + b_i): the elementwise part of the composed Weighted Transformer (docs/paper.md).

Plain autograd would store the M activations of width f, M·f numbers per token, with M round trips to memory. Here the
tokens are processed in blocks that stay in a shared cache, nothing of width M·f is ever stored, and the backward pass
recomputes each block. `benchmarks/branch_forms.py` measures the effect of the block size. On a GPU
`gpu.FusedGPU` does the same in one kernel (`branch_sum_triton`).

Shapes: M branches, n tokens, heads of width w, f the FFN's width.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Dropout = Callable[[Tensor], Tensor]

BLOCK_BYTES = 1 << 22
"""Size of one branch's block of activations. Smaller blocks fit into faster caches, but their flat products cost more
than traffic with a shared cache; see `benchmarks/branch_forms.py`."""
FEW = 1 << 22
"""Largest number of activations of all branches that are computed in one batched product if no gradient is needed."""


def branch_sum(
    heads: Tensor,
    C: Tensor,
    bias: Tensor | None,
    base: Tensor | None,
    alpha: Tensor,
    *,
    dropout: Dropout | None = None,
) -> Tensor:
    """Σ_i α_i relu(head_i C_i + bias_i + base).

    Args:
        heads: (M, n, w) inputs of the M branches for n tokens.
        C: (M, w, f).
        bias: (1 or M, f), or None.
        base: (n, f) added to every branch, or None.
        alpha: (1 or n, M) weights, equal for all tokens or not.
        dropout: Applied to each branch's activations; all of them are then stored for the backward pass, because their
            masks are needed.

    Returns:
        (n, f).
    """
    if dropout is not None:
        return _plain(heads, C, bias, base, alpha, dropout)
    heads, C, bias, base = autocast(heads, C, bias, base)
    if not torch.is_grad_enabled() and heads.size(0) * heads.size(1) * C.size(2) <= FEW:
        return _batched(heads, C, bias, base, alpha)
    w = heads.size(-1)
    if bias is not None:
        # The bias as a further row of C, with a column of ones: adding it and summing its gradient then need no further
        # passes over the activations.
        heads = torch.cat([heads, heads.new_ones(()).expand(*heads.shape[:2], 1)], dim=-1)
        C = torch.cat([C, bias[:, None].expand(C.size(0), 1, -1)], dim=1)
    out: Tensor = _BranchSum.apply(heads, C, base, alpha, w)
    return out


def autocast(
    heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """The same tensors, in autocast's type if it is enabled."""
    device = heads.device.type
    if not torch.is_autocast_enabled(device):
        return heads, C, bias, base
    dtype = torch.get_autocast_dtype(device)
    heads, C = heads.to(dtype), C.to(dtype)
    return heads, C, None if bias is None else bias.to(dtype), None if base is None else base.to(dtype)


def _batched(heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
    """All branches at once: a decoding step has too few tokens for a loop to pay off."""
    # z: (M, n, f)
    z = torch.bmm(heads, C) if bias is None else torch.baddbmm(bias[:, None].to(heads.dtype), heads, C)
    z = z.relu_() if base is None else z.add_(base).relu_()
    return torch.einsum("nm,mnf->nf", alpha.to(z.dtype).expand(z.size(1), -1), z)


def _plain(
    heads: Tensor,
    C: Tensor,
    bias: Tensor | None,
    base: Tensor | None,
    alpha: Tensor,
    dropout: Dropout,
) -> Tensor:
    total: Tensor | None = None
    for i in range(heads.size(0)):
        z = heads[i] @ C[i]  # (n, f)
        z = z if bias is None else z + bias[min(i, bias.size(0) - 1)]
        z = z if base is None else z + base
        part = alpha[:, i, None] * dropout(F.relu(z))
        total = part if total is None else total + part
    assert total is not None  # noqa: S101 - M is at least 1
    return total


class _BranchSum(torch.autograd.Function):
    """Heads (M, n, w or w + 1), C (M, w or w + 1, f), base (n, f) or None, alpha (1 or n, M) to (n, f).

    A column of `heads` beyond the first `w` is constant and gets no gradient.
    """

    @staticmethod
    def forward(ctx: Any, heads: Tensor, C: Tensor, base: Tensor | None, alpha: Tensor, w: int) -> Tensor:
        ctx.save_for_backward(heads, C, base, alpha)
        ctx.w = w
        M, n, _ = heads.shape
        g, z, total = heads.new_empty(n, C.size(2)), _buffer(n, C), _buffer(n, C, _wide(C))
        common = alpha.size(0) == 1
        # Reading the weights would be a host synchronisation on a GPU, and break the graph of torch.compile; there they
        # are multiplied as tensors.
        read = common and heads.device.type == "cpu" and not torch.compiler.is_compiling()
        scalars = alpha[0].tolist() if read else None
        for block in _blocks(n, C):
            rows = block.stop - block.start
            for i in range(M):
                z_i = _first(heads[i, block], C[i], base, block, z[:rows]).relu_()
                if scalars is None:
                    z_i = z_i.mul_(alpha[0, i] if common else alpha[block, i, None])
                scale = 1.0 if scalars is None else scalars[i]
                if i == 0:
                    torch.mul(z_i, scale, out=total[:rows])
                else:
                    total[:rows].add_(z_i, alpha=scale)
            g[block] = total[:rows]
        return g

    @staticmethod
    def backward(ctx: Any, dg: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """With s_i = dg where z_i > 0, and 0 elsewhere, everything else follows from products of s_i.

        d head_i = α_i s_i C_iᵀ;  d C_i = head_iᵀ (α_i s_i);  d base = Σ_i α_i s_i;  and since relu(z) = z where s is
        not 0, d α_i = Σ s_i·z_i = Σ head_i·(s_i C_iᵀ) + s_i·base. If α_i is equal for all tokens, it is applied after
        the sums over tokens, and then d α_i = Σ (head_iᵀ s_i)·C_i + s_i·base.
        """
        heads, C, base, alpha = ctx.saved_tensors
        M, n, _ = heads.shape
        w, wide, common = ctx.w, _wide(C), alpha.size(0) == 1
        dg, a, z = dg.contiguous(), alpha.to(C.dtype), _buffer(n, C)
        dheads, dC = torch.zeros_like(heads), torch.zeros_like(C, dtype=wide)
        dbase = None if base is None else torch.zeros_like(base)
        dalpha = torch.zeros_like(alpha, dtype=wide)
        for block in _blocks(n, C):
            for i in range(M):
                head = heads[i, block]
                s = _first(head, C[i], base, block, z[: block.stop - block.start])
                torch.ops.aten.threshold_backward.grad_input(dg[block], s, 0, grad_input=s)
                weight = a[:, i, None] if common else a[block, i, None]  # (1 or rows, 1)
                if base is not None and dbase is not None:
                    dbase[block].addcmul_(weight, s)
                    from_base = (s * base[block]).sum(-1, dtype=wide)
                    dalpha[slice(None) if common else block, i] += from_base.sum() if common else from_base
                if common:
                    dheads[i, block, :w] = s @ C[i, :w].t()
                else:
                    along = s @ C[i].t()
                    dalpha[block, i] += (head * along).sum(-1, dtype=wide)
                    torch.mul(along[:, :w], weight, out=dheads[i, block, :w])
                    head = head * weight
                _add_product(dC[i], head.t(), s)
        if common:
            dalpha += (dC * C).sum((1, 2))
            dC, dheads = dC.mul_(alpha[0, :, None, None]), dheads.mul_(a[0, :, None, None])
        return dheads, dC.to(C.dtype), dbase, dalpha.to(alpha.dtype), None


def _wide(C: Tensor) -> torch.dtype:
    """Accumulation type of sums over tokens and over branches."""
    return torch.float64 if C.dtype == torch.float64 else torch.float32


def _rows(n: int, C: Tensor) -> int:
    return min(n, max(32, BLOCK_BYTES // (C.size(2) * C.element_size())))


def _blocks(n: int, C: Tensor) -> Iterator[slice]:
    if torch.compiler.is_compiling():  # a program with blocks would serve this n alone
        return iter((slice(0, n),))
    rows = max(1, _rows(n, C))
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def _buffer(n: int, C: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A buffer for one block, reused for all blocks because new memory would not be in cache."""
    rows = n if torch.compiler.is_compiling() else _rows(n, C)
    return C.new_empty(rows, C.size(2), dtype=dtype)


def _first(head: Tensor, C: Tensor, base: Tensor | None, block: slice, out: Tensor) -> Tensor:
    """head_i C_i + base for one block of tokens, written to `out`: (rows, f)."""
    torch.mm(head, C, out=out)
    return out if base is None else out.add_(base[block])


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b
