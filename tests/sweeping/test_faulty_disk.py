"""A disk that fails at the n-th write of a sweep: each row's fault is one sentence, and a second launch ends the sweep.

The rows keep folder, lease and log as runs do, but train nothing; disk errors during training are tested elsewhere.
"""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import faulty_disk
import pytest
from forking import forked

from variations.commands import run
from variations.configuration.compose import compose_run
from variations.configuration.schema import RunConfig
from variations.store import lease
from variations.store.process_identity import Process
from variations.store.run_folder import RunFolder
from variations.sweeping import control, supervise
from variations.sweeping.control import Control
from variations.sweeping.job import Job
from variations.sweeping.outcomes import Outcome
from variations.sweeping.overview import Overview, summary
from variations.sweeping.pool import Ended, PooledRun
from variations.sweeping.ray_actor import RunActor
from variations.system.errors import ExitCode

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the tests fork")
NO_FURTHER = 98
"""Exit code of a process that ends before the failing operation."""
ROWS = ("narrow", "wide")
REMEDY = r"(run the same command again to continue|choose another place with runs=DIR)[.]"
"""What a row's sentence ends with, before the name of its log."""


@dataclass
class ForkingPool:
    """Runs one row at a time, in processes forked from the sweep's, which therefore use the same faulty disk."""

    name: str = "forking"
    outlives: bool = False
    running: list[tuple[PooledRun, int]] = field(default_factory=list)

    def room(self) -> int:
        return 1 - len(self.running)

    def submit(self, one: PooledRun) -> str:
        with (one.folder / "log.txt").open("ab", buffering=0) as log:
            child = os.fork()
            if child == 0:
                work(one.folder, log.fileno())
        self.running.append((one, child))
        return Process.of(child).key

    def alive(self, key: str) -> bool | None:
        process = Process.from_key(key)
        return process.alive() if process else None

    def adopt(self, one: PooledRun, key: str) -> None:
        raise NotImplementedError

    def ended(self) -> list[Ended]:
        over = [Ended(one, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for one, child in self.running]
        self.running = []
        return over

    def stop(self) -> None:
        pass


def work(folder: Path, log: int) -> None:
    """Do the work of `python -m variations.commands.run`."""
    code: int = ExitCode.FAILED
    try:
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.argv[1:] = [str(folder)]
        code = run.main()
    finally:
        sys.stdout.flush()
        os._exit(code)


def train_and_test(config: RunConfig, folder: RunFolder, interrupt: object) -> dict[str, int]:
    folder.measurements.truncate(0)
    for step in (1, 2):
        folder.measurements.append({"step": step})
    return {"schema": 1, "width": config.model.d_ff}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "KEY_SECONDS", 0.1)  # how long a run waits for a key that its sweep may fail to write
    monkeypatch.setattr(control, "POLL", 0.0)
    monkeypatch.setattr(control, "LOOK", 0.0)
    monkeypatch.setattr(run, "_train_and_test", train_and_test)


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    import variations.training.checkpoints
    import variations.training.interrupt  # noqa: F401 - import once, not in every process

    return compose_run([f"runs={tmp_path_factory.mktemp('faulty') / 'runs'}", "sweep=quickstart", "sweep.retries=0"])


def sweep(config: RunConfig) -> None:
    """Run the sweep as the command does; raise SystemExit with code 1 if a row failed."""
    outcomes = []
    for number, row in enumerate(ROWS):
        changed = {"model": replace(config.model, d_ff=32 << number), "variation": replace(config.variation, row=row)}
        own = replace(config, **changed, sweep=replace(config.sweep, name="mine"))
        outcomes.append(Outcome.of(Job(row, 1, (), own, Path(config.runs, "mine", row, "seed1"))))
    try:
        Control(ForkingPool(), outcomes, Overview()).run()
    finally:
        summary(outcomes)
    if not all(outcome.ok for outcome in outcomes):
        raise SystemExit(ExitCode.FAILED)


def folder_of(runs: Path, row: str) -> RunFolder:
    return RunFolder(runs / "mine" / row / "seed1")


