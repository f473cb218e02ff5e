"""Small stories for memory networks."""

import torch

from variations.models.memory.stories import Stories

V, MEMORY, LONGEST = 7, 4, 3
"""Number of words including the empty word, memory slots, words in the longest sentence."""


def make_stories(counts: list[list[int]], seed: int = 0, extra: int = 0) -> Stories:
    """Make random stories with `counts[r][b]` sentences, in memories with `extra` unused slots."""
    generator = torch.Generator().manual_seed(seed)
    R, B = len(counts), len(counts[0])
    n = max(count for row in counts for count in row) + extra
    place = [(r * B + b) * n + i for r, row in enumerate(counts) for b, count in enumerate(row) for i in range(count)]
    times = [i + 1 for row in counts for count in row for i in range(count)]
    sentences = torch.randint(1, V, (len(place), LONGEST), generator=generator)
    sentences[::2, -1] = 0  # every other sentence is shorter
    questions = torch.randint(1, V, (R, B, LONGEST), generator=generator)
    questions[:, ::2, -1] = 0
    supports = torch.tensor([[[1, min(2, count)] for count in row] for row in counts])
    return Stories(
        n=n,
        place=torch.tensor(place),
        sentences=sentences,
        times=torch.tensor(times),
        questions=questions,
        answers=torch.randint(1, V, (R, B), generator=generator),
        supports=supports,
    )
