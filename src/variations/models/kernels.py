"""The arithmetic that a device may do in more than one way: attention, dropout and the sum over branches.

`Reference` is plain torch. `FastCPU` and `FusedGPU` compute the same functions with less memory traffic; which one a
model uses is decided once, when it is built (`profile=auto|reference`), and never inside a layer.
"""

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from variations.models import branch_sum, trial
from variations.models.segments import Packed


class Reference:
    """torch's own kernels."""

    name = "reference"

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """softmax(q kᵀ / √d_k) v (Vaswani et al. 2017, eq. 1).

        Args:
            q: (B, h, T, d_k).
            k: (B, h, S, d_k).
            v: (B, h, S, d_v).
            mask: True where a key may be seen, broadcastable to (B, h, T, S); None if all may.
            causal: Query t sees keys up to S - T + t.
            dropout: Rate on the attention weights; 0 outside training.

        Returns:
            (B, h, T, d_v).
        """
        causal = causal and q.size(2) > 1  # one query is the last position and sees all
        if causal and (mask is not None or q.size(2) != k.size(2)):
            mask, causal = _with_causal(mask, q, k), False
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal)

    def packed_attention(self, q: Tensor, k: Tensor, v: Tensor, packed: Packed, causal: bool, dropout: float) -> Tensor:
        """`attention` within each segment: (1, h, N, ·) to (1, h, N, d_v); here by padding once more."""
        return packed.apart(lambda q, k, v, mask: self.attention(q, k, v, mask, causal, dropout), q, k, v)

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        """Zero elements of `x` at `rate` and scale the others by 1 / (1 - rate); call it in training only."""
        return F.dropout(x, rate) if rate else x

    def branch_sum(
        self, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor, dropout: float
    ) -> Tensor:
        """Σ_i α_i relu(head_i C_i + bias_i + base); see `branch_sum.branch_sum`, which it calls."""
        return branch_sum.branch_sum(heads, C, bias, base, alpha, dropout=(dropout, self) if dropout else None)


class FastCPU(Reference):
    """Plain matrix products for attention over short sequences, and dropout masks drawn as bytes."""

    name = "fast_cpu"

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """See `Reference.attention`. Long sequences go to torch's kernel, which needs no T × S matrix."""
        if q.size(2) * k.size(2) > 512 * 512:
            return super().attention(q, k, v, mask, causal, dropout)
        if causal and q.size(2) > 1:
            mask = _with_causal(mask, q, k)
        with _native_products():
            scores = torch.matmul(q * (1.0 / math.sqrt(q.size(-1))), k.transpose(-2, -1))
            if mask is not None:
                scores = scores.masked_fill_(~mask, float("-inf"))
            return torch.matmul(self.dropout(_Softmax.apply(scores), dropout), v)

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        """See `Reference.dropout`; the rate is rounded to a multiple of 1/256, at most 255/256."""
        threshold = min(round(rate * 256), 255)
        return _ByteDropout.apply(x, threshold) if threshold else x


class FusedGPU(Reference):
    """Attention without padding by FlashAttention; and the sum over branches in one Triton kernel per pass, where
    Triton is installed and the kernel proves right."""

    name = "fused_gpu"
    WIDEST = 128
    """Widest head whose tiles fit a multiprocessor's shared memory."""

    def __init__(self) -> None:
        self._works: dict[tuple[object, ...], bool] = {}

    def packed_attention(self, q: Tensor, k: Tensor, v: Tensor, packed: Packed, causal: bool, dropout: float) -> Tensor:
        """See `Reference.packed_attention`; only where `packing.packs` found that it works.

        torch's public `varlen_attn` is the same operator, but offers no dropout.
        """
        queries, keys = packed.queries, packed.keys
        left, right = packed.window, 0 if causal else packed.window
        out: Tensor = torch.ops.aten._flash_attention_forward(
            *(x[0].transpose(0, 1) for x in (q, k, v)),  # (N, h, d_k), as the projections wrote them
            queries.starts,
            keys.starts,
            queries.longest,
            keys.longest,
            dropout,
            causal and packed.window is None,
            return_debug_mask=False,
            window_size_left=left,
            window_size_right=None if left is None else right,
        )[0]
        return out.transpose(0, 1)[None]

    def branch_sum(
        self, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor, dropout: float
    ) -> Tensor:
        """See `Reference.branch_sum`, which does what the kernel cannot: dropout, wide heads, float64."""
        if not dropout and not torch.compiler.is_compiling():
            cast = branch_sum.autocast(heads, C, bias, base)
            fits = heads.size(2) <= self.WIDEST and cast[0].dtype != torch.float64
            if fits and self.works(cast[0], cast[1]):
                out: Tensor = _triton().branch_sum(*cast, alpha)
                return out
        return super().branch_sum(heads, C, bias, base, alpha, dropout)

    def works(self, heads: Tensor, C: Tensor) -> bool:
        """Whether the kernel compiles here and agrees with torch; tried once for each kind of input."""
        precision = torch.get_float32_matmul_precision()
        kind = heads.device, heads.dtype, heads.size(0), heads.size(2), C.size(2), precision
        if kind not in self._works:
            self._works[kind] = _agrees(heads, C, exact=precision == "highest" and heads.dtype == torch.float32)
        return self._works[kind]


