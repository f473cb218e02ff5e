"""How a sweep handles the outcomes of its rows, under a scripted pool."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import to_dict
from variations.store.inputs import remember
from variations.store.lease import Lease, read
from variations.store.ledger import RunFolder
from variations.sweeping import control as module
from variations.sweeping import jobs
from variations.sweeping.outcomes import Outcome, refuse_changed
from variations.sweeping.overview import summary
from variations.sweeping.pool import Ended
from variations.system.errors import ExitCode, UserError


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK", 0.0)


def states(outcomes: list[Outcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


@pytest.mark.slow
def test_rows_start_in_order_as_there_is_room_and_failures_do_not_stop_the_others(
    rows: Any, control: Any, pool: Any
) -> None:
    outcomes = rows("a", "b", "c", retries=0)
    sweep = control(outcomes)
    sweep.step()
    assert pool.submitted == ["a-seed1", "b-seed1"]
    pool.end("a-seed1", "failed", 1)
    pool.end("b-seed1", "finished")
    sweep.step()
    assert pool.submitted == ["a-seed1", "b-seed1", "c-seed1"]
    pool.end("c-seed1", "finished")
    sweep.step()
    assert states(outcomes) == ["failed", "finished", "finished"]
    assert outcomes[0].reason == "so it is"


@pytest.mark.slow
def test_at_once_holds_whatever_the_pool_has_room_for(rows: Any, control: Any, pool: Any) -> None:
    pool.most = 100
    control(rows("a", "b", "c", at_once=2)).step()
    assert len(pool.submitted) == 2


@pytest.mark.slow
def test_a_failed_row_is_tried_again_and_then_given_up(rows: Any, control: Any, pool: Any) -> None:
    outcomes = rows("a", retries=2)
    sweep = control(outcomes)
    for _ in range(3):
        assert states(outcomes) != ["failed"]
        sweep.step()
        pool.end("a-seed1", "failed", 1)
    sweep.step()
    assert (states(outcomes), outcomes[0].failures, len(pool.submitted)) == (["failed"], 3, 3)
    again = rows("a", retries=2)  # the same command again
    assert again[0].failed_before == 3
    sweep = control(again)
    sweep.step()
    pool.end("a-seed1", "finished")
    sweep.step()
    assert states(again) == ["finished"]


def test_a_row_that_could_not_begin_for_a_users_fault_is_not_tried_again(
    rows: Any, control: Any, pool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = rows("a")
    sweep = control(outcomes)
    sweep.step()
    pool.end("a-seed1", "failed", 2)
    sweep.step()
    assert (states(outcomes), len(pool.submitted)) == (["failed"], 1)
    summary(outcomes)
    told = capsys.readouterr().out
    assert "Fix the problems listed above, then run the command again to do what is missing.\n" in told
    assert "the same command" not in told


def test_a_row_that_the_pool_does_not_accept_is_not_promised_by_the_same_command(
    rows: Any, control: Any, pool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pool.refuses = "resume.allow=[model] does not cover data"
    outcomes = rows("a")
    control(outcomes).step()
    summary(outcomes)
    assert "Fix the problems listed above, then run the command again" in capsys.readouterr().out


def test_a_row_that_failed_otherwise_is_done_by_the_same_command(
    rows: Any, control: Any, pool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = rows("a", retries=0)
    sweep = control(outcomes)
    sweep.step()
    pool.end("a-seed1", "failed", 1)
    sweep.step()
    summary(outcomes)
    assert "Run the same command again to do what is missing." in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_row_is_marked_failed_with_what_the_pool_knows(rows: Any, control: Any, pool: Any) -> None:
    outcomes = rows("a", retries=0)
    sweep = control(outcomes)
    sweep.step()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = outcomes[0].folder
    lease = Lease.claim(folder.path, read(folder.path), "running", pool="fake", key="a-seed1")
    assert lease is not None
    lease.record = replace(lease.record, pid=dead.pid)
    lease.beat()
    folder.set_status("running")
    pool.end("a-seed1", None, -9, "out of memory (job 17)")
    sweep.step()
    assert (outcomes[0].state, outcomes[0].reason) == ("failed", "out of memory (job 17)")
    status = folder.status()
    assert status is not None
    assert (status.state, status.reason, status.failures) == ("failed", "out of memory (job 17)", 1)
    assert read(folder.path).state == "released"  # type: ignore[union-attr]


@pytest.mark.slow
def test_each_launch_that_dies_before_it_writes_anything_counts_as_a_failure(
    rows: Any, control: Any, pool: Any
) -> None:
    """As when it is killed while it imports: its status is still that of the launch before."""
    outcomes = rows("a", retries=2)
    sweep = control(outcomes)
    for launch in (1, 2, 3):
        sweep.step()
        pool.end("a-seed1", None, -9)
        sweep.step()
        status = outcomes[0].folder.status()
        assert status is not None and (status.state, status.failures) == ("failed", launch)
    assert (outcomes[0].state, outcomes[0].failures) == ("failed", 3)


@pytest.mark.slow
def test_a_preempted_row_goes_on_and_counts_no_failure(rows: Any, control: Any, pool: Any) -> None:
    outcomes = rows("a", retries=0)
    sweep = control(outcomes)
    sweep.step()
    pool.end("a-seed1", "interrupted", 140)
    sweep.step()
    assert (outcomes[0].state, outcomes[0].failures, len(pool.submitted)) == ("submitted", 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason", "state"),
    [(143, "cancelled (Slurm job 7)", "interrupted"), (None, "its machine failed (Slurm job 7)", "failed")],
)
@pytest.mark.parametrize("former", ["interrupted", "failed"])
@pytest.mark.parametrize("adopted", [False, True])
def test_the_reason_of_an_earlier_end_is_not_that_of_a_launch_that_never_began(
    code: int | None, reason: str, state: str, former: str, adopted: bool, rows: Any, control: Any, pool: Any
) -> None:
    outcomes = rows("a", retries=0)
    outcomes[0].folder.create(to_dict(outcomes[0].job.config)).set_status(former, "as it was before")
    sweep = control(outcomes)
    sweep.step()
    if adopted:
        outcomes = rows("a", retries=0)
        sweep = control(outcomes)
        sweep.step()
        assert pool.adopted == ["a-seed1"]
    pool.end("a-seed1", None, code, reason)
    sweep.step()
    assert (outcomes[0].state, outcomes[0].reason) == (state, reason)


@pytest.mark.slow
def test_what_is_finished_is_not_started_and_what_another_sweep_finishes_is_taken(
    rows: Any, control: Any, pool: Any, finished: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(rows("a")[0])
    outcomes = rows("a", "b")
    assert states(outcomes) == ["skipped", "pending"]
    finished(outcomes[1])  # meanwhile
    control(outcomes).step()
    assert (states(outcomes), pool.submitted) == (["skipped", "finished"], [])
    assert outcomes[1].by_other
    summary(outcomes)
    assert "1 skipped, 1 finished (1 of them started by another launch)" in capsys.readouterr().out


@pytest.mark.slow
def test_the_pool_is_for_the_runs_that_are_left(rows: Any, finished: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a finished run lacks here, such as its GPU, is no reason to refuse the others."""
    outcomes = rows("a", "b", "c")
    finished(outcomes[0])
    # Not before: the first composition imports Hydra's plug-ins anew.
    from hydra_plugins.variations_launcher.base import PoolLauncher
    from hydra_plugins.variations_sweeper.sweeper import VariationsSweeper

    seen: list[Any] = []

    class Recording(PoolLauncher):
        def pool(self, configs: Any, runs: int | None = None, base: Any = None) -> Any:
            seen.append(([config.variation.row for config in configs], runs, base.variation.row))
            raise UserError("no further")

    monkeypatch.setattr(jobs, "expand", lambda arguments: [outcome.job for outcome in outcomes])
    sweeper = VariationsSweeper()
    sweeper.launcher = Recording()
    with pytest.raises(UserError, match="no further"):
        sweeper.sweep(["sweep=quickstart"])
    assert seen == [(["b", "c"], 3, "a")]


