"""A non-finite loss or gradient: the run fails and names step and batch, or skips the update and counts it."""

import logging
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from variations.store.ledger import RunFolder
from variations.system.errors import RunFailedError
from variations.tasks.sequences.data import start_worker
from variations.tasks.translation.experiment import TranslationExperiment
from variations.training import checkpoints
from variations.training.callbacks import EarlyStopping
from variations.training.finite import Guard, Seen, refuse_bad_weights
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.ranks import Ranks
from variations.training.step import Step


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[int]]]:
    """Multiply the loss of the updates after `steps` updates by `factor`; return the pairs of those batches."""

    def make(factor: float, *steps: int) -> list[list[int]]:
        original, rows = Step.forward_backward, []

        def forward_backward(self: Step, batch: Any) -> None:
            if self.global_step not in steps:
                return original(self, batch)
            rows.append(batch.index.tolist())
            losses = self.experiment.losses
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(self.experiment, "losses", lambda batch: [loss * factor for loss in losses(batch)])
                return original(self, batch)

        monkeypatch.setattr(Step, "forward_backward", forward_backward)
        return rows

    return make


@pytest.mark.slow
@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_the_run_fails_and_names_step_and_batch(factor: float, small: Any, made: Any, spoilt: Any) -> None:
    folder, rows = made(small(), "run"), spoilt(factor, 8)
    with pytest.raises(RunFailedError) as failure:
        fit(small(), folder, Interrupt())
    # Epochs have seven batches: the ninth update uses the second batch of the second epoch.
    pairs = ", ".join(map(str, rows[0][:5]))
    assert str(failure.value).startswith(
        f"The loss is not finite at step 9 (epoch 1, batch 1, with the training items {pairs}, …). Lower recipe.lr"
    )
    assert [step for step, _ in checkpoints.full(folder.checkpoints)] == [4, 8]
    assert [line["step"] for line in folder.measurements.read()] == list(range(1, 9))


