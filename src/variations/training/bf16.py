"""Products of bfloat16 matrices on processors where oneDNN has none, such as x86 without AVX-512.

There, torch multiplies element by element, some forty times slower than in float32. Computing the product in float32
and rounding it gives the same numbers, up to the order of the sum: bf16 hardware, too, adds in float32 and rounds once.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
"""Operators of ATen that linear layers, attention, the loss and their gradients end in."""

_replaced: list[torch.library.Library] = []
"""Keeps the replacement alive."""


def has_instructions() -> bool:
    """Whether oneDNN multiplies bfloat16 matrices on this processor."""
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def multiply_in_float32() -> None:
    """Replace the products of bfloat16 matrices on the CPU, in this process and for good."""
    if _replaced:
        return
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for name in PRODUCTS:
            library.impl(name, _in_float32(_kernel(name)), "CPU", with_keyset=True)
        library.impl("addmm_", _in_place(_kernel("addmm_"), _kernel("addmm")), "CPU", with_keyset=True)
        library.impl("addmm.out", _to_out(_kernel("addmm.out"), _kernel("addmm")), "CPU", with_keyset=True)
    _replaced.append(library)


def _kernel(name: str) -> Callable[..., Tensor]:
    found: Callable[..., Tensor] = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
    return found


def _in_float32(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The operator whose bfloat16 operands are multiplied in float32."""

    def product(keyset: Any, *operands: Tensor, **factors: Any) -> Tensor:
        if operands[0].dtype != torch.bfloat16:
            return kernel(keyset, *operands, **factors)
        return kernel(keyset, *(operand.float() for operand in operands), **factors).bfloat16()

    return product


def _in_place(kernel: Callable[..., Tensor], product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same for an operator that changes its first operand."""

    def changing(keyset: Any, total: Tensor, *operands: Tensor, **factors: Any) -> Tensor:
        if total.dtype != torch.bfloat16:
            return kernel(keyset, total, *operands, **factors)
        return total.copy_(product(keyset, total.float(), *(operand.float() for operand in operands), **factors))

    return changing


def _to_out(kernel: Callable[..., Tensor], product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same for an operator that writes to `out`."""

    def writing(keyset: Any, *operands: Tensor, out: Tensor, **factors: Any) -> Tensor:
        if operands[0].dtype != torch.bfloat16:
            return kernel(keyset, *operands, out=out, **factors)
        return out.copy_(product(keyset, *(operand.float() for operand in operands), **factors))

    return writing
