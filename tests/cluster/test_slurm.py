"""Sweeps on a real Slurm on this machine: two nodes, one of them simulated, with two simulated GPUs each."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import one_host_slurm
import pytest
from cluster_sweeps import STEPS, Place, Sweep, assert_same, starts, steps, wait_for
from drill import Drill

from variations.store.lease import read
from variations.store.ledger import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[one_host_slurm.Daemons]:
    if why := one_host_slurm.missing():
        pytest.skip(why)
    with one_host_slurm.running(tmp_path_factory.mktemp("slurm")) as daemons, pytest.MonkeyPatch.context() as patch:
        for name, value in daemons.environment.items():
            patch.setenv(name, value)
        yield daemons


@pytest.fixture
def words(slurm: one_host_slurm.Daemons) -> list[str]:
    return ["hydra/launcher=slurm", "hydra.launcher.cpus=1", "hydra.launcher.poll_s=0.5", "hydra.launcher.time_min=10"]


def test_the_help_of_a_slurm_for_experiments_starts_none(tmp_path: Path) -> None:
    line = [sys.executable, one_host_slurm.__file__, "--help"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "FOLDER" in done.stdout
    assert not list(tmp_path.iterdir())


def squeue() -> dict[str, str]:
    """Return the state of each pending or running job, by identifier (`17_0` or `17`)."""
    text = subprocess.run(
        ["squeue", "--noheader", "--array", "--format=%i %T"], capture_output=True, text=True, check=True
    ).stdout
    return dict(line.split() for line in text.splitlines())  # type: ignore[misc]


def job_of(folder: RunFolder) -> str:
    """Return the Slurm job of a run."""
    record = read(folder.path)
    assert record is not None and record.key is not None
    word, _, number = record.key.rpartition("/")[2].partition("_")
    lines = subprocess.run(
        ["squeue", "--noheader", "--array", "--Format=ArrayJobID:20,ArrayTaskID:20,Comment:60"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    found = [line.split() for line in lines if f"variations:{word}" in line]
    return next(
        job if element == "N/A" else f"{job}_{element}" for job, element, _ in found if element in (number, "N/A")
    )


def described(job: str) -> list[str]:
    """Return what Slurm knows of a job: `JobState=RUNNING`, …"""
    text = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True, check=True).stdout
    return text.split()


def ran(job: str) -> int:
    """Return for how many seconds a job has run."""
    (found,) = [word for word in described(job) if word.startswith("RunTime=")]
    hours, minutes, seconds = map(int, found.removeprefix("RunTime=").split(":"))
    return 3600 * hours + 60 * minutes + seconds


def test_good_rows_end_well_and_broken_killed_and_cancelled_ones_as_they_should(place: Place) -> None:
    """One sweep: 2 raises, 3 is killed once, 5 is cancelled. A test below preempts a row."""
    place.fault(2, "raise", 5)
    place.fault(3, "kill", 6)
    hold = place.fault(5, "hold", 5)
    process = place.sweep("many", "seed=2,3,5", "sweep.retries=1", "sweep.at_once=3")
    wait_for(lambda: 5 in steps(place.run("many", 5)), "the row does not start")
    cancelled = place.run("many", 5)
    subprocess.run(["scancel", job_of(cancelled)], check=True)
    time.sleep(0.5)
    hold.unlink()
    text = place.end(process)
    assert process.returncode == 1, text
    assert "the test wants seed2 to fail at step 5" in text
    assert "1 failed, 1 finished, 1 interrupted" in text, text

    killed = place.run("many", 3)
    assert steps(killed) == list(range(1, STEPS + 1))
    assert starts(killed) == 2, place.logs()
    assert starts(place.run("many", 2)) == 2  # retried once
    assert place.run("many", 2).state() == "failed"
    assert cancelled.state() == "interrupted"

    place.words = ["hydra/launcher=local"]
    again = place.sweep("many", "seed=3,5")
    text = place.end(again)
    assert again.returncode == 0, text
    assert starts(killed) == 2  # already finished
    plain = place.sweep("plain", "seed=3,5")
    assert (place.end(plain), plain.returncode)[1] == 0
    for seed in (3, 5):
        assert_same(place.run("plain", seed), place.run("many", seed))


def test_jobs_outlive_the_sweep_and_the_same_line_finds_them_again(place: Place) -> None:
    holds = [place.fault(seed, "hold", 4) for seed in (1, 2)]
    words = ("seed=1,2", "sweep.at_once=2")
    killed = place.sweep("kept", *words)
    wait_for(lambda: all(4 in steps(place.run("kept", seed)) for seed in (1, 2)), "rows do not start")
    killed.send_signal(signal.SIGKILL)
    killed.wait()

    left = place.sweep("kept", *words)
    left.takes_up(2)
    left.send_signal(signal.SIGINT)
    text = place.end(left)
    assert left.returncode == 130, text
    assert "2 runs stay in Slurm's queue and continue" in text and "scancel" in text, text
    assert sorted(squeue().values()) == ["RUNNING", "RUNNING"]

    last = place.sweep("kept", *words)
    last.takes_up(2)
    for hold in holds:
        hold.unlink()
    text = place.end(last)
    assert last.returncode == 0, text
    for seed in (1, 2):
        assert starts(place.run("kept", seed)) == 1, place.logs()
        assert steps(place.run("kept", seed)) == list(range(1, STEPS + 1))


def assert_it_goes_on_at_the_exact_step(place: Place, process: Sweep, run: RunFolder) -> None:
    """The row was stopped at step 6 and started a second time, and made every step once."""
    text = place.end(process)
    assert process.returncode == 0, f"{text}\n{place.logs()}"
    assert "Stopped at step 6; the same command continues from there" in run.log.read_text()
    assert starts(run) == 2
    assert steps(run) == list(range(1, STEPS + 1))


def test_a_row_whose_machine_is_taken_by_a_more_urgent_job_goes_on_at_the_exact_step(place: Place) -> None:
    hold = place.fault(1, "hold", 5)
    process = place.sweep("taken", "seed=1")
    wait_for(lambda: 5 in steps(place.run("taken", 1)), "the row does not start")
    urgent = ["sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"]
    subprocess.run(urgent, check=True, capture_output=True, cwd=place.folder)
    time.sleep(2)
    hold.unlink()
    assert_it_goes_on_at_the_exact_step(place, process, place.run("taken", 1))


@pytest.mark.exhaustive  # Slurm's shortest time limit is a minute
def test_a_row_that_reaches_the_time_limit_of_its_job_saves_before_it_and_goes_on(place: Place) -> None:
    place.words = [*place.words[:-1], "hydra.launcher.time_min=2", "hydra.launcher.signal_delay_s=50"]
    hold = place.fault(1, "hold", 5)
    process = place.sweep("limited", "seed=1", "sweep.retries=0")
    wait_for(lambda: 5 in steps(place.run("limited", 1)), "the row does not start")
    job = job_of(place.run("limited", 1))
    wait_for(lambda: ran(job) > 75, "the job does not stay")  # it was warned 50 s before its limit, or 30 s earlier
    hold.unlink()
    assert_it_goes_on_at_the_exact_step(place, process, place.run("limited", 1))
    assert {"Restarts=1", "JobState=COMPLETED"} <= {*described(job)}


@pytest.mark.exhaustive  # as above, twice
@pytest.mark.timeout(500)
def test_a_row_that_does_not_save_before_its_time_limit_is_tried_as_often_as_any_that_fails(place: Place) -> None:
    place.words = [*place.words[:-1], "hydra.launcher.time_min=1", "hydra.launcher.signal_delay_s=5"]
    place.fault(1, "hold", 5)
    process = place.sweep("late", "seed=1", "sweep.retries=1")
    text = place.end(process, 400)
    assert process.returncode == 1, f"{text}\n{place.logs()}"
    run = place.run("late", 1)
    reason = r"it reached its time limit before it could save \(Slurm job \d+\): raise hydra.launcher.signal_delay_s"
    assert len(re.findall(rf"seed 1: failed, will be retried: {reason}", text)) == 1, text
    assert starts(run) == 2
    status = run.status()
    assert status is not None and (status.state, status.failures) == ("failed", 2)
    assert re.fullmatch(reason, status.reason or "")
    assert not squeue()


@pytest.mark.exhaustive  # a client needs some 20 s to notice
def test_a_row_that_ends_while_the_controller_is_down_has_its_result_and_runs_once(
    slurm: one_host_slurm.Daemons, place: Place
) -> None:
    hold = place.fault(1, "hold", 4)
    process = place.sweep("headless", "seed=1,2", "sweep.at_once=1")
    wait_for(lambda: 4 in steps(place.run("headless", 1)), "the row does not start")
    first = place.run("headless", 1)
    slurm.stop("slurmctld")
    try:
        wait_for(lambda: "Slurm does not answer" in process.text, f"nobody noticed:\n{process.text}")
        hold.unlink()
        wait_for(first.finished, f"the row does not end:\n{place.logs()}")
        assert process.poll() is None, process.text
    finally:
        slurm.start("slurmctld")
    text = place.end(process)
    second = place.run("headless", 2)
    assert process.returncode == 0, f"{text}\n{place.logs()}"
    assert text.count("Slurm does not answer") == text.count("Slurm answers again.") == 1
    assert "2 finished" in text and "another launch" not in text, text  # its own job all the while
    for run in (first, second):
        assert starts(run) == 1, place.logs()
        assert steps(run) == list(range(1, STEPS + 1))
    assert not squeue()


def test_a_row_on_two_machines_is_that_of_two_processes(place: Place) -> None:
    shared = ("trainer.strategy=ddp", "seed=1")
    other = place.sweep("machines", *shared, "trainer.nodes=2")
    place.words = ["hydra/launcher=local"]  # a job with two processes starts them by the same code
    one = place.sweep("processes", *shared, "trainer.devices=2")
    for process, store in ((one, "processes"), (other, "machines")):
        text = place.end(process)
        assert process.returncode == 0, f"{text}\n{place.logs()}"
        assert steps(place.run(store, 1)) == list(range(1, STEPS + 1))
    logs = place.run("machines", 1).path
    assert (logs / "log.txt").exists() and (logs / "log.node1.txt").exists()
    first, second = place.run("processes", 1).result(), place.run("machines", 1).result()
    assert first is not None and second is not None
    assert first["loss"] == second["loss"]


def test_what_slurm_refuses_is_told_in_one_sentence(place: Place) -> None:
    process = place.sweep("refused", "seed=1", "hydra.launcher.partition=nowhere")
    text = place.end(process)
    assert process.returncode == 2, text
    assert "Traceback" not in text
    assert "Slurm refuses the jobs: " in text and "nvalid partition" in text
    assert "submitted" not in text and "same command" not in text
    assert not squeue()


def test_a_job_asks_for_what_the_settings_say(slurm: one_host_slurm.Daemons, tmp_path: Path) -> None:
    from variations.sweeping.pool import PooledRun
    from variations.sweeping.settings import SlurmSettings
    from variations.sweeping.slurm import SlurmPool

    settings = SlurmSettings(
        cpus=2, mem_gb=1.5, time_min=7, gpus_per_node=2, poll_s=0.2, modules=[], additional={"begin": "now+1hour"}
    )
    said: list[str] = []
    pool = SlurmPool(settings, tmp_path, said.append)
    keys = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        keys.append(pool.submit(PooledRun(tmp_path / name, name)))
    assert pool.ended() == []
    assert all(pool.alive(key) for key in keys)
    (job,) = re.findall(r"^2 runs in Slurm's queue as job (\d+): \1_0 is a, \1_1 is b\.$", said[0])
    text = " ".join(described(f"{job}_1"))
    for fact in ("TimeLimit=00:07:00", "MinMemoryNode=1.50G", "CPUs/Task=2", "gpu:2", "Requeue=1"):
        assert fact in text, (fact, text)
    pool.stop()
    assert f"scancel {job}_0 {job}_1" in said[-1]
    subprocess.run(["scancel", job], check=True)
    wait_for(lambda: not any(pool.alive(key) for key in keys), "jobs stay", 20)
    again = SlurmPool(settings, tmp_path, said.append)  # a later process
    again.adopt(PooledRun(tmp_path / "a", "a"), keys[0])
    (ended,) = again.ended()
    assert ended.code == 143 and f"cancelled (Slurm job {job}_0)" in ended.reason
    assert again.alive("another-cluster/0123456789_0") is None


@pytest.mark.exhaustive  # the drill itself runs locally; kills and preemption on Slurm are tested above
@pytest.mark.timeout(900)
def test_the_whole_drill(slurm: one_host_slurm.Daemons, words: list[str], tmp_path: Path) -> None:
    drill = Drill(tmp_path, words, cut_off=1)  # jobs outlive their sweep
    try:
        drill.undisturbed()
        drill.disturbed()
        drill.check()
    finally:
        drill.close()