@pytest.mark.slow
def test_a_row_that_another_process_is_at_is_awaited_and_taken_over_when_it_is_left(
    rows: Any, control: Any, pool: Any
) -> None:
    outcomes = rows("a")
    path = outcomes[0].folder.path
    other = Lease.claim(path, None, "running")
    assert other is not None
    sweep = control(outcomes)
    for _ in range(3):
        sweep.step()
    assert (states(outcomes), pool.submitted) == (["elsewhere"], [])
    other.release()
    sweep.step()
    assert pool.submitted == ["a-seed1"]


@pytest.mark.slow
def test_the_result_of_a_run_of_another_configuration_is_not_taken_for_this_ones(
    rows: Any, control: Any, pool: Any, finished: Any
) -> None:
    outcomes = rows("a")
    other = Lease.claim(outcomes[0].folder.path, None, "running")
    assert other is not None
    sweep = control(outcomes)
    sweep.step()
    finished(rows("a", changes=["trainer.max_steps=77"])[0])
    other.release()
    sweep.step()
    sweep.step()
    assert (states(outcomes), pool.submitted) == (["failed"], [])
    assert "trainer.max_steps: 77 → 2400" in outcomes[0].reason


@pytest.mark.slow
def test_an_adopted_job_of_another_configuration_is_not_taken_for_this_run(rows: Any, control: Any, pool: Any) -> None:
    control(rows("a", changes=["trainer.max_steps=77"])).step()
    outcomes = rows("a")
    sweep = control(outcomes)
    sweep.step()
    assert pool.adopted == ["a-seed1"]
    pool.end("a-seed1", "finished", None)
    for _ in range(3):
        sweep.step()
    assert (states(outcomes), pool.submitted) == (["failed"], ["a-seed1"])
    assert "trainer.max_steps: 77 → 2400" in outcomes[0].reason


