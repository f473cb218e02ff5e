"""Two ranks (gloo, on the CPU): the same losses as one process, exact resume, and no rank that waits forever."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.tasks.translation.data.module import TranslationData
from variations.training.fit import fit
from variations.training.interrupt import Interrupt

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
TRAIN = Path(__file__).parents[2] / "src" / "train.py"
STEPS = 40
RECIPE = (f"trainer.max_steps={STEPS}", "trainer.val_every=10", "recipe.batch_tokens=500", "model=weighted")
TWO = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.precision=32-true", "data.workers=0")
ONE = "trainer.tokens_per_batch=250"

PATIENT = (
    "trainer.val_bleu=4",
    "callbacks=early_stopping",
    "callbacks.early_stopping.monitor=dev/bleu",
    "callbacks.early_stopping.mode=max",
    "callbacks.early_stopping.patience=99",
)
"""A callback that reads on both ranks what rank 0 alone decodes."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ddp") / "runs"


@pytest.fixture(scope="module")
def start(runs: Path, overrides: Callable[..., list[str]]) -> Start:
    """Start a command that trains on two ranks."""

    def make(name: str, *changes: str) -> "subprocess.Popen[str]":
        words = overrides(runs, *RECIPE, *TWO, f"name={name}", *changes)
        command = [sys.executable, str(TRAIN), *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return make


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


def test_losses_are_those_of_one_process_with_the_same_global_batch(
    start: Start, runs: Path, overrides: Callable[..., list[str]]
) -> None:
    process = start("two", "model.dropout=0", "model.attention_dropout=0", *PATIENT)
    config = compose_run(overrides(runs, *RECIPE, ONE, "name=one", "model.dropout=0", "model.attention_dropout=0"))
    data = TranslationData(config)
    data.setup()
    batches = data.sampler.plan(0)
    assert len(batches) % 2 == 1  # the ranks share the last batch of an epoch
    assert len(batches[-1]) % 2 == 1  # unevenly
    folder = RunFolder(runs / "single" / "one" / "seed1").create(to_dict(config))
    fit(config, folder, Interrupt())
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    one, two = folder.measurements.read(), RunFolder(runs / "single" / "two" / "seed1").measurements.read()
    assert [line["step"] for line in two] == list(range(1, STEPS + 1))
    for a, b in zip(one, two, strict=True):
        for key in ("epoch", "source_tokens", "target_tokens"):  # FLOPs include a fixed cost per batch
            assert a[key] == b[key]
        for key in {"train/loss", "train/nll", "dev/nll"} & a.keys():
            assert b[key] == pytest.approx(a[key], rel=1e-6)


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
