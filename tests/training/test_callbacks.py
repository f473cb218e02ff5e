"""Lightning's own callbacks, loggers and Trainer arguments, named in a configuration."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.utilities import rank_zero_only
from suite import sampled

from variations.commands.run import run
from variations.configuration.compose import to_dict
from variations.configuration.faults import faults
from variations.store.ledger import RunFolder
from variations.system.errors import ConfigError, Interrupted, RunFailedError, UserError
from variations.training import checkpoints
from variations.training.callbacks import configured
from variations.training.fit import fit
from variations.training.interrupt import Interrupt

PATIENT = (
    "callbacks=early_stopping",
    "callbacks.early_stopping.min_delta=100",  # no validation improves by this much: only the first one counts
    "callbacks.early_stopping.patience=2",
    "trainer.val_every=2",
)


@pytest.mark.slow
def test_training_ends_when_patience_does_and_the_result_says_so(small: Any, made: Any) -> None:
    config = small(*PATIENT)
    trained = fit(config, made(config, "run"), Interrupt())
    assert (trained.steps, trained.stopped) == (6, "callback")


@pytest.mark.slow
def test_no_advice_of_lightnings_on_a_machine_of_many_cores(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    from pytorch_lightning.trainer.connectors import data_connector

    monkeypatch.setattr(data_connector, "suggested_max_num_workers", lambda devices: 15)
    config = small("trainer.max_steps=1")
    fit(config, made(config, "run"), Interrupt())
    assert [str(warning.message) for warning in recwarn if "workers" in str(warning.message)] == []


@pytest.mark.slow
def test_a_finished_run_does_not_train_on(small: Any, made: Any) -> None:
    config = small(*PATIENT)
    folder = made(config, "run")
    fit(config, folder, Interrupt())
    again = fit(config, folder, Interrupt())
    assert (again.steps, again.stopped) == (6, "callback")


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 3, 4, 5, 6])
def test_a_continued_run_has_as_much_patience_left(
    step: int, small: Any, made: Any, stopped_at: Any, same_run: Any
) -> None:
    config = small(*PATIENT)
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    with pytest.raises(Interrupted):
        fit(config, parts, stopped_at(step))
    assert fit(config, parts, Interrupt()).steps == 6
    same_run(whole, parts)


@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 4, 6, 7])
def test_a_continued_run_finds_the_metrics_that_lightning_had(
    step: int, small: Any, made: Any, stopped_at: Any, same_run: Any, module: Callable[[str, str], None]
) -> None:
    module(
        "reading_callback",
        "import torch\n"
        "from pytorch_lightning import Callback\n"
        "class Shrinks(Callback):\n"
        "    def on_train_batch_end(self, trainer, network, *_):\n"
        "        known = trainer.callback_metrics\n"
        "        with torch.no_grad():\n"
        "            next(network.parameters()).mul_(1 - 1e-3 * known.get('dev/nll', torch.ones(())))\n",
    )
    config = small("+callbacks.mine._target_=reading_callback.Shrinks", "trainer.max_steps=9", "trainer.log_every=100")
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    with pytest.raises(Interrupted):
        fit(config, parts, stopped_at(step))
    fit(config, parts, Interrupt())
    same_run(whole, parts)


AT_EPOCHS = (
    "+callbacks.mine._target_=pytorch_lightning.callbacks.EarlyStopping",  # decides at the end of an epoch
    "+callbacks.mine.monitor=dev/nll",
    "+callbacks.mine.min_delta=100",
    "+callbacks.mine.patience=2",
    "trainer.val_every=1",
    "trainer.checkpoint_every=100",
    "trainer.max_steps=40",
)


@pytest.mark.slow
@pytest.mark.parametrize(("epochs", "updates"), sampled([(0, 0), (0, 1), (1, 0), (1, 1)], 3))
def test_a_callback_that_ends_training_with_an_epoch_is_a_stop_like_any_other(
    epochs: int, updates: int, small: Any, made: Any, stopped_at: Any, same_run: Any
) -> None:
    config = small(*AT_EPOCHS)
    whole, parts = made(config, "whole"), made(config, "parts")
    trained = fit(config, whole, Interrupt())
    batches = int(trained.step.trainer.num_training_batches)
    assert (trained.steps, trained.stopped) == (3 * batches, "callback")
    with pytest.raises(Interrupted):
        fit(config, parts, stopped_at(trained.steps - epochs * batches - updates))
    again = fit(config, parts, Interrupt())
    assert (again.steps, again.stopped) == (trained.steps, "callback")
    same_run(whole, parts)


@pytest.mark.slow
def test_a_run_whose_epochs_are_single_updates_is_saved_and_stopped_as_others(
    small: Any, made: Any, stopped_at: Any
) -> None:
    config = small("callbacks=early_stopping", "debug=overfit", "trainer.max_steps=12", "trainer.checkpoint_every=2")
    folder = made(config, "run")
    with pytest.raises(Interrupted, match="at step 5;"):
        fit(config, folder, stopped_at(5))
    assert checkpoints.full(folder.checkpoints)[-1][0] == 5
    trained = fit(config, folder, Interrupt())
    assert (trained.steps, int(trained.step.trainer.num_training_batches)) == (12, 1)


@pytest.mark.slow
def test_a_changed_patience_is_used(small: Any, made: Any, stopped_at: Any) -> None:
    config = small(*PATIENT)
    folder = made(config, "run")
    with pytest.raises(Interrupted):
        fit(config, folder, stopped_at(3))
    more = small(*PATIENT, "callbacks.early_stopping.patience=3", "resume.allow=[callbacks]")
    folder.create(to_dict(more))
    assert fit(more, folder, Interrupt()).steps == 8


@pytest.mark.slow
def test_a_run_that_a_callback_ended_goes_on_without_it(small: Any, made: Any) -> None:
    config = small(*PATIENT)
    folder = made(config, "run")
    assert fit(config, folder, Interrupt()).steps == 6
    without = small(*(word for word in PATIENT if not word.startswith("callbacks")), "resume.allow=[callbacks]")
    folder.create(to_dict(without))
    trained = fit(without, folder, Interrupt())
    assert (trained.steps, trained.stopped) == (without.trainer.max_steps, None)


@pytest.mark.slow
def test_a_callback_that_exits_is_a_failure_and_no_interruption(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exits(*_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("pytorch_lightning.callbacks.EarlyStopping.on_train_start", exits, raising=False)
    config = small(*PATIENT)
    with pytest.raises(RunFailedError, match=r"^a callback or .* ended the process \(SystemExit\(3\)\)\.$"):
        fit(config, made(config, "run"), Interrupt())


@pytest.mark.slow
def test_an_exception_of_a_callback_is_told_with_its_line(
    small: Any, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "raising_callback.py"
    file.write_text(
        "from pytorch_lightning import Callback\n"
        "class Raising(Callback):\n"
        "    def on_train_batch_end(self, *_):\n"
        "        int('seven')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = made(small("+callbacks.mine._target_=raising_callback.Raising"), "raising")
    with pytest.raises(ValueError, match="seven"):
        run(folder.path)
    status = folder.status()
    assert status is not None
    assert (status.state, status.reason) == (
        "failed",
        f"ValueError in {file}, line 4: invalid literal for int() with base 10: 'seven'",
    )


@pytest.mark.slow
def test_loggers_of_lightning_hear_every_line(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as one of several tasks of `srun`, whose number Lightning takes for the rank when it is imported."""
    from variations.commands import run

    monkeypatch.setattr(rank_zero_only, "rank", 1)
    target = "pytorch_lightning.loggers.CSVLogger"
    further = f"logger.further.csv={{_target_: {target}, save_dir: {tmp_path / 'csv'}, name: a, version: b}}"
    folder = RunFolder(run.execute(small(further)))
    with (tmp_path / "csv" / "a" / "b" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    told = {int(row["step"]): float(row["train/loss"]) for row in rows if row.get("train/loss")}
    assert told == pytest.approx({line["step"]: line["train/loss"] for line in folder.measurements.read()})
    final = next(row for row in rows if row.get("final/test/bleu"))
    assert float(final["final/test/bleu"]) == pytest.approx(folder.result()["scores"]["test"]["bleu"]["value"])  # type: ignore[index]


@pytest.mark.slow
def test_further_arguments_reach_the_trainer(small: Any, made: Any) -> None:
    config = small("trainer.extra={detect_anomaly: true}")
    trained = fit(config, made(config, "run"), Interrupt())
    assert trained.step.trainer._detect_anomaly is True


@pytest.mark.slow
def test_a_run_without_any_batch_says_so(small: Any, made: Any) -> None:
    with pytest.raises(UserError, match="no update was made: there was no batch to train on"):
        fit(config := small("trainer.extra={limit_train_batches: 0}"), made(config, "run"), Interrupt())


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False])
def test_an_idle_gpu_is_mentioned(
    there: bool, small: Any, made: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small("trainer.progress=true", "trainer.max_steps=1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: there)
    fit(config, made(config, "run"), Interrupt())
    assert ("has a GPU, which trainer=gpu would use" in capsys.readouterr().err) is there


@pytest.mark.slow
def test_faults_are_told_before_any_work(small: Any) -> None:
    (text,) = faults(small("trainer.extra={max_epochs: 3}"))
    assert text.startswith("trainer.extra.max_epochs: leave it out: keys of Variations set or replace it.")
    assert faults(small("trainer.extra={min_epochs: 3, min_steps: 20}")) == [
        f"trainer.extra.{name}: leave it out: a callback that stops training stops it at once, so give it more "
        "patience."
        for name in ("min_epochs", "min_steps")
    ]
    (text,) = faults(small("callbacks.mine={patience: 3}"))
    assert text.startswith("callbacks.mine: name a class as _target_")
    for group in ("callbacks", "logger.further"):
        (text,) = faults(small(f"{group}.mine={{_target_: 'my_module:Mine'}}"))
        assert (
            text == f"{group}.mine: _target_ takes package.module.Class, with a dot before the class: my_module.Mine."
        )
    (text,) = faults(small("callbacks=early_stopping", "callbacks.early_stopping.monitor=dev/bleuu"))
    assert text == (
        "callbacks.early_stopping.monitor=dev/bleuu: no run of task=translation measures it; choose from dev/bleu, "
        "dev/nll, dev/ppl, train/nll, train/loss, lr. Did you mean 'dev/bleu'?"
    )
    (text,) = faults(small("callbacks.mine={_target_: pytorch_lightning.callbacks.StochasticWeightAveraging}"))
    assert text == (
        "callbacks.mine: StochasticWeightAveraging does not work here: average weights by recipe.ema or "
        "recipe.average instead."
    )
    with pytest.raises(ConfigError, match=r"callbacks.mine: nowhere.Class cannot be created"):
        configured({"mine": {"_target_": "nowhere.Class"}})
    with pytest.raises(ConfigError, match=r"callbacks.mine: builtins.dict is not a Lightning Callback"):
        configured({"mine": {"_target_": "builtins.dict"}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("nobody: 3", "unexpected keyword argument 'nobody'"),
        ("limit_train_batches: 0.001", "0.001 of the `train_dataloader`"),
    ],
)
def test_arguments_that_lightning_refuses_are_a_fault(small: Any, made: Any, argument: str, told: str) -> None:
    config = small(f"trainer.extra={{{argument}}}")
    with pytest.raises(ConfigError, match=f"trainer.extra or callbacks: Lightning refuses them: .*{told}"):
        fit(config, made(config, "run"), Interrupt())


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write a module that can be imported: `module("my_callback", text)`."""

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))

    return write


@pytest.mark.slow
def test_a_state_that_no_checkpoint_can_hold_is_refused_before_the_first_update(
    small: Any, made: Any, module: Callable[[str, str], None]
) -> None:
    module(
        "numpy_callback",
        "import numpy, pytorch_lightning as pl\n"
        "class Best(pl.Callback):\n"
        "    def state_dict(self):\n"
        "        return {'best': numpy.float64(1.0)}\n",
    )
    config = small("+callbacks.mine._target_=numpy_callback.Best", "trainer.log_every=1")
    folder = made(config, "unreadable")
    with pytest.raises(RunFailedError, match=r"no checkpoint can be written: the state of callback Best contains "):
        fit(config, folder, Interrupt())
    assert not folder.measurements.read()


@pytest.mark.slow
def test_the_recorded_rate_is_that_of_the_update_if_a_callback_changes_it(
    small: Any, made: Any, module: Callable[[str, str], None]
) -> None:
    module(
        "halving_callback",
        "from pytorch_lightning import Callback\n"
        "class Fixed(Callback):\n"
        "    def on_train_batch_start(self, trainer, *_):\n"
        "        if trainer.global_step >= 2:\n"
        "            trainer.optimizers[0].param_groups[0]['lr'] = 0.125\n",
    )
    config = small("+callbacks.mine._target_=halving_callback.Fixed", "trainer.max_steps=4", "trainer.log_every=1")
    folder = made(config, "fixed")
    trained = fit(config, folder, Interrupt())
    rates = [line["lr"] for line in folder.measurements.read()]
    group = trained.step.groups[0]
    assert rates == [group.rate(1), group.rate(2), 0.125, 0.125]
