"""Signals: the update in progress is finished and saved, and the exit code identifies the signal."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from variations.commands import run
from variations.configuration.compose import to_dict
from variations.store import naming
from variations.store.ledger import RunFolder
from variations.system.errors import ExitCode, Interrupted
from variations.training import checkpoints
from variations.training.interrupt import Interrupt
from variations.training.step import Step

CODES = {signal.SIGINT: 130, signal.SIGUSR2: 140, signal.SIGTERM: 143}
TRAIN = Path(__file__).parents[2] / "src" / "train.py"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Check that a test leaves this process's signal handlers unchanged."""
    before = {number: signal.getsignal(number) for number in CODES}
    yield
    after = {number: signal.getsignal(number) for number in CODES}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Send signals to this process during the update after `step` updates."""

    def make(step: int, *numbers: signal.Signals) -> None:
        original = Step.training_step

        def training_step(self: Step, batch: Any, batch_idx: int) -> Any:
            if self.global_step == step:
                for number in numbers:
                    os.kill(os.getpid(), number)
            return original(self, batch, batch_idx)

        monkeypatch.setattr(Step, "training_step", training_step)

    return make


@pytest.fixture
def folder(small: Any) -> RunFolder:
    config = small()
    return RunFolder(naming.run_folder(config)).create(to_dict(config))


def main(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["run", str(folder.path)])
    return run.main()


@pytest.mark.slow
@pytest.mark.parametrize("number", CODES)
def test_a_signal_saves_at_the_end_of_the_update(
    number: signal.Signals, folder: RunFolder, signalled: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    signalled(5, number)
    assert main(folder, monkeypatch) == CODES[number] == ExitCode(128 + number)
    assert "Stopped at step 6; the same command continues from there." in capsys.readouterr().err
    status = folder.status()
    assert status is not None and (status.state, status.step) == ("interrupted", 6)
    assert checkpoints.full(folder.checkpoints)[-1][0] == 6


@pytest.mark.slow
def test_the_last_update_is_finished_and_the_test_left_to_the_next_command(
    folder: RunFolder, signalled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled(11, signal.SIGTERM)
    assert main(folder, monkeypatch) == 143
    assert (checkpoints.full(folder.checkpoints)[-1][0], folder.result()) == (12, None)
    assert main(folder, monkeypatch) == 0
    assert folder.state() == "finished"


@pytest.mark.slow
def test_ctrl_c_twice_stops_at_once(folder: RunFolder, signalled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled(5, signal.SIGINT, signal.SIGINT)
    assert main(folder, monkeypatch) == 130
    assert folder.state() == "interrupted"
    assert checkpoints.full(folder.checkpoints)[-1][0] == 4


@pytest.mark.slow
def test_further_signals_of_a_cluster_do_not_disturb_the_saving(
    folder: RunFolder, signalled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled(5, signal.SIGUSR2, signal.SIGTERM, signal.SIGTERM)
    assert main(folder, monkeypatch) == 140
    assert checkpoints.full(folder.checkpoints)[-1][0] == 6


@pytest.mark.slow
@pytest.mark.parametrize("number", CODES)
def test_outside_the_updates_a_signal_stops_at_once(
    number: signal.Signals, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from variations.tasks.translation.experiment import TranslationExperiment

    def killed(*_: Any) -> None:
        os.kill(os.getpid(), number)
        raise AssertionError("went on")

    monkeypatch.setattr(TranslationExperiment, "test", killed)
    assert main(folder, monkeypatch) == CODES[number]
    assert folder.state() == "interrupted"


def test_a_loader_process_leaves_signals_to_the_run() -> None:
    with Interrupt() as interrupt:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGINT)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert interrupt.received is None
        with pytest.raises(Interrupted) as stop:
            os.kill(os.getpid(), signal.SIGUSR2)
        assert stop.value.exit_code == 140


@pytest.mark.slow
def test_the_command_line_ends_with_the_signals_code_and_continues(
    overrides: Callable[..., list[str]], tmp_path: Path
) -> None:
    words = overrides(tmp_path / "runs", "trainer.max_steps=400", "trainer.val_every=200", "data.workers=1")
    command = [sys.executable, str(TRAIN), *words]
    folder = RunFolder(tmp_path / "runs" / "single" / "tiny" / "seed1")
    # Ctrl-C on a terminal also reaches the loader's process, so signal the whole process group.
    for number, minimum in ((signal.SIGINT, 3), (signal.SIGTERM, 10)):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        while not any(line["step"] >= minimum for line in folder.measurements.read()):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == CODES[number], errors
        assert "Traceback" not in errors
        assert "To continue, run the same command again" in errors
        step = folder.measurements.read()[-1]["step"]
        assert checkpoints.full(folder.checkpoints)[-1][0] == step < 400
    assert [line["step"] for line in folder.measurements.read()] == list(range(1, step + 1))


def test_the_same_signal_again_does_not_break_off_what_the_first_has_begun() -> None:
    with Interrupt() as interrupt:
        with pytest.raises(Interrupted) as stopped:
            os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR2)  # Slurm sends it to a run and to its supervisor, which forwards it
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.received == signal.SIGUSR2
    assert stopped.value.exit_code == ExitCode.PREEMPTED


@pytest.mark.parametrize("number", CODES)
def test_a_signal_during_imports_stops_the_run_when_they_are_done(number: signal.Signals) -> None:
    """An exception inside a compiled module that is being initialised ends the whole process."""
    done = []
    with Interrupt() as interrupt, pytest.raises(Interrupted), interrupt.postponed():
        os.kill(os.getpid(), number)
        done.append(True)
    assert done == [True] and interrupt.received == number
    with Interrupt() as interrupt:
        with interrupt.postponed():
            done.append(True)
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), number)
