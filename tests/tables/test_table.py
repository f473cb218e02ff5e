"""Tables show published figures next to measured ones and compare only what is comparable."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.configuration.schema import SweepConfig
from variations.dashboard.store import Store
from variations.store.ledger import RunFolder
from variations.store.rows import define
from variations.tables.collect import Summary, paired, summary
from variations.tables.footnotes import convention
from variations.tables.formats import FORMATS, render
from variations.tables.grid import Notebook, lay_out
from variations.tables.line import Figure
from variations.tables.table import Table, build

Configure = Callable[..., dict[str, Any]]
WMT = {
    "data__name": "wmt14_en_de",
    "data__kind": "wmt14",
    "data__dev": "newstest2013",
    "data__test": "newstest2014",
}


def test_runs_outside_a_sweep_are_compared_with_nothing(make_run: Any, configuration: Any, store: Path) -> None:
    for name, seed, score in (("one", 1, 30.0), ("other", 3, 31.0)):
        make_run("single", name, seed, score)
    table = build(define(SweepConfig(name="single"), store=store), store)
    assert [(line.row.definition.row, line.base) for line in table.lines] == [("one", None), ("other", None)]
    assert [line.seeds for line in table.lines] == ["1/1", "1/1"]  # nobody asked for the other's seed
    assert table.gaps == []
    assert "Δ" not in render(table, "markdown")


def test_crossed_rows_of_a_papers_table_say_that_its_sizes_are_scaled(make_run: Any, store: Path) -> None:
    """They have no published figures of their own, but the sizes in their labels are the paper's."""
    for value in (0.1, 0.2):
        words = ["variation=attention_table3/C_N2", "size=base", "data=toy", "recipe=converged"]
        config = to_dict(compose_run([*words, f"model.dropout={value}"]))
        config["variation"] |= {"row": f"C_N2,model.dropout={value}"}
        make_run("toy_attention_table3", f"C_N2,model.dropout={value}", 1, 30.0, config=config)
    sweep = SweepConfig(name="toy_attention_table3", table="attention_table3", rows=["C_N2"], seeds=[1])
    table = build(define(sweep, store=store, rows=["C_N2"]), store)
    lines = [line for line in table.lines if line.row.finished]
    assert [line.label for line in lines] == ["N=2 (here 1), model.dropout=0.1", "N=2 (here 1), model.dropout=0.2"]
    (said,) = [text for text in table.remarks if "easured on" in text]
    assert "widths × 0.25, depths × 0.5" in said


def test_seeds_that_only_the_store_has_count_and_are_mentioned(make_run: Any, conf: Path, store: Path) -> None:
    for seed in (1, 2, 7):
        make_run("papers", "base", seed, 30.0 + seed)
    make_run("papers", "A_h16", 1, 31.0)
    sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=[1, 2])
    table = build(define(sweep, conf=conf, store=store), store)
    assert [line.seeds for line in table.lines] == ["3/3", "1/2"]
    assert table.gaps == ["h=16 & <more_heads>, seed 2: missing"]  # seed 7 was not requested
    mention = "Included are runs with seeds that the sweep does not ask for (7); seeds=[1,2] leaves them out."
    assert mention in table.remarks
    chosen = build(define(sweep, seeds=[1], conf=conf, store=store), store)
    assert [line.seeds for line in chosen.lines] == ["1/1", "1/1"]
    assert not any("does not ask for" in text for text in chosen.remarks)


