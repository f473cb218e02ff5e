"""The run store keeps its data complete and without duplicates, and reports errors clearly."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from variations.store.atomic import read_yaml, write_json, write_yaml
from variations.store.checksums import sidecar
from variations.store.conflicts import history, moved, with_history
from variations.store.contents import sealed
from variations.store.lease import Lease, hold, read
from variations.store.ledger import (
    RunFolder,
    attempts,
    config_hash,
    latest,
    next_attempt,
    run_home,
    workplace,
)
from variations.store.process_identity import Process
from variations.system.errors import InUseError, UserError
from variations.tasks.translation.config import TranslationConfig

Configure = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, configuration: Configure) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "sweep" / "row" / "seed1").create(configuration())


def checkpoint(folder: RunFolder, step: int) -> Path:
    """Write a sound checkpoint, of no contents."""
    path = folder.checkpoints / f"step{step}.ckpt"
    path.write_text("")
    sidecar(path).write_text(hashlib.sha256().hexdigest())
    return path


def test_home_of_a_row_and_of_a_single_run() -> None:
    assert run_home("runs", sweep="attention_table3", row="A_h16", seed=2) == Path("runs/attention_table3/A_h16/seed2")
    assert run_home("runs", name="mine", seed=1) == Path("runs/single/mine/seed1")


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp", "", ".hidden", "a\\b"])
def test_a_name_cannot_leave_the_store(name: str) -> None:
    with pytest.raises(UserError, match="cannot name a run"):
        run_home("runs", name=name, seed=1)


def test_configuration_is_frozen_as_given(folder: RunFolder, configuration: Configure) -> None:
    assert folder.config() == configuration()
    assert sorted(path.name for path in folder.path.iterdir()) == ["checkpoints", "config.yaml", "hypotheses"]


def test_a_finished_run_keeps_its_configuration_when_created_again(folder: RunFolder, configuration: Configure) -> None:
    folder.write_result({"steps": 100000})
    folder.set_status("finished")
    before = (folder.path / "config.yaml").read_bytes()
    folder.create(configuration(runs="/elsewhere", force=True, data__cache="/other"))
    assert (folder.path / "config.yaml").read_bytes() == before


def test_another_configuration_is_refused_with_the_keys_that_differ(
    folder: RunFolder, configuration: Configure
) -> None:
    with pytest.raises(UserError) as caught:
        folder.create(configuration(model__dropout=0.5, recipe__lr=2.0))
    message = str(caught.value)
    assert "model.dropout: 0.1 → 0.5" in message
    assert "recipe.lr: 1.0 → 2.0" in message
    assert "force=true" in message
    assert "resume.allow=[model.dropout,recipe.lr]" in message
    assert folder.config()["model"]["dropout"] == 0.1


def test_allowed_keys_may_differ_and_the_former_configuration_is_kept(
    folder: RunFolder, configuration: Configure
) -> None:
    folder.create(configuration(trainer__max_steps=200, resume__allow=["trainer.max_steps"]))
    assert folder.config()["trainer"]["max_steps"] == 200
    kept = RunFolder(folder.path).path / "config-1.yaml"
    assert "max_steps: 100000" in kept.read_text()


def test_a_former_configuration_is_never_overwritten_by_a_later_one(
    folder: RunFolder, configuration: Configure
) -> None:
    steps = (200, 300, 400)
    for number in steps:
        folder.create(configuration(trainer__max_steps=number, resume__allow=["trainer.max_steps"]))
    (folder.path / "config-1.yaml").unlink()
    folder.create(configuration(trainer__max_steps=500, resume__allow=["trainer.max_steps"]))
    kept = {path.name: read_yaml(path)["trainer"]["max_steps"] for path in folder.path.glob("config-[0-9]*.yaml")}
    assert kept == {"config-2.yaml": 200, "config-3.yaml": 300, "config-4.yaml": 400}


def test_data_cannot_change_in_mid_training_but_their_folder_can(folder: RunFolder, configuration: Configure) -> None:
    checkpoint(folder, 40)
    folder.set_status("interrupted", checkpoint=40)
    (folder.path / "inputs.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in folder.path.glob("*.*")}
    with pytest.raises(UserError, match=r"data\.lowercase cannot change during training"):
        folder.create(configuration(data__lowercase=True, resume__allow=["data"]))
    assert {path.name: path.read_bytes() for path in folder.path.glob("*.*")} == before
    folder.create(configuration(data__root="/moved", resume__allow=["data.root"]))
    assert folder.config()["data"]["root"] == "/moved"
    assert (folder.path / "inputs.json").exists()


def test_what_changed_after_a_checkpoint_is_listed_for_good(folder: RunFolder, configuration: Configure) -> None:
    allow = ["trainer", "recipe.lr"]
    folder.create(configuration(recipe__lr=3.0, resume__allow=allow))  # nothing has been trained yet
    assert folder.config()["resume"]["changed"] == []
    checkpoint(folder, 40)
    folder.set_status("interrupted", checkpoint=40)
    folder.create(configuration(recipe__lr=2.0, resume__allow=allow))
    folder.create(configuration(recipe__lr=2.0, trainer__progress=False))
    assert folder.config()["resume"]["changed"] == ["recipe.lr 3.0 → 2.0 at step 40"]
    checkpoint(folder, 1200)
    folder.set_status("interrupted", checkpoint=1200)
    folder.create(configuration(recipe__lr=3.0, resume__allow=allow))
    changed = ["recipe.lr 3.0 → 2.0 at step 40", "recipe.lr 2.0 → 3.0 at step 1,200"]
    assert folder.config()["resume"]["changed"] == changed


def test_a_change_that_is_taken_back_before_the_next_checkpoint_leaves_no_mark(
    folder: RunFolder, configuration: Configure
) -> None:
    checkpoint(folder, 40)
    folder.set_status("interrupted", checkpoint=40)
    allow = ["model.dropout", "recipe.lr"]
    folder.create(configuration(model__dropout=0.9, recipe__lr=3.0, resume__allow=allow))
    (folder.path / "subwords.model").write_text("")
    folder.create(configuration(recipe__lr=3.0))  # back, without leave
    assert (folder.path / "subwords.model").exists()
    assert folder.config()["resume"]["changed"] == ["recipe.lr 1.0 → 3.0 at step 40"]
    with pytest.raises(UserError, match=r"recipe\.lr: 3\.0 → 2\.0"):
        folder.create(configuration(recipe__lr=2.0))
    folder.create(configuration())
    assert folder.config() == configuration()


def test_a_change_counts_from_the_newest_checkpoint_that_is_there(folder: RunFolder, configuration: Configure) -> None:
    allow = ["recipe.lr"]
    checkpoint(folder, 40)
    folder.set_status("interrupted", checkpoint=40)
    for rate in (3.0, 2.0, 1.0):  # nothing is trained in between
        folder.create(configuration(recipe__lr=rate, resume__allow=allow))
    assert folder.config()["resume"]["changed"] == []
    folder.create(configuration(recipe__lr=3.0, resume__allow=allow))
    checkpoint(folder, 50)  # and killed before status.json has it
    with pytest.raises(UserError, match=r"recipe\.lr: 3\.0 → 1\.0"):
        folder.create(configuration())
    for path in folder.checkpoints.glob("*"):
        path.rename(path.with_suffix(".away"))
    folder.create(configuration(recipe__lr=1.0, resume__allow=allow))  # the caller refuses: its checkpoints are lost
    changed = ["recipe.lr 1.0 → 3.0 at step 40", "recipe.lr 3.0 → 1.0 during training"]
    assert folder.config()["resume"]["changed"] == changed


def test_a_change_counts_from_the_newest_sound_checkpoint(folder: RunFolder, configuration: Configure) -> None:
    checkpoint(folder, 40)
    checkpoint(folder, 50).write_text("damaged")  # the run is continued from step 40
    folder.set_status("interrupted", checkpoint=50)
    folder.create(configuration(recipe__lr=3.0, resume__allow=["recipe.lr"]))
    checkpoint(folder, 50)
    folder.create(configuration(resume__allow=["recipe.lr"]))
    changed = ["recipe.lr 1.0 → 3.0 at step 40", "recipe.lr 3.0 → 1.0 at step 50"]
    assert folder.config()["resume"]["changed"] == changed


@pytest.mark.parametrize(
    "key", ["trainer.devices", "trainer.tokens_per_batch", "recipe.batch_tokens", "model.d_ff", "model.h", "branch.M"]
)
def test_what_the_stored_state_would_not_fit_cannot_change_in_mid_training(
    key: str, tmp_path: Path, configuration: Configure
) -> None:
    weighted = {"model__kind": "weighted"}
    folder = RunFolder(tmp_path / "runs" / "sweep" / "row" / "seed1").create(configuration(**weighted))
    changes = {key.replace(".", "__"): 4, "recipe__lr": 2.0, **weighted}
    with pytest.raises(UserError) as caught:
        folder.create(configuration(**changes, resume__allow=["trainer", "recipe", "model", "branch"]))
    message = str(caught.value)
    assert f"{key}: " in message and f"{key} cannot change during training." in message
    assert "resume.allow" not in message and folder.config() == configuration(**weighted)


def test_a_run_cannot_be_made_shorter_than_it_is(folder: RunFolder, configuration: Configure) -> None:
    checkpoint(folder, 40)
    folder.set_status("interrupted", checkpoint=40)
    with pytest.raises(UserError, match=r"to step 40 already, so it cannot end at trainer\.max_steps=39: set it to at"):
        folder.create(configuration(trainer__max_steps=39, resume__allow=["trainer"]))
    assert folder.config()["trainer"]["max_steps"] == 100_000
    folder.create(configuration(trainer__max_steps=40, resume__allow=["trainer"]))


def test_a_finished_run_is_not_changed_even_by_allowed_keys(folder: RunFolder, configuration: Configure) -> None:
    folder.write_result({"steps": 100000})
    folder.set_status("finished")
    files = {path.name: path.read_bytes() for path in folder.path.glob("*.*")}
    with pytest.raises(UserError) as caught:
        folder.create(configuration(trainer__max_steps=200, resume__allow=["trainer.max_steps"]))
    message = str(caught.value)
    assert "finished run" in message and "trainer.max_steps: 100000 → 200" in message
    assert "force=true" in message and "sweep.name=" in message and "resume.allow" not in message
    assert {path.name: path.read_bytes() for path in folder.path.glob("*.*")} == files


def test_the_advice_keeps_what_is_allowed_already(folder: RunFolder, configuration: Configure) -> None:
    changes = {"trainer__max_steps": 200, "recipe__lr": 2.0}
    with pytest.raises(UserError, match=r"'resume\.allow=\[trainer\.max_steps,recipe\.lr\]'\."):
        folder.create(configuration(**changes, resume__allow=["trainer.max_steps"]))
    folder.create(configuration(**changes, resume__allow=["trainer.max_steps", "recipe.lr"]))
    assert folder.config()["recipe"]["lr"] == 2.0


def test_a_run_that_somebody_is_at_is_not_changed(folder: RunFolder, configuration: Configure) -> None:
    changed = configuration(trainer__max_steps=200, resume__allow=["trainer.max_steps"])
    code = (
        "import sys; from pathlib import Path; from variations.store.lease import hold\n"
        "with hold(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        for wanted in (changed, configuration(model__h=16)):
            with pytest.raises(InUseError, match="in use by process"):
                folder.create(wanted)
        assert folder.config() == configuration()
        other.kill()
        other.wait()
    assert folder.create(changed).config()["trainer"]["max_steps"] == 200


def test_a_run_that_ended_before_its_first_measurement_gives_its_folder_to_another(
    folder: RunFolder, configuration: Configure
) -> None:
    (folder.path / "subwords.model").write_text("of the former run")
    with hold(folder.path):
        folder.set_status("running")
    folder.set_status("interrupted")
    folder.create(configuration(model__h=16))
    assert folder.config()["model"]["h"] == 16
    assert "h: 8" in (folder.path / "config-1.yaml").read_text()
    assert not (folder.path / "subwords.model").exists()
    lease = Lease.claim(folder.path, read(folder.path), "queued")  # as a sweep does
    folder.create(configuration(model__h=4))
    assert folder.config()["model"]["h"] == 4 and lease is not None and lease.held()
    assert (folder.path / "config-2.yaml").exists()
    lease.release()


def test_a_change_is_said_to_be_at_the_step_from_which_training_continues() -> None:
    lines = ["recipe.lr 1.0 → 2.0 at step 850", "recipe.norm 7.0 → 9.0 at step 865", "model.h 4 → 8 during training"]
    assert moved(lines, 865) == lines
    assert moved(lines, 850) == [lines[0], "recipe.norm 7.0 → 9.0 at step 850", lines[2]]
    twice = [lines[0], "recipe.lr 2.0 → 3.0 at step 1,865", "recipe.norm 7.0 → 9.0 at step 850"]
    assert moved(twice, 850) == ["recipe.lr 1.0 → 3.0 at step 850", twice[2]]
    assert moved([lines[0], "recipe.lr 2.0 → 1.0 at step 900"], 850) == []  # what was between has trained nothing


def test_a_change_after_a_checkpoint_that_is_damaged_since_is_at_the_one_before(folder: RunFolder) -> None:
    write_yaml(folder.path / "config.yaml", with_history(folder.config(), ["recipe.norm 7.0 → 9.0 at step 865"]))
    for step in (850, 865):
        checkpoint(folder, step)
    folder.restate_changes()
    assert history(folder.config()) == ["recipe.norm 7.0 → 9.0 at step 865"]
    (folder.checkpoints / "step865.ckpt").write_text("damaged")
    folder.restate_changes()
    assert history(folder.config()) == ["recipe.norm 7.0 → 9.0 at step 850"]


@pytest.mark.parametrize("left", ["metrics.jsonl", "result.json", "checkpoints/step4.ckpt"])
def test_what_a_run_has_left_is_never_given_to_another(folder: RunFolder, configuration: Configure, left: str) -> None:
    with hold(folder.path):
        (folder.path / left).write_text("{}\n")
    with pytest.raises(UserError, match="these keys differ"):
        folder.create(configuration(model__h=16))
    (folder.path / "config.yaml").unlink()
    with pytest.raises(UserError, match=r"but not its config\.yaml.*: restore that file"):
        folder.create(configuration())
    assert not folder.exists()


def test_identity_ignores_places_and_words_but_not_science(configuration: Configure) -> None:
    same = configuration(runs="/x", data__root="/y", logger__kind="none", variation__label="another", name="n")
    assert config_hash(same) == config_hash(configuration())
    for change in ({"seed": 2}, {"model__N": 5}, {"data__train_pairs": 100}, {"decode__beam": 5}):
        assert config_hash(configuration(**change)) != config_hash(configuration())


def test_identity_survives_a_key_that_the_schema_gains(configuration: Configure) -> None:
    old = configuration()
    del old["model"]["task_vectors"]
    assert config_hash(old) == config_hash(configuration())


def test_status_keeps_start_and_command_through_later_words(folder: RunFolder) -> None:
    assert folder.status() is None
    assert folder.state() == "absent"
    folder.set_status("running", command="train.py", step=10)
    started = folder.status()
    folder.set_status("failed", "out of memory", launcher="slurm")
    status = folder.status()
    assert started is not None
    assert status is not None
    assert (status.state, status.reason, status.command, status.step) == ("failed", "out of memory", "train.py", 10)
    assert status.started == started.started
    assert status.started.endswith("+00:00")
    assert status.pid == os.getpid()
    assert status.extra == {"launcher": "slurm"}


@pytest.mark.parametrize(
    "text",
    [
        '{"state": "fin\n',
        "[1]",
        '{"state": "done"}',
        '{"state": "failed", "reason": ["x"]}',
        '{"state": "running", "step": "1"}',
    ],
)
def test_a_damaged_status_says_what_to_do(folder: RunFolder, text: str) -> None:
    (folder.path / "status.json").write_text(text)
    with pytest.raises(
        UserError, match=r"status\.json.*; delete it, and start the run again: it continues from its checkpoints\.$"
    ):
        folder.state()


def test_an_unknown_state_is_an_error(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match="valid: running, finished, failed, interrupted"):
        folder.set_status("done")


def stored_as(folder: RunFolder, **changes: Any) -> None:
    """Write a status as another process or an older version leaves it; None removes a key."""
    folder.set_status("running")
    stored = json.loads((folder.path / "status.json").read_text()) | changes
    kept = {key: value for key, value in stored.items() if value is not None}
    (folder.path / "status.json").write_text(json.dumps(kept))


@pytest.mark.slow
def test_running_of_a_dead_process_is_interrupted(folder: RunFolder) -> None:
    folder.set_status("running")
    assert folder.state() == "running"
    code = "import sys; from variations.store.ledger import RunFolder; RunFolder(sys.argv[1]).set_status('running')"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", code, str(folder.path)], check=True, env=environment)
    assert folder.state() == "interrupted"


def test_a_number_that_another_process_was_given_is_not_the_run(folder: RunFolder) -> None:
    own = Process.of()
    stored_as(folder, process=replace(own, born=own.born - 1).key)
    assert folder.state() == "interrupted"


def test_a_process_that_has_ended_and_is_not_yet_buried_is_not_the_run(folder: RunFolder) -> None:
    child = os.fork()
    if child == 0:
        folder.set_status("running")
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        assert folder.state() == "interrupted"
    finally:
        os.waitpid(child, 0)


def test_a_status_without_a_birth_time_is_believed_by_its_number(folder: RunFolder) -> None:
    stored_as(folder, process=None)
    assert folder.state() == "running"
    stored_as(folder, process=None, pid=2**22 + 1)  # beyond the largest PID on Linux
    assert folder.state() == "interrupted"


def test_a_copy_of_a_run_that_runs_is_interrupted_and_takes_what_is_typed(folder: RunFolder) -> None:
    with hold(folder.path):
        folder.set_status("running")
        copy = RunFolder(folder.path.with_name("copy"))
        shutil.copytree(folder.path, copy.path, ignore=shutil.ignore_patterns(".*"))
        assert (folder.state(), copy.state()) == ("running", "interrupted")
        typed = copy.config()
        typed["logger"]["kind"] = "none"
        assert copy.create(typed).config()["logger"]["kind"] == "none"
        own = Lease.claim(copy.path, read(copy.path), "running")  # as whoever continues the copy, once it may
        assert own is not None
        copy.set_status("running")
        assert copy.state() == "running"
        own.release()


def test_a_host_that_fell_silent_long_ago_runs_nothing(folder: RunFolder) -> None:
    far = replace(Process.of(), host="far", place="another machine")
    stored_as(folder, process=far.key, host="far")
    assert folder.state() == "running"
    ago = time.time() - 10 * 30 * 24 * 3600
    os.utime(folder.path / "status.json", (ago, ago))
    assert folder.state() == "interrupted"
    held = Lease.claim(folder.path, None, "running")
    assert held is not None
    held.record = replace(held.record, host="far", place="another machine")
    assert held.beat()
    assert folder.state() == "running"  # slow, but with a heartbeat
    os.utime(held.path, (ago, ago))
    assert folder.state() == "interrupted"
    os.utime(held.path)
    held.release()
    assert folder.state() == "interrupted"


def test_metrics_come_back_as_written_and_not_finite_becomes_null(folder: RunFolder) -> None:
    folder.measurements.append({"step": 1, "train/loss": 2.5})
    folder.measurements.append({"step": 2, "train/loss": float("nan"), "branch/encoder.0.kappa": [0.5, 0.5]})
    assert folder.measurements.read() == [
        {"step": 1, "train/loss": 2.5},
        {"step": 2, "train/loss": None, "branch/encoder.0.kappa": [0.5, 0.5]},
    ]


def test_a_line_cut_off_by_a_kill_is_passed_over_and_then_overwritten(folder: RunFolder) -> None:
    folder.measurements.append({"step": 1})
    with folder.measurements.path.open("a") as file:
        file.write('{"step": 2, "train/lo')
    again = RunFolder(folder.path)
    assert again.measurements.read() == [{"step": 1}]
    again.measurements.append({"step": 2})
    assert again.measurements.read() == [{"step": 1}, {"step": 2}]


def test_damage_in_the_middle_is_named_by_line(folder: RunFolder) -> None:
    folder.measurements.path.write_text('{"step": 1}\nnonsense\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"metrics.jsonl, line 2"):
        folder.measurements.read()


def test_lines_without_a_metric_are_not_even_parsed(folder: RunFolder) -> None:
    folder.measurements.path.write_text(
        '{"step": 1, "dev/nll": 2.5}\nnonsense\n{"step": 3}\n{"step": 4, "dev/nll": 2}\n'
    )
    assert folder.measurements.read(having='"dev/nll"') == [{"step": 1, "dev/nll": 2.5}, {"step": 4, "dev/nll": 2}]


def test_truncation_keeps_lines_up_to_the_step(folder: RunFolder) -> None:
    for step in (10, 20, 20, 30):
        folder.measurements.append({"step": step})
    with folder.measurements.path.open("a") as file:
        file.write('{"st')
    RunFolder(folder.path).measurements.truncate(20)
    assert folder.measurements.path.read_text() == '{"step": 10}\n{"step": 20}\n{"step": 20}\n'


def test_result_has_a_stable_layout_and_leaves_no_temporary_file(folder: RunFolder) -> None:
    folder.write_result({"b": 1, "a": {"d": float("inf"), "c": 2}})
    written = (folder.path / "result.json").read_text()
    assert written.startswith('{\n  "a": {\n    "c": 2,\n    "d": null\n  },\n  "b": 1,\n  "config_sha256": "')
    assert folder.result() == sealed({"a": {"c": 2, "d": None}, "b": 1}, folder.config(), None)
    assert not list(folder.path.glob(".*.tmp"))


def test_a_write_that_fails_leaves_the_old_file(folder: RunFolder) -> None:
    folder.write_result({"a": 1})
    with pytest.raises(TypeError, match="Cannot store"):
        folder.write_result({"a": object()})
    assert (folder.result() or {})["a"] == 1


def test_attempts_stand_beside_the_first_and_the_last_finished_is_read(
    folder: RunFolder, configuration: Configure
) -> None:
    home = folder.path
    assert next_attempt(home.with_name("seed9")) == home.with_name("seed9")
    folder.write_result({"steps": 100000})
    folder.set_status("finished")
    second = RunFolder(next_attempt(home)).create(configuration())
    assert second.path.name == "seed1-attempt2"
    assert (second.seed, second.attempt) == (1, 2)
    second.set_status("failed", "x")
    assert next_attempt(home).name == "seed1-attempt3"
    RunFolder(home.with_name("seed10")).create(configuration())
    assert [item.path.name for item in attempts(home)] == ["seed1", "seed1-attempt2"]
    assert latest(home) is not None
    assert latest(home).path == home  # type: ignore[union-attr]
    assert workplace(home, TranslationConfig(force=True)) == second.path
    second.set_status("finished")
    second.write_result({"steps": 100000})
    assert latest(home).path == second.path  # type: ignore[union-attr]
    for lost in ("result.json", "status.json"):
        kept = (second.path / lost).read_text()
        (second.path / lost).write_text("{")
        assert latest(home).path == second.path  # type: ignore[union-attr]
        (second.path / lost).write_text(kept)
    result = second.path / "result.json"
    result.rename(second.path / "kept")
    for state in ("interrupted", "running", "failed"):  # while it is tested again, and if that is stopped
        second.set_status(state, "x")
        assert latest(home).path == second.path  # type: ignore[union-attr]
    (second.path / "kept").rename(result)
    (second.path / "status.json").unlink()  # as is advised if it is damaged
    assert latest(home).path == second.path  # type: ignore[union-attr]
    second.set_status("finished")
    assert workplace(home, TranslationConfig(force=True)).name == "seed1-attempt3"
    assert latest(home.with_name("seed7")) is None


def changed(**keys: Any) -> TranslationConfig:
    config = TranslationConfig(force=True)
    config.decode.beam = keys.get("beam", 4)
    config.resume.allow = keys.get("allow", [])
    config.trainer.max_steps = keys.get("max_steps", 100_000)
    return config


def test_a_trial_run_does_not_hide_a_finished_one(tmp_path: Path, configuration: Any) -> None:
    home = tmp_path / "single" / "run" / "seed1"
    folder = RunFolder(home).create(configuration())
    folder.write_result({"schema": 1, "steps": 1})
    folder.set_status("finished")
    trial = TranslationConfig(force=True)
    trial.debug.name = "limit"
    with pytest.raises(UserError, match=r"would show the quick check \(debug=limit\) in its place: give that"):
        workplace(home, trial)
    assert workplace(home, TranslationConfig(force=True)).name == "seed1-attempt2"


@pytest.mark.parametrize(
    ("config", "begun", "name"),
    [
        (changed(), True, "seed1-attempt2"),
        (changed(beam=7), True, "seed1-attempt3"),
        (changed(beam=7), False, "seed1-attempt2"),
        (changed(beam=7, allow=["decode.beam"]), True, "seed1-attempt2"),
        (changed(max_steps=9, allow=["trainer.max_steps"]), True, "seed1-attempt3"),
    ],
    ids=["same", "other", "other, nothing lost", "allowed", "trained further"],
)
def test_a_forced_run_continues_an_unfinished_attempt_only_if_that_can_take_its_configuration(
    config: TranslationConfig, begun: bool, name: str, folder: RunFolder, configuration: Configure
) -> None:
    folder.write_result({"steps": 100000})
    folder.set_status("finished")
    second = RunFolder(next_attempt(folder.path)).create(configuration())
    with hold(second.path):
        second.set_status("failed", "x", checkpoint=10 if begun else None)
        if begun:
            second.measurements.append({"step": 10})
            (second.checkpoints / "step10.ckpt").touch()
            sidecar(second.checkpoints / "step10.ckpt").write_text(hashlib.sha256().hexdigest())
    place = workplace(folder.path, config)
    assert place.name == name
    RunFolder(place).create(asdict(config))
    assert workplace(folder.path) == folder.path


def test_a_forced_run_continues_its_own_attempt_also_if_another_configuration_has_a_newer_one(
    folder: RunFolder,
) -> None:
    mine, other = changed(), changed(beam=7)
    for config in (mine, other):
        attempt = RunFolder(workplace(folder.path, config)).create(asdict(config))
        attempt.measurements.append({"step": 10})
        checkpoint(attempt, 10)
        attempt.set_status("interrupted", "x", checkpoint=10)
    assert [attempt.path.name for attempt in attempts(folder.path)] == ["seed1", "seed1-attempt2"]
    assert workplace(folder.path, mine) == folder.path
    assert workplace(folder.path, other).name == "seed1-attempt2"
    attempt.write_result({"steps": 10})
    attempt.set_status("finished")
    assert workplace(folder.path, mine).name == "seed1-attempt3"  # of seed1, tables would not show the result


def test_a_trial_run_does_not_hide_an_interrupted_one(folder: RunFolder) -> None:
    trial = TranslationConfig(force=True)
    trial.debug.name = "limit"
    assert workplace(folder.path, trial).name == "seed1-attempt2"  # nothing is lost yet
    checkpoint(folder, 10)
    folder.set_status("interrupted", "x", checkpoint=10)
    with pytest.raises(UserError, match="is finished or can be continued, and tables would show the quick check"):
        workplace(folder.path, trial)


def test_opening_what_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no run in .*: it has no config\.yaml"):
        RunFolder.open(tmp_path / "nothing")


def test_numbers_from_arrays_are_stored_as_numbers(folder: RunFolder) -> None:
    numpy = pytest.importorskip("numpy")
    folder.write_result({"a": numpy.float32(0.5), "b": numpy.arange(3)})
    stored = json.loads((folder.path / "result.json").read_text())
    assert (stored["a"], stored["b"]) == (0.5, [0, 1, 2])


@pytest.mark.slow
def test_experiments_start_without_torch() -> None:
    code = (
        "import sys, variations.commands.table, variations.dashboard.export, variations.store.environment\n"
        "from variations.store.environment import environment; environment()\n"
        "heavy = {'torch', 'pytorch_lightning', 'lightning', 'wandb', 'sentencepiece', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("lost", ["status.json", "result.json"])
def test_a_copy_is_known_as_one_if_either_file_is_left(lost: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.copied_from() is None
    folder.path.mkdir()
    for name in ("status.json", "result.json"):
        write_json(folder.path / name, {"state": "finished", "copied": "other/a/seed1"})
    (folder.path / lost).write_text("")
    assert folder.copied_from() == "other/a/seed1"


def test_of_two_commands_that_create_a_run_at_once_one_decides(tmp_path: Path, configuration: Configure) -> None:
    class Slow(RunFolder):
        """Finds no run, because the other command writes its configuration only after that look."""

        looked = False

        def exists(self) -> bool:
            found, self.looked = super().exists() and self.looked, True
            return found

    first = RunFolder(tmp_path / "single" / "dup" / "seed1").create(configuration(recipe__lr=1.0))
    with pytest.raises(UserError, match=r"(?s)run of another configuration.*recipe\.lr: 1\.0 → 2\.0"):
        Slow(first.path).create(configuration(recipe__lr=2.0))
    assert first.config()["recipe"]["lr"] == 1.0
    assert Slow(first.path).create(configuration(recipe__lr=1.0)).config() == first.config()
    assert sorted(path.name for path in first.path.iterdir()) == ["checkpoints", "config.yaml", "hypotheses"]


def test_attempts_of_a_row_that_may_be_entered_but_not_listed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("seed1", "seed1-attempt2", "seed1-attempt4", "seed10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()

    def refused(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refused)
    assert [folder.path.name for folder in attempts(tmp_path / "seed1")] == [
        "seed1",
        "seed1-attempt2",
        "seed1-attempt4",
    ]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert [folder.path.name for folder in attempts(tmp_path / "seed1")] == ["seed1"]
