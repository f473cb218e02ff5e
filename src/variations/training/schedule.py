"""Learning rates of the parameter groups (Vaswani et al. 2017, eq. 3; Ahmed et al. 2017, section 3)."""

import torch

from variations.config import BranchConfig, RecipeConfig, RunConfig
from variations.models.network import BRANCH_WEIGHTS, MAIN, Network


def noam(step: float, d: float, warmup: float) -> float:
    """d^-0.5 · min(step^-0.5, step · warmup^-1.5), step from 1."""
    return float(d**-0.5 * min(step**-0.5, step * warmup**-1.5))


def main_rate(step: int, recipe: RecipeConfig, d_model: int) -> float:
    """Learning rate of the network's weights at `step` (from 1)."""
    if recipe.schedule == "inverse_sqrt":
        return float(recipe.lr * min(step / recipe.warmup, (recipe.warmup / step) ** 0.5))
    return recipe.lr * noam(step, d_model, recipe.warmup)


def frozen_steps(branch: BranchConfig, max_steps: int) -> int:
    """Last steps in which κ and α stay constant: `freeze_last`, but no more than the paper's largest share, 1/6."""
    return min(branch.freeze_last, max_steps // 6)


def branch_rate(step: int, branch: BranchConfig, d_model: int, N: int, max_steps: int) -> float:
    """Learning rate of κ and α: (d/N)^-0.5 · min(i^-0.5, i · 400^-1.5), and 0 while they are frozen."""
    if step > max_steps - frozen_steps(branch, max_steps):
        return 0.0
    return branch.lr_scale * noam(step, d_model / N, branch.warmup)


def optimizer(model: Network, config: RunConfig) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    """Adam over the network's parameter groups, each under its own schedule, stepped once per update."""
    recipe = config.recipe
    learned = {name: [p for p in group if p.requires_grad] for name, group in model.parameter_groups().items()}
    further = {BRANCH_WEIGHTS: {"weight_decay": 0.0}}
    groups = [{"name": name, "params": group, **further.get(name, {})} for name, group in learned.items() if group]
    adam = torch.optim.Adam(
        groups,
        lr=1.0,  # the schedules give the rates themselves
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
        fused=config.profile != "reference",
    )
    d, N, steps = config.model.d_model, config.model.N, config.trainer.max_steps
    rates = {
        MAIN: lambda s: main_rate(s + 1, recipe, d),
        BRANCH_WEIGHTS: lambda s: branch_rate(s + 1, config.branch, d, N, steps),
    }
    chosen = [rates.get(str(group["name"]), rates[MAIN]) for group in groups]
    return adam, torch.optim.lr_scheduler.LambdaLR(adam, chosen)
