"""Training R restarts side by side: each has its own rate, its own phase and its own gradient norm.

The authors of MemN2N train by SGD, halve the rate every so many epochs, clip gradients by their norm, and may begin
without the memories' softmax, after which the whole schedule begins anew (section 4.2). Others use Adam.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from variations.models.memory.base import Reader, answer_loss
from variations.models.memory.memn2n import MemN2N
from variations.tasks.question_answering.batching import Batches, gather
from variations.tasks.question_answering.encoding import Encoded


@dataclass(frozen=True)
class Schedule:
    """How to train; the defaults are those of MemN2N for a single task."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.01
    epochs: int = 100
    halve_every: int = 25
    """The rate is halved at the beginning of this epoch, counted from 1, and of each multiple."""
    clip: float = 40.0
    """Greatest norm of a restart's gradient."""
    linear_start: Literal["none", "epochs", "plateau"] = "none"
    """LS: no memory has a softmax for `linear_epochs` (authors' code), or until the validation loss stops falling, but
    at most so long (paper); then the schedule begins, from `linear_lr` as well."""
    linear_epochs: int = 20
    linear_lr: float = 0.005

    def rate(self, epoch: int) -> float:
        """Of an epoch of the schedule, counted from 1; epoch 0 is all of the linear start."""
        if epoch == 0:
            return self.linear_lr
        first = self.lr if self.linear_start == "none" else self.linear_lr
        return first * 0.5 ** (epoch // self.halve_every)


@dataclass(frozen=True)
class Epoch:
    """What an epoch was like for each of the R restarts."""

    number: int
    loss: list[float]
    """Of the batches, for a question, in nats."""
    valid_loss: list[float]
    valid_error: list[float]
    linear: list[bool]


class Training:
    """R restarts of a network from their first epoch to their last; it can be saved and resumed between epochs.

    Args:
        net: the restarts.
        batches: of the training questions.
        valid: the questions held out.
        schedule: how to train.
    """

    def __init__(self, net: Reader, batches: Batches, valid: Encoded, schedule: Schedule) -> None:
        self.net, self.batches, self.valid, self.schedule = net, batches, valid, schedule
        self.parameters = list(net.parameters())
        restarts = len(self.parameters[0])
        self.done = 0
        """Epochs done, those of the linear start included."""
        self.at = torch.full((restarts,), 0 if schedule.linear_start != "none" else 1)
        """(R) the epoch of the schedule at which each restart is; 0: linear start."""
        self.least = torch.full((restarts,), torch.inf)
        """(R) least validation loss of the linear start."""
        self.adam = Adam(self.parameters) if schedule.optimizer == "adam" else None

    @property
    def finished(self) -> bool:
        """Whether all restarts have had their last epoch."""
        return bool((self.at > self.schedule.epochs).all())

    def epoch(self) -> Epoch:
        """Train all restarts for an epoch; those that have finished stay as they are."""
        going = self.at <= self.schedule.epochs
        linear = self.at == 0
        if isinstance(self.net, MemN2N):
            self.net.linear.copy_(linear)
        rate = torch.tensor([self.schedule.rate(at) for at in self.at.tolist()]) * going  # (R)
        total = torch.zeros(len(rate), dtype=self.parameters[0].dtype)
        steps = len(self.batches)
        for stories in self.batches.draw(steps):
            for parameter in self.parameters:
                parameter.grad = None
            loss = self.net.loss(stories)
            loss.sum().backward()
            step(self.parameters, rate, self.schedule.clip, self.adam)
            self.net.after_update()
            total += loss.detach()
        self.done += 1
        valid_loss, valid_error = evaluate(self.net, self.valid, len(rate))
        self._advance(going, linear, valid_loss)
        of_a_question = total / (steps * self.batches.size)
        return Epoch(self.done, of_a_question.tolist(), valid_loss.tolist(), valid_error.tolist(), linear.tolist())

    def _advance(self, going: Tensor, linear: Tensor, valid_loss: Tensor) -> None:
        """Each restart goes on to its next epoch."""
        falls = (valid_loss < self.least) if self.schedule.linear_start == "plateau" else torch.ones_like(linear)
        stays = linear & falls & (self.done < self.schedule.linear_epochs)
        self.least = torch.minimum(self.least, valid_loss)
        self.at = torch.where(stays | ~going, self.at, self.at + 1)
        if isinstance(self.net, MemN2N):
            self.net.linear.copy_(self.at == 0)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs to go on bit for bit."""
        return {
            "net": self.net.state_dict(),
            "adam": None if self.adam is None else self.adam.state_dict(),
            "batches": [generator.get_state() for generator in self.batches.generators],
            "done": self.done,
            "at": self.at,
            "least": self.least,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict` of the same training."""
        self.net.load_state_dict(state["net"])
        if self.adam is not None:
            self.adam.load_state_dict(state["adam"])
        for generator, kept in zip(self.batches.generators, state["batches"], strict=True):
            generator.set_state(kept)
        self.done, self.at, self.least = state["done"], state["at"], state["least"]


class Adam:
    """Adam (Kingma and Ba 2015) with a rate for each restart; a restart whose rate is 0 keeps its state."""

    def __init__(self, parameters: Sequence[Tensor], betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self.betas = betas
        self.steps = 0
        self.m = [torch.zeros_like(parameter) for parameter in parameters]
        self.v = [torch.zeros_like(parameter) for parameter in parameters]

    def directions(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """What to go along for each parameter, given its gradient."""
        self.steps += 1
        b1, b2 = self.betas
        torch._foreach_lerp_(self.m, list(gradients), 1 - b1)
        torch._foreach_mul_(self.v, b2)
        torch._foreach_addcmul_(self.v, list(gradients), list(gradients), 1 - b2)
        c1, c2 = 1 - b1**self.steps, 1 - b2**self.steps
        return [(m / c1) / ((v / c2).sqrt() + 1e-8) for m, v in zip(self.m, self.v, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Moments and steps."""
        return {"m": self.m, "v": self.v, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        self.m, self.v, self.steps = state["m"], state["v"], state["steps"]


@torch.no_grad()
def step(parameters: Sequence[Tensor], rate: Tensor, clip: float, adam: Adam | None = None) -> None:
    """One update at each restart's rate (R); its gradient, over all parameters, is scaled to a norm up to `clip`."""
    used = [parameter for parameter in parameters if parameter.grad is not None]
    gradients = [parameter.grad for parameter in used if parameter.grad is not None]
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)  # (R)
    scale = (clip / squares.sqrt()).clamp(max=1)
    if adam is not None:
        everywhere = [torch.zeros_like(p) if p.grad is None else p.grad * _each(scale, p) for p in parameters]
        used, gradients, scale = list(parameters), adam.directions(everywhere), torch.ones_like(scale)
    for parameter, gradient in zip(used, gradients, strict=True):
        parameter.addcmul_(gradient, _each(-rate * scale, parameter).to(parameter.dtype))


def _each(of_restart: Tensor, parameter: Tensor) -> Tensor:
    """(R) as a factor of a parameter (R, ...)."""
    return of_restart.view(-1, *[1] * (parameter.dim() - 1))


@torch.no_grad()
def answers(net: Reader, data: Encoded, restarts: int, size: int = 250) -> tuple[Tensor, Tensor]:
    """Whether each restart's answer to each question is wrong, and its loss in nats: (R, Q) both."""
    wrong, losses = [], []
    for index in torch.arange(len(data)).split(size):
        stories = gather(data, index.expand(restarts, -1))
        scores, _reads = net(stories)
        wrong.append(scores.argmax(-1) != stories.answers)
        losses.append(answer_loss(scores, stories, each=True))
    return torch.cat(wrong, 1), torch.cat(losses, 1)


def evaluate(net: Reader, data: Encoded, restarts: int) -> tuple[Tensor, Tensor]:
    """(R) mean loss of a question in nats, and the part of questions answered wrong; 0 where there are no questions."""
    if len(data) == 0:
        return torch.zeros(restarts), torch.zeros(restarts)
    wrong, losses = answers(net, data, restarts)
    return losses.mean(1), wrong.float().mean(1)


def best(errors: Sequence[float], losses: Sequence[float]) -> int:
    """The restart with the least training error; among equals, the one with the least training loss."""
    return min(range(len(errors)), key=lambda restart: (errors[restart], losses[restart]))
