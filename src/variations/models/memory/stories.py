"""The input of a memory network: a batch of stories with their questions, for R restarts at once.

R networks of the same kind are trained in parallel, each on its own batches, because a single one is so small that most
of the time would be the overhead of starting operations.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

LOST = -1
"""The slot of a supporting fact that is no longer in memory."""


@dataclass  # not frozen: with trainer.precision=64-true, Lightning sets its fields
class Stories:
    """A batch of B questions for each of R restarts, over memories of at most n sentences of at most J words.

    Slot 1 of a memory is the most recent sentence. Only the N filled slots are stored, in the order of restart,
    question and slot. Sentences are padded on the right with 0, the empty word.
    """

    n: int
    place: Tensor
    """(N) position of each sentence in the flattened (R, B, n)."""
    sentences: Tensor
    """(N, J) word ids."""
    times: Tensor
    """(N) age of each sentence, counted from 1."""
    questions: Tensor
    """(R, B, J) word ids."""
    answers: Tensor
    """(R, B) word ids."""
    supports: Tensor
    """(R, B, F) slots of the supporting facts in order, counted from 1; `LOST`: no longer in memory; 0: no more."""

    def to(self, device: torch.device | str) -> "Stories":
        """The same on another device."""
        tensors: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    def halves(self) -> tuple["Stories", "Stories"]:
        """The first half of each restart's questions, and the second."""
        B = self.answers.shape[1]
        return self._part(0, B // 2), self._part(B // 2, B)

    def _part(self, first: int, end: int) -> "Stories":
        B = self.answers.shape[1]
        question = self.place // self.n
        mine = (question % B >= first) & (question % B < end)
        moved = question[mine] // B * (end - first) + question[mine] % B - first
        return Stories(
            n=self.n,
            place=moved * self.n + self.place[mine] % self.n,
            sentences=self.sentences[mine],
            times=self.times[mine],
            questions=self.questions[:, first:end].contiguous(),
            answers=self.answers[:, first:end].contiguous(),
            supports=self.supports[:, first:end].contiguous(),
        )

    def spread(self, values: Tensor) -> Tensor:
        """Values of the sentences (N, ...) as (R, B, n, ...), with 0 in empty slots."""
        R, B = self.answers.shape
        shape = values.shape[1:]
        place = self.place.view(-1, *[1] * len(shape)).expand_as(values)
        return values.new_zeros(R * B * self.n, *shape).scatter(0, place, values).view(R, B, self.n, *shape)

    def gather(self, values: Tensor) -> Tensor:
        """Values of the slots (R, B, n) as values of the sentences (N): the inverse of `spread`."""
        return values.flatten()[self.place]

    @property
    def filled(self) -> Tensor:
        """(R, B, n): True where a slot is filled."""
        return self.spread(torch.ones_like(self.place, dtype=torch.bool))