@pytest.mark.slow
def test_a_job_of_an_earlier_sweep_is_adopted(
    rows: Any, control: Any, pool: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = rows("a")
    first = control(outcomes)
    first.step()
    again = rows("a")
    second = control(again)
    second.step()
    assert (pool.adopted, pool.submitted) == (["a-seed1"], ["a-seed1"])
    assert f"another launch started it ({pool.name}), and this one follows it" in capsys.readouterr().err
    pool.end("a-seed1", "finished", None)
    second.step()
    assert (states(again), again[0].by_other) == (["finished"], True)


@pytest.mark.slow
def test_an_adopted_job_that_vanishes_is_started_again(rows: Any, control: Any, pool: Any) -> None:
    control(rows("a")).step()
    again = rows("a")
    second = control(again)
    second.step()
    task = pool.running["a-seed1"]
    RunFolder(task.folder).set_status("running")
    pool.end("a-seed1", None, None)
    for _ in range(3):
        second.step()
    assert (pool.submitted, again[0].failures) == (["a-seed1", "a-seed1"], 0)


@pytest.mark.slow
def test_a_run_of_another_configuration_in_the_folder_is_a_failure_with_the_keys(
    rows: Any, control: Any, pool: Any, finished: Any
) -> None:
    finished(rows("a", changes=["trainer.max_steps=77"])[0])
    outcomes = rows("a")
    control(outcomes).step()
    assert (states(outcomes), pool.submitted) == (["failed"], [])
    assert "trainer.max_steps: 77 → 2400" in outcomes[0].reason
    assert read(outcomes[0].folder.path).state == "released"  # type: ignore[union-attr]


@pytest.mark.slow
def test_runs_of_another_configuration_are_told_before_any_row_starts(rows: Any, finished: Any, tmp_path: Path) -> None:
    for outcome in rows("a", "b", changes=["trainer.max_steps=77"]):
        finished(outcome)
    begun = RunFolder(tmp_path / "mine" / "c" / "seed1").create(to_dict(rows("c")[0].job.config))
    begun.measurements.append({"step": 1})
    refuse_changed(rows("c", "d"))
    with pytest.raises(UserError) as told:
        refuse_changed(rows("a", "b", "c", "d"))
    assert str(told.value).count("trainer.max_steps: 77 → 2400") == 1
    assert str(told.value).endswith("The same is true of b, seed 1.")


@pytest.mark.slow
def test_changed_texts_of_a_run_that_has_begun_are_told_before_any_row_starts(rows: Any, tmp_path: Path) -> None:
    """The others would train on the new text, and could not be compared with it."""
    text = tmp_path / "text"
    text.mkdir()
    for name in ("train", "valid", "test"):
        for side in ("en", "de"):
            (text / f"{name}.{side}").write_text("a b c\n" * 40, encoding="utf-8")
    own = ["data=files", f"data.root={text}", "data.vocabulary=32"]
    begun = rows("a", changes=own)[0]
    folder = RunFolder(begun.folder.path).create(to_dict(begun.job.config))
    folder.measurements.append({"step": 1})
    (folder.checkpoints / "step1.ckpt").write_bytes(b"")
    remember(folder, {"train.en": "another"})
    folder.set_status("interrupted", checkpoint=1)
    with pytest.raises(UserError) as told:
        refuse_changed(rows("a", "b", changes=own))
    assert f"{folder.path} cannot continue: train.en in {text} changed after this run was started" in str(told.value)
    assert "(name=…, a sweep: sweep.name=…)" in str(told.value)
    refuse_changed(rows("b", changes=own))
    text.rename(tmp_path / "elsewhere")  # as on a login node, which need not have the texts
    refuse_changed(rows("a", "b", changes=own))


@pytest.mark.slow
def test_a_pool_that_accepts_no_jobs_leaves_every_row_pending(
    rows: Any, control: Any, pool: Any, monkeypatch: Any
) -> None:
    def ended() -> list[Ended]:
        pool.running.clear()
        raise UserError("no such partition")

    outcomes = rows("a", "b")
    sweep = control(outcomes)
    sweep.step()
    monkeypatch.setattr(pool, "ended", ended)
    monkeypatch.setattr(pool, "stop", lambda: monkeypatch.setattr(pool, "ended", list))
    with pytest.raises(UserError, match="no such partition"):
        sweep.run()
    assert states(outcomes) == ["pending", "pending"]
    assert {read(outcome.folder.path).state for outcome in outcomes} == {"released"}  # type: ignore[union-attr]


@pytest.mark.slow
def test_what_the_pool_refuses_is_told(rows: Any, control: Any, pool: Any) -> None:
    pool.refuses = "the queue is closed"
    outcomes = rows("a", "b")
    control(outcomes).step()
    assert [(outcome.state, outcome.reason) for outcome in outcomes] == [("failed", "the queue is closed")] * 2


@pytest.mark.slow
def test_stopping_ends_the_rows_and_gives_everything_back(rows: Any, control: Any, pool: Any) -> None:
    outcomes = rows("a", "b", "c")
    sweep = control(outcomes)
    sweep.step()
    sweep.stop()
    assert states(outcomes) == ["interrupted", "interrupted", "pending"]
    for outcome in outcomes[:2]:
        assert read(outcome.folder.path).state == "released"  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_defect_of_the_sweep_does_not_kill_its_runs_unsaved(
    rows: Any, control: Any, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = rows("a", "b")
    sweep = control(outcomes)

    def fails(*_: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(sweep, "_beat", fails)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        sweep.run()
    assert states(outcomes) == ["interrupted", "interrupted"]


@pytest.mark.slow
def test_after_a_stop_only_what_a_queue_keeps_is_submitted(rows: Any, control: Any, pool: Any) -> None:
    pool.outlives = True
    outcomes = rows("kept", "dropped", "waits")
    sweep = control(outcomes)
    sweep.step()
    del pool.running["dropped-seed1"]  # not yet handed over
    sweep.stop()
    assert states(outcomes) == ["submitted", "pending", "pending"]
    held = [read(outcome.folder.path) for outcome in outcomes]
    assert [record and record.state for record in held] == ["queued", "released", None]
    assert [outcome.shown for outcome in outcomes] == ["queued", "pending", "pending"]
    started = Lease.claim(outcomes[0].folder.path, held[0], "running")  # as its job does
    assert started is not None and outcomes[0].shown == "running"
    started.release()
    outcomes[0].folder.set_status("interrupted")
    assert outcomes[0].shown == "interrupted"


@pytest.mark.slow
def test_rows_whose_source_was_stopped_are_left_to_the_same_command(rows: Any, control: Any, pool: Any) -> None:
    """As by scancel: they would train networks of their own if they started now."""
    source, tests = outcomes = rows("a", "b")
    variation = replace(tests.job.config.variation, reuse="a")
    tests.job = replace(tests.job, config=replace(tests.job.config, variation=variation))
    sweep = control(outcomes)
    sweep.step()
    source.folder.set_status("running")
    pool.end("a-seed1", "interrupted", ExitCode.TERMINATED)
    sweep.step()
    assert pool.submitted == ["a-seed1"]
    assert states(outcomes) == ["interrupted", "interrupted"]
    assert tests.reason == "a, seed 1, whose weights it tests, was interrupted"


@pytest.mark.slow
def test_a_job_that_has_left_the_queue_unseen_leaves_no_lease(rows: Any, control: Any, pool: Any) -> None:
    pool.outlives, pool.most = True, 1
    first, second = rows("first", "second")
    for outcome in (first, second):
        assert Lease.claim(outcome.folder.path, None, "queued", pool="fake", key=f"{outcome.job.row}-seed1") is not None
    pool.running["first-seed1"] = first.pooled()  # the other one was cancelled
    control([first, second])._give_back_lost()
    held = [read(outcome.folder.path) for outcome in (first, second)]
    assert [record and record.state for record in held] == ["queued", "released"]


@pytest.mark.slow
def test_after_a_stop_the_run_of_another_sweep_is_elsewhere(
    rows: Any, control: Any, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    control(rows("a")).step()
    again = rows("a", "b")
    second = control(again)
    second.step()
    monkeypatch.setattr(pool, "stop", lambda: pool.end("b-seed1", "interrupted", 130))
    second.stop()
    assert states(again) == ["elsewhere", "interrupted"]


@pytest.mark.slow
def test_the_summary_has_the_seconds_of_all_launches(
    rows: Any, finished: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("variations.configuration.doors._typed", [Path("/other/conf")])
    monkeypatch.setattr("variations.configuration.doors._given", [Path("/further")])
    outcomes = rows("a", "b", "c", changes=["trainer=ddp", "trainer.devices=4"])
    outcomes[0].job = replace(outcomes[0].job, overrides=("sweep=mine", "variation=mine/a", "seed=1"))
    finished(outcomes[0]).write_result({"seconds": 7200.0})
    outcomes[0].state, outcomes[0].seconds = "finished", 12.0  # of the last launch only
    stopped = RunFolder(outcomes[1].folder.path).create(to_dict(outcomes[1].job.config))
    for seconds in (10.0, 31.2):
        stopped.measurements.append({"step": seconds, "seconds": seconds})
    outcomes[1].state, outcomes[1].seconds = "interrupted", 5.0
    summary(outcomes, typed=["sweep=mine", "trainer=ddp", "seeds=[1,2]", "rows=[a,b]"])
    told = capsys.readouterr().out
    lines = [line.replace("│", " ").split() for line in told.splitlines()]
    cells = {line[0]: line[3:5] for line in lines if line and line[0] in ("a", "b", "c")}
    assert cells["a"] == ["7200", "8"]
    assert cells["b"] == ["31", "0.035"]
    assert cells["c"] == []
    assert f"Folders: {outcomes[0].folder.path.parent.parent}/ROW/seedN" in told
    place = f"runs={outcomes[0].job.config.runs} 'hydra.searchpath=[file:///other/conf]'"
    assert told.endswith(
        f"\nTable: python src/table.py sweep=mine 'seeds=[1,2]' 'rows=[a,b]' {place} --config-dir=/further\n"
    )


def test_the_summary_cuts_no_row_short(
    rows: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = f"{'model.d_model=64,' * 6}seed-independent"
    summary(rows(f"{long},trainer.precision=32-true", f"{long},trainer.precision=bf16-mixed"))
    first = [line.split("│")[1].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert "".join(first) == f"{long},trainer.precision=32-true{long},trainer.precision=bf16-mixed"


def test_a_row_whose_folder_cannot_be_made_says_so(rows: Any, control: Any, pool: Any) -> None:
    outcomes = rows("a", "b")
    outcomes[0].folder.path.parent.mkdir(parents=True)
    outcomes[0].folder.path.write_text("a file in its place")
    outcomes[1].folder.path.parent.write_text("and in the row's")
    control(outcomes).step()
    assert states(outcomes) == ["failed", "failed"] and not pool.submitted
    for outcome in outcomes:
        assert "cannot be made or written" in outcome.reason and "runs=DIR" in outcome.reason


@pytest.mark.slow
def test_a_finished_row_is_not_changed_by_allowed_keys(rows: Any, control: Any, finished: Any) -> None:
    before = (finished(rows("a")[0]).path / "config.yaml").read_bytes()
    outcomes = rows("a", changes=["trainer.max_steps=7", "resume.allow=[trainer.max_steps]"])
    control(outcomes).step()
    assert states(outcomes) == ["failed"] and "finished run" in outcomes[0].reason
    assert (outcomes[0].folder.path / "config.yaml").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("result", [None, "{", "[1]"])
def test_a_finished_row_whose_result_is_lost_is_done_again(
    rows: Any, control: Any, pool: Any, finished: Any, result: str | None
) -> None:
    folder = finished(rows("a")[0])
    path = folder.path / "result.json"
    path.unlink() if result is None else path.write_text(result)
    outcomes = rows("a")
    assert states(outcomes) == ["pending"]
    sweep = control(outcomes)
    sweep.step()
    assert pool.submitted == ["a-seed1"]
    status = folder.status()
    assert status is not None and status.reason == "its result.json is missing, so it is tested again"
    assert folder.state() == "interrupted"
    pool.end("a-seed1", "finished")
    sweep.step()
    assert states(outcomes) == ["finished"]
    assert states(rows("a")) == ["skipped"]


@pytest.mark.slow
def test_force_makes_one_new_attempt_and_goes_on_with_it(rows: Any, control: Any, pool: Any, finished: Any) -> None:
    home = finished(rows("a")[0]).path
    sweep = control(rows("a", changes=["force=true"]))
    sweep.step()
    assert pool.running["a-seed1"].folder == home.with_name("seed1-attempt2")
    pool.end("a-seed1", "interrupted", 130)
    sweep.step()
    assert rows("a", changes=["force=true"])[0].folder.path == home.with_name("seed1-attempt2")


@pytest.mark.slow
def test_a_finished_row_with_a_damaged_result_is_named_and_not_skipped(rows: Any, finished: Any) -> None:
    (row,) = rows("a")
    for result, fault in (
        ({"scores": 5}, "scores"),
        ({"scores": {"test": {"bleu": {"value": 250.0}}}}, "can only be between 0 and 100"),
    ):
        finished(row).write_result(result)
        outcome = Outcome.of(row.job)
        assert (outcome.state, outcome.score()) == ("failed", "")
        assert fault in outcome.reason
        assert outcome.reason.endswith("restore result.json, or delete it to test the run again.")


@pytest.mark.slow
def test_a_finished_row_with_the_result_of_another_run_is_named_and_not_skipped(rows: Any, finished: Any) -> None:
    (other,), (row,) = (map(finished, rows(name, changes=[f"model.h={h}"])) for name, h in (("a", 1), ("b", 2)))
    row.path.joinpath("result.json").write_bytes(other.path.joinpath("result.json").read_bytes())
    (outcome,) = rows("b", changes=["model.h=2"])
    assert outcome.state == "failed"
    assert "config.yaml is not the configuration of result.json" in outcome.reason


@pytest.mark.slow
def test_a_row_whose_folder_is_a_copy_of_another_one_is_named_and_not_skipped(rows: Any, finished: Any) -> None:
    home = finished(rows("a")[0]).path
    shutil.copytree(home.parent, home.parent.with_name("b"))
    (outcome,) = rows("b")
    assert outcome.state == "failed"
    assert "b/seed1: config.yaml has variation.row='a', so this folder is a copy of another one" in outcome.reason


@pytest.mark.slow
def test_an_error_before_a_run_could_record_it_is_read_from_its_log(rows: Any, control: Any, pool: Any) -> None:
    sweep = control(rows("a", retries=0))
    sweep.step()
    log = pool.running["a-seed1"].folder / "log.txt"
    log.write_text("== 1: process 1\nerror: an earlier one\n== 2: process 2\nerror: 1 fault:\n  - no GPU\n")
    pool.end("a-seed1", None, 2, "Slurm job 2")
    sweep.step()
    (outcome,) = sweep.outcomes
    assert (outcome.state, outcome.reason) == ("failed", "1 fault: - no GPU (Slurm job 2)")
    assert outcome.folder.status().reason == outcome.reason
