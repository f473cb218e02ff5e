"""The command `table`: what it prints, which files it writes, and how it reports an invalid command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from suite import sampled

from variations.commands import table
from variations.commands.stored import SweepKeys
from variations.configuration.schema import SweepConfig
from variations.system.errors import UserError
from variations.tables.collect import SeedRun

PROJECT = Path(__file__).resolve().parents[2]


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, str(PROJECT / "src" / "table.py"), *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd="/", env=os.environ | {"PYTHONPATH": ""})


@pytest.mark.slow
def test_the_command_prints_json_and_nothing_else(make_run: Any, store: Path) -> None:
    make_run("quickstart", "transformer", 1, 85.0)
    done = command("sweep=quickstart", f"runs={store}", "format=json", "report=true")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["measured"]["test.bleu"]["mean"] == 85.0
    assert (store / "quickstart" / "report.html").is_file()


@pytest.mark.slow
def test_a_table_uses_the_rows_files_of_the_folder_that_is_named(make_run: Any, store: Path, tmp_path: Path) -> None:
    for path, text in {
        "sweep/mine.yaml": "name: mine\ntable: mine\nrows: [plain, changed]\nseeds: [1]\n",
        "variation/mine/plain.yaml": "# @package _global_\nvariation: {table: mine, row: plain, label: Plain}\n",
        "variation/mine/changed.yaml": "# @package _global_\nvariation: {table: mine, row: changed, label: Changed}\n",
    }.items():
        (tmp_path / "own" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / path).write_text(text)
    make_run("mine", "plain", 1, 85.0)
    make_run("mine", "changed", 1, 86.0)
    done = command("sweep=mine", f"runs={store}", "format=json", "--config-dir", str(tmp_path / "own"))
    assert done.returncode == 0, done.stderr
    assert [row["label"] for row in json.loads(done.stdout)["rows"]] == ["Plain", "Changed"]


@pytest.mark.slow
def test_recorded_runs_are_pointed_to(tmp_path: Path) -> None:
    (tmp_path / "records" / "quickstart").mkdir(parents=True)
    line = [sys.executable, str(PROJECT / "src" / "table.py"), "sweep=quickstart"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": ""})
    assert done.stderr.startswith("No run of sweep quickstart is in runs; runs=records has recorded ones.\n")


@pytest.mark.slow
def test_the_command_writes_the_report_and_names_it(make_run: Any, store: Path, tmp_path: Path) -> None:
    make_run("quickstart", "transformer", 1, 85.0)
    done = command("sweep=quickstart", f"runs={store}", "format=html")
    assert done.stdout == f"report: {store / 'quickstart' / 'report.html'}\n"
    done = command("sweep=quickstart", f"runs={store}", "format=html", f"out={tmp_path / 'mine.html'}")
    assert "85.00" in (tmp_path / "mine.html").read_text()


@pytest.mark.slow
def test_a_table_without_any_result_names_the_command_that_trains_its_rows(make_run: Any, store: Path) -> None:
    make_run("demo", "transformer", 1, 85.0)
    done = command("sweep=quickstart", f"runs={store}", "seeds=[1,2]", "format=csv")
    assert done.returncode == 0
    line = f"python src/train.py --multirun sweep=quickstart runs={store} 'seeds=[1,2]'"
    assert done.stderr == (
        f"No run of sweep quickstart is in {store}. It has runs of demo.\n"
        f"None of these runs is finished in {store}. To train them: {line}\n"
    )
    assert "None of these runs" not in command("sweep=demo", f"runs={store}").stderr


@pytest.mark.slow
def test_a_sweep_that_has_begun_is_continued_by_its_own_command(make_run: Any, store: Path) -> None:
    """Which may have had overrides that its table does not take."""
    row = "weighted,model.dropout=0.1"
    make_run("quickstart", row, 1, None, state="interrupted")
    told = [
        command("sweep=quickstart", f"rows=['{row}']", f"runs={store}", f"seeds=[{seed}]", "format=csv").stderr
        for seed in (1, 7)
    ]
    assert told == [
        f"None of these runs is finished in {store}. To continue them, repeat the commands that started them.\n",
        f"None of these runs is finished in {store}. To train them, with the further overrides of this sweep's other "
        f"runs, if any: python src/train.py --multirun sweep=quickstart 'rows=['\"'\"'{row}'\"'\"']' runs={store} "
        "'seeds=[7]'\n",
    ]


@pytest.mark.parametrize(
    ("runs", "what", "root"),
    [
        ("{store}/quickstart", "sweep", "{store}"),
        (".", "sweep", ".."),
        ("transformer", "row", ".."),
        ("../quickstart/transformer/", "row", ".."),
    ],
)
def test_the_folder_of_a_sweep_or_a_row_is_no_run_store(
    make_run: Any, store: Path, monkeypatch: pytest.MonkeyPatch, runs: str, what: str, root: str
) -> None:
    make_run("quickstart", "transformer", 1, 85.0)
    monkeypatch.chdir(store / "quickstart")
    keys = SweepKeys(SweepConfig(name="quickstart"), runs=runs.format(store=store))
    with pytest.raises(UserError) as caught:
        keys.definition()
    told = f"is the folder of one {what}: give runs={root.format(store=store)}, the root of the run store."
    assert str(caught.value) == f"runs={keys.runs} {told}"


def test_a_run_store_with_a_stray_run_is_one(make_run: Any, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run("demo", "transformer", 1, 85.0)
    (store / "stray" / "seed1").mkdir(parents=True)
    assert SweepKeys(SweepConfig(name="quickstart"), runs=str(store)).definition().name == "quickstart"
    assert capsys.readouterr().err.startswith(f"No run of sweep quickstart is in {store}. ")


@pytest.mark.slow
def test_the_sweeps_of_a_store_are_named_as_they_are_asked_for(make_run: Any, store: Path) -> None:
    make_run("quickstart", "transformer", 1, 30.0)
    make_run("mine", "a", 1, 30.0)
    assert f"{store} has runs of sweep=quickstart, sweep.name=mine." in command(f"runs={store}").stderr


@pytest.mark.slow
@pytest.mark.parametrize("sweep", ["single", "grid"])
def test_runs_without_a_sweep_file_are_continued_by_the_command_that_started_them(
    make_run: Any, store: Path, sweep: str
) -> None:
    make_run(sweep, "a", 1, None, state="interrupted")
    assert command(f"sweep.name={sweep}", f"runs={store}", "format=csv").stderr == (
        f"None of these runs is finished in {store}. To continue them, repeat the commands that started them.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    sampled(
        [
            ((), "Give sweep=NAME, such as sweep=quickstart; python src/train.py --help lists them."),
            (("sweep=quickstart", "format=word"), "format"),
            (("sweep=quikstart",), "Did you mean 'quickstart'? There are "),
            (("sweep=quickstart", "seed=1"), "Did you mean seeds=[1]?"),
            (("sweep=quickstart", "rows=[nobody]"), "no row 'nobody'; valid: transformer"),
            (("sweep=quickstart", "seeds=[]"), "seeds=[] selects nothing: name some, or leave it out"),
            (
                ("sweep=quickstart", "sweep.metric=test_ppl"),
                "sweep.metric: there is no 'test_ppl'. Did you mean 'dev_ppl'?",
            ),
            (("sweep=quickstart", "seeds=[-1]"), "seeds=[-1]: seeds must be at least 0 and at most 4294967295."),
            (("sweep=quickstart", "rows=[uniform,uniform]"), "rows=[uniform,uniform] has a duplicate"),
            (
                ("sweep=quickstart", "format=html", "seeds=[1]"),
                "the metric and tests of its runs: leave seeds out, or choose another format.\n",
            ),
            (
                ("sweep=quickstart", "report=true", "sweep.metric=chrf", "significance.level=0.9"),
                "runs: leave sweep.metric and significance.level out, or leave report=true out.\n",
            ),
            (
                ("sweep=quickstart", "runs=/no/such"),
                "runs=/no/such: there is no such folder. Give the root of the run store.",
            ),
            (("sweep=quickstart", "format=csv", "out=/proc/nowhere/t.csv"), "choose another file with out=FILE"),
            (
                ("sweep=quickstart", "model.dropout=0,0.1"),
                "model.dropout=0,0.1: this command has no key model.dropout, so leave it out. Tables show all values",
            ),
        ],
        3,
    ),
)
def test_the_command_explains_a_wrong_line(arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_advice_to_train_leaves_the_records_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "typed", lambda: ["sweep=quickstart", "runs=records", "seeds=[1]"])
    told = table._advice(tmp_path, [SeedRun(1, "absent")])
    assert told.endswith("--multirun sweep=quickstart 'seeds=[1]'") and "records" not in told