def test_rows_that_another_table_has_trained_are_mentioned(
    make_run: Any, conf: Path, store: Path, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "A_h16", 1, 31.0)
    run = RunFolder(store / "papers" / "base" / "seed1")
    run.write_result({**(run.result() or {}), "copied": "theirs/plain/seed1"})
    assert "base: copied from theirs/plain, which is the same run." in read().remarks
    assert sum("copied" in text for text in read().remarks) == 1
    source = RunFolder(store / "theirs" / "plain" / "seed1").create(run.config())
    source.write_result(run.result() or {})
    assert "base: copied from theirs/plain, which is the same run." in read().remarks
    make_run("papers", "base", 2, 30.0)
    assert "base: seed 1 copied from theirs/plain, which is the same run." in read().remarks
    source.write_result({**(run.result() or {}), "scores": {}})
    again = "base: seed 1 copied from theirs/plain, which has been trained again since, with another result."
    assert again in read().remarks
    run.write_result({**(run.result() or {}), "remarks": ["3 of 4 pairs are also training pairs."]})
    assert "base: 3 of 4 pairs are also training pairs." in read().remarks


@pytest.mark.slow
def test_the_rows_of_a_grid_are_compared_with_their_base_rows_and_absent_ones_are_mentioned(
    make_run: Any, configuration: Callable[..., dict[str, Any]], store: Path
) -> None:
    bases = {"M16": "weighted", "topk": "weighted", "weighted": "transformer", "attention_dropout": "transformer"}
    for row, base in bases.items():
        variation = {"table": "weighted_claims", "row": row, "label": row, "base": base}
        make_run("grid", f"variation=weighted_claims_{row}", 1, 30.0, config=configuration(variation=variation))
        make_run("lost", row, 1, 30.0, config=configuration(variation=variation))  # whose sweep has no file here
    table = build(define(SweepConfig(name="grid", seeds=[1]), store=store), store)
    weighted = "variation=weighted_claims_weighted"
    found = {line.label: line.base for line in table.lines}
    first = "variation=weighted_claims_attention_dropout"
    assert found == {"M16": weighted, "topk": weighted, "weighted": first, "attention_dropout": None}
    absent = [text for text in table.remarks if "not in this table" in text]
    instead = "compared with attention_dropout instead"
    assert absent == [f"The base row of weighted (transformer) is not in this table: {instead}."]
    chosen = define(SweepConfig(name="grid"), rows=["variation=weighted_claims_topk"], store=store).with_bases()
    assert {row.row for row in chosen.rows} == {first, weighted, "variation=weighted_claims_topk"}
    lost = build(define(SweepConfig(name="lost", seeds=[1]), store=store), store)
    assert {line.label: line.base for line in lost.lines if line.label in ("M16", "topk")} == {
        "M16": "weighted",
        "topk": "weighted",
    }


def test_other_rows_in_the_folder_are_mentioned_and_figures_are_not(make_run: Any, conf: Path, store: Path) -> None:
    for row in ("base", "former"):
        make_run("papers", row, 1, 30.0)
    (store / "papers" / "figures").mkdir()
    remarks = build(define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=conf), store).remarks
    assert f"{store}/papers also contains runs that are not rows of this table: former." in remarks
    sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=[1])
    make_run("papers", "A_h16", 1, 30.0)
    remarks = build(define(sweep, conf=conf, rows=["base"]), store).remarks  # a row that is only not chosen is none
    assert f"{store}/papers also contains runs that are not rows of this table: former." in remarks


def test_rows_of_a_grid_over_one_row_of_a_table_are_told_apart(make_run: Any, store: Path, configuration: Any) -> None:
    for alpha in (0.2, 0.6):
        words = {"variation__label": "Uniform", "variation__row": "uniform", "name": f"decode.alpha={alpha}"}
        make_run("grid", f"decode.alpha={alpha}", 1, 30.0, config=configuration(**words, decode__alpha=alpha))
    lines = build(define(SweepConfig(name="grid"), store=store), store).lines
    assert [line.label for line in lines] == ["Uniform (decode.alpha=0.2)", "Uniform (decode.alpha=0.6)"]


