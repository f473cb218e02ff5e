"""A third-party task, regression on a line, works with every verb without changes to our package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(__file__).resolve().parent / "line_task"
"""Laid out as pip installs a package, including its entry point."""
FOREIGN = ("BLEU", "sub-word", "beam", "translat", "sentence", "vocabulary")
"""Words that must not appear in the output for this task."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def verb(name: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python("-m", "variations.commands.console", name, *words, cwd=cwd)


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(SITE)])
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "200", "OMP_NUM_THREADS": "1", "WANDB_SILENT": "true"}
    environment["VARIATIONS_CACHE"] = str(cwd / "cache")
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the sweep has run, with two mirrors."""
    folder = tmp_path_factory.mktemp("line")
    done = verb("train", "--multirun", "sweep=lines", "logger=tensorboard", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not any(word in done.stdout for word in FOREIGN)
    return folder


def test_the_table_has_the_tasks_measures_and_tests_them(home: Path) -> None:
    done = verb("table", "sweep=lines", "format=json", cwd=home)
    assert done.returncode == 0, done.stderr
    line, constant = json.loads(done.stdout)["rows"]
    scores = [[seed["scores"]["test.mse"] for seed in row["seeds"]] for row in (line, constant)]
    assert max(scores[0]) < min(scores[1])  # the points lie on a line
    text = verb("table", "sweep=lines", cwd=home).stdout
    assert "test MSE" in text and "dev MSE" in text
    assert not any(word in text for word in FOREIGN)


def test_recorded_runs_are_tested_as_the_runs_are(home: Path) -> None:
    done = verb("record", "sweep=lines", cwd=home)
    assert done.returncode == 0, done.stderr
    printed = [verb("table", "sweep=lines", "format=json", *words, cwd=home) for words in ([], ["runs=records"])]
    tables = [json.loads(done.stdout) for done in printed]
    tests = [table["rows"][1]["significance"] for table in tables]
    assert tests[0] == tests[1] and tests[0]["notes"] == []


def test_curves_and_convergence_are_drawn_of_what_the_task_records(home: Path) -> None:
    done = verb("figures", "sweep=lines", cwd=home)
    assert done.returncode == 0, done.stderr
    drawn = {Path(path).name for path in done.stdout.splitlines()}
    tables = {"convergence-dev_mse.md", "convergence-dev_mse.json"}
    assert drawn == {"differences-test_mse.svg", "learning_curves-dev_mse.svg"} | tables
    said = (home / "runs" / "lines" / "figures" / "convergence-dev_mse.md").read_text(encoding="utf-8")
    assert said.startswith("# Cost of reaching the base row's best dev MSE")
    assert verb("figures", "sweep=lines", "metric=dev/bleu", cwd=home).stderr.endswith(
        "metric=dev/bleu: no run recorded it. Did you mean 'dev/mse'? Valid: dev/mse, train/loss.\n"
    )


def test_the_dashboard_tells_of_its_runs(home: Path) -> None:
    code = """
from pathlib import Path
from variations.dashboard.api import Api
from variations.dashboard.store import Store
answers = Api(Store(Path("runs")))
for path in ("sweep/lines", "run/lines/line/seed1", "curves/lines/line/seed1"):
    print(answers.answer(path).decode())
