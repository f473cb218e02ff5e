"""Base of the networks that answer questions about stories: R of them in parallel, each with its own seed."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from variations.models.memory.stories import Stories
from variations.system.errors import UserError

EMPTY = 0
"""Id of the empty word."""


class Reader(nn.Module):
    """R networks that answer questions about stories.

    The first axis of every parameter is the restart, and no restart's answers depend on another's parameters, so a sum
    over restarts has the same gradients as each restart by itself.
    """

    @classmethod
    def from_config(cls, config: Any, words: int, memory: int, longest: int, seeds: Sequence[int]) -> Self:
        """The restarts of a class that `model.kind=package.module:Class` names; ours are made in `networks.build`.

        Args:
            config: The run's `model`; `options_of(cls, config.options)` are the keys of `Options`.
            words: Ids of words, the empty one included; answers are words.
            memory: Most sentences of a story.
            longest: Most words of a sentence or question.
            seeds: One for each restart.

        Raises:
            UserError: The class does not define it.
        """
        raise UserError(f"{cls.__module__}:{cls.__name__} does not define from_config, which makes the network.")

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """Scores of the answers (R, B, at least words), and for each hop or pass its attention over the slots.

        The latter are (R, B, n) each, or an empty list for a network without attention.
        """
        raise NotImplementedError

    def loss(self, stories: Stories) -> Tensor:
        """(R) the training loss, summed over the batch; here the cross-entropy of the answers."""
        scores, _reads = self(stories)
        return answer_loss(scores, stories)

    def after_update(self) -> None:
        """Restore constraints after an update of the parameters; here there are none."""


def answer_loss(scores: Tensor, stories: Stories, each: bool = False) -> Tensor:
    """(R) the cross-entropy of the answers in nats, summed over the batch; with `each` (R, B), for each question."""
    losses = cross_entropy(scores.mT, stories.answers, reduction="none")
    return losses if each else losses.sum(1)


@torch.no_grad()
def initialise(module: nn.Module, seeds: Sequence[int], deviation: float | None = None) -> None:
    """Initialise each restart's parameters from its own seed: N(0, deviation), by default U(-1/√fan-in, 1/√fan-in).

    Parameters are (R, fan-in, fan-out); the fan-in of an embedding is its dimension. Biases (R, 1, n) are set to 0.
    """
    for restart, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in module.named_parameters():
            one = parameter[restart]
            if deviation is not None:
                one.normal_(0, deviation, generator=generator)
            elif one.shape[0] == 1:
                one.zero_()
            else:
                bound = (one.shape[1] if "embedding" in name else one.shape[0]) ** -0.5
                one.uniform_(-bound, bound, generator=generator)
