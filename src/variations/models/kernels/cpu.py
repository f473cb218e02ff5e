"""Kernels for CPUs: short attention as plain matrix products, dropout masks drawn as bytes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from variations.models.kernels.reference import Reference, with_causal


class FastCPU(Reference):
    """Plain matrix products for attention over short sequences, and dropout masks drawn as bytes."""

    name = "fast_cpu"

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
        """See `Reference.attention`. For long sequences, torch's kernel is used, which needs no T × S matrix."""
        if q.size(2) * k.size(2) > 512 * 512:
            return super().attention(q, k, v, mask, causal, dropout)
        if causal and q.size(2) > 1:
            mask = with_causal(mask, q, k)
        with _native_products():
            scores = torch.matmul(q * (1.0 / math.sqrt(q.size(-1))), k.transpose(-2, -1))
            if mask is not None:
                scores = scores.masked_fill_(~mask, float("-inf"))
            return torch.matmul(self.dropout(_Softmax.apply(scores), dropout), v)

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        """See `Reference.dropout`; the rate is rounded to a multiple of 1/256, at most 255/256."""
        threshold = min(round(rate * 256), 255)
        return _ByteDropout.apply(x, threshold) if threshold else x


@contextmanager
def _native_products() -> Iterator[None]:
    """Disable oneDNN outside of training.

    oneDNN compiles each product of a new shape, and each decoding step has one key more than the step before. Without
    it, decoding W3 of `make bench` is a sixth faster, and decoding 256 tokens takes a tenth of the memory.
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


class _Softmax(torch.autograd.Function):
    """Softmax over the last axis in at least float32.

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
        # Eight masks from each call of the generator, which is the main cost of dropout on a CPU.
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = (words.view(torch.uint8)[: x.numel()] >= threshold).view(x.shape)
        ctx.save_for_backward(kept)
        ctx.scale = 256 / (256 - threshold)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def,override]
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None
