"""Batches for R restarts at once, each drawn with its restart's own random generator."""

from collections.abc import Sequence

import torch
from torch import Tensor

from variations.models.memory.stories import Stories
from variations.tasks.question_answering.encoding import Encoded


def gather(data: Encoded, index: Tensor, times: Tensor | None = None) -> Stories:
    """The questions `index` (R, B), with as many slots as the largest memory among them needs.

    Args:
        data: the questions.
        index: which questions.
        times: (R, B, at least n) how long ago the sentence in each slot was read; None: the number of the slot.
    """
    count = data.count[index].unsqueeze(-1)  # (R, B, 1)
    n = int(count.amax())
    slots = torch.arange(n)
    place = (slots < count).flatten().nonzero().squeeze(1)  # (N)
    slot = place % n
    row = data.end[index].flatten()[place // n] - 1 - slot
    return Stories(
        n=n,
        place=place,
        sentences=data.sentences[row],
        times=slot + 1 if times is None else times[..., :n].flatten()[place].long(),
        questions=data.questions[index],
        answers=data.answers[index],
        supports=data.supports[index],
    )


def random_times(count: Tensor, slots: int, share: float, generator: torch.Generator) -> Tensor:
    """Times of the slots (Q, slots), with empty memories inserted at random ("random noise", RN; section 4.1).

    A story of c sentences gets 0 to ⌈`share` c⌉ empty memories, each inserted at a random position; the time of a
    sentence increases by the number of empty memories that are more recent. Times are at most `slots`, the number of
    time vectors.

    Args:
        count: (Q) sentences of each story, at most `slots`.
        slots: number of memory slots.
        share: largest number of empty memories, relative to the number of sentences.
        generator: the restart's random generator.
    """
    most = int((count * share).ceil().amax())
    blanks = (torch.rand(len(count), generator=generator) * ((count * share).ceil() + 1)).long()  # (Q)
    times = torch.arange(1, slots + 1).repeat(len(count), 1)
    for inserted in range(most):
        gap = torch.rand(len(count), generator=generator) * (count + inserted + 1)  # after this many slots
        gap = torch.where(inserted < blanks, gap.long(), slots + most)
        times += times > gap.unsqueeze(1)
    return times.clamp(max=slots)


class Draws:
    """The batches of an epoch, drawn with replacement; those of a restart do not depend on the other restarts.

    Args:
        data: the questions to draw from.
        slots: number of memory slots.
        batches: number of batches in the epoch.
        size: number of questions in a batch.
        noise: share of empty memories inserted at random (RN); 0: none.
        seeds: one for each restart, for this epoch.
    """

    def __init__(self, data: Encoded, slots: int, batches: int, size: int, noise: float, seeds: Sequence[int]) -> None:
        self.data = data
        index, times = [], []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.randint(len(data), (batches, size), generator=generator)
            index.append(drawn)
            if noise:
                noisy = random_times(data.count[drawn.flatten()], slots, noise, generator)
                times.append(noisy.to(torch.uint8 if slots < 256 else torch.int32).view(batches, size, slots))
        self.index = torch.stack(index, 1)
        """(batches, R, size)."""
        self.times = torch.stack(times, 1) if times else None
        """(batches, R, size, slots)."""

    def batch(self, number: int) -> Stories:
        """One of the batches, counted from 0."""
        return gather(self.data, self.index[number], None if self.times is None else self.times[number])
