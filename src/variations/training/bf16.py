"""Products of bfloat16 matrices on processors where oneDNN has none, such as x86 without AVX-512.

There, torch multiplies element by element, some forty times slower than in float32. Computing the product in float32
and rounding it gives the same numbers, up to the order of the sum: bf16 hardware, too, adds in float32 and rounds once.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PRODUCTS = ("mm", "mm.out", "addmm", "addmm_", "addmm.out", "bmm", "bmm.out", "baddbmm", "baddbmm_", "baddbmm.out")
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
            library.impl(name, _in_float32(name), "CPU", with_keyset=True)
    _replaced.append(library)


def _kernel(name: str) -> Callable[..., Tensor]:
    found: Callable[..., Tensor] = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
    return found


def _in_float32(name: str) -> Callable[..., Tensor]:
    """The operator whose bfloat16 operands are multiplied in float32; `_` at its end: it changes the first of them."""
    kernel, product = _kernel(name), _kernel(name.removesuffix("_").removesuffix(".out"))
    in_place = name.endswith("_")

    def multiply(keyset: Any, *operands: Tensor, **keys: Any) -> Tensor:
        if operands[0].dtype != torch.bfloat16:
            return kernel(keyset, *operands, **keys)
        out = operands[0] if in_place else keys.pop("out", None)
        found = product(keyset, *(operand.float() for operand in operands), **keys)
        return found.bfloat16() if out is None else out.copy_(found)

    return multiply
