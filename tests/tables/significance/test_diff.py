"""Two rows are compared by `diff=`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoiled_text import SETTINGS

from variations.configuration.compose import compose_run
from variations.configuration.schema import SweepConfig
from variations.system.errors import UserError
from variations.tables.difference import compare

Configure = Callable[..., dict[str, Any]]
PROJECT = Path(__file__).parents[3]


def test_two_rows_are_compared_in_the_tables_words(
    put: Callable[..., list[str]], configuration: Configure, store: Path
) -> None:
    for name, changes, share in (("base", {}, 0.3), ("A_h16", {"model__h": 16}, 0.05), ("A_h4", {"model__h": 4}, 0.3)):
        put(name, 1, share, config=configuration(**changes))
    sweep = SweepConfig(name="papers", rows=["base", "A_h16", "A_h4"])
    text = compare(sweep, ["A_h16"], store, significance=SETTINGS).text()
    assert text.startswith("A_h16: heads 8→16, d_k 64→32; parameters +0\ntest BLEU: ")
    assert "95 % CI [+" in text
    assert text.endswith("] of sentences alone; 1 seed\n")
    found = compare(sweep, ["A_h4", "A_h16"], store, significance=SETTINGS)
    assert found.text().startswith("A_h16, from A_h4: heads 4→16, d_k 128→32; parameters +0\n")
    assert found.document()["changes"]["model.h"] == [4, 16]


def test_a_row_that_was_not_trained_has_one_note(put: Callable[..., list[str]], store: Path) -> None:
    put("base", 1, 0.3)
    put("base", 2, 0.3)
    put("good", 1, 0.05, metrics=[{"step": 800, "dev/nll": 0.8}, {"step": 1000, "dev/nll": 0.5}])
    text = compare(SweepConfig(name="papers", rows=["base", "good"]), ["good"], store, significance=SETTINGS).text()
    assert [line for line in text.splitlines() if "not trained" in line] == [
        "Note: good: not trained: dev perplexity fell by 25.9 % in the last fifth of its steps."
    ]
    assert re.search(r"test BLEU: [\d.]+ \(seeds 1, 2\) and [\d.]+ \(seed 1\), not compared", text)
    found = compare(SweepConfig(name="papers", rows=["base", "good"]), ["good", "base"], store, significance=SETTINGS)
    fell = "dev perplexity fell by 25.9 % in the last fifth of its steps"
    assert found.document()["notes"] == [f"good: not trained: {fell}"]


def test_notes_on_both_rows_are_told_with_their_names(
    put: Callable[..., list[str]], configuration: Configure, store: Path
) -> None:
    put("base", 1, 0.3, config=configuration(trainer__extra={"gradient_clip_val": 1}))
    put("good", 1, 0.05, stated=10.0, copied="other/good/seed1")
    sweep = SweepConfig(name="papers", rows=["base", "good"])
    for names in (["good"], ["good", "base"]):
        found = compare(sweep, names, store, significance=SETTINGS).document()["notes"]
        assert "base: trained with settings of Lightning that no recipe has: gradient_clip_val=1" in found
        assert "good: copied from other/good, which is the same run" in found
        assert len([note for note in found if "the score in result.json is 10.00" in note]) == 1


def test_a_row_that_was_trained_past_its_best_step_has_a_note(put: Callable[..., list[str]], store: Path) -> None:
    put("base", 1, 0.3)
    put("good", 1, 0.05, metrics=[{"step": 600, "dev/nll": 0.5}, {"step": 1000, "dev/nll": 0.8}])
    text = compare(SweepConfig(name="papers", rows=["base", "good"]), ["good"], store, significance=SETTINGS).text()
    assert "Note: good: its dev perplexity ended 35 % above its lowest: it was trained past its best step.\n" in text


def test_what_cannot_be_compared_is_refused(store: Path, make_run: Any) -> None:
    make_run("papers", "base", 1, 30.0)
    sweep = SweepConfig(name="papers", rows=["base", "good"])
    for names, message in (
        (["base"], "base is a base row: name a row to compare it with"),
        (["base", "base"], "diff takes one row or two different rows"),
        (["base", "nobody"], "no row 'nobody'; valid: base, good"),
    ):
        with pytest.raises(UserError, match=message):
            compare(sweep, names, store)


def test_rows_of_a_crossed_table_are_compared_at_a_point(store: Path, make_run: Any) -> None:
    for row, score in (("base,x=1", 30.0), ("good,x=1", 31.0)):
        make_run("papers", row, 1, score)
    sweep = SweepConfig(name="papers", rows=["base", "good"])
    assert compare(sweep, ["base,x=1", "good,x=1"], store).document()["difference"] == pytest.approx(1)
    with pytest.raises(UserError, match=r"good is here only with values of other keys.*\"diff=\['good,x=1'\]\""):
        compare(sweep, ["good"], store)


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, str(PROJECT / "src" / "table.py"), *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd="/", env=os.environ | {"PYTHONPATH": ""})


@pytest.mark.slow
def test_the_command_compares_rows_that_were_never_run(tmp_path: Path) -> None:
    done = command("sweep=quickstart", f"runs={tmp_path}", "diff=[weighted,uniform]", "format=json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == ["weighted", "uniform"]
    assert found["text"] == (
        "uniform: branch.init random→uniform, κ and α in training learned→uniform, κ and α at test learned→uniform"
    )
    assert found["significance"] is None


@pytest.mark.slow
def test_a_row_that_was_never_run_is_told_beside_one_that_was(store: Path, make_run: Any) -> None:
    """What was typed for the run is then among the differences, although the row's file does not make it."""
    make_run("quickstart", "transformer", 1, 30.0)
    sweep = compose_run(["sweep=quickstart"]).sweep
    text = compare(sweep, ["weighted"], store, chosen=["sweep=quickstart"]).text()
    told = "weighted has no run yet: it is shown as its file says, and transformer as it was run"
    assert f"Note: {told}.\n" in text
    assert "test BLEU: 30.00 (seed 1) and none yet for weighted, not compared\n" in text


@pytest.mark.slow
def test_a_row_of_a_crossed_table_without_runs_is_compared_by_the_file_of_the_sweep_that_was_chosen(
    store: Path, make_run: Any
) -> None:
    make_run("renamed", "weighted,model.dropout=0.1", 1, 30.0)
    sweep = compose_run(["sweep=quickstart", "sweep.name=renamed"]).sweep
    with pytest.raises(UserError, match=r"learned_positions is here only .*'learned_positions,model.dropout"):
        compare(sweep, ["learned_positions"], store)
    words = ["sweep=quickstart", "sweep.name=renamed"]
    text = compare(sweep, ["learned_positions,model.dropout=0.1"], store, chosen=words).text()
    assert text == "learned_positions,model.dropout=0.1: positions sinusoidal→learned\n"
    told = compare(
        compose_run(["sweep=quickstart"]).sweep, ["weighted"], store, chosen=["sweep.name=quickstart"]
    ).text()
    assert told.startswith("weighted: model transformer→weighted, M 4")
    done = command(*words, f"runs={store}", "diff=['learned_positions,model.dropout=0.1']")
    assert (done.returncode, done.stdout) == (0, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("diff=[weighted]", "format=latex"), "format=terminal or format=json"),
        (("significance.n=5",), "significance.n=5: must be at least 100"),
        (("significance.level=95",), "significance.level=95"),
    ],
)
def test_the_command_explains_wrong_keys(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = command("sweep=quickstart", f"runs={tmp_path}", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
