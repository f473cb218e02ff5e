"""Out of memory: the same update is made in smaller pieces and counted, or the run fails with advice."""

import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from variations.data import batching
from variations.data.batching import Batch
from variations.models.transformer.transformer import Transformer
from variations.system.errors import RunFailedError
from variations.training import checkpoints, memory
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.step import Step

ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried to …"),
    RuntimeError("std::bad_alloc"),
    MemoryError(),
]


class _FailsBackward(torch.autograd.Function):
    """The identity, with a backward pass that runs out of memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")


def limit(monkeypatch: pytest.MonkeyPatch, rows: int, error: Exception | None) -> None:
    """Make the network run out of memory above `rows` pairs: at once with `error`, otherwise in the backward pass."""
    encode = Transformer.encode

    def limited(self: Transformer, source: Tensor, *more: Any) -> Any:
        memory_, mask = encode(self, source, *more)
        if source.size(0) > rows and self.training:
            if error is not None:
                raise error
            # At this point the decoder has its gradients, the encoder does not.
            return _FailsBackward.apply(memory_), mask
        return memory_, mask

    monkeypatch.setattr(Transformer, "encode", limited)


_PLAIN: dict[str, Any] = {}
"""The run without a fault, trained once."""


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_library_says_it_in_its_own_way(error: Exception) -> None:
    assert memory.is_exhausted(error)


def test_another_fault_is_not_taken_for_it() -> None:
    assert not memory.is_exhausted(RuntimeError("index 5 is out of bounds"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [pytest.param(ERRORS[0], id="forward"), pytest.param(None, id="backward", marks=pytest.mark.exhaustive)]
)
def test_the_update_is_the_same_and_counted(
    error: Exception | None, small: Any, made: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    # In float64, so that the order of summation makes almost no difference.
    config = small("model.dropout=0", "trainer.precision=64-true", "trainer.max_steps=4")
    plain = _PLAIN.get("trained") or _PLAIN.setdefault("trained", fit(config, made(config, "plain"), Interrupt()))
    limit(monkeypatch, 12, error)
    with caplog.at_level(logging.WARNING):
        split = fit(config, made(config, "split"), Interrupt())
    assert split.step.budget.oom_splits > 4  # batches hold up to 50 pairs
    assert "they are halved and accumulated" in caplog.text
    for name, value in plain.step.model.state_dict().items():
        torch.testing.assert_close(split.step.model.state_dict()[name], value, rtol=1e-8, atol=1e-9)
    keys = ("pairs", "source_tokens", "target_tokens", "padded_tokens", "flops")
    budgets = [trained.step.budget.state() for trained in (plain, split)]
    assert [budgets[1][key] for key in keys] == [budgets[0][key] for key in keys]


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [pytest.param(ERRORS[0], id="forward", marks=pytest.mark.exhaustive), pytest.param(None, id="backward")]
)
def test_batches_accumulated_before_the_one_at_fault_are_not_lost(
    error: Exception | None, small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ("model.dropout=0", "trainer.precision=64-true", "trainer.max_steps=4", "trainer.tokens_per_batch=256")
    config = small(*overrides)
    plain, folder = made(config, "plain"), made(config, "split")
    fit(config, plain, Interrupt())
    limit(monkeypatch, 20, error)
    trained = fit(config, folder, Interrupt())
    assert trained.step.experiment.data.accumulate == 2 and trained.step.budget.oom_splits > 0
    for one, other in zip(plain.measurements.read(), folder.measurements.read(), strict=True):
        for key in ("train/loss", "train/nll", *(["dev/nll"] if "dev/nll" in one else [])):
            assert other[key] == pytest.approx(one[key], rel=1e-9)


@pytest.mark.slow
def test_splits_stand_in_the_checkpoint(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small("trainer.max_steps=2")
    folder = made(config, "run")
    limit(monkeypatch, 12, ERRORS[0])
    trained = fit(config, folder, Interrupt())
    state = checkpoints.load(checkpoints.full(folder.checkpoints)[-1][1])
    assert state["variations"]["budget"]["oom_splits"] == trained.step.budget.oom_splits > 0


@pytest.mark.slow
def test_a_single_pair_that_does_not_fit_fails_with_advice(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, 0, ERRORS[0])
    with pytest.raises(RunFailedError, match=r"out of memory with a single item of .* lower trainer.tokens_per_batch"):
        fit(small(), made(small(), "run"), Interrupt())


@pytest.mark.slow
def test_several_ranks_fail_with_advice(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 12, ERRORS[0])
    begin = Step.training_step

    def two_ranks(self: Step, batch: Any, batch_idx: int) -> None:
        monkeypatch.setattr(type(self.trainer), "world_size", property(lambda _: 2))
        begin(self, batch, batch_idx)

    monkeypatch.setattr(Step, "training_step", two_ranks)
    with pytest.raises(RunFailedError, match=r"out of memory on rank 0: lower trainer.tokens_per_batch"):
        fit(small(), made(small(), "run"), Interrupt())


@pytest.mark.slow
def test_other_errors_are_not_taken_for_it(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 0, RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        fit(small(), made(small(), "run"), Interrupt())


def test_halves_hold_every_pair_once_and_no_columns_of_padding() -> None:
    source = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0], [6, 7, 2, 0], [8, 9, 2, 0], [2, 0, 0, 0]])
    target = torch.tensor([[5, 2, 0], [5, 6, 2], [2, 0, 0], [6, 2, 0], [7, 2, 0]])
    batch = Batch(source, target, torch.tensor([3, 1, 4, 15, 9]), 13, 10, (39, 22, 25))
    first, second = batching.halves(batch)
    assert [a + b for a, b in zip(first.products, second.products, strict=True)] == [*batch.products]
    assert first.source.tolist() == [[5, 6, 7, 2], [6, 7, 2, 0], [2, 0, 0, 0]]
    assert first.target.tolist() == [[5, 2], [2, 0], [7, 2]]
    assert second.source.tolist() == [[5, 2, 0], [8, 9, 2]]
    assert second.target.tolist() == [[5, 6, 2], [6, 2, 0]]
    assert (first.index.tolist(), second.index.tolist()) == ([3, 4, 9], [1, 15])
    assert (first.source_tokens, first.target_tokens, second.source_tokens, second.target_tokens) == (8, 5, 5, 5)
