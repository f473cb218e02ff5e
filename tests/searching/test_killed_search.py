"""A search whose controller is killed during a trial, then restarted: with quick processes as runs, and real ones."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from variations.searching.definition import define
from variations.searching.search import Search
from variations.searching.study import Study
from variations.store.run_folder import RunFolder

from .conftest import QuickPool

TRAIN = Path(__file__).parents[2] / "src" / "train.py"
STEPS, TRIALS = 40, 3
WAIT = 1200.0
WORDS = (
    "sweep.name=probe",
    f"sweep.search.trials={TRIALS}",
    "sweep.search.metrics=[dev_ppl]",
    "sweep.search.sampler=tpe",
    "sweep.search.startup=1",  # later proposals depend on the results of earlier trials
    "sweep.at_once=1",
    "sweep.lease_seconds=6",
    "model.dropout=interval(0,0.4)",
    "recipe.lr=tag(log,interval(0.1,2))",
    "decode.sets=[dev]",
    "logger=none",
    "model.N=1",
    "model.d_model=16",
    "model.d_ff=16",
    "model.h=2",
    "data.train_pairs=200",
    "data.vocabulary=200",
    f"trainer.max_steps={STEPS}",
    f"trainer.val_every={STEPS}",
    "trainer.val_bleu=0",
    "trainer.checkpoint_every=1",
    "trainer.log_every=1",
    "trainer.limit_test=4",
    "recipe.batch_tokens=256",
    "recipe.warmup=20",
    "branch.freeze_last=0",
    "decode.beam=1",
)


def start(store: Path) -> "subprocess.Popen[str]":
    line = [sys.executable, str(TRAIN), "--multirun", *WORDS, f"runs={store}"]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def waited(process: "subprocess.Popen[str]", until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not until():
        if process.poll() is not None:
            raise AssertionError(f"the search ended too early:\n{process.communicate()[0]}")
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def starts(run: RunFolder) -> int:
    return len(re.findall(r"^== \S+ process \d+ on ", run.log.read_text(encoding="utf-8"), flags=re.MULTILINE))


def ends(run: RunFolder) -> int:
    return len(re.findall(r"^== \S+: finished$", run.log.read_text(encoding="utf-8"), flags=re.MULTILINE))


def uninterrupted(words: tuple[str, ...], store: Path, reached: list[float]) -> list[dict[str, object]]:
    """Return the proposals of an uninterrupted search whose trials reach these values in order."""
    study = Study(define((*words, f"runs={store}")))
    proposed = []
    for value in reached:
        number, values = study.reserve("me") or (-1, {})
        study.tell(number, "COMPLETE", [value])
        proposed.append(values)
    return proposed


QUICK = (
    "sweep.name=probe",
    f"sweep.search.trials={TRIALS}",
    "sweep.search.sampler=tpe",
    "sweep.search.startup=1",
    "sweep.lease_seconds=6",
    "model.dropout=interval(0,0.4)",
    "decode.sets=[dev]",
    "logger=none",
)
CONTROLLER = """
import sys
from pathlib import Path
from searching.conftest import QuickPool
from variations.searching.definition import define
from variations.searching.search import Search
from variations.searching.study import Study

definition, tell = define(tuple(sys.argv[1:])), Study.tell

def told(study, *arguments, **named):
    (definition.home / "hold").touch()  # the second trial will not end
    tell(study, *arguments, **named)

Study.tell = told
Search(definition, QuickPool(1)).run()
"""


@pytest.mark.slow
def test_a_killed_search_of_quick_runs_goes_on_with_its_study(tmp_path: Path) -> None:
    words = (*QUICK, f"runs={tmp_path}")
    order, hold = tmp_path / "probe/order.txt", tmp_path / "probe/hold"

    def begun() -> list[str]:
        return order.read_text().split() if order.exists() else []

    paths = os.pathsep.join(str(TRAIN.parents[1] / name) for name in ("src", "tests"))
    line = [sys.executable, "-c", CONTROLLER, *words]
    killed = subprocess.Popen(
        line,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        waited(killed, lambda: begun() == ["trial0/seed1", "trial1/seed1"])
    finally:
        with suppress(ProcessLookupError):  # it ended too early
            os.killpg(killed.pid, signal.SIGKILL)  # its run as well: on Linux, runs end with their search
        killed.communicate()
    held = Study(define(words)).trials()
    assert [trial.state.name for trial in held] == ["COMPLETE", "RUNNING"]

    hold.unlink()
    Search(define(words), QuickPool(1)).run()
    trials = Study(define(words)).trials()
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * TRIALS
    assert [trial.params for trial in trials[:2]] == [trial.params for trial in held]
    assert begun() == ["trial0/seed1", "trial1/seed1", "trial1/seed1", "trial2/seed1"]
    reached = [trial.value for trial in trials]
    assert reached[0] == held[0].value
    assert [trial.params for trial in trials] == uninterrupted(QUICK, tmp_path / "other", reached)


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere, runs outlive a killed search")
def test_a_killed_search_goes_on_with_its_study_and_does_no_trial_twice(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    runs = [RunFolder(store / "probe" / f"trial{number}" / "seed1") for number in range(TRIALS)]

    def in_its_midst(run: RunFolder) -> bool:
        status = run.status() if run.path.is_dir() else None
        return status is not None and status.state == "running" and 8 <= (status.step or 0) <= STEPS - 8

    killed = start(store)
    try:
        waited(killed, lambda: in_its_midst(runs[1]))
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    first = runs[0].path / "result.json"
    before = (first.stat().st_mtime_ns, first.stat().st_ino)
    held = Study(define((*WORDS, f"runs={store}"))).trials()
    assert [trial.state.name for trial in held] == ["COMPLETE", "RUNNING"]

    again = start(store)
    try:
        told = again.communicate(timeout=WAIT)[0]
    finally:
        again.kill()
    assert again.returncode == 0, told

    trials = Study(define((*WORDS, f"runs={store}"))).trials()
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * TRIALS
    assert [trial.params for trial in trials[:2]] == [trial.params for trial in held]
    assert sorted(path.name for path in (store / "probe").glob("trial*")) == [f"trial{n}" for n in range(TRIALS)]
    reached = [(run.result() or {})["loss"]["dev_ppl"] for run in runs]
    assert [trial.value for trial in trials] == reached
    assert [trial.params for trial in trials] == uninterrupted(WORDS, tmp_path / "other", reached)
    assert (first.stat().st_mtime_ns, first.stat().st_ino) == before
    assert ([starts(run) for run in runs], [ends(run) for run in runs]) == ([1, 2, 1], [1, 1, 1])
    for run in runs:
        assert [line["step"] for line in run.measurements.read()] == list(range(1, STEPS + 1))
