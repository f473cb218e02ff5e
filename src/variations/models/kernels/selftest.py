"""Self-tests of kernels: whether one runs on this device and agrees with torch's."""

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

log = logging.getLogger(__name__)

Form = Callable[..., Tensor]


def agrees(fast: Form, plain: Form, tensors: Sequence[Tensor], most: float, *, what: str, instead: str) -> bool:
    """Whether two implementations give the same values and gradients; warns if not.

    Args:
        fast: The implementation under test.
        plain: The reference.
        tensors: Arguments of both; gradients are computed for all of them.
        most: Largest relative error allowed, in norm, for the value and each gradient.
        what: What is tested, for the warning.
        instead: What is used instead, for the warning.
    """
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    try:
        found = _results(fast, tensors)
    except Exception as fault:  # noqa: BLE001 - compilers and drivers fail in many ways; the reference takes its place
        log.warning("%s does not run here (%s); %s.", what, fault, instead)
        return False
    pairs = zip(found, _results(plain, tensors), strict=True)
    errors = [float((a - b).float().norm() / b.float().norm()) for a, b in pairs]
    if all(error <= most for error in errors):  # false if one is NaN
        return True
    log.warning("%s is wrong here (errors %s); %s.", what, errors, instead)
    return False


def drawing(device: torch.device, dtype: torch.dtype) -> Callable[..., Tensor]:
    """A function that draws normal random tensors of a shape without affecting the run's random numbers."""
    generator = torch.Generator(device).manual_seed(0)
    return lambda *shape: torch.randn(shape, generator=generator, device=device).to(dtype)


def _results(form: Form, tensors: Sequence[Tensor]) -> list[Tensor]:
    with torch.enable_grad(), torch.autocast(tensors[0].device.type, enabled=False):
        out = form(*tensors)
        return [out.detach(), *torch.autograd.grad(out.float().square().sum(), tensors)]
