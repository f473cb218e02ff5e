"""Parts of a measure: omitted from the table's columns, listed one per line below it, published next to measured."""

from dataclasses import replace
from pathlib import Path

import pytest
from stored_runs import babi_configuration

from variations.configuration.schema import SweepConfig
from variations.store.atomic import write_json, write_yaml
from variations.store.rows import define
from variations.tables.breakdown import break_down
from variations.tables.chance import SignificanceConfig
from variations.tables.formats import Look, render, terminal
from variations.tables.grid import lay_out
from variations.tables.table import Table, build
from variations.tables.text import Grid, select

ROWS = ["pe", "bow", "lstm", "joint_3hop", "memnn_weak", "vinhkhuc"]
MEASURED = {"error": 20.0, "task_1": 0.5, "task_19": 88.0}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five rows of the paper and one by other authors; only the first has a run."""
    return table_of(tmp_path)


def table_of(store: Path, metric: str = "error", **data: str) -> Table:
    """The same, with other keys of the run's `data`."""
    run = store / "papers" / "pe" / "seed1"
    run.mkdir(parents=True)
    config = babi_configuration(range(1, 21))
    write_yaml(run / "config.yaml", config | {"data": config["data"] | data})
    write_json(run / "status.json", {"state": "finished", "step": 1})
    scores = {name: {"value": value} for name, value in MEASURED.items()}
    write_json(run / "result.json", {"scores": {"test": scores}, "loss": {}, "parameters": 7520})
    sweep = SweepConfig(name="papers", table="babi_memn2n_1k", rows=ROWS, seeds=[1], metric=metric)
    return build(define(sweep), store, SignificanceConfig(n=100))


def column(grid: Grid, key: str) -> list[str]:
    at = [each.key for each in grid.columns].index(key)
    return [row[at].text for row in grid.rows]


def test_parts_have_no_columns_and_no_footnotes_of_their_own(table: Table) -> None:
    grid = lay_out(table)
    assert not [each.key for each in grid.columns if "task_" in each.key]
    assert {"published.mean_error", "test.error"} <= {each.key for each in grid.columns}
    assert not [remark for remark in grid.remarks if "path finding" in remark]


def test_a_part_that_is_the_metric_of_the_sweep_has_its_columns(tmp_path: Path) -> None:
    grid = lay_out(table_of(tmp_path, "test.task_19"))
    assert column(grid, "test.task_19")[0] == "88.00"
    assert column(grid, "delta")[0] == "base"
    assert column(grid, "published.task_19")[0] == "87.4"
    assert column(grid, "against_published.test.task_19")[0] == "+0.60"
    assert not [each.key for each in grid.columns if "task_1" in each.key and "task_19" not in each.key]


def test_numbers_made_of_a_figure_that_was_quoted_from_memory_are_marked(table: Table) -> None:
    for line in table.lines:
        if line.row.definition.row == "pe":
            line.published["mean_error"] = replace(line.published["mean_error"], recalled=True)
    keys = ["against_published.test.error", "published_delta.mean_error"]
    grid = select(lay_out(table), keys)
    (mark,) = (mark for mark, text in grid.notes if "quoted from memory" in text)
    against, differences = ([*column.marks] for column in grid.columns if column.key in keys)
    assert (against, differences) == ([mark], [mark])  # of the base row alone, of which all differences are made
    latex = render(table, "latex", Look(keys))
    assert "quoted from memory" in latex


def test_each_part_is_a_line_with_what_was_published_measured_and_the_difference(table: Table) -> None:
    first = break_down(table)[0]
    assert column(first, "part")[:2] == ["1 single supporting fact", "2 two supporting facts"]
    assert column(first, "part")[-1] == "20 agents motivations"
    assert column(first, "pe.published")[0] == "0.1"
    assert column(first, "pe.published")[18] == "87.4"
    assert [column(first, "pe.measured")[task] for task in (0, 1, 18)] == ["0.50", "", "88.00"]
    assert [column(first, "pe.difference")[task] for task in (0, 1, 18)] == ["+0.40", "", "+0.60"]


def test_rows_stand_four_abreast_and_groups_apart(table: Table) -> None:
    grids = break_down(table)
    rows = [[key.partition(".")[0] for key in dict.fromkeys(c.key for c in grid.columns)][1:] for grid in grids]
    assert [list(dict.fromkeys(names)) for names in rows] == [ROWS[:4], ["memnn_weak"], ["vinhkhuc"]]
    assert [grid.title[-8:] for grid in grids] == ["(1 of 3)", "(2 of 3)", "(3 of 3)"]


def test_what_was_recalled_bears_a_mark_in_the_heading(table: Table) -> None:
    grids = break_down(table)
    titles = {c.key: c.marks for grid in grids for c in grid.columns}
    assert titles["pe.published"] == ()
    assert titles["lstm.published"] == titles["memnn_weak.published"] == ("a",)
    of_lstm = next(grid for grid in grids if any(c.key == "lstm.published" for c in grid.columns))
    assert of_lstm.notes == [("a", "quoted from memory, not checked against the publication")]


def test_figures_that_are_not_compared_with_what_stands_beside_them_bear_the_reason(tmp_path: Path) -> None:
    whole, first, *_ = Look().grids(table_of(tmp_path, kind="toy", name="babi_toy"))
    (mark,) = (mark for mark, text in whole.notes if text == "the run was tested on generated stories")
    marks = {column.key: column.marks for column in first.columns}
    assert (marks["pe.published"], column(first, "pe.measured")[0]) == ((mark,), "0.50")
    assert "pe.difference" not in marks and mark not in marks["bow.published"]
    assert (mark, "the run was tested on generated stories") in first.notes


@pytest.mark.parametrize("format_", ["markdown", "latex"])
def test_every_format_shows_them(table: Table, format_: str) -> None:
    text = render(table, format_)
    assert "part by part (3 of 3)" in text
    assert "19 path finding" in text


def test_the_terminal_shows_them_within_its_width(table: Table) -> None:
    text = terminal(table, width=140)
    assert text.count("19 path finding") == 3
    below = text[text.index("papers: mean error %, part by part (1 of 3)") :]
    assert max(map(len, below.split("\n"))) <= 140


def test_every_mark_is_explained_under_its_own_grid_and_means_one_thing(table: Table) -> None:
    grids = Look().grids(table)
    meanings: dict[str, str] = {}
    for grid in grids:
        notes = dict(grid.notes)
        used = {mark for cells in [grid.columns, *grid.rows] for cell in cells for mark in cell.marks}
        assert used <= notes.keys()
        assert all(meanings.setdefault(mark, text) == text for mark, text in notes.items())
    assert [bool(grid.notes) for grid in grids].count(True) > 1
