"""Exact resume: a stopped and resumed run is bit-identical to an uninterrupted one."""

import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from suite import sampled

from variations.configuration.compose import to_dict
from variations.store.ledger import workplace
from variations.store.own_code import refuse_to_continue
from variations.system.errors import Interrupted, UserError
from variations.training import checkpoints
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.step import Step

WEIGHTED = ("model=weighted", "model.dropout=0.2", "branch.freeze_last=2")
CASES = {
    "mid_epoch": (3, ()),
    "last_batch_of_an_epoch": (7, ()),
    "first_batch_of_an_epoch": (8, ()),
    "between_lines_of_metrics": (6, ("trainer.log_every=4",)),
    "accumulation": (3, ("trainer.tokens_per_batch=128",)),
    "accumulation_at_an_epochs_end": (8, ("trainer.tokens_per_batch=128",)),
    "branch_weights": (5, WEIGHTED),
    "frozen_branch_weights": (11, (*WEIGHTED, "trainer.val_every=1")),
    "branch_weights_by_softmax": (5, (*WEIGHTED, "branch.constraint=softmax", "trainer.val_every=2")),
    "random_branch_weights": (5, (*WEIGHTED, "branch.train_mode=random_per_step")),
    "averages_of_checkpoints": (7, ("recipe.average=3", "recipe.average_every=3")),
    "moving_average": (5, ("recipe.ema=0.9",)),
    "clipping": (5, ("recipe.clip=0.5",)),
    "bfloat16": (5, ("trainer.precision=bf16-mixed",)),
    "double_precision": (5, ("trainer.precision=64-true",)),
    "two_workers_mid_epoch": (3, ("data.workers=2",)),
    "two_workers_across_epochs": (7, ("data.workers=2", "trainer.tokens_per_batch=256")),
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the network's inputs: epoch, pairs and random state."""
    import torch

    batches: list[Any] = []
    step = Step.training_step

    def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
        place = (self.current_epoch, batch_idx, batch.index.tolist())
        step(self, batch, batch_idx)
        batches.append((*place, torch.initial_seed()))

    monkeypatch.setattr(Step, "training_step", training_step)
    return batches


EXHAUSTIVE = {"mid_epoch", "first_batch_of_an_epoch", "accumulation", "branch_weights", "two_workers_mid_epoch"}
"""Cases that `make torture` runs: others contain what they test."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.exhaustive] if case in EXHAUSTIVE else []) for case in CASES]
)
def test_stopped_and_continued_is_the_same_run(
    case: str, small: Any, made: Any, stopped_at: Any, same_run: Any, seen: list[Any]
) -> None:
    step, changes = CASES[case]
    config = small(*changes)
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    shown = seen.copy()
    seen.clear()

    with pytest.raises(Interrupted, match=f"at step {step};"):
        fit(config, parts, stopped_at(step))
    assert checkpoints.full(parts.checkpoints)[-1][0] == step
    assert fit(config, parts, Interrupt()).steps == 12

    assert seen == shown
    assert {epoch for epoch, *_ in seen} == {0, 1}
    same_run(whole, parts)


@pytest.mark.parametrize(
    "changes",
    [
        ("trainer.tokens_per_batch=256", "data.workers=1", *WEIGHTED),
        pytest.param((), marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.slow
def test_a_run_stopped_after_every_update_is_the_same_run(
    changes: tuple[str, ...], small: Any, made: Any, stopped_at: Any, same_run: Any
) -> None:
    config = small(*changes)
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    for step in range(1, 12):
        with pytest.raises(Interrupted, match=f"at step {step};"):
            fit(config, parts, stopped_at(step))
    fit(config, parts, Interrupt())
    same_run(whole, parts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accumulated", "changes"),
    [
        pytest.param(2, ("trainer.tokens_per_batch=256", "data.workers=1"), id="2"),
        pytest.param(1, (), id="1", marks=pytest.mark.exhaustive),
    ],
)
def test_a_run_stopped_at_the_ends_of_two_epochs_is_the_same_run(
    accumulated: int, changes: tuple[str, ...], small: Any, made: Any, stopped_at: Any, same_run: Any, seen: list[Any]
) -> None:
    """Lightning then counts one epoch less, by which the second one would be read again."""
    config = small("trainer.max_steps=24", *changes)
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    shown = seen.copy()
    seen.clear()
    batches = sum(epoch == 0 for epoch, *_ in shown)
    updates = -(-batches // accumulated)  # of an epoch
    for step in (updates, 2 * updates):
        with pytest.raises(Interrupted, match=f"at step {step};"):
            fit(config, parts, stopped_at(step))
    fit(config, parts, Interrupt())
    assert seen == shown
    same_run(whole, parts)


@pytest.mark.slow
def test_a_run_killed_between_checkpoints_repeats_what_was_lost(
    small: Any, made: Any, same_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small("recipe.average=2", "recipe.average_every=3")
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())

    class Killed(BaseException):
        pass

    def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
        if self.global_step == 10:
            raise Killed
        return step(self, batch, batch_idx)

    step = Step.training_step
    with monkeypatch.context() as patch:
        patch.setattr(Step, "training_step", training_step)
        with pytest.raises(Killed):
            fit(config, parts, Interrupt())
    with parts.measurements.path.open("a") as file:
        file.write('{"step": 11, "tr')  # a line cut off by the kill
    assert [line["step"] for line in parts.measurements.read()] == list(range(1, 11))
    assert [step for step, _ in checkpoints.full(parts.checkpoints)] == [4, 8]
    assert [step for step, _ in checkpoints.weights(parts.checkpoints)] == [9]

    fit(config, parts, Interrupt())
    assert [line["step"] for line in parts.measurements.read()] == list(range(1, 13))
    same_run(whole, parts)


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_starts_afresh(
    small: Any, made: Any, same_run: Any, tmp_path: Path
) -> None:
    config = small()
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    parts.measurements.append({"step": 1, "train/loss": 99.0})
    checkpoints.save(parts.checkpoints / "best1.pt", {"model": {}, "step": 1})
    fit(config, parts, Interrupt())
    same_run(whole, parts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ("recipe.lr=1e-6", {}),
        ("recipe.beta1=0.5", {"betas": (0.5, 0.98)}),
        ("recipe.weight_decay=0.1", {"weight_decay": 0.1}),
    ],
)
def test_an_allowed_change_of_the_optimiser_holds_from_the_next_update_on(
    change: str, setting: dict[str, Any], small: Any, made: Any, stopped_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small("recipe.beta2=0.98")
    folder = made(config, "run")
    with pytest.raises(Interrupted):
        fit(config, folder, stopped_at(5))
    changed = small("recipe.beta2=0.98", change, f"resume.allow=[{change.partition('=')[0]}]")
    folder.create(to_dict(changed))
    seen: list[dict[str, Any]] = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *more: Any, **named: Any) -> Any:
        seen.append({key: value for key, value in self.param_groups[0].items() if key != "params"})
        return step(self, *more, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    trained = fit(changed, folder, Interrupt())
    assert len(seen) == 12 - 5
    assert [group["lr"] for group in seen] == [trained.step.groups[0].rate(number) for number in range(6, 13)]
    assert all({key: group[key] for key in setting} == setting for group in seen)


KEPT = """
import torch
from pytorch_lightning import Callback

class Growing(torch.optim.SGD):
    \"\"\"Keeps its state in its parameter groups, as Prodigy and Schedule-Free do.\"\"\"

    def __init__(self, groups, **settings):
        super().__init__(groups, **settings)
        for group in self.param_groups:
            group["grown"] = 1.0

    def step(self, closure=None):
        for group in self.param_groups:
            group["grown"] *= 1.5
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad, alpha=-group["lr"] * group["grown"])

