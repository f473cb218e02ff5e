"""The size of a run of any task: parameters, FLOPs, and bytes kept for the backward pass."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from variations.models import count_parameters
from variations.tasks.base import Size


def counted(task: Any, config: Any, *, memory: bool) -> Size:
    """Count the network of a run, and its first batch, on the CPU.

    Raises:
        UserError: The data are missing or faulty; nothing is downloaded.
    """
    if task.needs_download(config):
        task.rehearsal(config)  # which says so
    data = task.data(config)
    data.prepare_data()
    data.setup()
    experiment = task.experiment(config, data, "cpu")
    batch = next(iter(data.train_dataloader()))
    devices = config.trainer.devices * config.trainer.nodes
    flops = config.trainer.max_steps * data.accumulate * devices * experiment.count(batch)[-1]
    kept = kept_bytes(experiment.network, lambda: experiment.losses(batch)) if memory else None
    return Size(count_parameters(experiment.network), flops, kept)


def kept_bytes(network: nn.Module, forward: Callable[[], object]) -> int:
    """Bytes that a forward pass keeps for the backward pass; without the network's weights."""
    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    kept: dict[int, tuple[int, Tensor]] = {}  # references keep the identifiers unique

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(size for size, _ in kept.values())


def state_bytes(config: Any, parameters: int) -> int:
    """Bytes of the weights, their gradients, the optimiser's state, and the moving average if there is one."""
    width = 8 if config.trainer.precision == "64-true" else 4
    further: int = config.recipe.further_copies
    return width * parameters * (2 + further)
