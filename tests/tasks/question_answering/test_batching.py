"""Batches of several restarts: their layout, and times with empty memories inserted."""

from collections import Counter
from itertools import combinations

import pytest
import torch

from variations.tasks.question_answering.batching import Draws, gather, random_times
from variations.tasks.question_answering.encoding import Vocabulary, encode
from variations.tasks.question_answering.reader import Question

STORY = (("a", "b"), ("c",), ("d", "e", "f"))
QUESTIONS = [
    Question(STORY[:2], ("q",), "a", (0,)),
    Question(STORY, ("q", "q"), "b", (2, 1)),
    Question((("f",),), ("q",), "c", (0,)),
]
VOCABULARY = Vocabulary.build(QUESTIONS)
DATA = encode(QUESTIONS, VOCABULARY)
A, B, C, D, E, F, Q = range(1, 8)


def test_gather_by_hand() -> None:
    stories = gather(DATA, torch.tensor([[1, 0], [2, 2]]))
    assert stories.n == 3
    assert stories.place.tolist() == [0, 1, 2, 3, 4, 6, 9]
    assert stories.sentences.tolist() == [
        [D, E, F], [C, 0, 0], [A, B, 0], [C, 0, 0], [A, B, 0], [F, 0, 0], [F, 0, 0],
    ]  # fmt: skip
    assert stories.times.tolist() == [1, 2, 3, 1, 2, 1, 1]
    assert stories.questions.tolist() == [[[Q, Q, 0], [Q, 0, 0]], [[Q, 0, 0], [Q, 0, 0]]]
    assert stories.answers.tolist() == [[B, A], [C, C]]
    assert stories.supports.tolist() == [[[1, 2], [2, 0]], [[1, 0], [1, 0]]]
    assert stories.filled.tolist() == [[[True] * 3, [True, True, False]], [[True, False, False]] * 2]


def test_spread_and_gather_are_inverse() -> None:
    stories = gather(DATA, torch.tensor([[1, 0], [2, 2]]))
    values = torch.arange(1.0, 8.0)
    spread = stories.spread(values)
    assert spread.tolist() == [[[1, 2, 3], [4, 5, 0]], [[6, 0, 0], [7, 0, 0]]]
    assert torch.equal(stories.gather(spread), values)
    assert stories.spread(stories.sentences)[0, 1].tolist() == [[C, 0, 0], [A, B, 0], [0, 0, 0]]


def test_a_restarts_batches_do_not_depend_on_the_others() -> None:
    together = Draws(DATA, 3, 3, 4, 0.5, seeds=[7, 8, 9])
    for restart, seed in enumerate([7, 8, 9]):
        alone = Draws(DATA, 3, 3, 4, 0.5, seeds=[seed])
        for number in range(3):
            many, one = together.batch(number), alone.batch(number)
            assert torch.equal(many.answers[restart], one.answers[0])
            times = many.spread(many.times)[restart, :, : one.n]
            assert torch.equal(times, one.spread(one.times)[0])


def test_times_without_noise_are_the_slots() -> None:
    stories = Draws(DATA, 3, 1, 5, 0, seeds=[1]).batch(0)
    slots = torch.arange(stories.n).expand(1, 5, -1) + 1
    assert torch.equal(stories.spread(stories.times), slots * stories.filled)


def test_halves_are_the_whole() -> None:
    stories = Draws(DATA, 3, 1, 5, 0, seeds=[1, 2]).batch(0)
    first, second = stories.halves()
    assert (first.answers.shape, second.answers.shape) == ((2, 2), (2, 3))
    for name in ("answers", "questions", "supports"):
        whole = torch.cat([getattr(first, name), getattr(second, name)], 1)
        assert torch.equal(whole, getattr(stories, name))
    told = [part.spread(part.sentences) for part in (first, second)]
    assert torch.equal(torch.cat(told, 1), stories.spread(stories.sentences))
    assert torch.equal(
        torch.cat([part.spread(part.times) for part in (first, second)], 1), stories.spread(stories.times)
    )


@pytest.mark.slow
def test_noise_as_the_authors_draw_it() -> None:
    """They permute 1 … c + e for e empty memories, keep c of them and sort: all choices of c are equally likely."""
    c, share, draws = 4, 0.5, 30_000
    generator = torch.Generator().manual_seed(1)
    times = random_times(torch.full((draws,), c), 10, share, generator)[:, :c]
    seen = Counter(map(tuple, times.tolist()))
    expected = Counter[tuple[int, ...]]()
    most = 2  # ⌈0.5 · 4⌉; 0, 1 and 2 are equally likely
    for empty in range(most + 1):
        choices = list(combinations(range(1, c + empty + 1), c))
        for choice in choices:
            expected[choice] += draws / (most + 1) / len(choices)
    assert seen.keys() == expected.keys()
    chi2 = sum((seen[key] - expected[key]) ** 2 / expected[key] for key in expected)
    assert chi2 < 36.1  # the 0.999 quantile with 14 degrees of freedom: there are 15 choices
    assert len(expected) == 15


def test_noisy_times_grow_and_end_at_the_last_slot() -> None:
    counts = torch.tensor([1, 5, 10, 10])
    times = random_times(counts.repeat(50), 10, 0.3, torch.Generator().manual_seed(2)).view(50, 4, 10)
    assert times.max() == 10
    for story, count in enumerate(counts.tolist()):
        steps = times[:, story, :count].diff(dim=1)
        assert bool(((steps > 0) | (times[:, story, 1:count] == 10)).all())
