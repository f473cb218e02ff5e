"""Tables show published figures next to measured ones and compare only what is comparable."""

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.schema import SweepConfig
from variations.dashboard.store import Store
from variations.store.ledger import RunFolder
from variations.store.rows import define
from variations.system.errors import UserError
from variations.tables.collect import Summary, paired, summary
from variations.tables.formats import FORMATS, Look, latex_escape, render, terminal
from variations.tables.grid import Notebook, delta, duration, lay_out, millions, scientific
from variations.tables.table import Table, build, document
from variations.tables.text import _fitting

Configure = Callable[..., dict[str, Any]]
WMT = {"data__name": "wmt14_en_de", "data__kind": "wmt14"}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf" / "variation" / "papers"
    folder.mkdir(parents=True)
    (folder / "base.yaml").write_text("variation: {label: base, published: {dev_bleu: 25.8, params_millions: 65}}\n")
    (folder / "A_h16.yaml").write_text(
        "variation: {label: 'h=16 & <more_heads>', group: A, base: base, provenance: recalled,"
        " published: {dev_bleu: 25.5}}\n"
    )
    return tmp_path / "conf"


@pytest.fixture
def read(conf: Path, store: Path) -> Callable[..., Table]:
    def table(seeds: list[int] | None = None, **keys: Any) -> Table:
        sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=seeds or [1, 2, 3], **keys)
        return build(define(sweep, conf=conf), store)

    return table


@pytest.fixture
def full(make_run: Any, configuration: Configure, read: Callable[..., Table]) -> Table:
    for seed, base, row in ((1, 30.0, 31.0), (2, 32.0, 32.0), (3, 34.0, 36.0)):
        make_run("papers", "base", seed, base)
        make_run("papers", "A_h16", seed, row, config=configuration(model__h=16), parameters=1_499_000)
    return read()


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


def test_a_row_whose_file_was_edited_after_its_run_is_marked(make_run: Any, store: Path, configuration: Any) -> None:
    """The run has sinusoidal positions; its row's file specifies learned ones."""
    row = {"variation__table": "quickstart", "variation__row": "learned_positions"}
    make_run("quickstart", "transformer", 1, 30.0)
    sweep = SweepConfig(name="quickstart", rows=["transformer", "learned_positions"], seeds=[1])
    notes = {}
    for kind in ("learned", "sinusoidal"):
        make_run("quickstart", "learned_positions", 1, 31.0, config=configuration(**row, positions__kind=kind))
        notes[kind] = build(define(sweep, store=store), store).lines[1].notes
        shutil.rmtree(store / "quickstart" / "learned_positions")
    swapped = configuration(variation__table="quickstart", variation__row="transformer")
    make_run("quickstart", "learned_positions", 1, 31.0, config=swapped)
    notes["swapped"] = build(define(sweep, store=store), store).lines[1].notes
    told = "another configuration than its file has now: positions.kind sinusoidal there, learned in the file"
    assert notes["learned"] == ()
    assert notes["sinusoidal"] == ("its configuration is that of its base row", f"finished with {told}")
    assert notes["swapped"] == ("its configuration is that of its base row", f"finished with {told}")


