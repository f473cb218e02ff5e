"""Runs without padding, on a CPU with torch's kernels, are equivalent to runs with padded batches."""

from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from variations.models import build
from variations.models.kernels import FusedGPU, varlen
from variations.models.kernels.segments import Packed, Segments, pack
from variations.system.errors import Interrupted
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.experiment import TranslationExperiment
from variations.training.fit import fit
from variations.training.interrupt import Interrupt

EXACT = ("trainer.precision=64-true", "profile=reference", "model.dropout=0", "model.attention_dropout=0")
COUNTS = ("epoch", "source_tokens", "target_tokens", "padded_tokens", "flops")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["transformer", "weighted"])
def test_a_run_without_padding_is_the_same_run(model: str, small: Any, made: Any, monkeypatch: Any) -> None:
    lines = {}
    for packs in (False, True):
        monkeypatch.setattr(varlen, "packs", lambda *given, packs=packs: packs)
        folder = made(small(f"model={model}", *EXACT), f"{packs}")
        trained = fit(small(f"model={model}", *EXACT), folder, Interrupt())
        assert trained.step.experiment.packs is packs
        lines[packs] = folder.measurements.read()
    assert [[line[key] for key in COUNTS] for line in lines[True]] == [
        [line[key] for key in COUNTS] for line in lines[False]
    ]
    for packed, padded in zip(lines[True], lines[False], strict=True):
        for key in ("train/loss", "train/nll", "dev/nll"):
            assert (key in packed) == (key in padded)
            if key in padded:
                assert packed[key] == pytest.approx(padded[key], rel=1e-8)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_bit_for_bit(
    small: Any, made: Any, stopped_at: Any, same_run: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(varlen, "packs", lambda *given: True)
    config = small("model=weighted")
    whole, stopped = made(config, "whole"), made(config, "stopped")
    fit(config, whole, Interrupt())
    with pytest.raises(Interrupted):
        fit(config, stopped, stopped_at(5))
    fit(config, stopped, Interrupt())
    same_run(whole, stopped)


@pytest.mark.slow
def test_memory_that_runs_out_splits_batches_without_padding_too(small: Any, made: Any, monkeypatch: Any) -> None:
    lines = []
    monkeypatch.setattr(varlen, "packs", lambda *given: True)
    for failures in (0, 1):
        left = [failures]
        losses = TranslationExperiment.losses

        def failing(self: Any, batch: Any, losses: Any = losses, left: list[int] = left) -> Any:
            if left[0]:
                left[0] -= 1
                raise RuntimeError("out of memory")
            return losses(self, batch)

        with monkeypatch.context() as patch:
            patch.setattr(TranslationExperiment, "losses", failing)
            folder = made(small(*EXACT), f"{failures}")
            trained = fit(small(*EXACT), folder, Interrupt())
        assert trained.step.budget.oom_splits == failures
        lines.append([line["train/loss"] for line in folder.measurements.read()])
    assert lines[1] == pytest.approx(lines[0], rel=1e-8)


@pytest.mark.slow
def test_one_program_serves_every_batch(small: Any) -> None:
    """torch.compile's first program is specialised to the shapes, its second is valid for all shapes."""
    config = small("model=weighted", "branch.impl=naive", *EXACT[1:])
    data, programs = TranslationData(config), CompileCounter()
    data.setup()
    model = build(config, 48)
    compiled = torch.compile(model, backend=programs, fullgraph=True)
    shapes = set()
    for batch in data.train_dataloader():
        packed = pack(batch.source, batch.target, (batch.source_tokens, batch.target_tokens))
        shapes.add((batch.source_tokens, batch.target_tokens))
        torch.testing.assert_close(compiled(*packed), model(*packed))
    assert len(shapes) >= 6
    assert programs.frame_count <= 2


@pytest.mark.slow
def test_the_kernel_that_has_not_run_can_be_compiled() -> None:
    """On tensors without contents: shapes and arguments match, and one program handles all lengths."""
    programs = CompileCounter()

    def attend(q: torch.Tensor, k: torch.Tensor, packed: Packed) -> torch.Tensor:
        return FusedGPU().packed_attention(q, k, k, packed, causal=False, dropout=0.1)

    compiled = torch.compile(attend, backend=programs, fullgraph=True)
    for keys, queries in ((7, 6), (9, 12), (30, 31), (80, 22)):
        q, k = (torch.zeros(1, 2, n, 8, device="meta", dtype=torch.bfloat16) for n in (queries, keys))
        sides = [
            Segments(*(torch.zeros(size, device="meta", dtype=torch.int32) for size in (4, n)), n - 3)
            for n in (queries, keys)
        ]
        assert compiled(q, k, Packed(*sides)).shape == (1, 2, queries, 8)
    assert programs.frame_count <= 2
