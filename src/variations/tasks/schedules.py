"""Learning rates (Vaswani et al. 2017, eq. 3; Ahmed et al. 2017, section 3), and that of averaged weights. No torch."""

import math
from collections.abc import Callable
from typing import Any

from variations.configuration.own_classes import call, class_named, construct
from variations.configuration.schema import RecipeConfig
from variations.configuration.transformer import BranchConfig
from variations.system.errors import UserError


def noam(step: float, d: float, warmup: float) -> float:
    """d^-0.5 · min(step^-0.5, step · warmup^-1.5), step from 1."""
    return float(d**-0.5 * min(step**-0.5, step * warmup**-1.5))


def ema_rate(decay: float, updates: int) -> float:
    """The share r of `recipe.ema` in e ← r·e + (1 - r)·w, after `updates` others: min(decay, (1 + n) / (10 + n)).

    The smaller shares of the first updates let the average forget the initial weights.
    """
    return min(decay, (1 + updates) / (10 + updates))


def main_rate(step: int, recipe: RecipeConfig, d_model: int, max_steps: int) -> float:
    """Learning rate of the network's weights at `step` (from 1)."""
    if recipe.schedule == "noam":
        return recipe.lr * noam(step, d_model, recipe.warmup)
    if step <= recipe.warmup:
        return recipe.lr * (step / recipe.warmup)
    if recipe.schedule == "inverse_sqrt":
        return float(recipe.lr * (recipe.warmup / step) ** 0.5)
    if step >= max_steps:  # torch asks for the rate after the last update too
        return 0.0
    share = (step - recipe.warmup) / (max_steps - recipe.warmup)
    return recipe.lr * (1 + math.cos(math.pi * share)) / 2


def own_schedule(config: Any) -> Callable[[int], float]:
    """The learning rate by an object of the class that `recipe.schedule` names, `Class(config)(step)`, step from 1.

    Raises:
        UserError: There is no such class, it cannot be constructed or called, or a rate is not a finite number of at
            least 0. The rates of the first and last updates are checked here, the others when they are used.
    """
    key, name, last = "recipe.schedule", config.recipe.schedule, config.trainer.max_steps
    own: Any = class_named(key, name)
    schedule: Any = construct(key, name, lambda: own(config))

    def rate(step: int) -> float:
        at = min(step, last)  # torch asks for the rate after the last update too
        found = call(key, name, f"gives no rate for update {at}", lambda: float(schedule(at)))
        if not (math.isfinite(found) and found >= 0):
            text = f"gives the rate {found} for update {at}: it must be a finite number of at least 0."
            raise UserError(f"{key}={name}: {text}")
        return found

    rate(1)
    rate(last)
    return rate


def branch_rate(step: int, branch: BranchConfig, d_model: int, N: int, max_steps: int) -> float:
    """Learning rate of κ and α: (d/N)^-0.5 · min(i^-0.5, i · 400^-1.5), and 0 while they are frozen."""
    if step > max_steps - branch.freeze_last:
        return 0.0
    return branch.lr_scale * noam(step, d_model / N, branch.warmup)
