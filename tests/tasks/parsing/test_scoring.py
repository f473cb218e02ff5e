"""Scoring plain files."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from variations.system.errors import DataError
from variations.tasks.parsing.evalb import report
from variations.tasks.parsing.scoring import document, score_files
from variations.tasks.parsing.trees_toy import generate

SOURCE = str(Path(__file__).parents[3] / "src")
GOLDEN = Path(__file__).parent / "evalb"


def test_files_give_the_programs_report() -> None:
    found = score_files(GOLDEN / "sample.tst", GOLDEN / "sample.gld", GOLDEN / "sample.prm")
    assert report(*found) == (GOLDEN / "sample.out").read_text(encoding="utf-8")


def test_the_document_holds_the_summary_and_the_reasons_of_errors() -> None:
    found = document(*score_files(GOLDEN / "sample.tst", GOLDEN / "sample.gld", GOLDEN / "sample.prm"))
    assert found["scores"]["all"]["f1"] == pytest.approx(2 * 86 / (98 + 95) * 100)
    assert found["scores"]["length<=40"]["sentences"] == 23
    assert found["scores"]["all"]["exact"] == pytest.approx(100 * 9 / 17)
    assert [each["line"] for each in found["errors"]] == [12, 13, 16, 17, 20]
    assert found["errors"][0]["fault"] == "the word was, gold is"


def test_nothing_scored_is_null_and_no_number(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("(S (NN a))\n", encoding="utf-8")
    (tmp_path / "test").write_text("\n", encoding="utf-8")
    scores = document(*score_files(tmp_path / "test", tmp_path / "gold"))["scores"]["all"]
    assert (scores["f1"], scores["exact"], scores["skipped"]) == (None, None, 1)


def test_a_byte_order_mark_is_no_error_of_the_first_sentence(tmp_path: Path) -> None:
    (tmp_path / "gold").write_bytes(b"(S (NN a))\n")
    (tmp_path / "test").write_bytes(b"\xef\xbb\xbf(S (NN a))\r\n")
    assert document(*score_files(tmp_path / "test", tmp_path / "gold"))["scores"]["all"]["f1"] == 100


def test_files_that_cannot_be_scored_are_named(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="gold is empty"):
        score_files(GOLDEN / "sample.tst", tmp_path / "gold")
    with pytest.raises(DataError, match=r"absent: cannot be read \(No such file or directory\)"):
        score_files(tmp_path / "absent", GOLDEN / "sample.gld")


@pytest.mark.slow
def test_the_benchmark_scores_both_baselines_and_leaves_files_that_score_the_same(tmp_path: Path) -> None:
    trees = generate(199 * 2, seed=5)
    for number in range(1, 200):
        text = "\n".join(f"( {tree} )" for tree in trees[2 * number - 2 : 2 * number])
        (tmp_path / f"wsj_{number:04d}.mrg").write_text(text, encoding="utf-8")
    script = Path(__file__).parents[3] / "benchmarks" / "parsing_baselines.py"
    command = [sys.executable, str(script), str(tmp_path), "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": SOURCE}, check=True)
    assert "free sample" in done.stdout
    assert "318 training trees, 40 test trees" in done.stdout
    rows = [line.split(" | ") for line in done.stdout.splitlines() if "| all |" in line]
    assert [row[0] for row in rows] == ["| right_branching", "| pcfg"]
    for row in rows:
        name, f1 = row[0].removeprefix("| "), float(row[3])
        found = document(*score_files(tmp_path / f"out/{name}.hyp", tmp_path / "out/test.ref"))
        assert found["scores"]["all"]["f1"] == pytest.approx(f1, abs=0.005)
    assert re.search(r"right_branching - pcfg: -\d+\.\d\d F1, 95 % CI \[-.*, -.*\], p = 0\.001", done.stdout)
    assert float(rows[1][3]) > 80 > float(rows[0][3])  # the sentences come from a grammar
