"""Two ranks (gloo, on the CPU): the same losses as one process, exact resume, and no rank that waits forever."""

import itertools
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
import torch
from torch import Tensor

from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.tasks.translation.data.module import TranslationData
from variations.training import checkpoints
from variations.training.finite import Guard, Seen
from variations.training.fit import fit
from variations.training.interrupt import Interrupt

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TRAIN = Path(__file__).parents[2] / "src" / "train.py"
STEPS = 40
CLIP = 0.3
"""Between the smallest and the largest norm of the gradient, so that some updates are clipped."""
EXACT = 1e-6
"""For losses, relative, and for weights: far above what another order of summation changes in double precision, even
where Adam divides rounding errors of a gradient that should be zero by its eps of 1e-9, and far below any update."""
RECIPE = (
    *(f"trainer.max_steps={STEPS}", "trainer.val_every=10", "recipe.batch_tokens=508", "trainer.tokens_per_batch=127"),
    *("model=weighted", "recipe.ema=0.9", f"recipe.clip={CLIP}"),
)
"""Four batches per update: of one process, or two of each rank."""
TWO = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.precision=64-true", "data.workers=1")
ONE = ("trainer.precision=64-true",)
WITHOUT_DROPOUT = ("model.dropout=0", "model.attention_dropout=0")

PATIENT = (
    "trainer.val_bleu=4",
    "callbacks=early_stopping",
    "callbacks.early_stopping.monitor=dev/bleu",
    "callbacks.early_stopping.mode=max",
    "callbacks.early_stopping.patience=99",
)
"""A callback that reads on both ranks what rank 0 alone decodes."""

SPOILING = """
import math, os
import torch
from pytorch_lightning import Callback

class Spoils(Callback):
    def __init__(self, folder, loss, gradient):
        self.folder, self.loss, self.gradient, self.kept = folder, loss, gradient, []

    def on_train_start(self, trainer, step):
        original = step.experiment.losses

        def losses(batch):
            loss, *others = original(batch)
            here = [trainer.global_rank, trainer.global_step]
            if here in self.gradient and loss.requires_grad:
                loss.register_hook(lambda gradient: gradient * math.nan)
            return loss + math.nan if here in self.loss else loss, *others  # its gradient stays finite

        step.experiment.losses = losses
        self.keep(trainer, step)

    def on_train_batch_end(self, trainer, step, *_):
        if trainer.global_step == len(self.kept):
            self.keep(trainer, step)

    def keep(self, trainer, step):
        self.kept.append(torch.nn.utils.parameters_to_vector(step.parameters()).detach())
        torch.save({"pid": os.getpid(), "weights": self.kept}, f"{self.folder}/{trainer.global_rank}.pt")
"""
"""A callback that makes the loss or gradient of [rank, updates before it] NaN, and keeps the weights of each rank."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ddp") / "runs"


@pytest.fixture(scope="module")
def start(runs: Path, overrides: Callable[..., list[str]]) -> Iterator[Start]:
    """Start a command that trains on two ranks; none outlives the tests."""
    started = []

    def make(name: str, *changes: str) -> "subprocess.Popen[str]":
        keys = {change.partition("=")[0] for change in changes}
        words = (word for word in (*RECIPE, *TWO, f"name={name}") if word.partition("=")[0] not in keys)
        command = [sys.executable, str(TRAIN), *overrides(runs, *words, *changes)]
        environment = {**os.environ, "PYTHONPATH": str(runs.parent)}  # where modules of a test are
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
        return started[-1]

    yield make
    for process in started:
        process.kill()


@pytest.fixture(scope="module")
def whole(start: Start, runs: Path) -> RunFolder:
    """An uninterrupted run on two ranks, with dropout."""
    process = start("whole")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "GLOBAL_RANK" not in errors
    return RunFolder(runs / "single" / "whole" / "seed1")


def wait_for_step(folder: RunFolder, step: int, process: "subprocess.Popen[str]") -> None:
    """Wait until a run has written a metrics line for `step`; it must still be running."""
    while not any(line["step"] >= step for line in folder.measurements.read()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def ranks(process: "subprocess.Popen[str]") -> list[int]:
    """Return the process ids of the ranks, in order."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() != f"{forked.NAME}\n"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def last_weights(folder: RunFolder) -> dict[str, Tensor]:
    """The weights in the last checkpoint (`model.…`) and their moving average (`average.…`)."""
    (*_, (step, path)) = checkpoints.full(folder.checkpoints)
    assert step == STEPS
    state = checkpoints.load(path)
    average = {f"average.{name}": value for name, value in state["variations"]["average"]["weights"].items()}
    return average | state["state_dict"]


