"""Whether training batches go through the network without padding: on a GPU in bf16, where FlashAttention works."""

from collections.abc import Callable

import torch
from torch import Tensor

from variations.configuration.transformer import TransformerConfig as Config
from variations.models.kernels import selftest
from variations.models.kernels.reference import Reference
from variations.models.kernels.segments import Packed, pack

WIDEST = 256
"""Largest head width that FlashAttention supports."""


def why_padded(config: Config, device: str) -> str | None:
    """Why training batches are padded on a device type, as text; None if sentences can be concatenated."""
    model = config.model
    d_k, d_v = model.head_widths
    if device != "cuda" or config.profile != "experimental":
        return "only profile=experimental on a GPU removes padding"
    if config.trainer.precision != "bf16-mixed":
        return f"FlashAttention computes in bf16, not in {config.trainer.precision}"
    if model.attention not in ("dot_product", "restricted"):
        return f"FlashAttention does not support {model.attention} attention"
    if d_k != d_v or d_k % 8 or d_k > WIDEST:
        return f"FlashAttention needs d_k = d_v, a multiple of 8 up to {WIDEST}, not {d_k} and {d_v}"
    return None


def described(config: Config, device: str) -> str:
    """How attention is computed on a device type in training, as text."""
    reason = why_padded(config, device)
    return "varlen, after a self-test" if reason is None else f"sdpa over padded batches: {reason}"


def packs(config: Config, device: torch.device, kernels: Reference) -> bool:
    """Whether `why_padded` is None, and `kernels` agree with torch's on a few random sentences."""
    if why_padded(config, device.type) is not None:
        return False
    lengths = [70, 200, 1, 33], [150, 9, 1, 77]
    source, target = ((torch.arange(200) < torch.tensor(side)[:, None]).long().to(device) for side in lengths)
    _, _, packed = pack(source, target, (sum(lengths[0]), sum(lengths[1])))
    draw, width = selftest.drawing(device, torch.bfloat16), config.model.head_widths[0]
    queries, keys = packed.queries.positions.size(0), packed.keys.positions.size(0)
    return selftest.agrees(
        _decoder(kernels, packed, config.model.neighbourhood),
        _decoder(Reference(), packed, config.model.neighbourhood),
        [draw(1, 2, slots, width) for slots in (queries, keys, keys)],  # q, k, v: (1, h, N, d_k)
        0.03,  # bf16 keeps 8 bits
        what="Attention without padding",
        instead="batches stay padded",
    )


def _decoder(kernels: Reference, packed: Packed, window: int | None) -> Callable[..., Tensor]:
    """Masked self-attention of the queries, then attention to the keys."""
    own = Packed(packed.queries, packed.queries, window)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        x = kernels.packed_attention(q, q, q, own, True, 0.0)
        return kernels.packed_attention(x, k, v, packed, causal=False, dropout=0.0)

    return attend
