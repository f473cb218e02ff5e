"""The Python API: it behaves as its examples and the notebook show."""

import ast
import doctest
import hashlib
import json
import math
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import variations
from variations.commands import api
from variations.commands import run as run_module
from variations.configuration.compose import compose_run, to_dict
from variations.configuration.places import spelled
from variations.configuration.tasks import named
from variations.store.atomic import write_json
from variations.store.contents import MEASURED
from variations.store.ledger import RunFolder
from variations.sweeping.jobs import expand
from variations.system.errors import ConfigError, UserError

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


def test_the_package_itself_imports_nothing_heavy() -> None:
    look = "import sys, variations; variations.load; print([m for m in ('torch', 'hydra', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_only_public_names_are_there() -> None:
    assert [getattr(variations, name) for name in ("load", "table", "train")] == [api.load, api.table, api.train]
    with pytest.raises(AttributeError, match="module 'variations' has no attribute 'nothing'"):
        _ = variations.nothing


def test_a_run_that_is_not_there_or_not_finished_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no run in"):
        variations.load(tmp_path)
    RunFolder(tmp_path / "run").create({"seed": 1}).set_status("failed", "why")
    with pytest.raises(UserError, match="is failed, not finished"):
        variations.load(tmp_path / "run")
    RunFolder(tmp_path / "run").set_status("finished")
    with pytest.raises(UserError, match=r"has no result\.json, or a damaged one: run the same training command again"):
        variations.load(tmp_path / "run")


