"""The authors' schedule, clipping per restart, and which restart is reported."""

import pytest
import torch

from variations.tasks.question_answering.config import ReaderRecipe
from variations.tasks.question_answering.measures import ranked
from variations.tasks.question_answering.training import clip, is_linear, rate


def test_rates_of_a_task() -> None:
    recipe = ReaderRecipe(lr=0.01, halve_every=25)
    rates = {epoch: rate(10 * (epoch - 1) + 1, 10, recipe) for epoch in (1, 24, 25, 49, 50, 74, 75, 99, 100)}
    assert rates == pytest.approx(
        {1: 0.01, 24: 0.01, 25: 0.005, 49: 0.005, 50: 0.0025, 74: 0.0025, 75: 0.00125, 99: 0.00125, 100: 0.000625}
    )
    assert rate(10 * 24, 10, recipe) == 0.01  # the last update of epoch 24
    assert rate(10 * 24 + 1, 10, recipe) == 0.005  # the first update of epoch 25


def test_the_schedule_begins_anew_after_a_linear_start() -> None:
    recipe = ReaderRecipe(halve_every=15, linear_epochs=30, linear_lr=0.005)
    of_epoch = [rate(7 * epoch + 1, 7, recipe) for epoch in range(90)]
    assert of_epoch[:30] == [0.005] * 30
    assert of_epoch[30:45] == [0.005] * 14 + [0.0025]
    assert [is_linear(7 * epoch, 7, recipe) for epoch in (0, 29, 30)] == [True, True, False]
    assert is_linear(7 * 30 - 1, 7, recipe)


def test_each_restarts_gradient_is_clipped_by_its_own_norm() -> None:
    first, second = torch.zeros(2, 1, 2, requires_grad=True), torch.zeros(2, 1, requires_grad=True)
    first.grad, second.grad = torch.tensor([[[3.0, 0]], [[0.3, 0]]]), torch.tensor([[4.0], [0.4]])
    clip([first, second], 2.5)  # norms 5 and 0.5
    assert torch.allclose(first.grad, torch.tensor([[[1.5, 0]], [[0.3, 0]]]))
    assert torch.allclose(second.grad, torch.tensor([[2.0], [0.4]]))


def test_a_gradient_of_0_stays_0() -> None:
    weight = torch.ones(1, 2, requires_grad=True)
    weight.grad = torch.zeros(1, 2)
    clip([weight], 40)
    assert torch.equal(weight.grad, torch.zeros(1, 2))


def test_the_best_restart_has_the_least_training_error_and_then_loss() -> None:
    assert ranked([0.2, 0.1, 0.1, 0.3], [0.0, 0.5, 0.4, 0.1]) == [2, 1, 0, 3]
    assert ranked([0.1, 0.1, 0.1], [None, float("nan"), 0.2]) == [2, 0, 1]  # as stored, and as computed
