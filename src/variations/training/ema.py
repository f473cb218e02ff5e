"""Exponential moving average of the weights, as an alternative to averaging checkpoints."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from variations.tasks.schedules import ema_rate


class MovingAverage:
    """e ← r·e + (1 - r)·w after every update, with r of `ema_rate`."""

    def __init__(self, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.weights: dict[str, Tensor] = {}

    def start(self, model: nn.Module) -> None:
        """Start from the current weights or, after `load`, give the average the weights' device and precision."""
        self.weights = {
            name: self.weights.get(name, value).to(value.device, value.dtype, copy=name not in self.weights)
            for name, value in _weights(model)
        }

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Include the weights after an update."""
        rate = ema_rate(self.decay, self.updates)
        self.updates += 1
        names, values = zip(*_weights(model), strict=True)
        torch._foreach_lerp_([self.weights[name] for name in names], list(values), 1 - rate)

    def state(self) -> dict[str, object]:
        """The state for checkpoints."""
        return {"updates": self.updates, "weights": self.weights}

    def load(self, state: dict[str, object]) -> None:
        """Restore the state from a checkpoint."""
        self.__dict__.update(state)


def _weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All tensors of the state that can be averaged; a shared matrix occurs under each of its names."""
    return ((name, value) for name, value in model.state_dict().items() if value.is_floating_point())
