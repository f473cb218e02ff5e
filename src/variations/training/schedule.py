"""The optimiser and its learning rates; each parameter group has its own schedule."""

import copy
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
    """Each group's settings of the configuration, such as Adam's betas, without its parameters and learning rate.

    They are copies: optimisers such as Prodigy keep state of the training among them.
    """
    found = [{key: value for key, value in group.items() if key not in _OTHERS} for group in optimizer.param_groups]
    return copy.deepcopy(found)


def configured(settings: Sequence[dict[str, Any]], rates: Any) -> list[dict[str, Any]]:
    """`settings` and the learning rate of the next update, as the configuration gives them, by parameter group."""
    due = [base * factor(rates.last_epoch) for base, factor in zip(rates.base_lrs, rates.lr_lambdas, strict=True)]
    return [{**group, "lr": lr} for group, lr in zip(settings, due, strict=True)]


def renew(optimizer: Any, wanted: Sequence[dict[str, Any]], former: Sequence[dict[str, Any]] | None) -> None:
    """Use the settings and rates of a configuration that was changed since a checkpoint.

    Others stay as the checkpoint has restored them: a callback or the optimiser itself may have changed them.

    Args:
        optimizer: The optimiser, restored.
        wanted: `configured` of this configuration.
        former: `configured` when the checkpoint was written; None: not known, as in files of older versions.
    """
    known = former or [{} for _ in wanted]
    for group, now, then in zip(optimizer.param_groups, wanted, known, strict=True):
        group.update({key: value for key, value in now.items() if key not in then or not _equal(value, then[key])})


def restore_types(optimizer: Any, stored: dict[str, Any]) -> None:
    """Restore state of another type than its parameter's, such as sums in float64.

    `torch.optim.Optimizer.load_state_dict` converts it to the parameter's type.

    Args:
        optimizer: The optimiser, restored.
        stored: Its `state_dict` in the checkpoint.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in stored["param_groups"] for number in group["params"]]
    for parameter, number in zip(parameters, numbers, strict=True):
        state = optimizer.state.get(parameter, {})
        for key, value in stored["state"].get(number, {}).items():
            now = state.get(key)
            if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor) and now.dtype != value.dtype:
                state[key] = value.to(now.device, copy=True)


def _equal(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else bool(a == b)


_OTHERS = ("params", "lr", "initial_lr")


def _from_0(rate: Callable[[int], float]) -> Callable[[int], float]:
    return lambda s: rate(s + 1)
