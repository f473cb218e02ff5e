"""`branch_sum` in one fused kernel per pass, for GPUs: nothing of width M·f is written to memory.

The forward kernel keeps one tile of Σ_i α_i relu(z_i), z_i = head_i C_i + b_i + base, in registers while it loops
over the branches. The backward kernels compute z_i again, tile by tile. Sums have a fixed order (no atomics), so
equal input gives equal output. Import this module only where Triton is installed; on a CPU it
runs in Triton's interpreter (TRITON_INTERPRET=1), which is how the tests compare it with the reference.

Shapes: M branches, n tokens, heads of width w, f the FFN's width; tiles of BN tokens, BF columns, W ≥ w.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TOKENS, COLUMNS = 64, 64
"""Tile sizes of the activations; not tuned."""
PROGRAMS = 512
"""Target number of programs for the gradient of C: a few for each processor of a large GPU."""


@triton.jit
def _inner(
    heads,
    C,
    bias,
    base,
    i,
    rows,
    cols,
    k,
    n,
    w,
    f,
    bias_stride,
    BIAS: tl.constexpr,
    BASE: tl.constexpr,
    P: tl.constexpr,
):
    """Tiles of head_i, C_i and z_i."""
    head = tl.load(heads + (i * n + rows[:, None]) * w + k[None, :], (rows[:, None] < n) & (k[None, :] < w), 0.0)
    c = tl.load(C + (i * w + k[:, None]) * f + cols[None, :], (k[:, None] < w) & (cols[None, :] < f), 0.0)
    z = tl.dot(head, c, input_precision=P)
    if BIAS:
        z += tl.load(bias + i * bias_stride + cols, cols < f, 0.0).to(tl.float32)[None, :]
    if BASE:
        inside = (rows[:, None] < n) & (cols[None, :] < f)
        z += tl.load(base + rows[:, None] * f + cols[None, :], inside, 0.0).to(tl.float32)
    return head, c, z


@triton.jit
def _sum_kernel(
    heads,
    C,
    bias,
    base,
    alpha,
    dg,
    out,
    n,
    w,
    f,
    bias_stride,
    alpha_stride,
    M: tl.constexpr,
    BIAS: tl.constexpr,
    BASE: tl.constexpr,
    GRADIENT: tl.constexpr,
    P: tl.constexpr,
    BN: tl.constexpr,
    BF: tl.constexpr,
    W: tl.constexpr,
):
    """Σ_i α_i relu(z_i); with GRADIENT Σ_i α_i [z_i > 0] dg, the gradient of `base`."""
    rows = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    cols = tl.program_id(1) * BF + tl.arange(0, BF)
    k = tl.arange(0, W)
    inside = (rows[:, None] < n) & (cols[None, :] < f)
    place = rows[:, None] * f + cols[None, :]
    total = tl.zeros((BN, BF), tl.float32)
    for i in range(M):
        _, _, z = _inner(heads, C, bias, base, i, rows, cols, k, n, w, f, bias_stride, BIAS, BASE, P)
        a = tl.load(alpha + rows * alpha_stride + i, rows < n, 0.0).to(tl.float32)
        value = z
        if GRADIENT:
            value = tl.load(dg + place, inside, 0.0).to(tl.float32)
        total += a[:, None] * tl.where(z <= 0, 0.0, value)  # preserves NaN
    tl.store(out + place, total.to(out.dtype.element_ty), inside)


@triton.jit
def _heads_kernel(
    heads,
    C,
    bias,
    base,
    alpha,
    dg,
    dheads,
    dalpha,
    n,
    w,
    f,
    bias_stride,
    alpha_stride,
    M: tl.constexpr,
    BIAS: tl.constexpr,
    BASE: tl.constexpr,
    P: tl.constexpr,
    BN: tl.constexpr,
    BF: tl.constexpr,
    W: tl.constexpr,
):
    """With s_i = dg where z_i > 0: d head_i = α_i s_i C_iᵀ and, for each token, d α_i = Σ s_i·z_i."""
    rows, i = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64), tl.program_id(1).to(tl.int64)
    k = tl.arange(0, W)
    along, from_z = tl.zeros((BN, W), tl.float32), tl.zeros((BN,), tl.float32)
    for start in range(0, f, BF):
        cols = start + tl.arange(0, BF)
        _, c, z = _inner(heads, C, bias, base, i, rows, cols, k, n, w, f, bias_stride, BIAS, BASE, P)
        g = tl.load(dg + rows[:, None] * f + cols[None, :], (rows[:, None] < n) & (cols[None, :] < f), 0.0)
        s = tl.where(z <= 0, 0.0, g.to(tl.float32))
        from_z += tl.sum(s * z, 1)
        along += tl.dot(s.to(c.dtype), tl.trans(c), input_precision=P)
    a = tl.load(alpha + rows * alpha_stride + i, rows < n, 0.0).to(tl.float32)
    value = (along * a[:, None]).to(dheads.dtype.element_ty)
    tl.store(dheads + (i * n + rows[:, None]) * w + k[None, :], value, (rows[:, None] < n) & (k[None, :] < w))
    tl.store(dalpha + rows * M + i, from_z, rows < n)


@triton.jit
def _matrices_kernel(
    heads,
    C,
    bias,
    base,
    alpha,
    dg,
    dC,
    dbias,
    n,
    w,
    f,
    chunk,
    bias_stride,
    alpha_stride,
    M: tl.constexpr,
    BIAS: tl.constexpr,
    BASE: tl.constexpr,
    P: tl.constexpr,
    BN: tl.constexpr,
    BF: tl.constexpr,
    W: tl.constexpr,
):
    """d C_i = head_iᵀ (α_i s_i) and d b_i = Σ α_i s_i over one chunk of the tokens."""
    cols, i = tl.program_id(0) * BF + tl.arange(0, BF), tl.program_id(1).to(tl.int64)
    part, k = tl.program_id(2), tl.arange(0, W)
    product, over_tokens = tl.zeros((W, BF), tl.float32), tl.zeros((BF,), tl.float32)
    for start in range(part * chunk, tl.minimum(n, (part + 1) * chunk), BN):
        rows = (start + tl.arange(0, BN)).to(tl.int64)
        head, _, z = _inner(heads, C, bias, base, i, rows, cols, k, n, w, f, bias_stride, BIAS, BASE, P)
        g = tl.load(dg + rows[:, None] * f + cols[None, :], (rows[:, None] < n) & (cols[None, :] < f), 0.0)
        a = tl.load(alpha + rows * alpha_stride + i, rows < n, 0.0).to(tl.float32)
        s = tl.where(z <= 0, 0.0, g.to(tl.float32) * a[:, None])
        product += tl.dot(tl.trans(head), s.to(head.dtype), input_precision=P)
        over_tokens += tl.sum(s, 0)
    place = (part * M + i) * w + k[:, None]
    tl.store(dC + place * f + cols[None, :], product, (k[:, None] < w) & (cols[None, :] < f))
    if BIAS:
        tl.store(dbias + (part * M + i) * f + cols, over_tokens, cols < f)


def branch_sum(heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
    """Σ_i α_i relu(head_i C_i + bias_i + base), shapes as in `kernels.branch_sum`; all but α have the same type."""
    out: Tensor = _Fused.apply(heads, C, bias, base, alpha)
    return out


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
        heads, C, alpha = heads.contiguous(), C.contiguous(), alpha.contiguous()
        bias = None if bias is None else bias.contiguous()
        base = None if base is None else base.contiguous()
        ctx.save_for_backward(heads, C, bias, base, alpha)
        return _sum(heads, C, bias, base, alpha, None)

    @staticmethod
    def backward(ctx: Any, dg: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        heads, C, bias, base, alpha = ctx.saved_tensors
        (M, n, w), f, dg = heads.shape, C.size(2), dg.contiguous()
        sizes, flags = (n, w, f), _flags(heads, bias, base)
        strides = _strides(bias, alpha)
        dheads, dalpha = torch.empty_like(heads), alpha.new_empty((n, M), dtype=torch.float32)
        tensors = (heads, C, bias, base, alpha, dg)
        _heads_kernel[(triton.cdiv(n, TOKENS), M)](*tensors, dheads, dalpha, *sizes, *strides, M=M, **flags)
        columns = triton.cdiv(f, COLUMNS)
        parts = max(1, min(triton.cdiv(PROGRAMS, columns * M), triton.cdiv(n, 8 * TOKENS)))
        chunk = triton.cdiv(triton.cdiv(n, parts), TOKENS) * TOKENS
        dC = C.new_empty((parts, M, w, f), dtype=torch.float32)
        dbias = None if bias is None else C.new_empty((parts, M, f), dtype=torch.float32)
        _matrices_kernel[(columns, M, parts)](*tensors, dC, dbias, *sizes, chunk, *strides, M=M, **flags)
        dbase = None if base is None else _sum(heads, C, bias, base, alpha, dg)
        if bias is not None and dbias is not None:
            dbias = dbias.sum(0)
            dbias = (dbias if bias.size(0) == M else dbias.sum(0, keepdim=True)).to(bias.dtype)
        dalpha = dalpha.sum(0, keepdim=True) if alpha.size(0) == 1 else dalpha
        return dheads, dC.sum(0).to(C.dtype), dbias, dbase, dalpha.to(alpha.dtype)


def _sum(
    heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor, dg: Tensor | None
) -> Tensor:
    (M, n, w), f = heads.shape, C.size(2)
    out, strides = heads.new_empty(n, f), _strides(bias, alpha)
    grid = (triton.cdiv(n, TOKENS), triton.cdiv(f, COLUMNS))
    flags = _flags(heads, bias, base) | {"GRADIENT": dg is not None}
    _sum_kernel[grid](heads, C, bias, base, alpha, dg, out, n, w, f, *strides, M=M, **flags)
    return out


def _strides(bias: Tensor | None, alpha: Tensor) -> tuple[int, int]:
    """Distance between branches in `bias`, and between tokens in `alpha`: 0 if all share the same values."""
    own_bias = bias is not None and bias.size(0) > 1
    return bias.size(1) if bias is not None and own_bias else 0, alpha.size(1) if alpha.size(0) > 1 else 0


def _flags(heads: Tensor, bias: Tensor | None, base: Tensor | None) -> dict[str, Any]:
    exact = heads.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return {
        "BIAS": bias is not None,
        "BASE": base is not None,
        "P": "ieee" if exact or not heads.is_cuda else "tf32",
        "BN": TOKENS,
        "BF": COLUMNS,
        "W": max(16, triton.next_power_of_2(heads.size(2))),
    }
