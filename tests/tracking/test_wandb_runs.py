"""W&B: a real wandb-core reports real runs, which are killed and resumed, to a service on loopback."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from wandb_service import Service, serve
from wandb_user import KEY, environment, no_key_below, python

pytestmark = pytest.mark.slow

MIRROR = """
import os, sys
from variations.configuration.compose import load
from variations.store.ledger import RunFolder
from variations.configuration.tasks import named
from variations.training.tracking.final import Final
from variations.training.tracking.weights_and_biases import WeightsAndBiases

folder = RunFolder(sys.argv[1])
tracker = WeightsAndBiases(load(folder.path / "config.yaml"), folder, sys.argv[2])
if sys.argv[3] == "killed":
    tracker.start(folder.measurements.read()[:15])
    os.kill(os.getpid(), 9)
tracker.start(folder.measurements.read())
if sys.argv[3] == "0":
    pictures = {path.stem.partition("-")[2]: path for path in sorted((folder.path / "figures").glob("*.png"))}
    tracker.end(Final(folder.result(), named("translation").samples(folder), pictures))
tracker.close(int(sys.argv[3]))
"""
"""Report a run to W&B without training it again."""

TIMES = ("_timestamp", "_runtime")
SWEEP = ["sweep.name=widths", "variation.table=widths", "variation.row=narrow", "logger.tags=[trial]"]


@pytest.fixture(scope="module")
def online(train: Any, service: Service, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, str]:
    """A run that logs online, fails at step 15 with its last checkpoint at step 10, and is restarted."""
    home = tmp_path_factory.mktemp("online")
    env, words = environment(service, home / "wandb"), [*SWEEP, f"runs={home / 'runs'}"]
    failed = train(env, *words, last=15, how="failed")
    assert "step of a failing run" in failed.stderr
    [run] = service.runs.values()
    assert (run.exit_code, run.complete) == (1, True)
    assert [line["_step"] for line in run.history] == list(range(1, 16))
    done = train(env, *words)
    assert done.returncode == 0, done.stderr
    return home, run, failed.stdout + failed.stderr + done.stdout + done.stderr


def folder_of(home: Path) -> Path:
    return home / "runs" / "widths" / "narrow" / "seed1"


def measurements(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in history if "lr" in line]


def test_a_failed_and_continued_run_is_one_run_whose_steps_stand_there_once(
    online: tuple[Path, Any, str], service: Service
) -> None:
    home, run, _ = online
    assert len(service.runs) == 1
    assert service.unknown == []
    assert [line["trainer/global_step"] for line in measurements(run.history)] == list(range(1, 31))
    assert [line["_step"] for line in measurements(run.history)] == list(range(1, 31))
    stored = [json.loads(line) for line in (folder_of(home) / "metrics.jsonl").read_text().splitlines()]
    for ours, theirs in zip(stored, measurements(run.history), strict=True):
        for key in ("train/loss", "lr", "source_tokens"):
            assert theirs[key] == pytest.approx(ours[key], rel=1e-6)
    assert (run.exit_code, run.complete) == (0, True)


def test_the_run_says_where_it_belongs(online: tuple[Path, Any, str]) -> None:
    home, run, _ = online
    assert run.fields["groupName"] == "widths"
    assert run.fields["jobType"] == "narrow"
    assert run.fields["displayName"] == "narrow seed 1"
    assert sorted(run.fields["tags"]) == [
        "N2", "d16", "files", "narrow", "quick", "trial", "weighted", "widths",
    ]  # fmt: skip
    assert run.config == without_empty(yaml.safe_load((folder_of(home) / "config.yaml").read_text()))
    assert run.config["variation"]["table"] == "widths"


def without_empty(config: dict[str, Any]) -> dict[str, Any]:
    """Remove empty mappings, as W&B does."""
    inner = {key: without_empty(value) if isinstance(value, dict) else value for key, value in config.items()}
    return {key: value for key, value in inner.items() if value != {}}


def test_curves_have_the_number_of_updates_as_their_axis(online: tuple[Path, Any, str]) -> None:
    _, run, _ = online
    told = json.loads(run.fields["config"])["_wandb"]["value"]["m"]  # W&B's short names: 1 name, 2 pattern, 5 axis
    assert told[0]["1"] == "trainer/global_step"
    assert [metric["5"] for metric in told if metric.get("2") == "*"] == [1]


def test_branch_weights_are_histograms_and_curves(online: tuple[Path, Any, str]) -> None:
    home, run, _ = online
    last = json.loads((folder_of(home) / "metrics.jsonl").read_text().splitlines()[-1])
    line = measurements(run.history)[-1]
    for name in ("encoder.0.self", "encoder.1.self", "decoder.0.cross", "decoder.1.cross"):
        histogram = line[f"branch/{name}.kappa"]
        assert histogram["_type"] == "histogram"
        assert (histogram["bins"][0], histogram["bins"][-1], sum(histogram["values"])) == (0.0, 1.0, 2)
        for n, value in enumerate(last[f"branch/{name}.alpha"], start=1):
            assert line[f"alpha/{name}.{n}"] == pytest.approx(value)


def test_scores_translations_pictures_and_code_state_are_there(online: tuple[Path, Any, str], service: Service) -> None:
    home, run, _ = online
    result = json.loads((folder_of(home) / "result.json").read_text())
    for name, entry in result["scores"]["test"].items():
        assert run.summary[f"test/{name}"] == pytest.approx(entry["value"])
    for key in ("parameters", "flops", "steps", "source_tokens"):
        assert run.summary[key] == result[key]
    assert run.summary["final/dev_ppl"] == pytest.approx(result["loss"]["dev_ppl"])
    assert {"environment.json", "result.json", "data_card.json"} <= run.files.keys()
    environment_ = json.loads(run.files["environment.json"])
    assert environment_ == json.loads((folder_of(home) / "environment.json").read_text())
    if environment_["git"]:
        assert run.fields["commit"] == environment_["git"]["commit"]
    tables = {name: json.loads(file) for name, file in run.files.items() if name.endswith(".table.json")}
    [translations] = [table for name, table in tables.items() if "samples/test" in name]
    assert translations["columns"] == ["source", "reference", "hypothesis", "gleu"]
    assert [row[0] for row in translations["data"]] == (
        folder_of(home) / "hypotheses/test.src"
    ).read_text().splitlines()
    pictures = {name: file for name, file in run.files.items() if name.endswith(".png")}
    assert sorted(name.split("/")[3].split("_")[0] for name in pictures) == ["cross", "decoder", "encoder"]
    assert all(file.startswith(b"\x89PNG") for file in pictures.values())
    assert all(artifact.get("committed") for artifact in service.artifacts.values())


def test_the_key_reaches_the_service_and_no_file_and_no_terminal(
    online: tuple[Path, Any, str], service: Service
) -> None:
    home, _, output = online
    assert service.authorizations
    assert KEY not in output
    no_key_below(home)


def test_a_killed_offline_run_is_read_back_whole_with_the_documented_inspector(
    train: Any, service: Service, tmp_path: Path
) -> None:
    env = environment(service, tmp_path / "wandb", WANDB_MODE="offline")
    words = [*SWEEP, f"runs={tmp_path / 'runs'}"]
    told = len(service.operations)
    assert train(env, *words, last=15, how="killed").returncode == -9
    done = train(env, *words)
    assert done.returncode == 0, done.stderr
    assert "wandb:" not in done.stdout + done.stderr
    assert len(service.operations) == told
    place = folder_of(tmp_path) / "wandb"
    [newest] = place.glob("offline-run-*")
    assert len(list(place.glob("earlier-offline-run-*"))) == 1
    records = inspect(newest, env)
    history = [record["history"]["item"] for record in records if record["type"] == "history"]
    assert [line["trainer/global_step"] for line in history if "lr" in line] == list(range(1, 31))
    [run] = [record["run"] for record in records if record["type"] == "run"]
    assert (run["run_group"], run["job_type"], run["display_name"]) == ("widths", "narrow", "narrow seed 1")
    assert "weighted" in run["tags"]
    assert run["config"]["update"]["model"]["d_model"] == 16
    assert [record["exit"].get("exit_code", 0) for record in records if record["type"] == "exit"] == [0]
    no_key_below(tmp_path)


def inspect(path: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    command = [Path(sys.executable).with_name("wandb"), "leet", "inspect", "--json", path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_syncing_an_offline_run_gives_what_online_logging_gives(online: tuple[Path, Any, str], tmp_path: Path) -> None:
    folder = folder_of(online[0])
    with serve() as direct, serve() as later:
        for service, mode in ((direct, "online"), (later, "offline")):
            (folder / "wandb.json").write_text('{"id": "same"}')
            done = python(MIRROR, folder, mode, 0, env=environment(service, tmp_path / mode))
            assert done.returncode == 0, done.stderr
            if mode == "online":
                assert re.search(r"^W&B: http\S+/runs/same$", done.stderr, re.MULTILINE), done.stderr
        [offline] = (folder / "wandb").glob("offline-run-*")
        assert f"W&B: logged offline; `wandb sync {offline}` sends it\n" in done.stderr
        for _ in range(2):  # the second sync changes nothing
            command = [Path(sys.executable).with_name("wandb"), "sync", "--include-synced", offline]
            env = environment(later, tmp_path / "offline")
            synced = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
            assert synced.returncode == 0, synced.stderr
            assert_equal(direct.runs["same"], later.runs["same"])
        assert direct.unknown == later.unknown == []
    no_key_below(tmp_path, folder)


def test_a_wandb_run_of_the_user_in_the_same_process_goes_on(
    online: tuple[Path, Any, str], service: Service, tmp_path: Path
) -> None:
    folder = folder_of(online[0])
    (folder / "wandb.json").write_text('{"id": "ours"}')
    mine = "import wandb\nmine = wandb.init(mode='offline', project='mine', dir=sys.argv.pop(), id='mine')\n"
    script = (
        f"import sys\n{mine}mine.log({{'a': 1}}, step=100)\n{MIRROR}\nmine.log({{'a': 2}}, step=101)\nmine.finish()"
    )
    env = environment(service, tmp_path / "wandb")
    done = python(script, folder, "offline", 0, tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    [theirs], [ours] = (place.glob("wandb/offline-run-*") for place in (tmp_path, folder))
    history = {
        name: [record["history"]["item"] for record in inspect(path, env) if record["type"] == "history"]
        for name, path in (("theirs", theirs), ("ours", ours))
    }
    assert [line["a"] for line in history["theirs"]] == [1, 2]
    assert [line["trainer/global_step"] for line in history["ours"] if "lr" in line] == list(range(1, 31))


def assert_equal(ours: Any, theirs: Any) -> None:
    assert len(ours.history) == 31
    assert [_comparable(line) for line in ours.history] == [_comparable(line) for line in theirs.history]
    assert _comparable(ours.summary) == _comparable(theirs.summary)
    assert ours.config == theirs.config
    for key in ("groupName", "jobType", "displayName", "tags", "commit", "repo", "project"):
        assert ours.fields.get(key) == theirs.fields.get(key), key
    assert ours.exit_code == theirs.exit_code == 0
    changing = ("wandb-metadata.json", "wandb-summary.json", "config.yaml")
    assert ours.files.keys() == theirs.files.keys()
    assert {k: v for k, v in ours.files.items() if k not in changing} == {
        k: v for k, v in theirs.files.items() if k not in changing
    }


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = (*TIMES, "_wandb", "artifact_path", "_latest_artifact_path")
        return {key: _comparable(item) for key, item in sorted(value.items()) if key not in left_out}
    return value


def test_what_a_kill_kept_from_an_online_run_is_told_when_it_continues(
    online: tuple[Path, Any, str], tmp_path: Path
) -> None:
    folder = folder_of(online[0])
    (folder / "wandb.json").write_text('{"id": "same"}')
    with serve() as service:
        env = environment(service, tmp_path)
        assert python(MIRROR, folder, "online", "killed", env=env).returncode == -9
        [run] = service.runs.values()
        assert len(run.history) < 15  # wandb-core had not sent everything yet
        done = python(MIRROR, folder, "online", 0, env=env)
        assert done.returncode == 0, done.stderr
        assert [line["_step"] for line in measurements(run.history)] == list(range(1, 31))


def test_a_failed_row_is_failed_there_and_one_that_is_done_anew_is_another_run(
    online: tuple[Path, Any, str], tmp_path: Path
) -> None:
    folder = folder_of(online[0])
    with serve() as service:
        for code in (1, 3):
            (folder / "wandb.json").unlink()
            done = python(MIRROR, folder, "online", code, env=environment(service, tmp_path))
            assert done.returncode == 0, done.stderr
        assert [run.exit_code for run in service.runs.values()] == [1, 3]
        assert len({name.rpartition("-")[0] for name in service.runs}) == 1  # identity, seed, attempt


@pytest.mark.parametrize(("mode", "state"), [(None, "offline"), ("online", "refused")])
def test_a_service_that_refuses_the_key_costs_no_run_and_is_told_without_the_key(
    online: tuple[Path, Any, str], tmp_path: Path, mode: str | None, state: str
) -> None:
    folder, config = folder_of(online[0]), folder_of(online[0]) / "config.yaml"
    frozen = config.read_text()
    config.write_text(frozen.replace("  mode: null", f"  mode: {mode or 'null'}"))
    try:
        with serve() as service:
            service.refuse = 401
            done = python(MIRROR, folder, "online", 0, env=environment(service, tmp_path))
    finally:
        config.write_text(frozen)
    assert KEY not in done.stdout + done.stderr
    if state == "offline":
        assert done.returncode == 0, done.stderr
        assert "logged offline" in done.stderr
    else:
        assert done.returncode == 1
        assert "UserError: logger.mode=online, but W&B answers" in done.stderr
    no_key_below(tmp_path, folder)
