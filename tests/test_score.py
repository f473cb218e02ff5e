"""`python src/score.py` as a user runs it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.configuration.tasks import named
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.scored import ToScore

SCRIPT = Path(__file__).resolve().parents[1] / "src" / "score.py"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "out.txt").write_text("Der Hund schläft im Garten.\n\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("Der Hund schläft im Garten.\nJa, gut.\n", encoding="utf-8")
    return tmp_path


def score(folder, *arguments, timeout=None):
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout)


@pytest.mark.slow
def test_json_is_the_only_thing_on_standard_output(folder):
    done = score(folder, "hyp=out.txt", "ref=test.de", "format=json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["scores"]["exact_match"]["value"] == 50
    assert found["empty_hypotheses"] == 1
    assert done.stderr == ""


@pytest.mark.slow
def test_terminal_output_ends_in_the_remarks_and_leaves_no_files(folder):
    before = sorted(folder.iterdir())
    done = score(folder, "hyp=out.txt", "ref=test.de")
    assert done.returncode == 0, done.stderr
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in done.stdout
    assert done.stdout.splitlines()[-1] == "Note: 1 of 2 hypotheses empty (line 2); they are scored as they are."
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
def test_a_run_whose_result_was_edited_is_told(folder):
    run = RunFolder(folder / "runs" / "single" / "x" / "seed1").create(to_dict(compose_run([])))
    for ending, name in (("hyp", "out.txt"), ("ref", "test.de")):
        (run.hypotheses / f"test.{ending}").write_bytes((folder / name).read_bytes())
    run.measurements.append({"step": 1})
    run.write_environment({})
    run.write_result({"loss": {"dev_ppl": 4.0}})
    assert score(folder, f"run={run.path}").stderr == ""
    stored = (run.path / "result.json").read_text()
    (run.path / "result.json").write_text(stored.replace("4.0", "3.0"))
    done = score(folder, f"run={run.path}")
    assert done.returncode == 0
    assert done.stderr.startswith(f"warning: {run.path} is damaged (result.json was edited: ")


@pytest.mark.slow
def test_a_pipe_without_an_end_is_refused_but_not_what_the_shell_has_opened(folder):
    os.mkfifo(folder / "pipe")
    done = score(folder, "hyp=pipe", "ref=test.de", "src=/dev/zero", timeout=60)
    told = "hyp=pipe and src=/dev/zero are not regular files: give a file of text, or what a command prints as"
    assert (done.returncode, done.stderr) == (2, f"error: {told} <(COMMAND).\n")
    line = shlex.join([sys.executable, str(SCRIPT), "ref=test.de", "format=json"]) + " hyp=<(cat out.txt)"
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["scores"]["exact_match"]["value"] == 50, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give run=FOLDER, or hyp=FILE ref=FILE"),
        (["hyp=out.txt", "ref=none.de"], "none.de does not exist"),
        (["hyp=short.txt", "ref=test.de"], "short.txt has 1 lines but the reference file test.de has 2"),
        (["hyp=empty.txt", "ref=test.de"], "empty.txt is empty"),
        (["hyp=latin.txt", "ref=test.de"], "latin.txt, line 2: not valid UTF-8"),
        (["run=nowhere"], "run folder nowhere does not exist"),
        (["hyp=out.txt", "ref=test.de", "format=xml"], "format"),
        (["run=seed1", "task=parsing"], "seed1 is a run of task=translation: leave task=parsing out."),
    ],
)
def test_bad_input_is_one_clear_message_and_exit_code_2(folder, arguments, message):
    (folder / "short.txt").write_text("Ja.\n", encoding="utf-8")
    (folder / "empty.txt").write_text("", encoding="utf-8")
    (folder / "latin.txt").write_bytes(b"Ja.\ngr\xfcn\n")
    (folder / "seed1").mkdir()
    (folder / "seed1/config.yaml").write_text("task: translation\n", encoding="utf-8")
    done = score(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


TREES = Path(__file__).parent / "tasks" / "parsing" / "evalb"


@pytest.mark.slow
def test_trees_are_scored_as_evalb_does(folder):
    files = [f"hyp={TREES / 'sample.tst'}", f"ref={TREES / 'sample.gld'}", f"prm={TREES / 'sample.prm'}"]
    done = score(folder, "task=parsing", *files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (TREES / "sample.out").read_text(encoding="utf-8")
    found = json.loads(score(folder, "task=parsing", *files, "format=json").stdout)
    assert round(found["scores"]["all"]["f1"], 2) == 89.12


@pytest.mark.slow
def test_a_wrong_parameter_file_is_one_clear_message(folder):
    (folder / "wrong.prm").write_text("LABELLED 1\n", encoding="utf-8")
    done = score(folder, "task=parsing", "hyp=out.txt", "ref=test.de", "prm=wrong.prm")
    assert (done.returncode, done.stdout) == (2, "")
    assert "wrong.prm is not a parameter file of EVALB: line 1: unknown keyword LABELLED." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("task", "keys", "told"),
    [
        ("translation", {"prm": "x.prm"}, "prm=x.prm is a parameter file of EVALB: add task=parsing, or leave it out."),
        ("parsing", {"lang": "fr", "src": "s"}, "lang=fr and src=s: task=parsing scores trees without them"),
    ],
)
def test_keys_of_another_task_are_refused(task, keys, told):
    with pytest.raises(UserError, match=re.escape(told)):
        named(task).score(ToScore(hyp="h", ref="r", **keys))