def test_rows_of_a_grid_are_named_by_what_differs(make_run: Any, store: Path, configuration: Any) -> None:
    names = [f"size=tiny,model.dropout={rate},recipe=quick" for rate in (0.1, 0.05)]
    for name in names:
        make_run("grid", name, 1, 30.0, config=configuration(variation__row=name, name=name))
    table = build(define(SweepConfig(name="grid"), store=store), store)
    assert [line.label for line in table.lines] == ["model.dropout=0.05", "model.dropout=0.1"]  # by size
    assert "All rows have size=tiny, recipe=quick." in table.remarks
    (line,) = build(define(SweepConfig(name="grid"), store=store, rows=names[:1]), store).lines
    assert line.label == "model.dropout=0.1"


def test_chosen_rows_are_compared_with_the_base_row_that_they_name(make_run: Any, store: Path) -> None:
    for row, bleu in {"base": 30.0, "A_h16": 31.0, "A_h4": 32.0}.items():
        make_run("attention_table3", row, 1, bleu)
    sweep = SweepConfig(name="attention_table3", rows=["base", "A_h16", "A_h4"], seeds=[1])
    chosen = define(sweep, rows=["A_h16", "A_h4"], store=store)
    assert [row.row for row in chosen.rows] == ["A_h16", "A_h4"]
    lines = build(chosen.with_bases(), store).lines
    assert [(line.row.definition.row, line.base) for line in lines] == [
        ("base", None),
        ("A_h16", "base"),
        ("A_h4", "base"),
    ]


def test_figures_of_the_row_that_a_row_inherits_from_are_not_its_own(
    make_run: Any, store: Path, configuration: Any
) -> None:
    """The paper has a figure for `learned`, and none for `softmax`, whose file inherits that of `learned`."""
    own = {"table": "weighted_readings", "row": "softmax", "label": "softmax", "published": {"dev_bleu": 24.8}}
    changes = {f"variation__{key}": value for key, value in own.items()}
    for row in ("learned", "softmax"):
        make_run("weighted_readings", row, 1, 30.0, config=configuration(**changes | {"variation__row": row}))
    sweep = SweepConfig(name="weighted_readings", rows=["weighted_table3/learned", "softmax"], seeds=[1])
    lines = build(define(sweep, store=store), store).lines
    assert {line.row.definition.row: list(line.published) for line in lines} == {"learned": ["dev_bleu"], "softmax": []}


@pytest.mark.parametrize("metric", ["bleu_tok_lc", "test.bleu", "dev.bleu"])
def test_a_table_by_another_score_of_the_test_set_has_its_bleu_as_well(
    make_run: Any, read: Callable[..., Table], metric: str
) -> None:
    make_run("papers", "base", 1, 30.0)
    columns = [measure.key for measure in read(metric=metric).columns]
    assert ("test.bleu" in columns) == (metric != "dev.bleu")
    assert len({*columns}) == len(columns)


def test_published_figures_keep_the_zeros_that_the_paper_prints(store: Path) -> None:
    """Vaswani et al. 2017, Table 3: 5.00 among perplexities such as 4.92; Table 2 mixes one and two decimals."""

    def column(name: str, key: str, rows: Sequence[str] | None = None) -> list[str]:
        grid = lay_out(build(define(SweepConfig(name=name, rows=[], table=name), rows=rows), store))
        at = [column.key for column in grid.columns].index(f"published.{key}")
        return [row[at].text for row in grid.rows]

    assert {"5.00", "4.92"} <= {*column("attention_table3", "dev_ppl")}
    assert column("attention_table3", "dev_ppl", ["base", "A_h4"]) == ["4.92", "5.00"]  # as in the whole table
    assert column("attention_table3", "dev_bleu", ["base", "C_d1024"]) == ["25.8", "26.0"]
    assert {"24.6", "23.75"} <= {*column("attention_table2", "bleu_ende")}
    for tenths, word in ((7, "17.0"), (6, "17")):  # of MemN2N 3 hops PE LS, 14 of 20
        figures = [Figure(value, recalled=False) for value in [17.0] * (10 - tenths) + [12.8] * tenths]
        assert Notebook().printed(figures, [()] * len(figures))[0][0].text == word


