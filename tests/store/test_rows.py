"""Rows come from sweep files; their changes are described in the table's terms."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from variations.configuration.schema import SweepConfig
from variations.store import row_files
from variations.store.row_files import label_of
from variations.store.rows import RowDefinition, define, load_row, told_apart
from variations.system.errors import UserError

Configure = Callable[..., dict[str, Any]]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf" / "variation" / "papers"
    folder.mkdir(parents=True)
    (folder / "base.yaml").write_text(
        "variation: {label: base, id: att.t3.base, published: {dev_bleu: 25.8, params_millions: 65}}\n"
    )
    (folder / "A_h16.yaml").write_text(
        "defaults: [{override /size: base}]\nmodel: {h: 16}\n"
        "variation: {label: h=16, group: A, base: base, published: {dev_bleu: 25.8}, provenance: recalled}\n"
    )
    return tmp_path / "conf"


def test_rows_keep_the_order_of_the_sweep(conf: Path) -> None:
    sweep = define(SweepConfig(name="mine", table="papers", rows=["A_h16", "base"], seeds=[1, 2]), conf=conf)
    assert [row.row for row in sweep.rows] == ["A_h16", "base"]
    assert sweep.seeds == (1, 2)
    assert sweep.rows[0].label == "h=16"
    assert sweep.rows[0].provenance == "recalled"
    assert sweep.rows[1].published == {"dev_bleu": 25.8, "params_millions": 65}
    assert sweep.base_of(sweep.rows[0]) is sweep.rows[1]
    assert sweep.base_of(sweep.rows[1]) is sweep.rows[0]


def test_a_sweep_without_rows_takes_its_whole_table_base_row_first(conf: Path) -> None:
    sweep = define(SweepConfig(name="mine", table="papers"), conf=conf)
    assert [row.row for row in sweep.rows] == ["base", "A_h16"]
    assert sweep.base_of(sweep.rows[0]) is None


def test_a_row_of_another_table_is_found(conf: Path) -> None:
    sweep = define(SweepConfig(name="mine", table="none", rows=["papers/A_h16"]), conf=conf)
    assert (sweep.rows[0].row, sweep.rows[0].label) == ("A_h16", "h=16")


def test_a_grid_takes_its_rows_and_seeds_from_the_store(conf: Path, tmp_path: Path) -> None:
    for place in ("b/seed1", "a/seed10", "a/seed2", "a/seed2-old", "Figures/drawn"):  # a folder without runs
        (tmp_path / "runs" / "grid" / place).mkdir(parents=True)
    sweep = define(SweepConfig(name="grid"), conf=conf, store=tmp_path / "runs")
    assert [row.label for row in sweep.rows] == ["a", "b"]
    assert sweep.seeds == (1, 2, 10)
    assert define(SweepConfig(name="grid"), seeds=[2], conf=conf, store=tmp_path / "runs").seeds == (2,)


def test_trials_of_a_search_are_in_order_and_have_their_values_in_their_labels(
    conf: Path, tmp_path: Path, configuration: Configure
) -> None:
    space = {"model.dropout": "interval(0, 0.3)", "recipe": ["quick", "converged"], "positions": ["learned"]}
    for number, dropout in [(9, 0.25), (10, 1 / 3)]:
        config = configuration(model__dropout=dropout, search__trial=number)
        config["sweep"]["search"]["space"] = space
        folder = tmp_path / "runs" / "found" / f"trial{number}" / "seed1"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "runs" / "found" / "trial11" / "seed1").mkdir(parents=True)  # not begun
    sweep = define(SweepConfig(name="found"), conf=conf, store=tmp_path / "runs")
    groups = f"positions {config['positions']['kind']}, recipe {config['recipe']['name']}"
    assert [(row.row, row.label) for row in sweep.rows] == [
        ("trial9", f"trial9: P_drop 0.25, {groups}"),
        ("trial10", f"trial10: P_drop 0.3333, {groups}"),
        ("trial11", "trial11"),
    ]


def test_rows_under_another_name_are_compared_with_the_base_row_that_they_were_run_with(
    conf: Path, tmp_path: Path, configuration: Configure
) -> None:
    """Also if it comes later in the order of names, or has no run; points of a grid with the same point."""
    store = tmp_path / "runs"

    def put(sweep: str, name: str, row: str, base: str | None) -> None:
        config = configuration()
        config["variation"] |= {"table": "mine", "row": row, "base": base}
        folder = store / sweep / name / "seed1"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def bases(sweep: str) -> dict[str, str | None]:
        found = define(SweepConfig(name=sweep), conf=conf, store=store)
        based = {row.row: found.base_of(row) for row in found.rows}
        return {name: base.row if base else None for name, base in based.items()}

    for row, base in (("alibi", "plain"), ("plain", None), ("steep", "plain")):
        put("again", row, row, base)
    put("apart", "alibi", "alibi", "plain")
    put("crossed", "variation=mine_alibi,model.h=2", "alibi", "plain")
    put("crossed", "variation=mine_plain,model.h=2", "plain", None)
    assert list(bases("again").items()) == [("plain", None), ("alibi", "plain"), ("steep", "plain")]
    assert bases("apart") == {"plain": None, "alibi": "plain"}
    points = ("variation=mine_plain,model.h=2", "variation=mine_alibi,model.h=2")
    assert bases("crossed") == {points[0]: None, points[1]: points[0]}
    put("edited", "a", "a", "b")
    put("edited", "b", "b", "a")
    assert bases("edited") == {"a": None, "b": "a"}
    put("again", "run1²", "run1²", None)
    assert "run1²" in bases("again")  # ² is a digit to Python, but no number


def test_a_bare_name_asks_for_no_seeds(conf: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / "papers" / "base" / f"seed{seed}").mkdir(parents=True)
        (tmp_path / "papers" / "base" / f"seed{seed}" / "result.json").write_text("{}")
    found = define(SweepConfig(name="papers"), conf=conf, store=tmp_path)
    assert (found.seeds, found.further) == ((1, 2), ())
    asking = define(SweepConfig(name="papers", table="papers"), conf=conf, store=tmp_path)
    assert (asking.seeds, asking.further) == ((1, 2), (2,))


def test_chosen_rows_are_compared_with_all_seeds_of_their_base_row(conf: Path, tmp_path: Path) -> None:
    for place in ("base/seed1", "base/seed4", "A_h16/seed1"):
        (tmp_path / "papers" / place).mkdir(parents=True)
        (tmp_path / "papers" / place / "result.json").write_text("{}")
    sweep = SweepConfig(name="papers", table="papers")
    whole, chosen, base = (define(sweep, rows=rows, conf=conf, store=tmp_path) for rows in (None, ["A_h16"], ["base"]))
    assert whole.seeds == chosen.seeds == base.seeds == (1, 4)
    (tmp_path / "papers" / "A_h16" / "seed5").mkdir()
    (tmp_path / "papers" / "A_h16" / "seed5" / "result.json").write_text("{}")
    assert define(sweep, rows=["base"], conf=conf, store=tmp_path).seeds == (1, 4)


def test_a_crossed_table_shows_its_rows_under_each_point(conf: Path, tmp_path: Path) -> None:
    for place in ("base,x=1/seed1", "base,x=2/seed1", "A_h16,x=1/seed1", "A_h16/seed1"):
        (tmp_path / "runs" / "mine" / place).mkdir(parents=True)
    sweep = SweepConfig(name="mine", table="papers", rows=["base", "A_h16"])
    found = define(sweep, conf=conf, store=tmp_path / "runs")
    assert [row.row for row in found.rows] == ["base,x=1", "base,x=2", "A_h16", "A_h16,x=1", "base"]  # absent
    by_name = {row.row: row for row in found.rows}
    crossed = by_name["A_h16,x=1"]
    assert (crossed.label, crossed.published, crossed.group) == ("h=16, x=1", {}, "A")
    assert found.base_of(crossed) is by_name["base,x=1"]
    assert found.base_of(by_name["base,x=2"]) is None
    assert found.base_of(by_name["A_h16"]) is by_name["base"]
    named = define(sweep, rows=["A_h16"], conf=conf, store=tmp_path / "runs")
    assert [row.row for row in named.rows] == ["A_h16", "A_h16,x=1"]
    point = define(sweep, rows=["A_h16,x=1"], conf=conf, store=tmp_path / "runs")
    assert [row.row for row in point.rows] == ["A_h16,x=1"]
    alone = tmp_path / "alone" / "mine" / "A_h16,x=1" / "seed1"
    alone.mkdir(parents=True)
    rest = define(sweep, rows=["A_h16"], conf=conf, store=tmp_path / "alone")
    assert {(row.row, row.label) for row in rest.of} == {("A_h16,x=1", "h=16, x=1"), ("base,x=1", "base, x=1")}
    begun = define(sweep, conf=conf, store=tmp_path / "alone")
    assert [row.row for row in begun.rows] == ["base,x=1", "A_h16,x=1"], "a row that nobody has run is not missing"
    missing = define(sweep, rows=["base,x=1"], conf=conf, store=tmp_path / "alone")
    assert [row.row for row in missing.rows] == ["base,x=1"], "it is in the whole table, too"
    with pytest.raises(UserError, match="has no row 'A_h16,x=3'"):
        define(sweep, rows=["A_h16,x=3"], conf=conf, store=tmp_path / "runs")
    assert [row.row for row in define(sweep, conf=conf, store=tmp_path / "nowhere").rows] == ["base", "A_h16"]


def test_a_crossed_row_of_another_table_is_compared_with_the_first_row_at_its_point(conf: Path, tmp_path: Path) -> None:
    (conf / "variation" / "mine").mkdir()
    (conf / "variation" / "mine" / "own.yaml").write_text("variation: {label: own}\n")
    for row in ("own", "A_h16"):
        for point in ("x=1", "x=2"):
            (tmp_path / "mine" / f"{row},{point}" / "seed1").mkdir(parents=True)
    sweep = define(SweepConfig(name="mine", table="mine", rows=["own", "papers/A_h16"]), conf=conf, store=tmp_path)
    compared = {row.row: base.row for row in sweep.rows if (base := sweep.base_of(row)) is not None}
    assert compared["A_h16,x=1"] == "own,x=1" and compared["A_h16,x=2"] == "own,x=2"


def test_a_crossed_row_without_its_base_row_is_not_compared_with_another_point(conf: Path, tmp_path: Path) -> None:
    """A grid's rows have the base rows that their runs' configurations name."""
    for name in ("base,x=1", "A_h16,x=1", "A_h16,x=2"):
        (tmp_path / "mine" / name / "seed1").mkdir(parents=True)
    grid = define(SweepConfig(name="mine"), conf=conf, store=tmp_path)
    rows = {row.row: row for row in grid.rows}
    compared = {x: grid.base_of(replace(rows[f"A_h16,x={x}"], base=f"base,x={x}")) for x in (1, 2)}
    assert compared == {1: rows["base,x=1"], 2: None}


def test_points_of_a_crossed_table_are_in_the_order_of_their_values(conf: Path, tmp_path: Path) -> None:
    points = ["k=none,n=20", "k=2,n=1e3", "k=2,n=100", "k=10,n=20", "k=2,n=20", "k=0.05,n=1", "k=0.1,n=1", "k=-1,n=1"]
    for point in points:
        (tmp_path / "mine" / f"base,{point}" / "seed1").mkdir(parents=True)
    found = define(SweepConfig(name="mine", table="papers", rows=["base"]), conf=conf, store=tmp_path)
    ordered = ["k=-1,n=1", "k=0.05,n=1", "k=0.1,n=1", "k=2,n=20", "k=2,n=100", "k=2,n=1e3", "k=10,n=20", "k=none,n=20"]
    assert [row.row.partition(",")[2] for row in found.rows] == ordered


def test_a_base_row_outside_the_sweep_is_not_replaced_by_the_first_row(conf: Path, tmp_path: Path) -> None:
    (conf / "variation" / "papers" / "first.yaml").write_text("variation: {label: First}\n")
    (conf / "variation" / "papers" / "typo.yaml").write_text("variation: {label: Typo, base: bsae}\n")
    found = define(SweepConfig(name="mine", table="papers", rows=["first", "A_h16", "typo"]), conf=conf)
    assert [row.row for row in found.rows] == ["first", "A_h16", "typo", "base", "bsae"]
    assert [found.base_of(row).row for row in found.rows[1:3]] == ["base", "bsae"]  # type: ignore[union-attr]
    alone = define(SweepConfig(name="mine", table="papers", rows=["first", "A_h16"]), rows=["A_h16"], conf=conf)
    assert [row.row for row in alone.rows] == ["A_h16"]
    assert [row.row for row in alone.with_bases().rows] == ["A_h16", "base"]  # which names no other one
    other = define(SweepConfig(name="mine", table="other", rows=["papers/first", "papers/A_h16"]), conf=conf)
    assert other.base_of(other.rows[1]) is other.rows[0]  # its base row belongs to another table


def test_an_unknown_row_is_told_with_the_known_ones(conf: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no row 'A_h17'; valid: A_h16, base"):
        define(SweepConfig(name="mine", table="papers"), rows=["A_h17"], conf=conf)
    with pytest.raises(UserError, match="has no rows yet"):
        define(SweepConfig(name="empty"), conf=conf, store=tmp_path)


def test_a_broken_row_file_is_named(conf: Path) -> None:
    (conf / "variation" / "papers" / "bad.yaml").write_text("variation: {label: [")
    with pytest.raises(UserError, match=r"bad\.yaml is not valid YAML: line \d+, column \d+: "):
        load_row("bad", "papers", conf=conf)


def test_no_two_rows_of_a_table_have_one_label() -> None:
    rows = define(SweepConfig(name="weighted_table2", table="weighted_table2")).rows
    labels = [row.label for row in rows]
    assert len(set(labels)) == len(labels)
    assert {"Transformer (N=4)", "Weighted Transformer (N=8)"} <= set(labels)


@pytest.mark.parametrize(
    ("row", "label", "shown"),
    [
        ("C_d1024", "d_model=1024", "d_model=1024 (here 256)"),
        ("B_dk16", "d_k=16", "d_k=16 (here 4)"),
        ("C_N2", "N=2", "N=2 (here 1)"),
        ("A_h16", "h=16", "h=16"),  # no recipe scales the number of heads
        ("base", "base", "base"),
    ],
)
def test_a_size_of_the_paper_is_followed_by_the_one_of_the_run(row: str, label: str, shown: str) -> None:
    variation = {"table": "attention_table3", "row": row, "label": label}
    scaled = {"variation": variation, "recipe": {"scale": {"width": 0.25, "depth": 0.5, "steps": 0.05}}}
    assert label_of(scaled, row) == shown
    assert label_of({"variation": variation, "recipe": {"scale": {"width": 1, "depth": 1, "steps": 1}}}, row) == label


def test_a_crossed_row_has_the_size_of_its_run_and_a_typed_size_is_the_runs_own() -> None:
    variation = {"table": "attention_table3", "row": "C_N2,model.dropout=0.1", "label": "N=2, model.dropout=0.1"}
    run: dict[str, Any] = {"variation": variation, "recipe": {"scale": {"width": 0.25, "depth": 0.5, "steps": 0.05}}}
    assert label_of(run | {"model": {"N": 1}}, "C_N2") == "N=2 (here 1), model.dropout=0.1"
    assert label_of(run | {"model": {"N": 3}}, "C_N2") == "N=2 (here 3), model.dropout=0.1"
    assert label_of(run | {"model": {"N": 2}}, "C_N2") == "N=2, model.dropout=0.1"


def test_only_the_size_that_is_scaled_is_followed_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    named, scaled = {"table": "t", "row": "r"}, {"recipe": {"scale": {"width": 0.25}}}
    monkeypatch.setattr(row_files, "stated", lambda row, table: {"model.h": 8, "model.d_k": "${width:8}"})
    assert row_files.with_sizes("h=8, d_k=8", named, scaled) == "h=8, d_k=8 (here 2)"
    both = {"model.d_k": "${width:16}", "model.d_v": "${width:16}"}
    monkeypatch.setattr(row_files, "stated", lambda row, table: both)
    shown = row_files.with_sizes("d_k=16, d_v=16", named, scaled)
    assert shown == "d_k=16 (here 4), d_v=16 (here 4)"


def test_rows_with_equal_labels_get_their_group_or_their_name() -> None:
    rows = [RowDefinition("a", "T", group="X"), RowDefinition("b", "T", group="Y"), RowDefinition("c", "T", group="Y")]
    assert [row.label for row in told_apart(rows)] == ["T (X)", "T (Y) (b)", "T (Y) (c)"]
    alone = define(SweepConfig(name="weighted_table2", table="weighted_table2"), rows=["N4_transformer"]).rows
    assert [row.label for row in alone] == ["Transformer (N=4)"]  # regardless of the rows shown


def test_a_row_has_the_base_row_and_the_task_that_it_inherits_and_its_own_label_and_figures(tmp_path: Path) -> None:
    """As in the configuration of its runs."""
    folder = tmp_path / "variation" / "mine"
    folder.mkdir(parents=True)
    rows = {
        "base": "variation: {task: parsing, label: the base, published: {f1: 91.3}}\n",
        "wide": "defaults: [mine/base]\nvariation: {label: wide, base: base}\n",
        "deep": "defaults: [/variation/mine/wide]\nvariation: {label: deep}\n",
        "alone": "defaults: [/variation/mine/wide]\nvariation: {base: null, task: translation}\n",
        "circle": "defaults: [mine/circle, mine/base]\nvariation: {label: circle}\n",
    }
    for row, text in rows.items():
        (folder / f"{row}.yaml").write_text(text, encoding="utf-8")
    found = {row: load_row(row, "mine", conf=tmp_path) for row in rows}
    assert {row: (one.base, one.task, one.label) for row, one in found.items()} == {
        "base": (None, "parsing", "the base"),
        "wide": ("base", "parsing", "wide"),
        "deep": ("base", "parsing", "deep"),
        "alone": (None, "translation", "alone"),
        "circle": (None, "parsing", "circle"),
    }
    assert {row for row, one in found.items() if one.published} == {"base"}
