"""The processes of a data-parallel run: whose failure ends the others, and what is told of it."""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from variations.commands import run
from variations.configuration.compose import compose_run
from variations.store.run_folder import RunFolder
from variations.system import processes
from variations.system.errors import ExitCode, Interrupted, RunFailedError, UserError
from variations.tasks.translation.config import TranslationConfig
from variations.training.fit import make_trainer
from variations.training.interrupt import Interrupt
from variations.training.loop import Loop

DEAF = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
Process = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def process() -> Process:
    return lambda code: subprocess.Popen([sys.executable, "-c", code])


@pytest.mark.slow
def test_the_failure_of_any_rank_ends_the_others(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    ranks = [process("import time; time.sleep(60)"), process("raise SystemExit(3)")]
    began = time.monotonic()
    try:
        assert processes._watch(ranks, []) == 3
    finally:
        ranks[0].kill()
        ranks[0].wait()
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_a_rank_that_a_signal_ends_before_it_can_answer_is_interrupted(process: Process) -> None:
    """Until its handlers are set, a process ends by the signal itself."""
    ranks = [process("import time; time.sleep(60)")]
    with processes._passed_on(ranks) as received:
        signal.raise_signal(signal.SIGTERM)
        assert processes._watch(ranks, received) == 128 + signal.SIGTERM
    killed = process("import time; time.sleep(60)")
    killed.terminate()  # by somebody else
    assert processes._watch([killed], []) == -signal.SIGTERM


@pytest.mark.slow
def test_a_signal_while_a_rank_is_started_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    popen = subprocess.Popen

    def started(command: list[str], **named: Any) -> "subprocess.Popen[bytes]":
        signal.raise_signal(signal.SIGTERM)
        return popen([sys.executable, "-c", "import time; time.sleep(5)"], start_new_session=True)

    monkeypatch.setattr(subprocess, "Popen", started)
    assert processes.run_ranks(tmp_path, 1, 1, "0") == 128 + signal.SIGTERM


def test_processes_that_do_not_follow_a_second_ctrl_c_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.3)
    deaf = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    try:
        assert deaf.stdout.readline() == b"ready\n"
        with processes._passed_on([deaf]) as received:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            begun = time.monotonic()
            assert processes._watch([deaf], received) == 130
        assert 0.3 <= time.monotonic() - begun < 30
        assert deaf.poll() is None  # `run_ranks` ends it
    finally:
        deaf.kill()
        deaf.wait()


@pytest.mark.parametrize(("code", "outlives"), [(0, True), (3, False)])
def test_a_rank_that_failed_leaves_no_process_behind(code: int, outlives: bool) -> None:
    """What a rank that ended well has started may still be at work, such as a logger."""
    child = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {DEAF!r}]).pid, flush=True)"
    line = [sys.executable, "-c", f"{child}; sys.exit({code})"]
    rank = subprocess.Popen(line, stdout=subprocess.PIPE, start_new_session=True)
    assert rank.stdout is not None
    left = int(rank.stdout.readline())
    assert rank.stdout.readline() == b"ready\n"
    rank.wait()
    processes._end(rank)
    closed, _, _ = select.select([rank.stdout], [], [], 0.5 if outlives else 30)  # by the end of the last that has it
    assert bool(closed) != outlives
    if outlives:
        os.kill(left, signal.SIGKILL)


@pytest.mark.slow
def test_a_preemption_and_one_more_signal_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.1)
    slow = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    assert processes._watch([slow], [signal.SIGUSR2, signal.SIGTERM]) == 0


