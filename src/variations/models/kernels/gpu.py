"""Kernels for GPUs, none of which has trained a whole run on a GPU yet (`profile=experimental`)."""

import importlib
from types import ModuleType

import torch
from torch import Tensor

from variations.models.kernels import selftest
from variations.models.kernels.branch_sum import autocast, branch_sum
from variations.models.kernels.reference import Reference
from variations.models.kernels.segments import Packed


class FusedGPU(Reference):
    """Attention without padding by FlashAttention, and the sum over branches in one Triton kernel per pass.

    Tested on CPUs, in Triton's interpreter and on shapes, and hardly on a GPU (docs/results/GPU.md), hence
    `profile=experimental`. The Triton kernel is used only if Triton is installed and a self-test on the device agrees
    with torch's products.
    """

    name = "fused_gpu"
    WIDEST = 128
    """Largest head width whose tiles fit into a multiprocessor's shared memory."""

    def __init__(self) -> None:
        self._works: dict[tuple[object, ...], bool] = {}

    def packed_attention(self, q: Tensor, k: Tensor, v: Tensor, packed: Packed, causal: bool, dropout: float) -> Tensor:
        """See `Reference.packed_attention`; only if `varlen.packs` found that it works.

        torch's public `varlen_attn` is the same operator, but offers no dropout.
        """
        queries, keys = packed.queries, packed.keys
        left, right = packed.window, 0 if causal else packed.window
        out: Tensor = torch.ops.aten._flash_attention_forward(
            *(x[0].transpose(0, 1) for x in (q, k, v)),  # (N, h, d_k), the layout of the projections
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
        """See `Reference.branch_sum`, which does what the kernel does not support: dropout, wide heads, float64."""
        if not dropout and not torch.compiler.is_compiling():
            cast = autocast(heads, C, bias, base)
            fits = heads.size(2) <= self.WIDEST and cast[0].dtype != torch.float64
            if fits and self.works(*cast, alpha):
                out: Tensor = _triton().branch_sum(*cast, alpha)
                return out
        return super().branch_sum(heads, C, bias, base, alpha, dropout)

    def works(self, heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> bool:
        """Whether the kernel compiles here and agrees with torch; tested once for each kind of input."""
        precision = torch.get_float32_matmul_precision()
        sizes = (*heads.shape[::2], C.size(2), None if bias is None else bias.size(0), base is None, alpha.size(0) == 1)
        types = (None if each is None else each.dtype for each in (heads, C, bias, base, alpha))
        kind = (heads.device, precision, *sizes, *types)
        if kind not in self._works:
            exact = precision == "highest" and heads.dtype == torch.float32
            self._works[kind] = _agrees(heads, C, bias, base, alpha, exact=exact)
        return self._works[kind]


def _triton() -> ModuleType:
    return importlib.import_module("variations.models.kernels.branch_sum_triton")


def _agrees(heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor, *, exact: bool) -> bool:
    """Whether the fused kernel gives the values and gradients of torch's form on a few random tokens."""
    draw = selftest.drawing(heads.device, heads.dtype)
    (M, _, w), f, n = heads.shape, C.size(2), 80
    drawn: list[Tensor | None] = [draw(M, n, w), draw(M, w, f).to(C.dtype)]
    drawn.append(None if bias is None else draw(bias.size(0), f).to(bias.dtype))
    drawn.append(None if base is None else draw(n, f).to(base.dtype))
    drawn.append(draw(1 if alpha.size(0) == 1 else n, M).to(alpha.dtype))

    def of_given(form: selftest.Form) -> selftest.Form:
        """The form as a function of those of its arguments that are given."""

        def called(*tensors: Tensor) -> Tensor:
            rest = iter(tensors)
            return form(*(None if each is None else next(rest) for each in drawn))

        return called

    # Where z is near 0 rounding decides the ReLU's slope: one in 10^3 with 8 or 10 bits, whose share of a norm is 3 %.
    return selftest.agrees(
        of_given(lambda *tensors: _triton().branch_sum(*tensors)),
        of_given(branch_sum),
        [each for each in drawn if each is not None],
        0.01 if exact else 0.1,
        what="The fused kernel for branches",
        instead="torch's products are used instead",
    )