print(answers.answer("compare", {"ids": "lines/line/seed1,lines/constant/seed1"}).decode())
"""
    done = python("-c", code, cwd=home)
    assert done.returncode == 0, done.stderr
    sweep, run, curves, compared = (json.loads(line) for line in done.stdout.splitlines())
    assert sweep["metrics"][:2] == ["dev/mse", "train/loss"]
    assert sweep["fault"] is None
    assert {entry["state"] for entry in sweep["runs"]} == {"finished"}
    assert {score["key"] for score in sweep["table"]["measures"]} == {"test.mse", "dev.mse"}
    assert run["state"] == "finished"
    assert compared["config"] == [{"key": "model.degree", "values": [1, 0]}]
    assert not any(word in json.dumps([sweep["table"], compared["scores"], compared["notes"]]) for word in FOREIGN)
    assert "dev/mse" in json.dumps(curves)


def test_tensorboard_has_every_run(home: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = sorted((home / "runs" / "lines").rglob("events.out.tfevents*"))
    assert len({path.parent for path in files}) >= 4
    events = EventAccumulator(str(files[0].parent))
    events.Reload()
    assert {"dev/mse", "train/loss"} <= set(events.Tags()["scalars"])


def test_wandb_takes_a_run_offline(home: Path) -> None:
    done = verb("train", "task=line", "logger=wandb", "logger.mode=offline", "trainer.max_steps=5", cwd=home)
    assert done.returncode == 0, done.stderr
    assert list(home.rglob("offline-run-*/run-*.wandb")), done.stderr


def test_a_search_minimises_its_error(home: Path) -> None:
    done = verb("train", "--multirun", "sweep=line_search", "logger=none", cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    table = verb("table", "sweep=line_search", cwd=home)
    assert table.returncode == 0 and "trial0" in table.stdout, table.stderr
    folders = [path.parent for path in (home / "runs" / "line_search").rglob("result.json")]
    errors = [json.loads((path / "result.json").read_text())["scores"]["dev"]["mse"]["value"] for path in folders]
    assert len(errors) == 2
    assert f"dev.mse {min(errors):.2f}" in done.stdout + done.stderr


def test_a_plan_counts_and_measures_it(home: Path) -> None:
    words = ["sweep=lines", "runs=elsewhere", "format=json", "limit=0.2", "recipe.lr=0.1,0.2", "logger=none"]
    done = verb("plan", *words, cwd=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["row"] for row in document["rows"]] == [
        f"{row},recipe.lr={lr}" for row in ("line", "constant") for lr in (0.1, 0.2)
    ]
    line, _, constant, _ = document["rows"]
    assert (line["parameters"], constant["parameters"]) == (2, 1)
    assert line["flops"] == 20 * 6 * 16 * 2  # updates, forward and backward pass, points, products
    assert line["seconds"] > 0 and line["fault"] is None
    assert not any(word in done.stdout for word in FOREIGN)


def test_a_run_that_is_stopped_in_mid_epoch_continues_with_the_batches_that_are_left(home: Path) -> None:
    (home / "stopping.py").write_text(
        """
import os, signal
from pathlib import Path
import pytorch_lightning as pl

class Stop(pl.Callback):
    def on_train_batch_end(self, trainer, *others):
        if trainer.global_step == 6 and "stopped" in trainer.lightning_module.config.name and not Path("once").exists():
            Path("once").touch()
            os.kill(os.getpid(), signal.SIGTERM)
"""
    )
    words = ["task=line", "logger=none", "trainer.max_steps=11", "+callbacks.stop._target_=stopping.Stop"]
    first, undisturbed, again = (
        verb("train", *words, f"name={name}", cwd=home) for name in ("stopped", "undisturbed", "stopped")
    )
    assert [done.returncode for done in (first, undisturbed, again)] == [143, 0, 0], first.stderr + again.stderr
    assert "resumable" not in again.stderr
    lines = {}
    for name in ("stopped", "undisturbed"):
        text = (home / "runs" / "single" / name / "seed1" / "metrics.jsonl").read_text(encoding="utf-8")
        lines[name] = [{**json.loads(line), "seconds": 0, "speed": 0} for line in text.splitlines()]
    assert lines["stopped"] == lines["undisturbed"]
    errors = [home / "runs" / "single" / name / "seed1" / "errors.npy" for name in lines]
    assert errors[0].read_bytes() == errors[1].read_bytes()


@pytest.mark.parametrize(
    ("returns", "told"),
    [
        (
            "validate = lambda *_: {'dev/mean': 1.0}",
            "returned no dev/mse, which the task names as its monitor. It returned",
        ),
        (
            "test = lambda *_: {'scores': {'test': {'mse': {'value': float('nan')}}}, 'loss': {}}",
            "gave a result that cannot be used: its test MSE is nan, not a finite number",
        ),
        ("test = lambda *_: {'scores': {'test': {}}, 'loss': {}}", "that cannot be used: it has no scores"),
    ],
)
def test_what_is_no_score_ends_the_run_in_one_sentence(home: Path, returns: str, told: str) -> None:
    code = f"import variations; from line_task import learn; learn.Regression.{returns}; "
    line = "'task=line', 'trainer.max_steps=2', 'logger=none', 'name=none', 'force=true'"
    done = python("-c", f"{code}variations.train({line})", cwd=home)
    assert done.returncode == 1
    assert told in done.stderr.splitlines()[-1], done.stderr
