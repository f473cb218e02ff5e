"""A table as text, Markdown, LaTeX, CSV and JSON."""

import csv
import io
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.schema import SweepConfig
from variations.store.rows import define
from variations.system.errors import UserError
from variations.system.quantities import duration, hours_text, scientific
from variations.tables.footnotes import about
from variations.tables.formats import Look, latex_escape, render, terminal
from variations.tables.grid import Notebook, delta, lay_out, millions
from variations.tables.table import Table, build, document
from variations.tables.text import Cell, Column, Grid, _fitting, select


@pytest.mark.slow
def test_json_is_one_document_with_unrounded_numbers(full: Table) -> None:
    parsed = json.loads(render(full, "json"))
    assert parsed == json.loads(json.dumps(document(full)))
    row = parsed["rows"][1]
    assert row["measured"]["test.bleu"] == {"mean": 33.0, "n": 3, "sd": pytest.approx(2.6457513)}
    assert row["published"]["dev_bleu"]["recalled"] is True
    assert [seed["scores"]["test.bleu"] for seed in row["seeds"]] == [31.0, 32.0, 36.0]


@pytest.mark.slow
def test_csv_has_a_line_a_row_and_plain_numbers(full: Table) -> None:
    lines = list(csv.DictReader(io.StringIO(render(full, "csv"))))
    assert [line["row"] for line in lines] == ["base", "A_h16"]
    assert lines[1]["label"] == "h=16 & <more_heads>"
    assert (lines[1]["test.bleu.mean"], lines[1]["test.bleu.n"], lines[1]["parameters"]) == ("33.0", "3", "1499000")
    assert lines[1]["test.bleu.difference_from_base"] == "1.0"
    assert lines[1]["published.dev_bleu"] == "25.5"


@pytest.mark.slow
def test_markdown_keeps_its_columns_with_any_label(full: Table, conf: Path, store: Path) -> None:
    (conf / "variation" / "papers" / "base.yaml").write_text("variation: {label: 'a|b_c*d'}\n")
    table = build(define(SweepConfig(name="papers", rows=["base"], seeds=[1, 4]), conf=conf), store)
    lines = [line for line in render(table, "markdown").splitlines() if line.startswith("|")]
    assert "a\\|b\\_c\\*d" in lines[2]
    assert "- Without a result: a\\|b\\_c\\*d, seed 4: missing" in render(table, "markdown").splitlines()
    assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}


def test_latex_escapes_every_special_character() -> None:
    assert latex_escape("50% of a_b & c# $x {y} \\ ~ ^") == (
        "50\\% of a\\_b \\& c\\# \\$x \\{y\\} \\textbackslash{} \\textasciitilde{} \\textasciicircum{}"
    )
    assert latex_escape("tok:13a|eff:no") == "tok:13a\\textbar{}eff:no"
    assert latex_escape("±−×→κ") == "$\\pm$$-$$\\times$$\\rightarrow$$\\kappa$"
    assert latex_escape("λ, β ≤ Ω; Α") == "$\\lambda$, $\\beta$ $\\leq$ $\\Omega$; $\\mathrm{A}$"


@pytest.mark.slow
def test_latex_is_a_booktabs_table_with_a_rule_between_groups(full: Table) -> None:
    text = render(full, "latex")
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert text.count("\\midrule") == 2
    assert text.count("\\label{tab:papers}") == text.count("\\label") == 1
    assert "h=16 \\& \\textless{}more\\_heads\\textgreater{}" in text
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert len({line.replace("\\&", "").count("&") for line in body}) == 1