def test_one_process_with_the_same_updates_gets_the_same_losses_weights_and_moving_average(
    start: Start, runs: Path, overrides: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start("two", *WITHOUT_DROPOUT, *PATIENT)
    config = compose_run(overrides(runs, *RECIPE, *ONE, "name=one", *WITHOUT_DROPOUT))
    data = TranslationData(config)
    data.setup()
    batches = data.sampler.plan(0)
    assert data.accumulate == 4
    assert len(batches) % 4 == 1  # the ranks share the last batch of an epoch, which is an update of its own
    assert len(batches[-1]) % 2 == 1  # unevenly
    norms, skips = [], Guard.skips

    def noted(self: Guard, seen: Seen, skipped: int) -> bool:
        norms.append(float(seen.norm))
        return skips(self, seen, skipped)

    monkeypatch.setattr(Guard, "skips", noted)
    folders = [RunFolder(runs / "single" / name / "seed1") for name in ("one", "two")]
    fit(config, folders[0].create(to_dict(config)), Interrupt())
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert min(norms) < CLIP < max(norms)
    one, two = (folder.measurements.read() for folder in folders)
    assert [line["step"] for line in two] == list(range(1, STEPS + 1))
    for a, b in zip(one, two, strict=True):
        for key in ("epoch", "source_tokens", "target_tokens"):  # FLOPs include a fixed cost per batch
            assert a[key] == b[key]
        for key in {"train/loss", "train/nll", "dev/nll"} & a.keys():
            assert b[key] == pytest.approx(a[key], rel=EXACT)
    weights, others = (last_weights(folder) for folder in folders)
    assert weights.keys() == others.keys() and {key.partition(".")[0] for key in weights} == {"model", "average"}
    for name, value in weights.items():
        torch.testing.assert_close(
            others[name], value, rtol=0, atol=EXACT, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_a_rank_without_a_share_of_the_validation_does_not_wait(
    start: Start, runs: Path, overrides: Callable[..., list[str]]
) -> None:
    few = (
        *("trainer.max_steps=2", "trainer.val_every=1", "trainer.limit_val_batches=1"),
        *("data.max_length=32", "recipe.batch_tokens=64", "trainer.tokens_per_batch=32"),
    )
    process = start("share", *few)
    data = TranslationData(compose_run(overrides(runs, *few)))
    data.setup()
    assert [len(batch) for batch in data.dev_dataloader()] == [1]
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    measured = RunFolder(runs / "single" / "share" / "seed1").measurements.read()
    assert [line["step"] for line in measured if math.isfinite(line["dev/nll"])] == [1, 2]


@pytest.mark.exhaustive
def test_parameters_may_be_unused_where_the_strategy_is_named(start: Start, runs: Path, whole: RunFolder) -> None:
    """Searching for unused parameters changes nothing when there are none."""
    process = start("unused", "trainer.strategy=ddp_find_unused_parameters_true")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    lines = [
        [line["train/loss"] for line in folder.measurements.read()]
        for folder in (whole, RunFolder(runs / "single" / "unused" / "seed1"))
    ]
    assert lines[0] == pytest.approx(lines[1], rel=1e-6)


def test_a_signal_stops_all_ranks_and_the_continued_run_is_the_same(
    start: Start, runs: Path, whole: RunFolder, same_run: Any
) -> None:
    process, folder = start("stopped"), RunFolder(runs / "single" / "stopped" / "seed1")
    wait_for_step(folder, 5, process)
    pids = ranks(process)
    assert len(pids) == 2
    os.kill(pids[1], signal.SIGTERM)  # only one rank is signalled; all must stop at the same update
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 143, errors
    assert folder.state() == "interrupted"
    assert not any(map(alive, pids))
    assert len(folder.measurements.read()) < STEPS

    process = start("stopped")
    wait_for_step(folder, len(folder.measurements.read()) + 1, process)
    process.send_signal(signal.SIGUSR2)  # the command forwards signals
    assert (process.communicate(timeout=100), process.returncode)[1] == 140

    process = start("stopped")
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    same_run(whole, folder)
    result, expected = folder.result(), whole.result()
    assert result is not None and expected is not None
    for key in ("pairs", "source_tokens", "target_tokens", "padded_tokens", "flops", "scores", "loss"):
        assert result[key] == expected[key]


def test_a_rank_that_dies_ends_the_others_and_the_run_can_be_continued(
    start: Start, runs: Path, whole: RunFolder, same_run: Any
) -> None:
    process, folder = start("killed"), RunFolder(runs / "single" / "killed" / "seed1")
    wait_for_step(folder, 12, process)
    pids = ranks(process)
    os.kill(pids[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=150)
    assert process.returncode == 1
    assert "Traceback" not in errors
    status = folder.status()
    assert status is not None and status.state == "failed"
    assert str(status.reason).endswith("failed: one of its processes was ended by SIGKILL")
    assert not any(map(alive, pids))

    process = start("killed")
    wait_for_step(folder, 15, process)
    pids = ranks(process)
    process.kill()  # the command itself dies: its ranks must end too
    process.communicate()
    deadline = time.monotonic() + 30
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))

    process = start("killed")
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    same_run(whole, folder)


@pytest.mark.parametrize(
    ("allowed", "loss", "gradient", "skipped"),
    [(2, [[1, 2]], [[0, 4]], [3, 5]), (1, [[0, 1], [1, 3]], [], [2])],
    ids=["tolerated", "too many"],
)
def test_all_ranks_skip_the_update_or_fail_where_that_of_one_is_not_finite(
    allowed: int, loss: list[list[int]], gradient: list[list[int]], skipped: list[int], start: Start, runs: Path
) -> None:
    (runs.parent / "spoiling.py").write_text(SPOILING)
    name = f"nan{allowed}"
    (kept := runs.parent / name).mkdir()
    process = start(
        name,
        *("trainer.max_steps=7", f"trainer.max_nan_steps={allowed}", "+callbacks.mine._target_=spoiling.Spoils"),
        *(f"+callbacks.mine.folder={kept}", f"+callbacks.mine.loss={loss}", f"+callbacks.mine.gradient={gradient}"),
    )
    _, errors = process.communicate(timeout=100)
    assert "The loss is not finite at step" in errors, errors
    one, other = (torch.load(kept / f"{rank}.pt") for rank in (0, 1))
    assert not alive(one["pid"]) and not alive(other["pid"])
    for a, b in zip(one["weights"], other["weights"], strict=True):
        assert torch.equal(a, b) and a.isfinite().all()
    pairs = enumerate(itertools.pairwise(one["weights"]), start=1)
    assert [step for step, (before, after) in pairs if torch.equal(before, after)] == skipped
    folder = RunFolder(runs / "single" / name / "seed1")
    status, result = folder.status(), folder.result()
    assert status is not None
    if name == "nan2":
        assert (process.returncode, status.state, len(one["weights"])) == (0, "finished", 8), errors
        assert result is not None and result["nan_steps"] == 2
        assert re.search(r"loss is not finite at step 3 \(epoch 0, batch 5, with the training .* \(rank 1\)\)", errors)
        assert (
            "The gradient is not finite at step 5 (epoch 0, batch 9 (rank 0)). The update is skipped (2 of at most 2)."
            in errors
        )
    else:
        assert (process.returncode, status.state, len(one["weights"])) == (1, "failed", 4), errors
        failure = r"rank [01]: The loss is not finite at step 4 \(epoch 0, batch 7, with the training .* \(rank 1\)\)"
        assert re.search(failure + r"\. 1 such updates have been skipped already", str(status.reason))
        assert "Traceback" not in errors


@pytest.mark.parametrize("begun", [False, True])
def test_faulty_data_are_told_once_with_the_exit_code_of_wrong_input_and_leave_no_new_folder(
    begun: bool, runs: Path
) -> None:
    (bad := runs.parent / "bad.txt").write_text("(S (NP (DT The) (NN cat)\n")
    name = f"bad{begun}"
    words = ("task=parsing", f"runs={runs}", f"name={name}", f"data.extra=[{bad}]", "trainer.max_steps=2", *TWO)
    folder = runs / "single" / name / "seed1"
    if begun:
        RunFolder(folder).create(to_dict(compose_run([*words])))
    told = subprocess.run([sys.executable, str(TRAIN), *words], capture_output=True, text=True, check=False)
    assert told.returncode == 2, told.stderr
    assert told.stderr.count("bad.txt, line 1") == 1 and "Traceback" not in told.stderr, told.stderr
    assert RunFolder(folder).state() == "failed" if begun else not folder.parent.exists()
