"""Kernels for operations with several implementations: attention, dropout, the sum over branches.

`Reference` is plain torch, and defines what each function computes. `FastCPU` and `FusedGPU` compute the same functions
with less memory traffic. The choice is made once, when a model is built, and never inside a layer.
"""

import torch

from variations.models.kernels.cpu import FastCPU
from variations.models.kernels.gpu import FusedGPU
from variations.models.kernels.reference import Reference


def choose(profile: str, device: str) -> Reference:
    """The kernels for a device type. On a GPU, torch's attention does without cuDNN from here on.

    With a mask, cuDNN's attention, which torch prefers on an H100, ends in `misaligned address`, or its gradients are
    NaN (pytorch/pytorch#122695, #196678).

    Args:
        profile: `reference`: torch's own. `auto`: the fastest that have been tested on this kind of device.
            `experimental`: on a GPU `FusedGPU`, which has hardly run on one.
        device: `cpu` or `cuda`.
    """
    if device == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    if device == "cpu" and profile != "reference":
        return FastCPU()
    if device == "cuda" and profile == "experimental":
        return FusedGPU()
    return Reference()


__all__ = ["FastCPU", "FusedGPU", "Reference", "choose"]