@pytest.mark.slow
def test_columns_can_be_chosen_and_take_their_notes_along(full: Table) -> None:
    look = Look(["steps", "test.bleu"], "Heads")
    lines = render(full, "markdown", look).splitlines()
    assert lines[:3] == ["**Heads**", "", "| row | steps | test BLEU |"]
    whole = render(full, "markdown")
    for text, shown in (("FLOPs are counted", False), ("published on newstest2013", False), ("test BLEU: ", True)):
        assert text in whole and any(text in line for line in lines) == shown, text
    of_others = ("Published dev BLEU: ", "± is the standard")
    sizes = render(full, "markdown", Look(["parameters"]))
    assert [text for text in of_others if text not in whole] == []
    assert [text for text in of_others if text in sizes] == []
    assert render(full, "markdown", Look(["group", "steps"])).splitlines()[2] == "| row |  | steps |"
    delta = "published_delta.dev_bleu"
    for before, title in (("published.dev_bleu", "Δ base, published"), ("steps", "Δ base, published (dev BLEU)")):
        assert f"| {title}<sup>" in render(full, "markdown", Look([before, delta])).splitlines()[2], before
    with pytest.raises(UserError, match=r"columns=\[\] names no column"):
        render(full, "markdown", Look([]))
    with pytest.raises(
        UserError, match=r"no column\n  - 'bleu'\. Did you mean 'test\.bleu'\?\n  - 'nope'\.\nIts columns are "
    ):
        render(full, "markdown", Look(["bleu", "nope"]))
    with pytest.raises(UserError, match=r"no column 'stps'\. Did you mean 'steps'\? Its columns are group, row, param"):
        render(full, "markdown", Look(["stps"]))


def test_a_remark_on_several_columns_names_those_that_are_chosen() -> None:
    columns = [Column(key, key=key) for key in ("row", "x", "y")]
    text, names = "X, Y: a convention.", {"x": "X", "y": "Y"}
    whole = Grid("", columns, [], [], remarks=[text, "All."], about={text: [set(names)]}, named={text: names})
    for keys, told in ((["y"], ["Y: a convention."]), (["y", "x"], [text]), (["row"], [])):
        assert select(whole, keys).remarks == [*told, "All."], keys


def test_a_remark_on_columns_beside_others_is_left_out_without_either() -> None:
    columns = [Column(key, key=key) for key in ("row", "x", "y", "z")]
    whole = Grid("", columns, [], [], remarks=["Beside."], about={"Beside.": [{"x"}, {"y", "z"}]})
    for keys, told in ((["x", "z"], ["Beside."]), (["x"], []), (["y", "z"], [])):
        assert select(whole, keys).remarks == told, keys


@pytest.mark.slow
def test_scores_of_one_convention_share_a_remark_on_their_columns(full: Table) -> None:
    for line in full.lines:
        for run in line.row.finished:
            run.result["scores"]["dev"]["bleu"] = run.result["scores"]["test"]["bleu"]
    (text,) = (text for text, names in lay_out(full).named.items() if "test.bleu" in names)
    assert text.startswith("test BLEU, dev BLEU: sacreBLEU on detokenised text")
    assert lay_out(full).named[text] == {"test.bleu": "test BLEU", "dev.bleu": "dev BLEU"}


@pytest.mark.slow
def test_how_flops_are_counted_is_a_remark_on_their_column(full: Table) -> None:
    told, line = "FLOPs are counted with dot-product attention in place of Temperature.", full.lines[-1]
    line.row.finished[0].result["remarks"] = [told]
    assert about(full)[f"{line.label}: {told}"] == [{"flops"}]


def test_notes_of_chosen_columns_are_lettered_without_gaps() -> None:
    columns = [Column(key, key=key, marks=marks) for key, marks in (("row", ()), ("x", ("a", "b")), ("y", ("c",)))]
    rows = [[Cell("r", ("*", "d")), Cell("1"), Cell("2", ("c", "e"))]]
    grid = Grid("", columns, rows, [None], [(mark, f"note {mark}") for mark in "*abcde"])
    found = select(grid, ["y"])
    assert found.notes == [("*", "note *"), ("a", "note c"), ("b", "note d"), ("c", "note e")]
    assert [column.marks for column in found.columns] == [(), ("a",)]
    assert [cell.marks for cell in found.rows[0]] == [("*", "b"), ("a", "c")]


@pytest.mark.slow
@pytest.mark.parametrize("label", ["[base]", "* one"])
def test_a_label_is_no_argument_of_the_latex_command_before_it(
    make_run: Any, conf: Path, store: Path, label: str
) -> None:
    make_run("papers", "base", 1, 30.0)
    table = build(define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=conf), store)
    table.lines[0].row.definition = replace(table.lines[0].row.definition, label=label, group=None)
    lines = render(table, "latex").splitlines()
    assert any(line.startswith("{}" + label) for line in lines)
    assert not any(line.lstrip().startswith(("[", "*")) for line in lines)