class Exact(torch.optim.Optimizer):
    \"\"\"Sums gradients in float64.\"\"\"

    def __init__(self, groups, lr, weight_decay=0):
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["sum"] = torch.zeros_like(parameter, dtype=torch.float64)
                state["sum"].mul_(0.9).add_(parameter.grad.double())
                parameter.sub_((group["lr"] * state["sum"]).to(parameter.dtype))

class Tenth(Callback):
    def on_train_batch_end(self, trainer, *_):
        for group in trainer.optimizers[0].param_groups:
            group["lr"] *= 0.1
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "also"),
    [
        ("recipe.optimizer=kept:Growing", ()),
        ("recipe.optimizer=kept:Exact", ()),
        ("+callbacks.mine._target_=kept.Tenth", ("recipe.weight_decay=0.1",)),
    ],
)
def test_what_training_itself_changes_of_the_optimisers_settings_is_continued(
    change: str,
    also: tuple[str, ...],
    small: Any,
    made: Any,
    stopped_at: Any,
    same_run: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "kept.py").write_text(KEPT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config = small(change, *also)
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    with pytest.raises(Interrupted):
        fit(config, parts, stopped_at(5))
    fit(config, parts, Interrupt())
    same_run(whole, parts)


DRAWING = """
import random

import numpy as np
import torch
from pytorch_lightning import Callback

class Noise(Callback):
    def _draw(self, module):
        noise = 1e-3 * (random.random() + np.random.rand() + torch.rand(()).item())
        with torch.no_grad():
            for parameter in module.model.parameters():
                parameter.add_(noise)

    def on_train_epoch_start(self, trainer, module):
        self._draw(module)

    def on_train_batch_start(self, trainer, module, *_):
        self._draw(module)

    def on_train_batch_end(self, trainer, module, *_):
        self._draw(module)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stop", [5, 7])
def test_what_callbacks_draw_from_any_generator_is_continued(
    stop: int, small: Any, made: Any, stopped_at: Any, same_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last update of an epoch, the 7th, a run with callbacks stops one update later."""
    (tmp_path / "drawing.py").write_text(DRAWING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config = small("+callbacks.mine._target_=drawing.Noise")
    whole, parts = made(config, "whole"), made(config, "parts")
    fit(config, whole, Interrupt())
    with pytest.raises(Interrupted):
        fit(config, parts, stopped_at(stop))
    random.seed(99)
    np.random.seed(99)
    fit(config, parts, Interrupt())
    same_run(whole, parts)


@pytest.mark.slow
def test_another_optimiser_is_refused_in_mid_training(small: Any, made: Any, stopped_at: Any) -> None:
    config = small()
    folder = made(config, "run")
    with pytest.raises(Interrupted):
        fit(config, folder, stopped_at(5))
    with pytest.raises(UserError, match=r"recipe\.optimizer: adam → sgd"):
        folder.create(to_dict(small("recipe.optimizer=sgd", "resume.allow=[recipe]")))


@pytest.mark.slow
def test_totals_are_exact_through_a_resume_and_stand_in_the_result(small: Any, stopped_at: Any) -> None:
    from variations.commands import run
    from variations.configuration.compose import to_dict
    from variations.store import naming
    from variations.store.ledger import RunFolder

    whole, parts = small("name=whole"), small("name=parts")
    result = run.run(RunFolder(naming.run_folder(whole)).create(to_dict(whole)).path)
    folder = RunFolder(naming.run_folder(parts)).create(to_dict(parts))
    with pytest.raises(Interrupted):
        fit(parts, folder, stopped_at(5))
    before = checkpoints.load(checkpoints.full(folder.checkpoints)[-1][1])["variations"]["budget"]["seconds"]
    continued = run.run(folder.path)
    keys = ("pairs", "source_tokens", "target_tokens", "padded_tokens", "flops", "steps", "nan_steps", "oom_splits")
    assert {key: continued[key] for key in keys} == {key: result[key] for key in keys}
    # 12 updates are one epoch of 203 pairs and five batches of the next one.
    assert result["steps"] == 12 and 203 < result["pairs"] < 406 and result["dropped_pairs"] == 0
    assert result["padded_tokens"] > result["source_tokens"] + result["target_tokens"]
    assert continued["seconds"] > before > 0
    assert continued["scores"] == result["scores"] and continued["loss"] == result["loss"]
    assert folder.status().state == "finished"  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_change_is_at_the_step_from_which_a_run_with_a_damaged_checkpoint_continues(
    small: Any, stopped_at: Any
) -> None:
    from variations.commands import run
    from variations.configuration.compose import to_dict
    from variations.store import conflicts, naming
    from variations.store.atomic import write_yaml
    from variations.store.ledger import RunFolder

    folder = RunFolder(naming.run_folder(small())).create(to_dict(small()))
    with pytest.raises(Interrupted):
        fit(small(), folder, stopped_at(5))
    lines = ["recipe.norm 7.0 → 9.0 at step 5"]
    write_yaml(folder.path / "config.yaml", conflicts.with_history(folder.config(), lines))
    elsewhere = folder.checkpoints.rename(folder.path.parent / "elsewhere")
    with pytest.raises(UserError, match="put them back to continue the run"):
        run.run(folder.path)
    assert conflicts.history(folder.config()) == lines
    elsewhere.rename(folder.checkpoints)
    (folder.checkpoints / "step5.ckpt").write_bytes(b"damaged")
    assert run.run(folder.path)["changed"] == ["recipe.norm 7.0 → 9.0 at step 4"]


@pytest.mark.slow
def test_a_run_stopped_after_training_only_tests(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from variations.commands import run
    from variations.configuration.compose import to_dict
    from variations.store import naming
    from variations.store.ledger import RunFolder
    from variations.training import outcome as module

    config = small()
    folder = RunFolder(naming.run_folder(config)).create(to_dict(config))

    def interrupted(*_: Any) -> Any:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(module, "outcome", interrupted)
        with pytest.raises(Interrupted):
            run.run(folder.path)
    assert folder.state() == "interrupted"
    written = folder.measurements.path.read_bytes()

    def never(*_: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr(Step, "training_step", never)
    result = run.run(folder.path)
    assert (result["steps"], result["target_tokens"]) == (12, folder.measurements.read()[-1]["target_tokens"])
    assert folder.measurements.path.read_bytes() == written


@pytest.mark.slow
@pytest.mark.parametrize("result", sampled(["{", None], 2))
def test_a_finished_run_whose_result_is_lost_is_tested_again(
    small: Any, monkeypatch: pytest.MonkeyPatch, result: str | None
) -> None:
    from variations.commands import run
    from variations.store.ledger import RunFolder

    folder = RunFolder(run.execute(small()))
    before, written = folder.result(), folder.measurements.path.read_bytes()
    path = folder.path / "result.json"
    path.unlink() if result is None else path.write_text(result)

    def never(*_: Any) -> Any:
        raise AssertionError("trained again")

    with monkeypatch.context() as patch:
        patch.setattr(Step, "training_step", never)
        assert run.execute(small()) == folder.path
    after = folder.result()
    assert after is not None and before is not None
    assert {key: after[key] for key in ("scores", "loss", "steps", "flops")} == {
        key: before[key] for key in ("scores", "loss", "steps", "flops")
    }
    assert folder.measurements.path.read_bytes() == written and folder.state() == "finished"


@pytest.mark.slow
def test_a_run_that_another_process_has_finished_meanwhile_is_left_alone(small: Any) -> None:
    """As after waiting for its lease: the other process has already tested it."""
    from variations.commands import run
    from variations.store.ledger import RunFolder

    folder = RunFolder(run.execute(small()))
    written = (folder.path / "result.json").stat()
    assert run.run(folder.path) == folder.result()
    assert (folder.path / "result.json").stat().st_mtime_ns == written.st_mtime_ns


@pytest.mark.slow
def test_a_configuration_that_another_command_has_replaced_is_not_trained(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands with one name may both find no folder, and both write its configuration."""
    from variations.commands import run
    from variations.store.atomic import write_yaml
    from variations.store.ledger import RunFolder

    create = RunFolder.create

    def replaced(self: Any, config: Any) -> Any:
        create(self, config)
        write_yaml(self.path / "config.yaml", {**config, "seed": 1, "recipe": {**config["recipe"], "lr": 0.125}})
        return self

    monkeypatch.setattr(RunFolder, "create", replaced)
    with pytest.raises(UserError, match=r"(?s)contains a run of another configuration.*recipe.lr: 0.125 → "):
        run.execute(small())


@pytest.mark.slow
def test_metrics_without_a_checkpoint_are_begun_anew_and_that_is_said(small: Any, made: Any, caplog: Any) -> None:
    import shutil

    config = small("trainer.max_steps=4")
    folder = made(config, "run")
    fit(config, folder, Interrupt())
    lines = folder.measurements.read()
    assert not caplog.text
    shutil.rmtree(folder.checkpoints)
    fit(config, folder, Interrupt())
    assert "has measurements up to step 4 but no checkpoint, so it is trained from the start" in caplog.text
    assert [line["train/loss"] for line in folder.measurements.read()] == [line["train/loss"] for line in lines]


@pytest.mark.slow
def test_a_run_whose_checkpoints_are_gone_is_refused_and_force_makes_a_new_one(small: Any) -> None:
    from variations.commands import run
    from variations.store.ledger import RunFolder

    folder = RunFolder(run.execute(small("trainer.max_steps=4")))
    status = folder.status()
    assert status is not None and status.checkpoint == 4
    kept = (folder.path / "result.json").read_bytes()
    (folder.path / "result.json").unlink()
    elsewhere = folder.checkpoints.rename(folder.path.parent / "elsewhere")
    written = folder.measurements.path.read_bytes()
    with pytest.raises(UserError) as refused:
        run.execute(small("trainer.max_steps=4"))
    assert str(refused.value) == (
        f"{folder.path} was trained to at least step 4, but its checkpoints are missing from {folder.checkpoints}: put "
        "them back to continue the run, or train it again as a new attempt (force=true)."
    )
    stored = (folder.path / "status.json").read_bytes()
    (folder.path / "status.json").unlink()
    (folder.path / "result.json").write_bytes(kept)
    for _ in range(2):
        with pytest.raises(UserError, match="was trained to at least step 4, but its checkpoints are missing"):
            run.execute(small("trainer.max_steps=4"))
        folder.set_status("failed", "as a sweep notes")
    assert (folder.path / "result.json").read_bytes() == kept
    (folder.path / "result.json").unlink()
    (folder.path / "status.json").write_bytes(stored)
    assert folder.measurements.path.read_bytes() == written
    again = RunFolder(run.execute(small("trainer.max_steps=4", "force=true")))
    assert again.path == folder.path.with_name("seed1-attempt2") and again.finished()
    assert run.execute(small("trainer.max_steps=4")) == again.path
    elsewhere.rename(folder.checkpoints)
    run.run(folder.path)
    assert folder.finished()


@pytest.mark.slow
def test_a_copy_that_is_tested_again_is_still_a_copy(small: Any) -> None:
    from variations.commands import run
    from variations.store.ledger import RunFolder
    from variations.sweeping import copies

    source = RunFolder(run.execute(small("trainer.max_steps=4", "name=source")))
    copied = RunFolder(source.path.parents[1] / "copy/seed1").create(source.config())
    copies.copy(source, copied)
    (copied.path / "result.json").unlink()
    run.run(copied.path)
    result, trained = copied.result(), source.result()
    assert result is not None and trained is not None
    assert result["copied"] == "single/source/seed1" and "copied" not in trained
    assert result["scores"] == trained["scores"]


@pytest.mark.slow
def test_a_copy_that_was_cut_off_counts_as_one_if_its_checkpoints_were_there(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep without `sweep.shares` then finishes it: nothing was trained twice, so its hours do not count twice."""
    from variations.commands import run
    from variations.store.atomic import replaced
    from variations.store.ledger import RunFolder
    from variations.sweeping import copies

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> Any:
        raise Killed

    def killed_at_a_checkpoint(path: Path) -> Any:
        return killed() if path.name.startswith("step") else replaced(path)

    source = RunFolder(run.execute(small("trainer.max_steps=4", "name=source")))
    early, late = (RunFolder(source.path.parents[1] / name / "seed1").create(source.config()) for name in "ab")
    with pytest.raises(Killed), monkeypatch.context() as patched:
        patched.setattr(copies, "replaced", killed_at_a_checkpoint)
        copies.copy(source, early)
    with pytest.raises(Killed), monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_result", killed)
        copies.copy(source, late)
    for folder, copied in ((early, None), (late, "single/source/seed1")):
        assert (folder.state(), copies.begun(folder)) == ("interrupted", False)
        result, trained = run.run(folder.path), source.result()
        assert trained is not None and result["scores"] == trained["scores"]
        assert (result.get("copied"), folder.copied_from()) == (copied, copied)
        assert copies.begun(folder)


@pytest.mark.slow
def test_a_changed_configuration_is_refused_with_the_list_of_differences(small: Any, stopped_at: Any) -> None:
    from variations.commands import run
    from variations.configuration.compose import to_dict
    from variations.store import naming
    from variations.store.ledger import RunFolder

    config = small()
    folder = RunFolder(naming.run_folder(config)).create(to_dict(config))
    with pytest.raises(Interrupted):
        fit(config, folder, stopped_at(5))

    changed = ("recipe.lr=2.0", "trainer.max_steps=13")
    with pytest.raises(UserError) as refused:
        run.execute(small(*changed))
    assert "recipe.lr: 0.5 → 2.0" in str(refused.value)
    assert "trainer.max_steps: 12 → 13" in str(refused.value)
    assert "resume.allow=[recipe.lr,trainer.max_steps]" in str(refused.value)
    with pytest.raises(UserError, match=r"recipe\.lr: 0\.5 → 2\.0"):
        run.execute(small(*changed, "resume.allow=[trainer.max_steps]"))

    run.execute(small("trainer.max_steps=13", "resume.allow=[trainer.max_steps]"))
    assert [line["step"] for line in folder.measurements.read()] == list(range(1, 14))
    assert folder.config()["trainer"]["max_steps"] == 13
    assert (folder.result() or {})["changed"] == ["trainer.max_steps 12 → 13 at step 5"]
    assert (folder.path / "config-1.yaml").exists()


@pytest.mark.slow
def test_a_run_shortened_to_where_it_was_interrupted_is_complete(small: Any, made: Any, stopped_at: Any) -> None:
    folder = made(small(), "run")
    with pytest.raises(Interrupted):
        fit(small(), folder, stopped_at(5))
    allowed = "resume.allow=[trainer.max_steps,branch.freeze_last]"
    trained = fit(small("trainer.max_steps=5", allowed), folder, Interrupt())
    assert (trained.steps, trained.stopped) == (5, None)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("64-true", "32-true"), ("32-true", "64-true")])
def test_a_run_continues_in_another_precision_if_that_is_allowed(
    before: str, after: str, small: Any, made: Any, stopped_at: Any
) -> None:
    """The optimiser's state takes the new type of the weights."""
    folder = made(small(), "run")
    with pytest.raises(Interrupted):
        fit(small(f"trainer.precision={before}"), folder, stopped_at(5))
    changed = small(f"trainer.precision={after}", "resume.allow=[trainer.precision]")
    folder.create(to_dict(changed))
    trained = fit(changed, folder, Interrupt())
    assert trained.steps == 12
    (state, *_) = trained.step.optimizers().state.values()
    assert state["exp_avg"].dtype == (torch.float64 if after == "64-true" else torch.float32)


@pytest.mark.slow
def test_other_batches_cannot_be_continued(small: Any, made: Any, stopped_at: Any) -> None:
    folder = made(small(), "run")
    with pytest.raises(Interrupted):
        fit(small(), folder, stopped_at(5))
    written = r"written with 1 device\(s\), 1 batch\(es\) per device and update, 7 per device and epoch, now there are"
    with pytest.raises(UserError, match=rf"{written} .* 4 batch"):
        fit(small("trainer.tokens_per_batch=128", "resume.allow=[trainer]"), folder, Interrupt())
    with pytest.raises(UserError, match=rf"{written} .* 4 per device and epoch"):
        fit(small("recipe.batch_tokens=1024", "resume.allow=[recipe]"), folder, Interrupt())
    with pytest.raises(UserError, match=r"does not fit the network of the changed configuration"):
        fit(small("model.d_ff=64", "resume.allow=[model]"), folder, Interrupt())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            "model.dropout=0.3",
            r"step\d+\.ckpt is the checkpoint of another run \(model\.dropout 0\.3 there, 0\.0 here\)",
        ),
        ("seed=2", r"step\d+\.ckpt is the checkpoint of another run \(seed 2 there, 1 here\): restore this run's own"),
    ],
)
def test_checkpoints_of_another_run_are_not_continued(
    changes: str, said: str, small: Any, made: Any, stopped_at: Any
) -> None:
    folder, other = made(small(), "run"), made(small(changes), "other")
    for config, each in ((small(), folder), (small(changes), other)):
        with pytest.raises(Interrupted):
            fit(config, each, stopped_at(5))
    for path in other.checkpoints.iterdir():
        shutil.copy(path, folder.checkpoints)
    with pytest.raises(UserError, match=said):
        fit(small(), folder, Interrupt())


