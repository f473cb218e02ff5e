"""The optimiser and its learning rates; each parameter group has its own schedule."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from variations.configuration.own_classes import class_named, construct
from variations.configuration.schema import RunConfig
from variations.tasks.base import ParameterGroup


def optimizer(
    groups: Sequence[ParameterGroup], config: RunConfig
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    """The recipe's optimiser over the parameter groups, and their schedules, which advance once per update."""
    recipe = config.recipe
    learned: Any = [{"name": group.name, "params": group.parameters, **group.options} for group in groups]
    # The schedules give absolute rates, so lr is 1.
    common: dict[str, Any] = {"lr": 1.0, "weight_decay": recipe.weight_decay, "fused": config.profile != "reference"}
    made: torch.optim.Optimizer
    if ":" in recipe.optimizer:
        made = _own(recipe.optimizer, learned, lr=1.0, weight_decay=recipe.weight_decay)
    elif recipe.optimizer == "sgd":
        made = torch.optim.SGD(learned, **common)
    else:
        adam = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
        made = adam(learned, betas=(recipe.beta1, recipe.beta2), eps=recipe.eps, **common)
    # LambdaLR counts updates from 0.
    return made, torch.optim.lr_scheduler.LambdaLR(made, [_from_0(group.rate) for group in groups])


def _own(name: str, groups: Any, **settings: float) -> torch.optim.Optimizer:
    """An optimiser of torch or another package over parameter groups, with its own values of all other settings."""
    key = "recipe.optimizer"
    found: Any = class_named(key, name)
    made: torch.optim.Optimizer = construct(key, name, lambda: found(groups, **settings))
    return made


def settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Each group's settings, such as Adam's betas, without its parameters and its learning rate."""
    return [{key: value for key, value in group.items() if key not in _STATE} for group in optimizer.param_groups]


def renew(optimizer: Any, rates: Any, wanted: Sequence[dict[str, Any]]) -> None:
    """Replace what a checkpoint has restored of `settings` by those of the configuration, and the rates likewise."""
    for group, own, base, factor in zip(optimizer.param_groups, wanted, rates.base_lrs, rates.lr_lambdas, strict=True):
        group.update(own, lr=base * factor(rates.last_epoch))


_STATE = ("params", "lr", "initial_lr")


def _from_0(rate: Callable[[int], float]) -> Callable[[int], float]:
    return lambda s: rate(s + 1)