def test_a_run_stays_the_same_in_another_folder(make_run: Any, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["one two three four five"] * 3
    scores = {"bleu": {"value": 100.0}, "exact_match": {"value": 100.0}}
    make_run("s", "r", 1, 100.0, texts=(lines, lines, lines), scores={"test": scores}).write_environment({})
    monkeypatch.chdir(store)
    run = variations.load("s/r/seed1")
    monkeypatch.chdir("/")
    assert (run.path, run.score()["bleu"]) == (store / "s/r/seed1", 100.0)


@pytest.mark.slow
def test_a_score_that_was_changed_by_hand_is_refused(make_run: Any) -> None:
    lines = ["one two three four five"] * 3
    score = {"bleu": {"value": 100.0}, "exact_match": {"value": 100.0}}
    folder = make_run("s", "r", 1, 100.0, texts=(lines, lines, lines), scores={"test": score})
    folder.write_environment({})
    assert variations.load(folder.path).score()["bleu"] == 100.0
    folder.measurements.path.write_bytes(b"")  # as after a training that ended before its first line of metrics
    result = folder.result() or {}
    folder.write_result({**result, MEASURED: hashlib.sha256(b"").hexdigest()})
    assert variations.load(folder.path).score()["bleu"] == 100.0
    folder.write_result({**result, "loss": {"test_nll": None}})  # it was not finite
    assert math.isnan(variations.load(folder.path).score()["nll"])
    path = folder.path / "result.json"
    path.write_text(path.read_text().replace("100.0", "99.0"))
    with pytest.raises(UserError, match=r"is damaged \(result\.json was edited"):
        variations.load(folder.path).score()
    unsealed = {key: value for key, value in result.items() if not key.endswith("sha256")}  # of a former version
    unsealed[MEASURED] = hashlib.sha256(b"").hexdigest()
    write_json(path, unsealed | {"scores": {"test": {"bleu": {"value": 99.0}}}})
    with pytest.raises(UserError, match="is damaged: the score in result"):
        variations.load(folder.path).score()


@pytest.mark.slow
def test_records_of_a_table_tell_the_caveats_that_its_csv_tells() -> None:
    (record,) = api.table("multi30k_weighted_table3", runs=ROOT / "records", rows=["random"], seeds=[1])[1:]
    assert record["row"] == "random" and "; not trained itself, tests the weights of " in record["notes"]
    (recalled,) = api.table("babi_memn2n_1k", runs=ROOT / "records", rows=["pe_ls"], seeds=[1])[1:]
    assert "published mean_error" in recalled
    assert "quoted from memory, not checked against the publication" in recalled["notes"]


def test_a_table_of_what_is_no_run_store_is_refused(make_run: Any, store: Path, tmp_path: Path) -> None:
    run = make_run("quickstart", "transformer", 1, 85.0).path
    (tmp_path / "file").touch()
    for runs, told in {
        tmp_path / "nowhere": ": there is no such folder. Give the root of the run store.",
        tmp_path / "file": " is a file: give the root of the run store.",
        run: " is the folder of one run: give the root of the run store, some folders up.",
        store / "quickstart": f" is the folder of one sweep: give runs={store}, the root of the run store.",
    }.items():
        with pytest.raises(UserError) as caught:
            api.table("quickstart", runs=runs)
        assert str(caught.value) == f"runs={runs}{told}"


def test_a_table_needs_lists_of_rows_and_seeds(make_run: Any, store: Path) -> None:
    make_run("quickstart", "transformer", 1, 85.0)
    with pytest.raises(TypeError, match="table needs the name of a sweep, not None"):
        variations.table(None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"Which sweep\? Give sweep=NAME"):
        variations.table("")
    with pytest.raises(TypeError, match="load needs the folder of a run, not None"):
        variations.load(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("table needs a list of rows: ['uniform'], not 'uniform'")):
        api.table("quickstart", runs=store, rows="uniform")
    with pytest.raises(TypeError, match=re.escape("table needs a list of seeds: [1], not 1")):
        api.table("quickstart", runs=store, seeds=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("table needs whole numbers in seeds, not '1', True")):
        api.table("quickstart", runs=store, seeds=["1", 2, True])  # type: ignore[list-item]
    (record,) = api.table("quickstart", runs=store, rows=("transformer",), seeds=range(1, 2))
    assert (record["state"], record["test.bleu"]) == ("finished", 85.0)


@pytest.mark.slow
def test_what_cannot_be_translated_is_told(tmp_path: Path) -> None:
    config = compose_run([])
    run = api.TrainedRun(tmp_path, config, {})
    with pytest.raises(TypeError, match=r"score needs the name of a set, not \['test'\]"):
        run.score(["test"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"list of lines: \['a cat'\], not 'a cat'"):
        run.translate("a cat")
    with pytest.raises(TypeError, match="translate needs lines of text, not None"):
        run.translate(["a cat", None])
    with pytest.raises(TypeError, match=r"an integer for beam and a number for alpha, not 2\.5 and 'x'"):
        run.translate(["a cat"], beam=2.5, alpha="x")
    with pytest.raises(ConfigError) as told:
        named("translation").answering(RunFolder(tmp_path), config, None, beam=0, alpha=float("nan"))
    assert told.value.faults == ["beam=0: must be at least 1.", "alpha=nan: must be a finite number."]


@pytest.mark.slow
def test_all_faults_are_told_before_training() -> None:
    with pytest.raises(ConfigError) as error:
        variations.train("modle=weighted", "decode.beam=0")
    assert len(error.value.faults) == 2
    with pytest.raises(TypeError, match="train needs overrides as texts"):
        variations.train(["model.N=1"])


@pytest.mark.slow
def test_a_row_of_a_sweep_is_the_run_that_multirun_has_finished(tmp_path: Path) -> None:
    words = ("sweep=demo", f"runs={tmp_path}", "logger=none", "model.d_ff=64")
    (job,) = expand([*words, "rows=[transformer]"])
    folder = RunFolder(job.folder).create(to_dict(job.config))
    folder.write_result({"schema": 1})
    folder.set_status("finished")
    found = variations.train(*words, "variation=quickstart/transformer")
    assert (found.path, found.config.recipe.name) == (job.folder, "quick_cosine")


@pytest.mark.slow
def test_a_copy_of_a_finished_run_under_another_name_is_refused(tmp_path: Path) -> None:
    words = (f"runs={tmp_path}", "logger=none")
    home = tmp_path / "single" / "a" / "seed1"
    folder = RunFolder(home).create(to_dict(compose_run([*words, "name=a"])))
    folder.write_result({"schema": 1})
    folder.set_status("finished")
    copy = tmp_path / "single" / "c" / "seed1"
    shutil.copytree(home, copy)
    assert variations.train(*words, "name=a").path == home
    with pytest.raises(UserError) as error:
        variations.train(*words, "name=c")
    assert str(error.value) == (
        f"{copy}: config.yaml has name='a', so this folder is a copy of another one or was renamed: move it away and "
        "train the missing run, or if it was renamed, put the new name into name of that file."
    )
    file = copy / "config.yaml"
    file.write_text(file.read_text().replace("name: a\n", "name: c\n"))
    assert variations.train(*words, "name=c").path == copy


@pytest.mark.slow
def test_after_a_single_run_the_command_that_prints_all_names_their_run_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (f"runs={tmp_path / 'of today'}", "name=a", "logger=none")
    folder = RunFolder(tmp_path / "of today/single/a/seed1").create(to_dict(compose_run(words)))
    folder.write_result({"scores": {"test": {"bleu": {"value": 12.0}}}})
    folder.set_status("finished")
    variations.train(*words)
    told = f"{spelled('table')} sweep.name=single 'runs={tmp_path}/of today'"
    assert capsys.readouterr().err == f"test BLEU 12.00 · all single runs: {told}\n"


@pytest.mark.slow
def test_two_threads_cannot_train_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would draw from the same random numbers, and get other results than each alone."""
    again: list[BaseException] = []

    def in_another_thread(config: Any) -> Path:
        def train() -> None:
            try:
                variations.train(f"runs={tmp_path}", "logger=none")
            except UserError as error:
                again.append(error)

        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        return tmp_path

    monkeypatch.setattr(run_module, "_execute", in_another_thread)
    run_module.execute(compose_run([f"runs={tmp_path}"]))
    (error,) = again
    assert "This process is training another run" in str(error)
    assert list(tmp_path.iterdir()) == []


def cells() -> list[str]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as Jupyter does: return the value of its last expression."""
    *statements, last = ast.parse(source).body
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(statements, []), str(NOTEBOOK), "exec"), names)
        return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    exec(compile(source, str(NOTEBOOK), "exec"), names)
    return None


@pytest.mark.slow
def test_the_notebook_runs_and_then_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    outputs = [run_cell(source, names) for source in cells()]
    translations = next(output for output in outputs if isinstance(output, list))
    assert len(translations) == 2
    assert names["run"].config.model.kind == "weighted"
    assert {"bleu", "chrf", "ppl"} <= set(names["scores"])
    states = {record["row"]: record["state"] for record in names["records"]}
    assert states == {
        "transformer": "finished",
        "weighted": "finished",
        "uniform": "missing",
        "learned_positions": "missing",
    }
    measured = {record["row"]: record["test.bleu"] for record in names["records"]}
    assert measured["weighted"] == pytest.approx(names["scores"]["bleu"])
    assert measured["uniform"] is None
    assert capsys.readouterr().out.count("BLEU") == 4
    examples = doctest.testmod(api, optionflags=doctest.ELLIPSIS)
    assert examples.failed == 0
    assert examples.attempted >= 10