@pytest.mark.slow
@pytest.mark.parametrize("lost", sampled(["cut", "missing", "zeros", "another run's"], 3))
def test_a_run_does_not_go_on_over_lost_measurements(lost: str, small: Any, made: Any, stopped_at: Any) -> None:
    folder = made(small(), "run")
    with pytest.raises(Interrupted):
        fit(small(), folder, stopped_at(5))
    data = folder.measurements.path.read_bytes()
    changed = {"cut": data[: len(data) // 2], "zeros": b"\0" * len(data), "another run's": data.replace(b"1", b"2")}
    folder.measurements.path.unlink()
    if lost != "missing":
        folder.measurements.path.write_bytes(changed[lost])
    with pytest.raises(UserError, match=r"metrics\.jsonl(, line 1:| lacks measurements that this run had at its last)"):
        fit(small(), folder, Interrupt())
    with pytest.raises(UserError, match=r"metrics\.jsonl lacks measurements .* as a new attempt \(force=true\)"):
        refuse_to_continue(small(), folder)
    assert workplace(folder.path, small("force=true")).name == "seed1-attempt2"
    folder.measurements.path.write_bytes(data)
    fit(small(), folder, Interrupt())
    assert [line["step"] for line in folder.measurements.read()] == sorted(
        {line["step"] for line in folder.measurements.read()}
    )


@pytest.mark.slow
def test_time_used_up_is_not_granted_again(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from variations.training.loop import Loop

    config = small("trainer.max_minutes=1")
    folder = made(config, "run")
    monkeypatch.setattr(Loop, "_overtime", lambda self, task: task.global_step >= 5)
    assert (fit(config, folder, Interrupt()).steps, fit(config, folder, Interrupt()).steps) == (5, 5)
    assert [line["step"] for line in folder.measurements.read()] == [1, 2, 3, 4, 5]
    assert fit(config, folder, Interrupt()).stopped == "max_minutes"


@pytest.mark.slow
def test_checkpoints_come_at_intervals_of_time(small: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from variations.training import loop

    config = small("trainer.checkpoint_minutes=2", "trainer.checkpoint_every=100")
    seconds, saved = [0.0], []
    step, save = Step.training_step, loop.Loop._save_full

    def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
        seconds[0] += 50
        return step(self, batch, batch_idx)

    def save_full(self: loop.Loop, trainer: Any, number: int) -> None:
        saved.append(number)
        save(self, trainer, number)

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    monkeypatch.setattr(Step, "training_step", training_step)
    monkeypatch.setattr(loop.Loop, "_save_full", save_full)
    fit(config, made(config, "run"), Interrupt())
    assert saved == [3, 6, 9, 12]