def contents(runs: Path, rows: Iterable[str] = ROWS) -> dict[str, object]:
    folders = {row: folder_of(runs, row) for row in rows}
    return {
        row: (folder.state(), folder.result(), folder.measurements.read(), folder.config())
        for row, folder in folders.items()
    }


def misconduct(code: int, told: str, runs: Path, error: int, expected: dict[str, object]) -> Iterator[str]:
    """Yield what is wrong with the end of a sweep whose disk failed: its exit code, its words, its remnants.

    A row has succeeded once its status says so: the disk may then refuse the flush of that name and the release of the
    lease. Every other row is told of in one sentence with the disk's reason and what to do.
    """
    done = [row for row in ROWS if folder_of(runs, row).finished()]
    if any(value != expected[row] for row, value in contents(runs, done).items()):
        yield f"other contents: {contents(runs, done)}"
    for row in ROWS:
        file = folder_of(runs, row).log
        log, its_log = file.read_text() if file.exists() else "", f" Log: {file}"
        reasons = re.findall(rf"^failed {row}, seed 1: (.*)$", told, re.MULTILINE)
        if row in done:
            well = reasons == [] and log.count("\nerror: ") <= 1
        else:
            well = len(reasons) == 1 and re.search(rf"{os.strerror(error)}.*{REMEDY}", reasons[0]) is not None
            well = well and log.count("\nerror: ") == reasons[0].count(its_log)
        if not well or "Traceback" in told + log:
            yield f"{row}: {told[-2500:]}\nits log: {log[-1500:]}"
    if code != (ExitCode.OK if len(done) == len(ROWS) else ExitCode.FAILED):
        yield f"exit code {code}: {told[-2500:]}"
    if left := [str(path) for path in runs.rglob("*") if path.name.startswith(".") or ".tmp" in path.name]:
        yield f"left over: {', '.join(left)}"


def faults(config: RunConfig, error: int, numbers: Iterable[int]) -> Iterator[str]:
    """Yield the faults found when the disk fails from each of these operations on, and after a second launch."""
    runs = Path(config.runs)
    log = runs.with_suffix(".log")
    shutil.rmtree(runs, ignore_errors=True)
    assert forked(lambda: sweep(config), log) == 0, log.read_text()
    expected = contents(runs)
    for at in numbers:
        shutil.rmtree(runs)
        runs.mkdir()
        where = f"{errno.errorcode[error]} from operation {at} on"

        def refused(at: int = at) -> None:
            with faulty_disk.failing(runs, at=at, error=error) as done:
                try:
                    sweep(config)
                finally:
                    if len(done) < at:
                        os._exit(NO_FURTHER)

        if (code := forked(refused, log)) == NO_FURTHER:
            assert at > 50
            return
        yield from (f"{where}: {fault}" for fault in misconduct(code, log.read_text(), runs, error, expected))
        if forked(lambda: sweep(config), log):
            yield f"{where}, then: {log.read_text()[-2500:]}"
        elif contents(runs) != expected:
            yield f"{where}, then: {contents(runs)}"
        elif left := [str(path) for path in runs.rglob(".*")]:
            yield f"{where}, then left over: {', '.join(left)}"


@pytest.mark.slow
@pytest.mark.parametrize(("error", "at"), [(errno.ENOSPC, 12), (errno.ENOSPC, 20), (errno.EIO, 14), (errno.EROFS, 44)])
def test_a_refusal_is_told_row_by_row_and_the_same_line_goes_on(error: int, at: int, configuration: RunConfig) -> None:
    assert list(faults(configuration, error, [at])) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_refusal_at_any_write(error: int, configuration: RunConfig) -> None:
    assert list(faults(configuration, error, count(1))) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the disk's error, which Ray logs
def test_a_ray_actor_ends_also_if_its_note_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    actor = SimpleNamespace(__ray_terminate__=SimpleNamespace(remote=ended.set))
    ray = SimpleNamespace(get_runtime_context=lambda: SimpleNamespace(current_actor=actor))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(supervise, "start", lambda folder, *, key: subprocess.Popen(["true"]))
    (tmp_path / ".ray").write_text("not a folder")
    RunActor(str(tmp_path), str(tmp_path / ".ray/word.json"), "key")
    assert ended.wait(20), "the actor keeps its processors for ever"