def test_a_row_file_that_was_copied_to_another_table_is_looked_up_where_it_is(
    make_run: Any, store: Path, configuration: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of `positions` of another table, which still names that table, and has other values."""
    conf = tmp_path / "conf"
    for table, kind in (("theirs", "learned"), ("mine", "none")):
        folder = conf / "variation" / table
        folder.mkdir(parents=True)
        words = "variation: {table: theirs, row: positions, label: Positions}\n"
        (folder / "positions.yaml").write_text(f"{words}positions: {{kind: {kind}}}\n")
    monkeypatch.setattr("variations.configuration.doors._typed", [conf])
    words = {"variation__table": "theirs", "variation__row": "positions"}
    make_run("mine", "positions", 1, 31.0, config=configuration(**words, positions__kind="none"))
    (line,) = build(define(SweepConfig(name="mine", rows=["positions"], seeds=[1]), store=store), store).lines
    assert line.notes == ()


def test_rows_of_a_grid_over_one_row_of_a_table_are_told_apart(make_run: Any, store: Path, configuration: Any) -> None:
    for alpha in (0.2, 0.6):
        words = {"variation__label": "Uniform", "variation__row": "uniform", "name": f"decode.alpha={alpha}"}
        make_run("grid", f"decode.alpha={alpha}", 1, 30.0, config=configuration(**words, decode__alpha=alpha))
    lines = build(define(SweepConfig(name="grid"), store=store), store).lines
    assert [line.label for line in lines] == ["Uniform (decode.alpha=0.2)", "Uniform (decode.alpha=0.6)"]


@pytest.mark.parametrize(
    ("lines", "typed", "changes", "note"),
    [
        ([], [], {"recipe__label_smoothing": 0.3}, None),
        (
            ["decode.alpha=3.0"],
            [],
            {"decode__alpha": 3.0},
            "decode.alpha=3.0 stood in the sweep's file for it alone",
        ),
        ([], ["size=small"], {"model__d_model": 256}, "size=small was typed for it alone"),
        (
            [],
            ["trainer.precision=bf16-mixed"],
            {"trainer__precision": "bf16-mixed"},
            "trainer.precision=bf16-mixed was typed for it alone",
        ),
        (["trainer.threads=7"], [], {}, None),
    ],
)
def test_overrides_of_one_of_two_rows_are_told(
    lines: list[str],
    typed: list[str],
    changes: dict[str, Any],
    note: str | None,
    make_run: Any,
    store: Path,
    configuration: Any,
) -> None:
    """As after an edit of the sweep's file between the two rows, or where something was typed for one of them."""
    row = {"variation__table": "quickstart", "variation__row": "learned_positions", "positions__kind": "learned"}
    make_run("quickstart", "transformer", 1, 30.0, config=configuration(sweep__overrides=[], sweep__typed=[]))
    own = configuration(**row, **changes, sweep__overrides=lines, sweep__typed=typed)
    make_run("quickstart", "learned_positions", 1, 31.0, config=own)
    sweep = SweepConfig(name="quickstart", rows=["transformer", "learned_positions"], seeds=[1])
    assert build(define(sweep, store=store), store).lines[1].notes == ((note,) if note else ())


def test_losses_of_different_numbers_of_dev_batches_are_not_compared(
    make_run: Any, store: Path, configuration: Any
) -> None:
    row = {"variation__table": "quickstart", "variation__row": "learned_positions", "positions__kind": "learned"}
    make_run("quickstart", "transformer", 1, 30.0)
    limited = configuration(**row, trainer__limit_val_batches=1)
    make_run("quickstart", "learned_positions", 1, 31.0, config=limited)
    sweep = SweepConfig(name="quickstart", rows=["transformer", "learned_positions"], seeds=[1])
    delta = build(define(sweep, store=store), store).lines[1].delta
    assert "test.bleu" in delta and "dev_ppl" not in delta
    sweep.metric = "dev_ppl"
    line = build(define(sweep, store=store), store).lines[1]
    assert line.delta == {}
    assert line.notes[0] == (
        "its dev PPL depends on the number of dev batches (trainer.limit_val_batches), which its base row does not "
        "share: not compared"
    )
    text = render(build(define(sweep, store=store), store), "markdown")
    assert "the dev loss over 1 batch only (trainer.limit_val_batches)" in text


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
    make_run("papers", "base", 1, 26.0, config=configuration(**WMT, recipe__scale__width=0.25))
    table = read(seeds=[1])
    figure = table.lines[0].published["dev_bleu"]
    assert figure.measure == "dev.bleu"
    assert figure.difference == pytest.approx(25.5 - 25.8)
    assert figure.notes == (
        "published as tokenised, compound-split multi-bleu, case-sensitive, measured as dev BLEU",
        "measured at widths × 0.25 of the paper's",
    )
    grid = lay_out(table)
    column = [item.title for item in grid.columns].index("measured − published")
    assert grid.rows[0][column].text == "−0.30"
    assert grid.rows[0][column].marks


def test_the_published_convention_is_preferred_where_it_was_measured(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    dev = {"bleu": {"value": 25.0}, "bleu_split": {"value": 26.0, "convention": "split"}}
    scores = {"test": {"bleu": {"value": 27.0}}, "dev": dev}
    make_run("papers", "base", 1, 27.0, config=configuration(**WMT), scores=scores)
    figure = read(seeds=[1]).lines[0].published["dev_bleu"]
    assert (figure.measure, figure.difference, figure.notes) == ("dev.bleu_split", pytest.approx(0.2), ())


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
    second = RunFolder(first.path.with_name("seed1-attempt2")).create(configuration())
    second.set_status("running")
    assert read(seeds=[1]).lines[0].measured["test.bleu"].mean == 30.0
    second.write_result({"scores": {"test": {"bleu": {"value": 40.0}}}})
    second.set_status("finished")
    assert read(seeds=[1]).lines[0].measured["test.bleu"].mean == 40.0


def test_a_row_that_tests_the_weights_of_a_former_attempt_is_named(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    from variations.store.ledger import RunFolder

    first = make_run("papers", "base", 1, 30.0)
    retested = configuration(variation__reuse="base")
    make_run("papers", "A_h16", 1, 28.0, config=retested, reused="../../base/seed1")
    assert not any("seed 1:" in text for text in read(seeds=[1]).remarks)
    make_run("papers", "base", 2, 30.0)
    make_run("papers", "A_h16", 2, 28.0, config=retested)
    own = "h=16 & <more_heads>, seed 2: trained a network of its own, and does not test base."
    assert own in read(seeds=[2]).remarks
    second = RunFolder(first.path.with_name("seed1-attempt2")).create(configuration())
    second.write_result({"scores": {"test": {"bleu": {"value": 40.0}}}})
    second.set_status("finished")
    assert (
        "h=16 & <more_heads>, seed 1: tests the weights of attempt 1 of base, but the table has attempt 2 of that row; "
        "force=true 'rows=[A_h16]' tests its weights."
    ) in read(seeds=[1]).remarks


def test_rows_of_another_budget_or_other_data_are_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "A_h16", 1, 31.0, steps=600)
    assert read(seeds=[1]).lines[1].notes == ("not the budget of its base row: steps 600 v. 1,200",)
    make_run("papers", "base", 2, 30.0)
    make_run("papers", "A_h16", 2, 31.0, config=configuration(**WMT))
    line = read(seeds=[2]).lines[1]
    assert line.delta == {}
    assert line.notes == ("measured on wmt14_en_de en-de, its base row on toy en-de: not compared",)


def test_rows_trained_on_other_texts_are_not_compared(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    texts = {"train.de": "1", "train.en": "2", "mine.py": "3"}
    for row, seed, changed in [("base", 1, {}), ("A_h16", 1, {"mine.py": "4"}), ("base", 2, {"train.de": "5"})]:
        make_run("papers", row, seed, 30.0 + seed).write_environment({"data": texts | changed})
    alone = read(seeds=[1])
    assert alone.lines[1].notes == () and alone.lines[1].delta
    assert f"{alone.lines[1].label}: trained with another version of mine.py than its base row." in alone.remarks
    assert read().lines[0].notes == ("its seeds were not trained alike: other inputs (train.de) from seed 1 to 2",)
    make_run("papers", "A_h16", 2, 31.0).write_environment({"data": texts})
    line = read().lines[1]
    assert line.notes == (
        "its inputs differ from its base row's (train.de; seed 2): not compared",
        "its seeds were not trained alike: other inputs (mine.py) from seed 1 to 2",
    )
    assert line.delta == {} and line.test is None
    other = configuration(data__vocabulary=500)
    make_run("papers", "A_h16", 3, 31.0, config=other).write_environment({"data": texts | {"subwords.model": "6"}})
    make_run("papers", "base", 3, 31.0).write_environment({"data": texts | {"subwords.model": "7"}})
    assert not any("inputs" in note for note in read(seeds=[3]).lines[1].notes)  # another vocabulary was configured


def test_overrides_that_were_typed_for_one_row_alone_are_named(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    def typed(*lines: str, **changes: Any) -> dict[str, Any]:
        config = configuration(**changes)
        return config | {"sweep": config["sweep"] | {"typed": list(lines)}}

    same = ("recipe.batch_tokens=512", "data.cache=elsewhere")
    make_run("papers", "base", 1, 30.0, config=typed(*same))
    make_run("papers", "A_h16", 1, 31.0, config=typed(*same[::-1], model__h=16))
    assert read(seeds=[1]).lines[1].notes == ()
    make_run("papers", "base", 2, 30.0, config=typed())
    make_run("papers", "A_h16", 2, 31.0, config=typed("recipe.lr=0.5", "model.h=8", recipe__lr=0.5))
    assert read(seeds=[2]).lines[1].notes == ("recipe.lr=0.5 was typed for it alone",)
    make_run("papers", "base", 3, 30.0, config=typed("recipe.lr=0.5", recipe__lr=0.5))
    make_run("papers", "A_h16", 3, 31.0, config=typed())
    assert read(seeds=[3]).lines[1].notes == ("recipe.lr=0.5 was typed for its base row alone",)


def test_losses_per_sub_word_of_other_vocabularies_are_not_compared(make_run: Any, conf: Path, store: Path) -> None:
    make_run("papers", "base", 1, 30.0, vocabulary=3000)
    make_run("papers", "A_h16", 1, 31.0, vocabulary=4000)
    sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=[1], metric="dev_ppl")
    line = build(define(sweep, conf=conf, store=store), store).lines[1]
    assert line.notes == ("its dev PPL depends on the vocabulary, which its base row does not share: not compared",)
    assert line.delta == {}
    sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=[1])
    assert {"test.bleu"} <= build(define(sweep, conf=conf, store=store), store).lines[1].delta.keys() - {"dev_ppl"}


def test_seeds_of_a_row_that_were_not_trained_alike_are_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "base", 2, 34.0, config=configuration(trainer__max_steps=600, trainer__threads=1))
    make_run("papers", "base", 3, 32.0, config=configuration(trainer__threads=2))
    assert read().lines[0].notes == ("its seeds were not trained alike: steps 100000→600 from seed 1 to 2",)


def test_a_run_that_was_copied_to_the_folder_of_another_seed_does_not_count(
    make_run: Any, read: Callable[..., Table], store: Path
) -> None:
    folder = make_run("papers", "base", 1, 30.0).path
    shutil.copytree(folder, folder.with_name("seed2-attempt2"))
    make_run("papers", "A_h16", 1, 31.0)
    table = read(seeds=[1, 2])
    assert table.lines[0].measured["test.bleu"].n == 1
    assert table.gaps[0] == (
        "base, seed 2: broken (config.yaml has seed 1, so this folder is a copy of another run or was renamed: train "
        "the missing seed)"
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
    assert "config.yaml has row 'A_h16', so this folder is a copy of another row's or was renamed" in table.gaps[0]
    known = Store(store)
    assert {run.row for run in known.sweep("papers") if known.summary(run).fault} == {"base"}


def test_training_that_ended_early_or_was_changed_is_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    config = configuration(trainer__max_steps=1200)
    make_run("papers", "base", 1, 30.0, config=config, steps=310, stopped="max_minutes")
    make_run("papers", "base", 2, 30.0, config=config, steps=1200, stopped=None)
    for seed in (1, 2):
        changed = ["trainer.max_steps 600 → 1200 at step 60"]
        make_run("papers", "A_h16", seed, 31.0, config=config, stopped="callback", changed=changed)
    base, row = read(seeds=[1, 2]).lines
    assert "training was ended at step 310 of 1,200 by trainer.max_minutes (seed 1)" in base.notes
    assert "training was ended at step 1,200 of 1,200 by a callback" in row.notes
    changed_note = "not the result of one configuration (resume.allow): trainer.max_steps 600 → 1200 at step 60"
    assert changed_note in row.notes
    grid = lay_out(read(seeds=[1, 2]))
    assert {changed_note} <= {text for _, text in grid.notes}


def test_quick_looks_are_marked(make_run: Any, configuration: Configure, read: Callable[..., Table]) -> None:
    make_run("papers", "base", 1, 30.0, config=configuration(debug__name="limit"))
    assert read(seeds=[1]).lines[0].notes == ("debug=limit: a trial run, not a result",)


@pytest.mark.slow
def test_footnotes_state_data_recipe_scale_and_convention(full: Table) -> None:
    text = " ".join(full.remarks)
    assert "Measured on toy en-de, recipe quick (full scale)" in text
    assert "test BLEU: sacreBLEU on detokenised text; nrefs:1|tok:13a|v:2.6.0." in text
    assert "Published dev BLEU: newstest2013, tokenised, compound-split multi-bleu, case-sensitive." in text
    assert "standard deviation over seeds" in text


def test_what_lightning_is_given_besides_the_recipe_is_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    given = configuration(trainer__extra={"detect_anomaly": True}, callbacks={"early_stopping": {"patience": 3}})
    make_run("papers", "base", 1, 30.0, config=given)
    (note,) = read(seeds=[1]).lines[0].notes
    assert note == "departs from its recipe: Lightning was given detect_anomaly=True, callbacks=early_stopping"


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
    table = build(define(SweepConfig(name="papers", rows=["base"], seeds=[1]), conf=conf), store)
    lines = [line for line in render(table, "markdown").splitlines() if line.startswith("|")]
    assert "a\\|b\\_c\\*d" in lines[2]
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
    with pytest.raises(UserError, match=r"no column 'stps'\. Did you mean 'steps'\? Its columns are group, row, param"):
        render(full, "markdown", Look(["stps"]))


@pytest.mark.slow
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
    assert [delta(value) for value in (1.2, -0.3, 0.001, -0.001, None)] == ["+1.20", "−0.30", "0.00", "0.00", ""]
    assert [millions(value) for value in (2_568_192, 812_000, 812, None)] == ["2.57M", "812K", "812", ""]
    assert [duration(value) for value in (42.4, 200, 18_720)] == ["42 s", "3 min 20 s", "5 h 12 min"]
    assert [scientific(value) for value in (3.3e18, 1.25e14)] == ["3.3e18", "1.2e14"]


def test_marks_run_past_z_without_repeating() -> None:
    book = Notebook()
    marks = [book.mark([f"note {i}"])[0] for i in range(60)]
    assert marks[:2] == ["a", "b"]
    assert marks[25:28] == ["z", "aa", "ab"]
    assert len(set(marks)) == 60
    assert book.mark(["note 0"]) == ("a",)
