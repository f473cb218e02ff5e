"""Learning rates of the two parameter groups (Vaswani et al. 2017, eq. 3; SPEC sections 2.2 and 3.6)."""

from collections.abc import Iterator

import torch
from torch import nn

from variations.config import BranchConfig, RecipeConfig, RunConfig


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


def is_branch_weight(name: str) -> bool:
    """Whether a parameter is a κ or an α."""
    return name.endswith((".kappa", ".alpha"))


def _groups(model: nn.Module) -> Iterator[dict[str, object]]:
    learned = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    yield {"name": "weights", "params": [p for name, p in learned if not is_branch_weight(name)]}
    branch = [p for name, p in learned if is_branch_weight(name)]
    if branch:
        yield {"name": "branch", "params": branch, "weight_decay": 0.0}


def optimizer(model: nn.Module, config: RunConfig) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    """Adam over the network's weights and over κ and α, each under its own schedule, stepped once per update."""
    recipe = config.recipe
    groups = list(_groups(model))
    adam = torch.optim.Adam(
        groups,
        lr=1.0,  # the schedules give the rates themselves
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
        fused=config.profile != "reference",
    )
    d, N, steps = config.model.d_model, config.model.N, config.trainer.max_steps
    rates = [lambda s: main_rate(s + 1, recipe, d), lambda s: branch_rate(s + 1, config.branch, d, N, steps)]
    return adam, torch.optim.lr_scheduler.LambdaLR(adam, rates[: len(groups)])