@pytest.mark.parametrize(("nodes", "ranks"), [(1, ["0", "1"]), (2, ["2", "3"])])
def test_the_number_of_the_machine_counts_only_among_several(
    nodes: int, ranks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers and earlier jobs leave NODE_RANK behind; a run of one machine has a rank 0 all the same."""
    popen, started = subprocess.Popen, []

    def start(command: list[str], *, env: dict[str, str], **named: Any) -> "subprocess.Popen[bytes]":
        started.append(env["RANK"])
        return popen([sys.executable, "-c", "pass"], **named)

    monkeypatch.setattr(subprocess, "Popen", start)
    for name, value in {"NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert processes.run_ranks(tmp_path, 2, nodes) == 0
    assert started == ranks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NODE_RANK", "GROUP_RANK", "LOCAL_RANK"])
def test_a_run_of_one_process_is_its_rank_0_whatever_other_launchers_left(
    name: str, small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning would wait for ever for the first process of `trainer=ddp` with one device."""
    for variable in ("NODE_RANK", "GROUP_RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "1")  # so that what Lightning sets is undone at the end
        monkeypatch.delenv(variable)
    monkeypatch.setenv(name, "1")
    config = small("trainer=ddp", "trainer.accelerator=cpu", "trainer.precision=32-true", "trainer.devices=1")
    trainer = make_trainer(config, Loop(config, made(config, "run"), Interrupt(), None))
    assert (trainer.global_rank, trainer.world_size, trainer.local_rank, trainer.node_rank) == (0, 1, 0, 0)


@pytest.mark.parametrize("given", ["", "first", "-1", "2"])
def test_a_number_that_no_machine_of_the_run_has_is_refused(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_RANK", given)
    assert processes.node_rank(1) == 0
    with pytest.raises(UserError, match=f"^NODE_RANK='{given}' in the environment: with trainer.nodes=2 .* 0 to 1"):
        processes.node_rank(2)


def test_a_wrong_number_of_the_machine_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_RANK", "")
    config = compose_run([f"runs={tmp_path / 'runs'}", "trainer=ddp", "trainer.accelerator=cpu", "trainer.nodes=2"])
    with pytest.raises(UserError, match=r"^NODE_RANK='' in the environment"):
        run.execute(config)
    assert not (tmp_path / "runs").exists()


def test_a_rank_is_known_by_what_started_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lightning removes WORLD_SIZE at the end of a training, before the reason of a failure is written."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for name, value in {processes.PARENT: "1", processes.LEASE: "2", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert processes.is_rank() and processes.global_rank() == 1
    assert processes.write_reason(tmp_path, "no memory")
    assert processes.write_reason(tmp_path, "a later reason")
    assert not processes.write_reason(tmp_path / "none", "no folder")
    assert processes.reason_of(tmp_path, 1) == "rank 1: no memory"
    assert processes.reason_of(tmp_path, -9) == "one of its processes was ended by SIGKILL"
    assert processes.reason_of(tmp_path / "none", 4) == "one of its processes ended with code 4"
    monkeypatch.delenv(processes.LEASE)
    assert not processes.is_rank() and processes.global_rank() == 0


def test_a_run_whose_first_process_does_not_answer_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run").create(asdict(TranslationConfig()))
    folder.set_status("running")
    monkeypatch.setattr(processes, "run_ranks", lambda *_: 130)
    with pytest.raises(Interrupted):
        run._run_in_processes(TranslationConfig(), folder)
    status = folder.status()
    assert status is not None and (status.state, status.reason) == ("interrupted", run.STOPPED)


def test_processes_that_find_the_input_wrong_end_in_the_error_of_one_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run").create(asdict(TranslationConfig()))
    failure = folder.path / ".failure"
    failure.write_text("rank 0: of an earlier start")

    def ranks(*_: object) -> int:
        with failure.open("x") as file:
            file.write("rank 1: bad.txt, line 1: a bracket that is never closed")
        return ExitCode.USAGE

    monkeypatch.setattr(processes, "run_ranks", ranks)
    with pytest.raises(UserError, match=r"^rank 1: bad\.txt, line 1: a bracket that is never closed$") as told:
        run._run_in_processes(TranslationConfig(), folder)
    assert (told.value.exit_code, folder.state()) == (ExitCode.USAGE, "failed")


def test_after_wrong_input_another_machine_does_not_make_the_folder_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run").create(asdict(TranslationConfig()))

    def ranks(*_: object) -> int:
        shutil.rmtree(folder.path)  # as the first machine does
        return ExitCode.USAGE

    monkeypatch.setattr(processes, "run_ranks", ranks)
    monkeypatch.setattr(processes, "node_rank", lambda _: 1)
    with pytest.raises(UserError):
        run._run_in_processes(TranslationConfig(), folder)
    assert not folder.path.exists()


def test_a_run_whose_processes_leave_no_result_has_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run").create(asdict(TranslationConfig()))
    monkeypatch.setattr(processes, "run_ranks", lambda *_: 0)
    folder.set_status("running")
    with pytest.raises(RunFailedError, match="its processes ended without an error, but left no result"):
        run._run_in_processes(TranslationConfig(), folder)
    assert folder.state() == "failed"
    folder.set_status("pruned")
    run._run_in_processes(TranslationConfig(), folder)
    folder.write_result({"steps": 1})
    folder.set_status("finished")
    run._run_in_processes(TranslationConfig(), folder)
    assert folder.finished()