def test_published_figures_are_printed_with_all_their_digits() -> None:
    given = (123456.789, 25.8, 65, 1e-5, 1234567.0, 2.3e19, 1e20, -0.1)
    figures = [Figure(value, recalled=False) for value in given]
    words = ["123456.789", "25.8", "65", "1e-05", "1.234567e6", "2.3e19", "1.0e20", "-0.1"]
    assert [cell.text for cell in Notebook().printed(figures, [()] * len(figures))[0]] == words


def test_mean_and_sample_standard_deviation_over_seeds() -> None:
    assert summary([30.0, 32.0, 34.0]) == Summary(32.0, 2.0, 3)
    assert summary([30.0]) == Summary(30.0, None, 1)
    assert summary([]) is None


def test_differences_pair_the_seeds_that_both_rows_have() -> None:
    assert paired({1: 31.0, 2: 33.0, 4: 90.0}, {1: 30.0, 2: 30.0, 3: 10.0}) == Summary(
        2.0, pytest.approx(1.41421356), 2
    )
    assert paired({1: 3.0}, {2: 1.0}) is None


@pytest.mark.slow
def test_a_row_has_mean_spread_and_difference_from_its_base_row(full: Table) -> None:
    base, row = full.lines
    assert base.measured["test.bleu"] == Summary(32.0, 2.0, 3)
    assert row.measured["test.bleu"].mean == 33.0
    assert row.delta["test.bleu"] == Summary(1.0, 1.0, 3)
    assert row.changes == "heads 8→16, d_k 64→32; parameters −1,000"
    assert row.published_delta == {"dev_bleu": pytest.approx(-0.3)}


@pytest.mark.slow
def test_figures_on_other_data_are_not_subtracted_and_the_table_says_why(full: Table) -> None:
    figure = full.lines[0].published["dev_bleu"]
    assert (figure.value, figure.difference) == (25.8, None)
    assert figure.notes == ("published on newstest2013, measured on toy en-de: not compared",)
    assert "measured − published" not in [column.title for column in lay_out(full).columns]


def test_figures_on_the_same_data_are_subtracted_with_what_else_differs(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    of_file = ["data=wmt14_en_de", "model.N=1", "trainer.threads=1", "trainer.precision=bf16-mixed"]
    changed = {"sweep__typed": ["trainer.max_steps=9"], "sweep__overrides": of_file}
    scaled = configuration(**WMT, recipe__scale__width=0.25, **changed)
    make_run("papers", "base", 1, 26.0, config=scaled)
    table = read(seeds=[1])
    figure = table.lines[0].published["dev_bleu"]
    assert figure.measure == "dev.bleu"
    assert figure.difference == pytest.approx(25.5 - 25.8)
    assert figure.notes == (
        "published as tokenised, compound-split multi-bleu, case-sensitive, measured as dev BLEU",
        "measured at widths × 0.25 of the paper's",
        "trainer.max_steps=9 was typed",
        "model.N=1 stood in the sweep's file",
    )
    grid = lay_out(table)
    column = [item.title for item in grid.columns].index("measured − published")
    assert grid.rows[0][column].text == "−0.30"
    assert grid.rows[0][column].marks


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data__dev": "newstest2012"}, "measured on newstest2012"),
        ({"data__lowercase": True}, "measured on lower-cased text (data.lowercase)"),
        ({"trainer__limit_val_batches": 2}, "measured on a part of it (trainer.limit_val_batches)"),
    ],
)
def test_figures_of_another_set_of_the_same_corpus_are_not_subtracted(
    make_run: Any, configuration: Configure, read: Callable[..., Table], changes: dict[str, Any], told: str
) -> None:
    make_run("papers", "base", 1, 26.0, config=configuration(**WMT | changes))
    figure = read(seeds=[1]).lines[0].published["dev_bleu"]
    assert (figure.difference, figure.notes) == (None, (f"published on newstest2013, {told}: not compared",))


