"""The authors' schedule, and that restarts which train side by side are what they would be alone."""

import itertools
from pathlib import Path

import pytest
import torch

from variations.models.memory.memn2n import MemN2N
from variations.tasks.question_answering.batching import Batches
from variations.tasks.question_answering.encoding import Vocabulary, encode
from variations.tasks.question_answering.toy import generate
from variations.tasks.question_answering.training import Adam, Schedule, Training, answers, best, step

SPLIT = generate(1, train=120, test=60)
VOCABULARY = Vocabulary.build([*SPLIT.train, *SPLIT.valid, *SPLIT.test])
TRAIN, VALID = encode(SPLIT.train, VOCABULARY), encode(SPLIT.valid, VOCABULARY)


def network(seeds: list[int], d: int = 6, **options: str) -> MemN2N:
    return MemN2N(len(VOCABULARY), VOCABULARY.memory, VOCABULARY.longest, d, 3, seeds, **options)


def training(seeds: list[int], schedule: Schedule, noise: float = 0.1, **options: str) -> Training:
    batches = Batches(TRAIN, VOCABULARY.memory, 16, noise, [100 + seed for seed in seeds])
    return Training(network(seeds, **options).double(), batches, VALID, schedule)


def finish(training: Training) -> MemN2N:
    while not training.finished:
        training.epoch()
    assert isinstance(training.net, MemN2N)
    return training.net


def test_rates_of_a_task() -> None:
    schedule = Schedule()
    assert [schedule.rate(epoch) for epoch in (1, 24, 25, 49, 50, 74, 75, 99, 100)] == [
        0.01, 0.01, 0.005, 0.005, 0.0025, 0.0025, 0.00125, 0.00125, 0.000625,
    ]  # fmt: skip


def test_rates_after_a_linear_start() -> None:
    schedule = Schedule(epochs=60, halve_every=15, linear_start="epochs", linear_epochs=30)
    assert [schedule.rate(epoch) for epoch in (0, 1, 14, 15, 30)] == [0.005, 0.005, 0.005, 0.0025, 0.00125]


def test_a_linear_start_lasts_its_epochs() -> None:
    run = training([1, 2], Schedule(epochs=2, linear_start="epochs", linear_epochs=3))
    linear = []
    while not run.finished:
        linear.append(run.epoch().linear)
    assert linear == [[True, True]] * 3 + [[False, False]] * 2
    assert not run.net.linear.any()


def test_a_linear_start_lasts_until_the_validation_loss_stops_falling() -> None:
    run = training([1, 2, 3], Schedule(epochs=2, linear_start="plateau", linear_epochs=60, linear_lr=0.02))
    records = []
    while not run.finished:
        records.append(run.epoch())
    for restart in range(3):
        of_start = [record.valid_loss[restart] for record in records if record.linear[restart]]
        lasted = len(of_start)
        assert [record.linear[restart] for record in records[:lasted]] == [True] * lasted
        assert all(later < earlier for earlier, later in itertools.pairwise(of_start[:-1]))
        assert lasted == 60 or of_start[-1] >= of_start[-2]
    assert len({tuple(record.linear) for record in records}) > 2  # not all at the same time


def test_each_restarts_gradient_is_clipped_by_its_own_norm_and_has_its_own_rate() -> None:
    first, second = torch.zeros(2, 1, 2, requires_grad=True), torch.zeros(2, 1, requires_grad=True)
    first.grad, second.grad = torch.tensor([[[3.0, 0]], [[0.3, 0]]]), torch.tensor([[4.0], [0.4]])
    step([first, second], torch.tensor([0.5, 0.1]), clip=2.5)  # norms 5 and 0.5
    assert torch.allclose(first, torch.tensor([[[-0.75, 0]], [[-0.03, 0]]]))
    assert torch.allclose(second, torch.tensor([[-1.0], [-0.04]]))


def test_a_gradient_of_0_changes_nothing() -> None:
    weight = torch.ones(1, 2, requires_grad=True)
    weight.grad = torch.zeros(1, 2)
    step([weight], torch.tensor([0.5]), clip=40)
    assert torch.equal(weight, torch.ones(1, 2))


def test_adam_is_torchs() -> None:
    ours = [torch.ones(1, 3, dtype=torch.float64, requires_grad=True)]
    theirs = [torch.ones(1, 3, dtype=torch.float64, requires_grad=True)]
    adam, reference = Adam(ours), torch.optim.Adam(theirs, lr=0.1)
    for number in range(5):
        for weight in (*ours, *theirs):
            weight.grad = torch.tensor([[1.0, -2.0, 0.1 * number]], dtype=torch.float64)
        step(ours, torch.tensor([0.1]), clip=torch.inf, adam=adam)
        reference.step()
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-7, rtol=0)


@pytest.mark.parametrize(
    ("schedule", "options"),
    [
        (Schedule(epochs=3, halve_every=2, linear_start="epochs", linear_epochs=2, clip=5), {}),
        (Schedule(epochs=2, linear_start="plateau", linear_epochs=20, linear_lr=0.02), {"code": "paper"}),
        (Schedule(epochs=3), {"code": "bow", "tying": "layer_wise"}),
        (Schedule(epochs=3, optimizer="adam", clip=5), {}),
    ],
)
def test_restarts_are_what_they_would_be_alone(schedule: Schedule, options: dict[str, str]) -> None:
    together = finish(training([1, 2, 3], schedule, **options))
    for restart, seed in enumerate([1, 2, 3]):
        alone = finish(training([seed], schedule, **options))
        for many, one in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(many[restart], one[0], atol=1e-6, rtol=0)
    assert not torch.allclose(together.embeddings[0][0], together.embeddings[0][1])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_resumes_bit_for_bit(optimizer: str, tmp_path: Path) -> None:
    schedule = Schedule(optimizer=optimizer, epochs=3, linear_start="epochs", linear_epochs=1)
    whole = training([1, 2], schedule)
    records = [whole.epoch() for _ in range(4)]
    first = training([1, 2], schedule)
    first.epoch()
    first.epoch()
    torch.save(first.state_dict(), tmp_path / "training.pt")
    second = training([8, 9], schedule)
    second.load_state_dict(torch.load(tmp_path / "training.pt", weights_only=True))
    assert [second.epoch(), second.epoch()] == records[2:]
    assert second.finished
    for one, other in zip(whole.net.parameters(), second.net.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_empty_words_vector_stays_0() -> None:
    net = finish(training([1], Schedule(epochs=2)))
    assert not any(embedding[:, 0].any() for embedding in net.embeddings)


def test_the_best_restart_has_the_least_training_error_and_then_loss() -> None:
    assert best([0.2, 0.1, 0.1, 0.3], [0.0, 0.5, 0.4, 0.1]) == 2


def test_learns_the_invented_task_1() -> None:
    net = network([1, 2], d=20)
    before, _ = answers(net, TRAIN, 2)
    run = Training(net, Batches(TRAIN, VOCABULARY.memory, 16, 0, [1, 2]), VALID, Schedule(epochs=40, halve_every=40))
    finish(run)
    after, _ = answers(net, TRAIN, 2)
    assert bool((before.float().mean(1) > 0.6).all())
    assert bool((after.float().mean(1) < 0.05).all())
