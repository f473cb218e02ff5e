"""κ and α during a real fit: on the simplex after every step, constant at the end."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from variations.data.batching import collate
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.experiment import TranslationExperiment
from variations.tasks.translation.task import TASK
from variations.training.step import Step

STEPS, FREEZE = 36, 6


def batches():
    generator = np.random.default_rng(1)
    for i in range(STEPS):
        rows = [np.append(generator.integers(4, 20, size=generator.integers(2, 6)), 2) for _ in range(4)]
        yield collate([(4 * i + j, row, row[::-1]) for j, row in enumerate(rows)])


def step_of(config, kind=Step):
    """Return the training step of a network with 20 sub-words."""
    data = SimpleNamespace(subwords=SimpleNamespace(size=20))
    return kind(config, TASK, TranslationExperiment(config, data))


class Watch(pl.Callback):
    """Copies κ, α and all other parameters after every update."""

    def __init__(self):
        self.branch, self.weights = [], []

    def on_train_batch_end(self, trainer, task, *_):
        named = {name: p.detach().clone() for name, p in task.model.named_parameters()}
        self.branch.append({name: p for name, p in named.items() if name.endswith((".kappa", ".alpha"))})
        self.weights.append({name: p for name, p in named.items() if not name.endswith((".kappa", ".alpha"))})


def fit(**branch):
    config = TranslationConfig(seed=3)
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = "weighted", 2, 16, 32, 4
    config.recipe.warmup, config.branch.warmup = 20, 5
    config.trainer.max_steps, config.branch.freeze_last = STEPS, FREEZE
    for key, value in branch.items():
        setattr(config.branch, key, value)
    torch.manual_seed(3)
    task, watch = step_of(config), Watch()
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        callbacks=[watch],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, train_dataloaders=torch.utils.data.DataLoader(list(batches()), batch_size=None))
    assert trainer.global_step == len(watch.branch) == STEPS
    return config, task, watch


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["project", "renormalise"])
def test_weights_stay_on_the_simplex_and_then_stand_still_while_the_rest_learns(constraint):
    _, _, watch = fit(constraint=constraint)
    for named in watch.branch:
        for name, value in named.items():
            assert float(value.sum()) == pytest.approx(1, abs=1e-6), name
            assert (value >= 0).all(), name
    moving = STEPS - FREEZE
    for name in watch.branch[0]:
        moved = [not torch.equal(watch.branch[i][name], watch.branch[i - 1][name]) for i in range(1, STEPS)]
        assert not any(moved[moving - 1 :]), name
    last_moves = [
        not torch.equal(watch.branch[moving - 1][name], watch.branch[moving - 2][name]) for name in watch.branch[0]
    ]
    assert any(last_moves)
    for i in range(moving, STEPS):
        changed = [not torch.equal(watch.weights[i][n], watch.weights[i - 1][n]) for n in watch.weights[0]]
        assert all(changed)


@pytest.mark.slow
def test_logits_of_a_softmax_stand_still_as_well():
    _, task, watch = fit(constraint="softmax")
    for name in watch.branch[0]:
        assert torch.equal(watch.branch[-1][name], watch.branch[STEPS - FREEZE - 1][name])
        assert not torch.equal(watch.branch[0][name], watch.branch[STEPS - FREEZE - 1][name])
    for weights in task.model.branch_weights().values():
        for value in weights.values():
            assert float(value.detach().sum()) == pytest.approx(1, abs=1e-6)


def test_centred_gradients_sum_to_zero():
    seen = []

    class Watched(Step):
        def zero_grad(self, set_to_none=True):
            seen.extend(p.grad for p in self.model.parameter_groups()["branch_weights"])
            super().zero_grad(set_to_none)

    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h = "weighted", 1, 16, 32, 4
    config.branch.center_grad = True
    task = step_of(config, Watched)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, train_dataloaders=torch.utils.data.DataLoader(list(batches())[:2], batch_size=None))
    gradients = [g for g in seen if g is not None]
    assert gradients
    for gradient in gradients:
        assert gradient.any()
        assert abs(float(gradient.sum())) <= 1e-6 * float(gradient.abs().sum()) + 1e-9
