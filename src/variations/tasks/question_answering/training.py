"""Training and testing R restarts side by side: rates, gradients and errors of each."""

from collections.abc import Sequence

import torch
from torch import Tensor

from variations.models.memory.base import Reader, answer_loss
from variations.tasks.question_answering.batching import gather
from variations.tasks.question_answering.config import ReaderRecipe
from variations.tasks.question_answering.encoding import Encoded


def rate(step: int, batches: int, recipe: ReaderRecipe) -> float:
    """Learning rate of update `step`, counted from 1, with `batches` batches in an epoch.

    After a linear start the whole schedule follows, beginning with the rate of the linear start.
    """
    epoch = (step - 1) // batches + 1 - recipe.linear_epochs  # of the schedule, counted from 1
    if epoch < 1:
        return recipe.linear_lr
    first = recipe.linear_lr if recipe.linear_epochs else recipe.lr
    return first * 0.5 ** (epoch // recipe.halve_every)


def is_linear(done: int, batches: int, recipe: ReaderRecipe) -> bool:
    """Whether the update after `done` updates omits the softmax over memories."""
    return done < recipe.linear_epochs * batches


@torch.no_grad()
def clip(parameters: Sequence[Tensor], norm: float) -> None:
    """Scale the gradient of each restart to a norm of at most `norm` over all its parameters."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)  # (R)
    scale = (norm / squares.sqrt()).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


@torch.no_grad()
def answers(net: Reader, data: Encoded, restarts: int, size: int = 250) -> tuple[Tensor, Tensor]:
    """The answer of each restart to each question, as a word's id, and its loss in nats: both (R, Q)."""
    told, losses = [], []
    for index in torch.arange(len(data)).split(size):
        stories = gather(data, index.expand(restarts, -1))
        scores, _reads = net(stories)
        told.append(scores.argmax(-1))
        losses.append(answer_loss(scores, stories, each=True))
    return torch.cat(told, 1), torch.cat(losses, 1)
