"""Recipes: the pinned settings of each; κ and α constant at the end; the weights that are tested."""

from typing import Any

import pytest
import torch

from variations.configuration.compose import compose_run, to_dict
from variations.store.identity import flatten
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.loop import averaged_steps
from variations.training.step import Step

# Vaswani et al. 2017, sections 5.1, 5.3, 5.4 and 6.1, and the code behind the paper.
PAPER = {
    "recipe.scale.width": 1.0,
    "recipe.scale.depth": 1.0,
    "recipe.scale.steps": 1.0,
    "recipe.schedule": "noam",
    "recipe.lr": 1.0,
    "recipe.warmup": 4000,
    "recipe.beta1": 0.9,
    "recipe.beta2": 0.98,
    "recipe.eps": 1e-9,
    "recipe.weight_decay": 0.0,
    "recipe.clip": 0.0,
    "recipe.label_smoothing": 0.1,
    "recipe.smoothing": "t2t",
    "recipe.batch_tokens": 25_000,
    "recipe.ema": 0.0,
    "decode.beam": 4,
    "decode.alpha": 0.6,
    "decode.max_extra": 50,
}
RECIPES: dict[tuple[str, str], dict[str, Any]] = {
    ("vaswani2017", "base"): PAPER
    | {"recipe.average": 5, "recipe.average_every": 1500, "trainer.max_steps": 100_000, "model.dropout": 0.1},
    ("vaswani2017", "big"): PAPER
    | {"recipe.average": 20, "recipe.average_every": 600, "trainer.max_steps": 300_000, "model.dropout": 0.3},
    # Ahmed et al. 2017, section 4.1: no averaging, κ and α constant in the last 10K steps.
    ("ahmed2017", "base"): PAPER
    | {"recipe.average": 1, "trainer.max_steps": 60_000, "branch.warmup": 400, "branch.freeze_last": 10_000},
    ("ahmed2017", "big"): PAPER
    | {"recipe.average": 1, "trainer.max_steps": 250_000, "branch.warmup": 400, "branch.freeze_last": 10_000},
    # Wu et al. 2021.
    ("multi30k", "multi30k"): PAPER
    | {
        "recipe.scale.width": 0.25,
        "recipe.scale.steps": 0.04,
        "recipe.schedule": "inverse_sqrt",
        "recipe.lr": 0.005,
        "recipe.warmup": 2000,
        "recipe.batch_tokens": 8192,
        "recipe.average": 10,
        "recipe.average_every": None,
        "trainer.max_steps": 8000,
        "decode.beam": 5,
        "decode.alpha": 1.0,
        "branch.warmup": 200,
        "branch.freeze_last": 1333,
    },
    ("quick", "tiny"): PAPER
    | {
        "recipe.scale.width": 0.125,
        "recipe.scale.depth": 0.5,
        "recipe.scale.steps": 0.024,
        "recipe.lr": 0.5,
        "recipe.warmup": 250,
        "recipe.batch_tokens": 512,
        "recipe.average": 1,
        "recipe.average_every": None,
        "trainer.max_steps": 2400,
        "branch.warmup": 25,
        "branch.freeze_last": 400,
    },
    ("converged", "base_scaled"): PAPER
    | {
        "model.d_model": 128,
        "model.N": 3,
        "recipe.scale.width": 0.25,
        "recipe.scale.depth": 0.5,
        "recipe.scale.steps": 0.05,
        "recipe.lr": 0.5,
        "recipe.warmup": 400,
        "recipe.batch_tokens": 1024,
        "recipe.average": 1,
        "recipe.average_every": None,
        "recipe.ema": 0.995,
        "trainer.max_steps": 5000,
        "trainer.precision": "bf16-mixed",
        "branch.warmup": 40,
        "branch.freeze_last": 833,
    },
    ("reference", "base_scaled"): PAPER
    | {
        "model.d_model": 128,
        "model.N": 3,
        "recipe.scale.width": 0.25,
        "recipe.scale.depth": 0.5,
        "recipe.scale.steps": 0.05,
        "recipe.schedule": "cosine",
        "recipe.lr": 0.003,
        "recipe.warmup": 400,
        "recipe.batch_tokens": 2048,
        "recipe.average": 1,
        "recipe.average_every": None,
        "recipe.ema": 0.995,
        "trainer.max_steps": 5000,
        "trainer.precision": "bf16-mixed",
        "branch.warmup": 40,
        "branch.freeze_last": 833,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "size"), RECIPES)
@pytest.mark.parametrize("model", ["transformer", "weighted"])
def test_resolved_values(recipe: str, size: str, model: str) -> None:
    resolved = flatten(to_dict(compose_run([f"recipe={recipe}", f"size={size}", f"model={model}"])))
    expected = RECIPES[recipe, size]
    assert {key: resolved[key] for key in expected} == expected
    assert resolved["recipe.name"] == recipe


@pytest.mark.parametrize(
    ("recipe", "size", "steps"),
    [
        ("vaswani2017", "base", [94_000, 95_500, 97_000, 98_500, 100_000]),
        ("vaswani2017", "big", list(range(288_600, 300_001, 600))),
        ("ahmed2017", "base", []),
        ("multi30k", "multi30k", list(range(6920, 8001, 120))),  # spaced by 1.5 % of the steps
    ],
)
def test_checkpoints_that_are_averaged(recipe: str, size: str, steps: list[int]) -> None:
    assert sorted(averaged_steps(compose_run([f"recipe={recipe}", f"size={size}"]))) == steps


@pytest.mark.slow
def test_gradients_are_means_over_target_tokens_and_are_clipped_as_such(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.optim import adam

    norms: dict[str, list[float]] = {"summed": [], "used": []}
    counts: list[int] = []
    before, update = Step.update_weights, adam.adam

    def norm(gradients: Any) -> float:
        return float(torch.nn.utils.get_total_norm([gradient for gradient in gradients if gradient is not None]))

    def update_weights(self: Step) -> None:
        norms["summed"].append(norm(p.grad for p in self.parameters()))
        counts.append(self.update.counts[2])
        before(self)

    def updated(parameters: Any, gradients: Any, *args: Any, **kwargs: Any) -> None:
        norms["used"].append(norm(gradients))
        update(parameters, gradients, *args, **kwargs)

    monkeypatch.setattr(Step, "update_weights", update_weights)
    monkeypatch.setattr(adam, "adam", updated)
    config = small("recipe.clip=0.4", "trainer.tokens_per_batch=128")
    folder = made(config, "run")
    trained = fit(config, folder, Interrupt())
    assert trained.step.experiment.data.accumulate == 4
    assert sum(counts) == folder.measurements.read()[-1]["target_tokens"]
    means = [summed / count for summed, count in zip(norms["summed"], counts, strict=True)]
    assert norms["used"] == pytest.approx([min(mean, 0.4) for mean in means], rel=1e-4)
    assert min(means) < 0.4 < max(means)
