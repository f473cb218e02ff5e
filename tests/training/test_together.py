"""bf16-mixed, torch.compile of the inner network, accumulation and clipping, all combined."""

import shutil
from functools import partialmethod
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from variations.training.fit import fit
from variations.training.interrupt import Interrupt

ALL = (
    "trainer.precision=bf16-mixed",
    "trainer.compile=true",
    "trainer.tokens_per_batch=256",
    "recipe.clip=1.0",
    "recipe.warmup=4",
    "recipe.lr=0.3",
    "trainer.max_steps=24",
    "trainer.val_every=8",
)


def compiler() -> str | None:
    """Return why torch.compile cannot work here, or None."""
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++")):
        return "there is no C++ compiler"
    try:
        torch.compile(lambda x: x * 2 + 1)(torch.ones(3))
    except Exception as error:  # noqa: BLE001 - whatever prevents the compiler from working
        return f"torch.compile does not work here: {type(error).__name__}"
    return None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "backend"),
    [
        ("weighted", "eager"),
        pytest.param("weighted", "aot_eager", marks=pytest.mark.exhaustive),
        pytest.param("weighted", "inductor", marks=pytest.mark.exhaustive),
        pytest.param("transformer", "aot_eager", marks=pytest.mark.exhaustive),  # the weighted one contains its layers
        pytest.param("transformer", "inductor", marks=pytest.mark.exhaustive),
    ],
)
def test_they_work_together_and_the_loss_falls(
    model: str, backend: str, small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor, the default, spends minutes in the C++ compiler; the others run the traced program without it.

    aot_eager also traces the backward pass.
    """
    if backend == "inductor" and (reason := compiler()):
        pytest.skip(reason)
    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend=backend))
    torch._dynamo.reset()
    counters.clear()
    losses = {}
    for name, changes in {"plain": ("trainer.compile=false",), "compiled": ()}.items():
        config = small(f"model={model}", "model.dropout=0", "model.attention_dropout=0", *ALL, *changes)
        folder = made(config, name)
        trained = fit(config, folder, Interrupt())
        assert trained.step.experiment.data.accumulate == 2
        lines = folder.measurements.read()
        losses[name] = [line["train/loss"] for line in lines]
        assert lines[-1]["dev/nll"] < lines[7]["dev/nll"]
        assert losses[name][-1] < losses[name][0] - 0.5
    assert trained.step.model._compiled_call_impl is not None
    # The network is one program without breaks: for the first batch, for all further shapes, and for the dev set.
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 3
    # Differently composed kernels round differently, in bfloat16 by 1/256.
    assert losses["compiled"][:8] == pytest.approx(losses["plain"][:8], rel=0.02)
