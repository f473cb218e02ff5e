"""The optimiser and its learning rates: Adam, each parameter group under its own schedule."""

from collections.abc import Callable, Sequence

import torch

from variations.config import RunConfig
from variations.tasks.base import ParameterGroup


def optimizer(
    groups: Sequence[ParameterGroup], config: RunConfig
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    """Adam over the parameter groups, and their rates, which are stepped once per update."""
    recipe = config.recipe
    adam = torch.optim.Adam(
        [{"name": group.name, "params": group.parameters, **group.options} for group in groups],
        lr=1.0,  # the schedules give the rates themselves
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
        fused=config.profile != "reference",
    )
    # LambdaLR counts updates from 0.
    return adam, torch.optim.lr_scheduler.LambdaLR(adam, [_from_0(group.rate) for group in groups])


def _from_0(rate: Callable[[int], float]) -> Callable[[int], float]:
    return lambda s: rate(s + 1)
