"""How the authors of MemN2N train: SGD with halving, clipped gradients and a linear start, each restart for itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from variations.models.memory.base import Reader
from variations.models.memory.memn2n import MemN2N
from variations.tasks.question_answering.batching import Batches, gather
from variations.tasks.question_answering.encoding import Encoded


@dataclass(frozen=True)
class Schedule:
    """The schedule of section 4.2; the defaults are those of a single task."""

    lr: float = 0.01
    epochs: int = 100
    halve_every: int = 25
    clip: float = 40.0
    linear_lr: float = 0.005
    linear_epochs: int = 0
    """Epochs without the memories' softmax (LS), at `linear_lr`; then the whole schedule begins, from `linear_lr`."""

    def rates(self) -> Iterator[tuple[float, bool]]:
        """The learning rate of each epoch, and whether its memories are linear.

        The rate is halved at the beginning of epoch `halve_every`, counted from 1, and of each multiple.
        """
        for _ in range(self.linear_epochs):
            yield self.linear_lr, True
        first = self.linear_lr if self.linear_epochs else self.lr
        for epoch in range(1, self.epochs + 1):
            yield first * 0.5 ** (epoch // self.halve_every), False


def update(parameters: Sequence[Tensor], lr: float, clip: float) -> None:
    """One step of SGD; a restart's gradient, over all its parameters, is scaled to a norm of at most `clip`."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)  # (R)
    scale = -lr * (clip / squares.sqrt()).clamp(max=1)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.addcmul_(gradient, scale.view(-1, *[1] * (gradient.dim() - 1)))


def train(model: MemN2N, batches: Batches, schedule: Schedule, after: Callable[[int], None] | None = None) -> None:
    """All epochs of `schedule`; `after` is called with the number of each that is done."""
    parameters = list(model.parameters())
    for epoch, (lr, linear) in enumerate(schedule.rates(), start=1):
        model.linear.fill_(linear)
        for stories in batches.draw(len(batches)):
            for parameter in parameters:
                parameter.grad = None
            model.loss(stories).sum().backward()
            update(parameters, lr, schedule.clip)
            model.after_update()
        if after:
            after(epoch)
    model.linear.fill_(False)


@torch.no_grad()
def wrong(model: Reader, data: Encoded, restarts: int, size: int = 250) -> Tensor:
    """Whether each restart's answer to each question is wrong (R, Q)."""
    parts = []
    for index in torch.arange(len(data)).split(size):
        stories = gather(data, index.expand(restarts, -1))
        logits, _reads = model(stories)
        parts.append(logits.argmax(-1) != stories.answers)
    return torch.cat(parts, 1)