def _triton() -> ModuleType:
    return importlib.import_module("variations.models.branch_sum_triton")


def _agrees(heads: Tensor, C: Tensor, *, exact: bool) -> bool:
    """Whether the fused kernel gives the values and gradients of torch's form on a few random tokens."""
    draw = trial.drawing(heads.device, heads.dtype)
    (M, _, w), f, n = heads.shape, C.size(2), 80
    # Where z is near 0 rounding decides the ReLU's slope: one in 10^3 with 8 or 10 bits, whose share of a norm is 3 %.
    return trial.agrees(
        lambda *tensors: _triton().branch_sum(*tensors),
        branch_sum.branch_sum,
        [draw(M, n, w), draw(M, w, f), draw(1, f), draw(n, f), draw(1, M)],
        0.01 if exact else 0.1,
        what="The fused kernel for branches",
        instead="torch's products take its place",
    )


def choose(profile: str, device: str) -> Reference:
    """The kernels for `profile` (auto or reference) on a device type (cpu, cuda)."""
    fast = {"cpu": FastCPU, "cuda": FusedGPU}
    return fast[device]() if profile == "auto" and device in fast else Reference()


@contextmanager
def _native_products() -> Iterator[None]:
    """Leave oneDNN out of it, outside of training.

    It compiles each product of a new shape, and the keys of a decoding step are one more than those of the step before:
    decoding W3 of `make bench` is a sixth faster without it, and 256 tokens out take a tenth of the memory.
    """
    precision = torch.get_float32_matmul_precision()
    if torch.is_grad_enabled() or precision == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def _with_causal(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor:
    queries, keys = q.size(2), k.size(2)
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    return seen if mask is None else mask & seen


class _Softmax(torch.autograd.Function):
    """Softmax over the last axis in float32 at least.

    torch's kernel works along the axis, which is slow when it is shorter than a vector register (3.9 ms against 0.7 ms
    for 292 x 4 x 14 x 14 on one core with AVX-512); there, whole-tensor operations are used instead.
    """

    SHORT = 16

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        wide = scores.float() if scores.dtype == torch.bfloat16 else scores
        if scores.size(-1) < _Softmax.SHORT:
            weights = (wide - wide.amax(dim=-1, keepdim=True)).exp_()
            weights = weights.div_(weights.sum(dim=-1, keepdim=True))
        else:
            weights = wide.softmax(dim=-1)
        weights = weights.to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (weights,) = ctx.saved_tensors
        w, g = (x.float() if x.dtype == torch.bfloat16 else x for x in (weights, gradient))
        if weights.size(-1) < _Softmax.SHORT:
            along = g * w
            return along.sub_(w * along.sum(dim=-1, keepdim=True)).to(weights.dtype)
        return torch._softmax_backward_data(g, w, -1, w.dtype).to(weights.dtype)


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, threshold: int) -> Tensor:  # type: ignore[no-untyped-def]
        # Eight masks for each call of the generator, which is what dropout costs on a CPU.
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = (words.view(torch.uint8)[: x.numel()] >= threshold).view(x.shape)
        ctx.save_for_backward(kept)
        ctx.scale = 256 / (256 - threshold)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def,override]
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None