@pytest.mark.slow
def test_nothing_is_saved_before_the_checks_that_were_deferred(
    small: Any, made: Any, spoilt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where a callback may stop training at an update that is neither measured nor due."""
    original = Guard.__init__
    monkeypatch.setattr(Guard, "__init__", lambda self, allowed, eager, *rest: original(self, allowed, False, *rest))

    def stops(self: EarlyStopping, trainer: Any, *_: Any) -> None:
        trainer.should_stop = trainer.should_stop or trainer.global_step == 3

    monkeypatch.setattr(EarlyStopping, "on_train_batch_end", stops, raising=False)
    changes = ("trainer.log_every=50", "recipe.average=1", "model=weighted")
    config = small("callbacks=early_stopping", *changes)
    folder = made(config, "run")
    spoilt(float("nan"), 2)
    with pytest.raises(RunFailedError, match=r"^The loss is not finite at step 3 \(epoch 0, batch 2"):
        fit(config, folder, Interrupt())
    assert checkpoints.full(folder.checkpoints) == []


@pytest.mark.slow
def test_a_failed_run_is_marked_and_says_why(small: Any, spoilt: Any) -> None:
    from variations.commands import run
    from variations.store import naming

    spoilt(float("nan"), 2)
    with pytest.raises(RunFailedError):
        run.execute(small())
    status = RunFolder(naming.run_folder(small())).status()
    assert status is not None and status.state == "failed"
    assert "not finite at step 3 (epoch 0, batch 2" in str(status.reason)


@pytest.mark.slow
def test_a_failed_run_ends_its_loader_processes(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They ignore SIGTERM, so a process that left some behind would wait for them for ever when it exits."""
    from variations.commands import run

    started = []

    def fails(*_: Any) -> None:
        loader = iter(DataLoader(torch.arange(4), num_workers=1, worker_init_fn=start_worker))
        started.append(loader._workers[0])
        next(loader)
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(run, "_train", fails)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        run.execute(small())
    started[0].join(10)
    assert started[0].exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_counts_as_well(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original, updates = TranslationExperiment.losses, count(1)

    def losses(self: TranslationExperiment, batch: Any) -> tuple[Tensor, Tensor]:
        loss, nll = original(self, batch)
        number = next(updates)
        loss.register_hook(lambda gradient: gradient * (float("inf") if number == 3 else 1))
        return loss, nll

    monkeypatch.setattr(TranslationExperiment, "losses", losses)
    with pytest.raises(RunFailedError, match=r"^The gradient is not finite at step 3 \(epoch 0, batch 2\)"):
        fit(small(), made(small(), "run"), Interrupt())


@pytest.mark.slow
@pytest.mark.parametrize("changes", [(), ("model=weighted", "recipe.ema=0.5", "recipe.clip=1.0")])
def test_skipped_updates_are_counted_and_change_nothing(
    changes: tuple[str, ...], small: Any, made: Any, spoilt: Any, caplog: Any
) -> None:
    config = small("trainer.max_nan_steps=2", "trainer.checkpoint_every=1", "trainer.max_steps=5", *changes)
    folder = made(config, "run")
    spoilt(float("nan"), 2, 4)
    with caplog.at_level(logging.WARNING):
        trained = fit(config, folder, Interrupt())
    assert (trained.steps, trained.step.budget.nan_steps) == (5, 2)
    assert "not finite at step 3 (epoch 0, batch 2, with the training items" in caplog.text
    assert "The update is skipped (2 of at most 2)." in caplog.text
    before, after = (checkpoints.load(path) for _, path in checkpoints.full(folder.checkpoints))
    for name, value in before["state_dict"].items():
        assert torch.equal(value, after["state_dict"][name])
    for number, state in before["optimizer_states"][0]["state"].items():
        assert all(torch.equal(state[key], after["optimizer_states"][0]["state"][number][key]) for key in state)
    assert str(before["variations"]["average"]) == str(after["variations"]["average"])
    lines = folder.measurements.read()
    assert [("train/loss" in line) for line in lines] == [True, True, False, True, False]


@pytest.mark.slow
def test_no_more_are_skipped_than_allowed(small: Any, made: Any, spoilt: Any) -> None:
    config = small("trainer.max_nan_steps=2")
    spoilt(float("nan"), 2, 4, 6)
    with pytest.raises(RunFailedError, match=r"at step 7 .* 2 such updates have been skipped already"):
        fit(config, made(config, "run"), Interrupt())


@pytest.mark.slow
def test_skips_are_counted_through_a_resume(small: Any, made: Any, spoilt: Any, stopped_at: Any) -> None:
    config = small("trainer.max_nan_steps=1")
    folder = made(config, "run")
    spoilt(float("nan"), 2, 8)
    with pytest.raises(KeyboardInterrupt):
        fit(config, folder, stopped_at(5))
    with pytest.raises(RunFailedError, match=r"at step 9 .* 1 such updates have been skipped already"):
        fit(config, folder, Interrupt())


@pytest.mark.slow
def test_on_a_gpu_the_first_bad_update_is_named_before_anything_is_saved(
    small: Any, made: Any, spoilt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a GPU, losses are checked only where the run waits for it anyway; run the same code here as if on a GPU.
    start = Step.on_fit_start

    def on_fit_start(self: Step) -> None:
        start(self)
        self.guard.eager = False

    monkeypatch.setattr(Step, "on_fit_start", on_fit_start)
    config = small("trainer.log_every=4")
    folder = made(config, "run")
    spoilt(float("nan"), 5)
    with pytest.raises(RunFailedError, match=r"at step 6 \(epoch 0, batch 5, with the training items"):
        fit(config, folder, Interrupt())
    assert [step for step, _ in checkpoints.full(folder.checkpoints)] == [4]


def test_put_off_looks_find_the_first_of_several() -> None:
    guard = Guard(0, eager=False, ranks=Ranks(), advice="wait")
    pairs = [torch.arange(7)]
    for step, loss in ((1, 1.0), (2, float("nan")), (3, float("inf"))):
        seen = Seen(step, f"epoch 0, batch {step - 1}", torch.tensor(loss), pairs, torch.tensor(1.0))
        assert not guard.skips(seen, 0)
    with pytest.raises(RunFailedError, match=r"at step 2 \(epoch 0, batch 1, with the training items 0, 1, 2, 3, 4, …"):
        guard.settle()
    guard.settle()  # checked losses are not checked again


@pytest.mark.slow
def test_an_update_after_which_the_dev_loss_is_not_finite_fails_the_run(small: Any, made: Any) -> None:
    config = small("trainer.max_steps=1", "recipe.lr=1e30", "recipe.warmup=1")  # loss and gradient are still finite
    folder = made(config, "run")
    with pytest.raises(RunFailedError, match=r"^The dev loss is not finite after step 1: training has diverged; lower"):
        fit(config, folder, Interrupt())
    assert checkpoints.full(folder.checkpoints) == []
    assert folder.measurements.read() == []


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_weights_that_are_not_finite_are_not_tested(bad: float) -> None:
    refuse_bad_weights([torch.ones(2), torch.zeros(0)], "wait")
    with pytest.raises(RunFailedError, match=r"^The trained weights are not finite: training has diverged; wait\.$"):
        refuse_bad_weights([torch.ones(2), torch.tensor([1.0, bad])], "wait")
