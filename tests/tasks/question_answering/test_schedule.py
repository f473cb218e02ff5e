"""The authors' schedule, and that restarts which train side by side are what they would be alone."""

import pytest
import torch

from variations.models.memory.memn2n import MemN2N
from variations.tasks.question_answering.batching import Batches
from variations.tasks.question_answering.encoding import Vocabulary, encode
from variations.tasks.question_answering.schedule import Schedule, train, update, wrong
from variations.tasks.question_answering.toy import generate

SPLIT = generate(1, train=120, test=60)
VOCABULARY = Vocabulary.build([*SPLIT.train, *SPLIT.valid, *SPLIT.test])
TRAIN = encode(SPLIT.train, VOCABULARY)


def network(seeds: list[int], d: int = 6, **options: str) -> MemN2N:
    return MemN2N(len(VOCABULARY), VOCABULARY.memory, VOCABULARY.longest, d, 3, seeds, **options)


def trained(seeds: list[int], schedule: Schedule, noise: float, **options: str) -> MemN2N:
    net = network(seeds, **options).double()
    train(net, Batches(TRAIN, VOCABULARY.memory, 16, noise, [100 + seed for seed in seeds]), schedule)
    return net


def test_rates_of_a_task() -> None:
    rates = list(Schedule().rates())
    assert len(rates) == 100
    assert not any(linear for _, linear in rates)
    assert [rate for rate, _ in rates[:25]] == [0.01] * 24 + [0.005]
    assert [rates[epoch - 1][0] for epoch in (49, 50, 74, 75, 99, 100)] == [
        0.005, 0.0025, 0.0025, 0.00125, 0.00125, 0.000625,
    ]  # fmt: skip


def test_rates_of_a_linear_start() -> None:
    rates = list(Schedule(epochs=60, halve_every=15, linear_epochs=30).rates())
    assert rates[:30] == [(0.005, True)] * 30
    assert rates[30:45] == [(0.005, False)] * 14 + [(0.0025, False)]
    assert len(rates) == 90


def test_each_restarts_gradient_is_clipped_by_its_own_norm() -> None:
    first, second = torch.zeros(2, 1, 2, requires_grad=True), torch.zeros(2, 1, requires_grad=True)
    first.grad, second.grad = torch.tensor([[[3.0, 0]], [[0.3, 0]]]), torch.tensor([[4.0], [0.4]])
    update([first, second], lr=0.5, clip=2.5)  # norms 5 and 0.5
    assert torch.allclose(first, torch.tensor([[[-0.75, 0]], [[-0.15, 0]]]))
    assert torch.allclose(second, torch.tensor([[-1.0], [-0.2]]))


def test_a_gradient_of_0_changes_nothing() -> None:
    weight = torch.ones(1, 2, requires_grad=True)
    weight.grad = torch.zeros(1, 2)
    update([weight], lr=0.5, clip=40)
    assert torch.equal(weight, torch.ones(1, 2))


@pytest.mark.parametrize("options", [{}, {"code": "paper", "tying": "layer_wise"}, {"code": "bow"}])
def test_restarts_are_what_they_would_be_alone(options: dict[str, str]) -> None:
    schedule = Schedule(epochs=3, halve_every=2, linear_epochs=2, clip=5)
    together = trained([1, 2, 3], schedule, noise=0.1, **options)
    for restart, seed in enumerate([1, 2, 3]):
        alone = trained([seed], schedule, noise=0.1, **options)
        for many, one in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(many[restart], one[0], atol=1e-6, rtol=0)
    assert not torch.allclose(*(parameter for parameter in together.embeddings[0][:2]))


def test_the_empty_words_vector_stays_0() -> None:
    net = trained([1], Schedule(epochs=2), noise=0.1)
    assert not any(embedding[:, 0].any() for embedding in net.embeddings)


def test_learns_the_invented_task_1() -> None:
    net = network([1, 2], d=20)
    before = wrong(net, TRAIN, 2).float().mean(1)
    train(net, Batches(TRAIN, VOCABULARY.memory, 16, 0, [1, 2]), Schedule(epochs=40, halve_every=40))
    after = wrong(net, TRAIN, 2).float().mean(1)
    assert bool((before > 0.6).all())
    assert bool((after < 0.05).all())