def test_the_published_convention_is_preferred_where_it_was_measured(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    dev = {"bleu": {"value": 25.0}, "bleu_split": {"value": 26.0, "convention": "split"}}
    scores = {"test": {"bleu": {"value": 27.0}}, "dev": dev}
    make_run("papers", "base", 1, 27.0, config=configuration(**WMT), scores=scores)
    figure = read(seeds=[1]).lines[0].published["dev_bleu"]
    assert (figure.measure, figure.difference, figure.notes) == ("dev.bleu_split", pytest.approx(0.2), ())


def test_rows_that_were_scored_by_other_conventions_each_have_theirs(make_run: Any, read: Callable[..., Table]) -> None:
    for row, language in (("base", "de"), ("A_h16", "fr")):
        made = {"value": 27.0, "convention": f"multi-bleu after Moses ({language})."}
        make_run("papers", row, 1, 27.0, scores={"test": {"bleu": made}, "dev": {}})
    table = read(seeds=[1])
    labels = [line.label for line in table.lines]
    told = convention(table, table.task.measure("test.bleu"))
    assert told == f"{labels[0]}: multi-bleu after Moses (de); {labels[1]}: multi-bleu after Moses (fr)"


def test_perplexities_of_another_vocabulary_are_not_compared(
    make_run: Any, configuration: Configure, read: Callable[..., Table], conf: Path
) -> None:
    (conf / "variation" / "papers" / "base.yaml").write_text("variation: {published: {dev_ppl: 4.92}}\n")
    make_run("papers", "base", 1, 26.0, config=configuration(**WMT))
    figure = read(seeds=[1]).lines[0].published["dev_ppl"]
    assert figure.difference is None
    assert "another vocabulary (37,000 types)" in figure.notes[0]


@pytest.mark.slow
def test_recalled_figures_keep_their_mark(full: Table) -> None:
    assert full.lines[1].published["dev_bleu"].recalled
    grid = lay_out(full)
    column = [item.title for item in grid.columns].index("dev BLEU, published")
    mark = next(mark for mark, text in grid.notes if "quoted from memory" in text)
    assert mark in grid.rows[1][column].marks
    assert mark not in grid.rows[0][column].marks


def test_missing_partial_and_failed_cells_are_named(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "base", 2, None, state="failed", reason="out of\nmemory")
    make_run(
        "papers",
        "base",
        3,
        None,
        state="interrupted",
        config=configuration(trainer__max_steps=200),
        status={"step": 50},
    )
    table = read()
    assert table.lines[0].seeds == "1/3"
    assert table.gaps == [
        "base, seed 2: failed (out of memory)",
        "base, seed 3: interrupted (25 % of 200 steps)",
        "h=16 & <more_heads>, seeds 1, 2, 3: missing",
    ]
    assert [cell.text for cell in lay_out(table).rows[1] if "missing" in cell.text] == ["missing"]


def test_an_empty_store_gives_a_table_of_missing_cells(conf: Path, store: Path) -> None:
    sweep = SweepConfig(name="papers", rows=["base", "A_h16", "former"], seeds=[1, 2])
    table = build(define(sweep, conf=conf), store)
    assert table.gaps == [
        "base, seeds 1, 2; h=16 & <more_heads>, seeds 1, 2: missing",
        "former, seeds 1, 2: missing, and the row has no file",
    ]
    for name in FORMATS:
        assert "missing" in render(table, name)


@pytest.mark.slow
def test_seeds_scored_by_another_convention_are_told_and_not_compared(
    make_run: Any, read: Callable[..., Table], store: Path
) -> None:
    for seed in (1, 2, 3):
        make_run("papers", "base", seed, 30.0)
        make_run("papers", "A_h16", seed, 31.0)
    run = RunFolder(store / "papers/A_h16/seed2")
    text = json.dumps(run.result())
    run.write_result(json.loads(text.replace("|v:2.6.0", "|v:2.7.0")))  # a newer version computes the same
    assert read().lines[1].notes == ()
    run.write_result(json.loads(text.replace("tok:13a", "tok:intl")))
    line = read().lines[1]
    assert line.delta == {}
    assert line.notes == (
        "its test BLEU follows another convention than its base row's or its other seeds': not compared",
        "its seeds' test BLEU follows different conventions: the mean is meaningless",
    )


def test_a_broken_run_is_named_and_the_rest_is_read(make_run: Any, read: Callable[..., Table]) -> None:
    make_run("papers", "base", 1, 30.0)
    folder = make_run("papers", "base", 2, 31.0)
    (folder.path / "result.json").write_text("{")
    table = read(seeds=[1, 2])
    assert table.lines[0].measured["test.bleu"].n == 1
    assert table.gaps[0].startswith("base, seed 2: broken (Cannot read")


def test_a_new_attempt_is_read_only_once_it_is_finished(
    make_run: Any, configuration: Configure, read: Callable[..., Table], store: Path
) -> None:
    from variations.store.ledger import RunFolder

    first = make_run("papers", "base", 1, 30.0)
    first.path.with_name("seed1-attempt2").mkdir()  # empty: no attempt
    assert not read(seeds=[1]).lines[0].notes
    second = RunFolder(first.path.with_name("seed1-attempt3")).create(configuration())
    second.set_status("running")
    older = read(seeds=[1]).lines[0]
    assert older.measured["test.bleu"].mean == 30.0
    assert "seed 1: the score of an older attempt, for a newer one is not finished" in older.notes
    second.write_result({"scores": {"test": {"bleu": {"value": 40.0}}}})
    second.set_status("finished")
    newer = read(seeds=[1]).lines[0]
    assert newer.measured["test.bleu"].mean == 40.0
    assert not any("older attempt" in note for note in newer.notes)


def test_a_run_that_was_copied_to_the_folder_of_another_seed_does_not_count(
    make_run: Any, read: Callable[..., Table], store: Path
) -> None:
    folder = make_run("papers", "base", 1, 30.0).path
    shutil.copytree(folder, folder.with_name("seed2-attempt2"))
    make_run("papers", "A_h16", 1, 31.0)
    table = read(seeds=[1, 2])
    assert table.lines[0].measured["test.bleu"].n == 1
    assert table.gaps[0] == (
        "base, seed 2: broken (config.yaml has seed 1, so this folder is a copy of another run or was renamed: move "
        "it away and train the missing seed)"
    )
    known = Store(store)
    faults = {run.folder.path.name: known.summary(run).fault for run in known.sweep("papers") if run.row == "base"}
    assert faults["seed1"] is None
    assert "has seed 1" in str(faults["seed2-attempt2"])


def test_a_folder_of_another_row_is_refused(
    make_run: Any, configuration: Configure, read: Callable[..., Table], store: Path
) -> None:
    other = configuration(sweep__name="papers", variation__row="A_h16", model__h=16)
    make_run("papers", "base", 1, 31.0, config=other)
    make_run("papers", "A_h16", 1, 31.0, config=other)
    table = read(seeds=[1])
    assert [len(line.row.finished) for line in table.lines] == [0, 1]
    assert "config.yaml has variation.row='A_h16', so this folder is a copy of another one or was ren" in table.gaps[0]
    known = Store(store)
    assert {run.row for run in known.sweep("papers") if known.summary(run).fault} == {"base"}


def test_a_copy_of_a_row_of_a_grid_is_refused(make_run: Any, store: Path, configuration: Configure) -> None:
    folder = make_run("grid", "decode.alpha=0.2", 1, 30.0, config=configuration(name="decode.alpha=0.2")).path
    shutil.copytree(folder.parent, folder.parent.with_name("decode.alpha=0.6"))
    table = build(define(SweepConfig(name="grid"), store=store), store)
    assert [len(line.row.finished) for line in table.lines] == [1, 0]
    assert "config.yaml has name='decode.alpha=0.2', so this folder is a copy of another one" in table.gaps[0]


def test_a_result_beside_another_configuration_does_not_count(
    make_run: Any, read: Callable[..., Table], configuration: Configure
) -> None:
    base, row = (
        make_run("papers", "base", 1, 30.0),
        make_run("papers", "A_h16", 1, 31.0, config=configuration(model__h=16)),
    )
    assert [len(line.row.finished) for line in read(seeds=[1]).lines] == [1, 1]
    shutil.copy(base.path / "result.json", row.path)  # restored into the wrong folder
    table = read(seeds=[1])
    assert [len(line.row.finished) for line in table.lines] == [1, 0]
    assert "config.yaml is not the configuration of result.json: one of them was edited" in table.gaps[0]


@pytest.mark.parametrize("damage", ["cut", "zeros", "edited"])
def test_damaged_measurements_are_marked(damage: str, make_run: Any, read: Callable[..., Table], store: Path) -> None:
    folder = make_run("papers", "base", 1, 30.0)
    make_run("papers", "A_h16", 1, 31.0)
    for step in (1, 2):
        folder.measurements.append({"step": step, "dev/nll": 1.0})
    folder.write_result(folder.result() or {})
    assert read(seeds=[1]).lines[0].notes == ()
    data = folder.measurements.path.read_bytes()
    changed = {"cut": data[:30], "zeros": b"\0" * len(data), "edited": data.replace(b"1.0", b"2.0")}
    folder.measurements.path.write_bytes(changed[damage])
    told = "its measurements (metrics.jsonl) are lost, damaged or not readable"
    assert any(told in note for note in read(seeds=[1]).lines[0].notes)
    known = Store(store)
    (found,) = (run for run in known.sweep("papers") if run.row == "base")
    assert known.stored(found).measured is False


@pytest.mark.slow
def test_footnotes_state_data_recipe_scale_and_convention(full: Table) -> None:
    text = " ".join(full.remarks)
    assert "Measured on toy en-de, recipe quick (unscaled)" in text
    assert "test BLEU: sacreBLEU on detokenised text; nrefs:1|tok:13a|v:2.6.0." in text
    assert "Published dev BLEU: newstest2013, tokenised, compound-split multi-bleu, case-sensitive." in text
    assert "standard deviation over seeds" in text


def test_footnotes_state_a_part_of_the_training_text(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0, config=configuration(data__train_pairs=5000))
    assert "Measured on toy en-de, the first 5,000 training pairs, recipe" in " ".join(read(seeds=[1]).remarks)


def test_footnotes_state_pairs_that_were_left_out_and_sets_with_names_of_their_own(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    config = configuration(data__train_pairs=400, data__test="test_2017_mscoco", recipe__batch_tokens=1000)
    make_run("papers", "base", 1, 30.0, config=config, dropped_pairs=340)
    left_out = "without 340 pairs that were blank or longer than data.max_length"
    told = f"the first 400 training pairs, {left_out}, test set test_2017_mscoco"
    (text,) = [text for text in read(seeds=[1]).remarks if text.startswith("Measured on ")]
    assert f"Measured on toy en-de, {told}, recipe quick" in text and ", up to 1,000 tokens a batch" in text


def test_footnotes_state_what_replaces_the_scale_of_a_recipe(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    typed = {"sweep__overrides": ["data=toy", "size=tiny"], "sweep__typed": ["trainer.max_steps=200"]}
    make_run("papers", "base", 1, 30.0, config=configuration(recipe__scale={"width": 0.25}, **typed))
    told = "recipe quick (widths × 0.25 of the paper's, but size=tiny trainer.max_steps=200), "
    assert told in " ".join(read(seeds=[1]).remarks)
