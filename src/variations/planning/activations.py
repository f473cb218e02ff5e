"""What the backward pass keeps, counted by letting shapes alone go through the network: no weights, no data, no time.

torch's fake tensors have shapes and no contents, and its hooks name every tensor that is kept for the backward pass;
on real tensors the same hooks give the same number of bytes.
"""

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from variations.models import build
from variations.models.loss import chunk_elements
from variations.tasks.translation.config import TranslationConfig as Config

ADAM_COPIES = 4
"""Of every weight: itself, its gradient, and Adam's two moments."""


class _Answers(TorchDispatchMode):
    """Answers when the network looks at a value: every position is a real token, every number is 1."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0 if args[0].dtype.is_floating_point else 1
        return func(*args, **(kwargs or {}))


def activation_bytes(config: Config, vocabulary: int, pairs: int, source: int, target: int) -> int:
    """Bytes that a forward pass over one batch keeps for the backward pass; weights are not among them.

    Args:
        config: A complete configuration.
        vocabulary: Sub-words.
        pairs: B; each pair has `source` and `target` sub-words.
    """
    kept: dict[int, tuple[int, Tensor]] = {}  # the tensors are held, so that no identifier is used twice
    bf16 = config.trainer.precision == "bf16-mixed"
    with FakeTensorMode(), _Answers():
        network = build(config, vocabulary, "cpu" if config.trainer.accelerator == "cpu" else "cuda").train()
        if config.trainer.precision == "64-true":
            network = network.double()
        own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                kept[storage._cdata] = (storage.nbytes(), tensor)
            return tensor

        with (
            torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
            torch.autocast("cpu", torch.bfloat16, enabled=bf16),
        ):
            network(
                torch.ones(pairs, source, dtype=torch.int64),
                torch.ones(pairs, target, dtype=torch.int64),
            )
    return sum(size for size, _ in kept.values()) + _loss_bytes(config, vocabulary, pairs * target)


def _loss_bytes(config: Config, vocabulary: int, tokens: int) -> int:
    """The loss keeps the gradients of the hidden states and of the output matrix, and two pieces of the logits."""
    d, piece = config.model.d_model, chunk_elements("cpu" if config.trainer.accelerator == "cpu" else "cuda")
    return _width(config) * (tokens * d + vocabulary * d + 2 * min(piece, tokens * vocabulary))


def state_bytes(config: Config, parameters: int) -> int:
    """Bytes of the weights, their gradients, Adam's moments, and the moving average where there is one."""
    return _width(config) * parameters * (ADAM_COPIES + (config.recipe.ema > 0))


def _width(config: Config) -> int:
    return 8 if config.trainer.precision == "64-true" else 4