def test_a_caption_in_brackets_is_printed_as_it_is(full: Table) -> None:
    for caption in ("Results [test] of one", "see [/1]"):
        assert caption in render(full, "terminal", Look(caption=caption))


def test_latex_without_columns_leaves_out_costs(full: Table) -> None:
    head = next(line for line in render(full, "latex").splitlines() if line.endswith("\\\\"))
    assert "test BLEU" in head and "$\\Delta$ base" in head
    assert "FLOPs" not in head and "steps" not in head
    assert "FLOPs" in next(
        line for line in render(full, "latex", Look(["flops"])).splitlines() if line.endswith("\\\\")
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(full: Table, tmp_path: Path) -> None:
    document_ = "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\n%s\\end{document}\n"
    (tmp_path / "t.tex").write_text(document_ % render(full, "latex"), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


@pytest.mark.slow
def test_terminal_shows_rows_marks_and_notes(full: Table) -> None:
    text = render(full, "terminal")
    assert "33.00 ± 2.65" in text
    assert "+1.00 ± 1.00" in text
    assert "ᵃ published on newstest2013" in text or "ᵇ published on newstest2013" in text
    assert "\x1b" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "all_columns"), [(60, False), (80, False), (100, False), (120, False), (140, False), (220, True)]
)
def test_a_narrow_terminal_drops_columns_and_never_cuts_a_number(full: Table, width: int, all_columns: bool) -> None:
    text = terminal(full, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "33.00 ± 2.65" in text
    assert "…" not in text
    grid = lay_out(full)
    shown = [i for i in _fitting(grid, width) if grid.columns[i].right]
    assert all(row[i].text in text for row in grid.rows for i in shown)  # complete or absent
    assert ("1.2e14" in text) == all_columns
    assert ("A wider terminal, or format=markdown, also shows:" in " ".join(text.split())) != all_columns


def test_numbers_are_printed_for_people() -> None:
    assert [delta(value) for value in (1.2, -0.3, None)] == ["+1.20", "−0.30", ""]
    assert [delta(value) for value in (0.0, -0.0, 1e-15)] == ["0.00"] * 3
    assert [delta(value) for value in (0.002, -0.001)] == ["+0.00", "−0.00"]  # an interval up to +0.00 contains zero
    assert [millions(value) for value in (2_568_192, 812_000, 812, None)] == ["2.57M", "812K", "812", ""]
    assert [duration(value) for value in (42.4, 200, 18_720)] == ["42 s", "3 min 20 s", "5 h 12 min"]
    assert [hours_text(value) for value in (5e-5, 0.1372, 84.2, 99.6, 1234.5)] == [
        "0.00005",
        "0.14",
        "84",
        "100",
        "1,235",
    ]
    assert hours_text(84.25, 3) == "84.3"  # a tie is rounded away from zero, as everywhere
    assert [scientific(value) for value in (3.3e18, 1.25e14)] == ["3.3e18", "1.2e14"]


def test_marks_run_past_z_without_repeating() -> None:
    book = Notebook()
    marks = [book.mark([f"note {i}"])[0] for i in range(60)]
    assert marks[:2] == ["a", "b"]
    assert marks[25:28] == ["z", "aa", "ab"]
    assert len(set(marks)) == 60
    assert book.mark(["note 0"]) == ("a",)


@pytest.mark.slow
def test_a_score_of_the_published_kind_is_named_only_beside_its_column(full: Table) -> None:
    measure = full.task.measure(full.task.published("dev_bleu").measures[0])
    text = f"Measured in the same way as the published dev BLEU: {measure.label}."
    assert text not in full.remarks
    found = about(replace(full, measures=[*full.measures, measure]))
    (published,) = found[next(told for told in found if told.startswith("Published dev BLEU: "))]
    assert found[text] == [{measure.key}, published]
    assert measure.key not in published
