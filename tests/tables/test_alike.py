"""Rows that were not made like their base row, or as their file says, are marked or not compared."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.configuration.schema import SweepConfig
from variations.configuration.tasks import named
from variations.store.inputs import other_texts
from variations.store.row_files import fingerprint, shaping
from variations.store.rows import define
from variations.tables.alike import mixed_validations, other_validations
from variations.tables.footnotes import notes_of
from variations.tables.formats import render
from variations.tables.grid import lay_out
from variations.tables.line import Line
from variations.tables.table import Table, build, caveats, document
from variations.tasks.task import loss_scale

Configure = Callable[..., dict[str, Any]]
WMT = {"data__name": "wmt14_en_de", "data__kind": "wmt14"}


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
    shutil.rmtree(store / "quickstart" / "learned_positions")
    steep = [{"step": step, "dev/nll": loss} for step, loss in ((800, 0.5), (1000, 0.2))]
    make_run("quickstart", "learned_positions", 1, 1.0, config=swapped, metrics=steep)
    line = build(define(sweep, store=store), store).lines[1]
    assert line.untrained is not None
    assert line.notes[0] == "its configuration is that of its base row"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("model: {h: 1}\n", ""),
        ("defaults: [{override /model: weighted}]\n", ""),
        ("", "defaults: [{override /recipe: quick}]\n"),
        ("label: old\n", None),
        ("trainer: {max_steps: 5}\n", None),
    ],
)
def test_a_key_or_a_choice_that_a_file_has_lost_is_noticed(
    before: str, now: str | None, make_run: Any, store: Path, configuration: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """`now` None: what was removed is a label, or one of the trainer's keys, and makes no difference."""
    folder = tmp_path / "conf" / "variation" / "mine"
    folder.mkdir(parents=True)
    monkeypatch.setattr("variations.configuration.doors._typed", [tmp_path / "conf"])
    path, head = folder / "one.yaml", "variation: {table: mine, row: one, label: One}\n"
    path.write_text(head + (before if not before.startswith("label") else ""))
    config = configuration(variation__table="mine", variation__row="one")
    sha256 = fingerprint("one", "mine", config)
    run = make_run("mine", "one", 1, 31.0, config=config)
    run.write_result((run.result() or {}) | {"row_file": sha256})
    sweep = define(SweepConfig(name="mine", rows=["one"], seeds=[1]), store=store)
    noted = "finished before its file was edited, which now sets or chooses something else"
    assert noted not in build(sweep, store).lines[0].notes
    path.write_text(head.replace("One", "Two") + (now or ""))
    assert (noted in build(sweep, store).lines[0].notes) == (now is not None)


@pytest.mark.parametrize("typed", [[], ["model=weighted"]])
def test_a_network_that_an_edited_file_no_longer_chooses_is_named(
    typed: list[str], make_run: Any, store: Path, configuration: Any, config_dir: Path
) -> None:
    """The choice was replaced by a value; the new file does not name the network. A typed choice is still made."""
    path = config_dir / "variation/mine/one.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# @package _global_\nvariation: {table: mine, row: one}\nmodel: {h: 1}\n")
    row = {"variation__table": "mine", "variation__row": "one", "sweep__typed": typed}
    make_run("mine", "one", 1, 31.0, config=configuration(**row, model__kind="weighted", model__h=4))
    (line,) = build(define(SweepConfig(name="mine", rows=["one"], seeds=[1]), store=store), store).lines
    kind = "" if typed else "model.kind weighted there, transformer in the file, "
    told = f"finished with another configuration than its file has now: {kind}model.h 4 there, 1 in the file"
    assert [note for note in line.notes if note.startswith("finished with")] == [told]


@pytest.mark.parametrize(
    ("edits", "words", "told"),
    [
        ({"variation/mine/one": "trainer: {max_steps: 9}"}, [], "trainer.max_steps 5 there, 9 in the file"),
        (
            {"variation/mine/one": "branch: {lr_scale: 9.0}"},
            ["branch=softmax"],
            "branch.lr_scale 3.0 there, 9.0 in the file",
        ),
        ({"size/own": "d_ff: 64"}, [], "model.d_ff 32 there, 64 in the file"),
        ({"variation/mine/one": "variation: {table: mine, row: one, label: Other}"}, ["model.h=2"], None),
        ({}, ["trainer=gpu", "trainer.threads=2", "+trainer.extra.detect_anomaly=true"], None),
        ({}, ["trainer=gpu", "trainer.accelerator=cpu"], None),
        ({}, ["trainer=own"], None),
    ],
)
def test_an_edit_of_a_file_that_a_row_has_or_chooses_is_told(
    edits: dict[str, str], words: list[str], told: str | None, make_run: Any, store: Path, config_dir: Path
) -> None:
    """Whatever the file sets, where the run has stored what it was made of; what was typed since counts as its own."""
    own = "defaults: [{override /model: weighted}, {override /size: own}]\nvariation: {table: mine, row: one}\n"
    files = {
        "variation/mine/one": f"# @package _global_\n{own}trainer: {{max_steps: 5}}\nbranch: {{lr_scale: 3.0}}\n",
        "trainer/own": "limit_test: 5\n",
        "size/own": "# @package model\nd_ff: 32\n",
    }
    for name, text in files.items():
        (config_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (config_dir / f"{name}.yaml").write_text(text)
    composed = compose_run(["variation=mine/one", *words])
    composed.sweep.overrides, composed.sweep.typed = [], shaping(words, composed)
    run = make_run("mine", "one", 1, 31.0, config=to_dict(composed))
    run.write_result((run.result() or {}) | {"row_file": fingerprint("one", "mine", to_dict(composed))})
    for name, text in edits.items():
        key = text.partition(":")[0]
        lines = [line for line in files[name].splitlines() if not line.startswith(key)]
        (config_dir / f"{name}.yaml").write_text("\n".join([*lines, text, ""]))
    (line,) = build(define(SweepConfig(name="mine", rows=["one"], seeds=[1]), store=store), store).lines
    found = [note.partition(" now: ")[2] for note in line.notes if note.startswith("finished with")]
    assert found == ([told] if told else [])


@pytest.mark.parametrize("written", ["1e-1", "1E-1", "1.E-01", "0.1"])
def test_a_number_with_an_exponent_is_a_number(
    written: str, make_run: Any, store: Path, configuration: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyYAML, unlike OmegaConf, takes some of these for text."""
    folder = tmp_path / "conf" / "variation" / "mine"
    folder.mkdir(parents=True)
    monkeypatch.setattr("variations.configuration.doors._typed", [tmp_path / "conf"])
    (folder / "one.yaml").write_text(f"variation: {{table: mine, row: one}}\nrecipe: {{lr: {written}}}\n")
    sweep = SweepConfig(name="mine", rows=["one"], seeds=[1])
    for lr in (0.1, 0.2):
        config = configuration(variation__table="mine", variation__row="one", recipe__lr=lr)
        make_run("mine", "one", 1, 31.0, config=config)
        (line,) = build(define(sweep, store=store), store).lines
        assert any("another configuration" in note for note in line.notes) == (lr != 0.1)
        shutil.rmtree(store / "mine")


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


@pytest.mark.parametrize(("dev", "compared"), [(None, True), (2, False)])
def test_dev_batches_of_other_sizes_are_another_part_of_the_dev_set(
    dev: int | None, compared: bool, make_run: Any, store: Path, configuration: Any
) -> None:
    row = {"variation__table": "quickstart", "variation__row": "learned_positions", "positions__kind": "learned"}
    limit = {"trainer__limit_val_batches": dev}
    make_run("quickstart", "transformer", 1, 30.0, config=configuration(**limit))
    config = configuration(**row, **limit, recipe__batch_tokens=1234)
    make_run("quickstart", "learned_positions", 1, 31.0, config=config)
    sweep = SweepConfig(name="quickstart", rows=["transformer", "learned_positions"], seeds=[1], metric="dev_ppl")
    line = build(define(sweep, store=store), store).lines[1]
    assert ("dev_ppl" in line.delta) == compared


def test_losses_of_different_numbers_of_dev_batches_are_not_compared(
    make_run: Any, store: Path, configuration: Any
) -> None:
    row = {"variation__table": "quickstart", "variation__row": "learned_positions", "positions__kind": "learned"}
    make_run("quickstart", "transformer", 1, 30.0)
    limited = configuration(**row, trainer__limit_val_batches=1)
    make_run("quickstart", "learned_positions", 1, 31.0, config=limited)
    sweep = SweepConfig(name="quickstart", rows=["transformer", "learned_positions"], seeds=[1])
    table = build(define(sweep, store=store), store)
    assert "test.bleu" in table.lines[1].delta and "dev_ppl" not in table.lines[1].delta
    apart = [row["not_compared_in"] for row in document(table)["rows"]]
    assert apart[0] == {}
    assert apart[1]["dev_ppl"].startswith("its dev PPL depends on trainer.limit_val_batches")
    sweep.metric = "dev_ppl"
    line = build(define(sweep, store=store), store).lines[1]
    assert line.delta == {}
    assert line.notes[0] == (
        "its dev PPL depends on trainer.limit_val_batches, which its base row does not share: not compared"
    )
    text = render(build(define(sweep, store=store), store), "terminal")
    assert "the dev loss over the first batches only (trainer.limit_val_batches=1)" in text


def test_a_row_that_tests_the_weights_of_a_former_attempt_is_named(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    from variations.store.ledger import RunFolder

    first = make_run("papers", "base", 1, 30.0)
    retested = configuration(variation__reuse="base")
    make_run("papers", "A_h16", 1, 28.0, config=retested, reused="../../base/seed1")
    remarks = read(seeds=[1]).remarks
    assert not any("seed 1:" in text for text in remarks)
    assert "h=16 & <more_heads>: not trained itself, tests the weights of base and has its costs." in remarks
    first.set_status("finished", started="2999-01-01T00:00:00+00:00")
    again = "h=16 & <more_heads>, seed 1: base, whose weights it tests, has been trained again since."
    assert again in read(seeds=[1]).remarks
    make_run("papers", "base", 2, 30.0)
    make_run("papers", "A_h16", 2, 28.0, config=retested)
    own = "h=16 & <more_heads>, seed 2: trained a network of its own, and does not test base."
    assert own in read(seeds=[2]).remarks
    second = RunFolder(first.path.with_name("seed1-attempt2")).create(configuration())
    second.write_result({"scores": {"test": {"bleu": {"value": 40.0}}}})
    second.set_status("finished")
    assert (
        "h=16 & <more_heads>, seed 1: tests the weights of attempt 1 of base, but the table has attempt 2 of that row; "
        "force=true 'rows=[A_h16]' tests its weights, if both are trained alike."
    ) in read(seeds=[1]).remarks


def test_rows_of_another_budget_or_other_data_are_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "A_h16", 1, 31.0, steps=600)
    assert read(seeds=[1]).lines[1].notes == ("not the budget of its base row: steps 600 v. 1,200",)
    make_run("papers", "A_h16", 3, 31.0, steps=1_800)  # its base row has no seed 3; the mean is that of the base row
    assert "not the budget of its base row: steps 600 v. 1,200" in read(seeds=[1, 3]).lines[1].notes
    make_run("papers", "base", 2, 30.0)
    make_run("papers", "A_h16", 2, 31.0, config=configuration(**WMT))
    line = read(seeds=[2]).lines[1]
    assert line.delta == {}
    assert line.notes == ("measured on wmt14_en_de en-de, its base row on toy en-de: not compared",)


def test_rows_trained_by_another_version_of_the_project_are_told(
    make_run: Any, read: Callable[..., Table], configuration: Configure
) -> None:
    for row, code in (("base", "a" * 12), ("A_h16", "a" * 12)):
        make_run("papers", row, 1, 30.0, code=code)
    told = "trained with another version of this project's code than its base row."
    assert not any(told in text for text in read(seeds=[1]).remarks)
    make_run("papers", "A_h16", 1, 30.0, code="b" * 12)
    table = read(seeds=[1])
    assert [text for text in table.remarks if told in text] == [f"{table.lines[1].label}: {told}"]
    assert table.lines[1].delta  # it is compared all the same
    make_run("papers", "base", 2, 30.0, code="b" * 12)
    several = f"{table.lines[0].label}: its seeds were trained with several versions of this project's code."
    assert several in read(seeds=[1, 2]).remarks


def test_rows_trained_on_other_texts_are_not_compared(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    texts = {"train.de": "1", "train.en": "2", "mine.py": "3"}
    for row, seed, changed in [("base", 1, {}), ("A_h16", 1, {"mine.py": "4"}), ("base", 2, {"train.de": "5"})]:
        make_run("papers", row, seed, 30.0 + seed).write_environment({"data": texts | changed})
    alone = read(seeds=[1])
    assert alone.lines[1].notes == () and alone.lines[1].delta
    told = f"{alone.lines[1].label}: trained with another version of"
    assert f"{told} mine.py than its base row." in alone.remarks
    assert not any("this project's code" in text for text in alone.remarks)
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
    changed = texts | {"subwords.model": "6", "train.de": "5"}
    make_run("papers", "A_h16", 4, 31.0, config=other).write_environment({"data": changed})
    make_run("papers", "base", 4, 31.0).write_environment({"data": texts | {"subwords.model": "7"}})
    line = read(seeds=[4]).lines[1]  # but no other text
    assert line.delta == {} and "its inputs differ from its base row's (train.de; seed 4): not compared" in line.notes


@pytest.mark.parametrize(
    ("task", "keys", "differ"),
    [
        ("translation", {"kind": "toy", "max_length": 9}, True),
        ("translation", {"kind": "folder", "train_pairs": 9}, True),
        ("translation", {"kind": "toy", "train_pairs": 9}, False),  # of which only these pairs are unpacked
        ("translation", {"kind": "folder", "train": "more"}, False),
        ("parsing", {"form": "vinyals", "train_trees": 9}, True),
        ("parsing", {"seed": 2}, False),
        ("question_answering", {"memory": 9, "joint": True}, True),
        ("question_answering", {"tasks": [4]}, False),
    ],
)
def test_keys_that_leave_the_texts_as_they_are_do_not_excuse_other_texts(
    task: str, keys: dict[str, Any], differ: bool
) -> None:
    ours, theirs = ({"task": task, "data": {"kind": keys.get("kind")} | data} for data in ({}, keys))
    made = {"translation": "subwords.model", "parsing": "symbols.json"}.get(task)  # of the texts, by these keys
    names = ["text", *([made] if made else [])]
    here, there = (dict.fromkeys(names, value) for value in "12")
    assert other_texts(here, there, ours, theirs) == ["text"] * differ
    assert other_texts(here, there, ours, ours) == sorted(names)


@pytest.mark.parametrize("damage", [None, "", "{"])
def test_rows_whose_texts_are_unknown_are_not_compared(
    damage: str | None, make_run: Any, read: Callable[..., Table]
) -> None:
    base, row = (make_run("papers", name, 1, 30.0) for name in ("base", "A_h16"))
    base.write_environment({"data": {"train.de": "1"}})
    path = row.path / "environment.json"
    path.unlink() if damage is None else path.write_text(damage)
    (row.path / "inputs.json").write_text('{"train.de": "1"}')
    assert read(seeds=[1]).lines[1].notes == () and read(seeds=[1]).lines[1].delta
    (row.path / "inputs.json").write_text('{"train.de": "2"}')
    assert read(seeds=[1]).lines[1].notes[0].startswith("its inputs differ from its base row's (train.de; seed 1)")
    (row.path / "inputs.json").unlink()
    line = read(seeds=[1]).lines[1]
    assert (line.delta, line.test) == ({}, None)
    assert line.notes == (
        "its or its base row's environment.json is lost or damaged, so it is unknown whether both were trained on the "
        "same texts (seed 1): not compared",
        "the names of its inputs (environment.json) are lost, damaged or not readable",
    )
    make_run("papers", "A_h16", 2, 30.0)
    told = "its seeds were not trained alike: unknown inputs (environment.json is lost or damaged) from seed 1 to 2"
    assert told in read(seeds=[1, 2]).lines[1].notes


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


@pytest.mark.parametrize(
    ("changes", "model", "cause"),
    [
        ({"data__lowercase": True}, None, "data.lowercase"),
        ({"data__dev": "other"}, None, "data.dev"),
        ({"data__train_pairs": 9}, None, "data.train_pairs"),
        ({"data__train_pairs": 9}, "2", "the sub-word model"),
        ({"data__train_pairs": 9}, "1", None),
    ],
)
def test_losses_in_other_units_or_on_other_dev_texts_are_not_compared(
    make_run: Any,
    configuration: Configure,
    conf: Path,
    store: Path,
    changes: dict[str, Any],
    model: str | None,
    cause: str | None,
) -> None:
    """`model` is the fingerprint of the row's sub-words, of which the base row's is 1; None: both are unknown."""
    runs = [make_run("papers", "base", 1, 30.0), make_run("papers", "A_h16", 1, 31.0, config=configuration(**changes))]
    for run, fingerprint_ in zip(runs, ("1", model), strict=True):
        run.write_environment({"data": {"subwords.model": fingerprint_} if model else {}})
    sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=[1], metric="dev_ppl")
    line = build(define(sweep, conf=conf, store=store), store).lines[1]
    told = f"its dev PPL depends on {cause}, which its base row does not share: not compared"
    assert line.notes == ((told,) if cause else ())
    assert ("dev_ppl" in line.delta) is (cause is None)
    of_bleu = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=[1])
    table = build(define(of_bleu, conf=conf, store=store), store)
    grid = lay_out(table)
    place = [column.key for column in grid.columns].index("dev_ppl")
    marks = {text: mark for mark, text in grid.notes}
    assert grid.rows[0][place].marks == ()
    assert grid.rows[1][place].marks == ((marks[told],) if cause else ())
    assert (told in notes_of(table)[1]) is (cause is not None)
    assert ("dev_ppl" in build(define(of_bleu, conf=conf, store=store), store).lines[1].delta) is (cause is None)


@pytest.mark.parametrize("changes", [{"data__lowercase": True}, {"trainer__val_bleu": 9}, {"data__dev": "other"}, {}])
def test_validations_of_other_sentences_are_told(
    changes: dict[str, Any], make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "A_h16", 1, 31.0, config=configuration(**changes))
    base, row = (line.row for line in read(seeds=[1]).lines[:2])
    told = other_validations(row, base) or ""
    assert [key.replace("__", ".") in told for key in changes] == [True] * len(changes)
    assert bool(told) == bool(changes)


def test_seeds_whose_validations_cover_other_sentences_are_told(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    for row in ("base", "A_h16"):
        make_run("papers", row, 1, 30.0)
    make_run("papers", "base", 2, 30.0)
    make_run("papers", "A_h16", 2, 31.0, config=configuration(trainer__val_bleu=9))
    base, row = (line.row for line in read(seeds=[1, 2]).lines[:2])
    usual = configuration()["trainer"]["val_bleu"]
    assert (mixed_validations(base), mixed_validations(row)) == (None, f"trainer.val_bleu {usual} or 9")
    words = f"were not validated alike (trainer.val_bleu {usual} or 9): not compared"
    assert other_validations(row, base) == f"its seeds {words}"
    assert other_validations(base, row) == f"the seeds of its base row {words}"


def test_test_losses_of_a_part_of_the_test_set_are_not_compared_with_those_of_another(
    configuration: Configure,
) -> None:
    task = named("translation")
    for measure, differ in (("test_ppl", True), ("test_nll", True), ("dev_ppl", False)):
        ours, theirs = (
            loss_scale(task, task.measure(measure), configuration(trainer__limit_test=limit), {}, {})
            for limit in (None, 9)
        )
        assert (ours != theirs) == differ


def test_seeds_of_a_row_that_were_not_trained_alike_are_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    make_run("papers", "base", 1, 30.0)
    make_run("papers", "base", 2, 34.0, config=configuration(trainer__max_steps=600, trainer__threads=1))
    make_run("papers", "base", 3, 32.0, config=configuration(trainer__threads=2))
    assert read().lines[0].notes == ("its seeds were not trained alike: steps 100000→600 from seed 1 to 2",)


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
    assert read(seeds=[1]).lines[0].notes == ("debug=limit: a quick check, not a result",)


def test_what_lightning_is_given_besides_the_recipe_is_marked(
    make_run: Any, configuration: Configure, read: Callable[..., Table]
) -> None:
    given = configuration(trainer__extra={"detect_anomaly": True}, callbacks={"early_stopping": {"patience": 3}})
    make_run("papers", "base", 1, 30.0, config=given)
    (note,) = read(seeds=[1]).lines[0].notes
    assert (
        note == "trained with settings of Lightning that no recipe has: detect_anomaly=True, callbacks=early_stopping"
    )


@pytest.mark.parametrize(
    ("typed", "end"),
    [
        (["recipe.optimizer=sgd", "recipe.lr=0.01"], "; typed: recipe.optimizer=sgd recipe.lr=0.01."),
        ([], "; in the sweep's file: recipe.lr=0.3 recipe.warmup=50."),
        (["recipe.lr=0.2", "recipe.warmup=9"], "beam 4; typed: recipe.lr=0.2 recipe.warmup=9."),
    ],
)
def test_what_was_given_to_all_rows_stands_beside_the_recipe(
    typed: list[str], end: str, make_run: Any, configuration: Any, store: Path
) -> None:
    lines = ["recipe=base", "data.vocabulary=8000", "recipe.lr=0.3", "recipe.warmup=50", "trainer.progress=false"]
    lines = lines if "optimizer" not in "".join(typed) else []
    sweep = SweepConfig(name="quickstart", rows=["transformer", "weighted"], seeds=[1])
    for row in sweep.rows:
        given = configuration(sweep__typed=typed, sweep__overrides=lines)
        del given["task"]  # as in the oldest runs
        make_run("quickstart", row, 1, 30.0, config=given)
    (said,) = [text for text in build(define(sweep, store=store), store).remarks if text.startswith("Measured on")]
    assert said.endswith(end)


def test_a_key_with_which_a_table_is_crossed_is_not_that_of_the_sweeps_file(
    make_run: Any, configuration: Any, store: Path
) -> None:
    lines = ["model.dropout=0.1", "recipe.lr=0.3"]
    row = "transformer,model.dropout=0.2"
    given = configuration(sweep__overrides=lines, variation__row=row, variation__table="quickstart")
    make_run("quickstart", row, 1, 30.0, config=given)
    table = build(define(SweepConfig(name="quickstart", rows=["transformer"], seeds=[1]), store=store), store)
    (said,) = [text for text in table.remarks if text.startswith("Measured on")]
    assert said.endswith("; in the sweep's file: recipe.lr=0.3.")


def test_rows_of_a_grid_begun_by_two_commands_are_compared(make_run: Any, configuration: Any, store: Path) -> None:
    for h in (2, 4):
        config = configuration(model__h=h, name=f"model.h={h}", sweep__name="g", sweep__typed=[f"model.h={h}"])
        make_run("g", f"model.h={h}", 1, 30.0 + h, config=config)
    lines = build(define(SweepConfig(name="g", seeds=[1]), store=store), store).lines
    assert not any("was typed" in note for line in lines for note in line.notes)


@pytest.mark.parametrize(("words", "told"), [([], True), (["recipe.lr=0.25"], False)])
def test_rows_between_whose_runs_a_recipe_was_edited_are_told(
    words: list[str], told: bool, make_run: Any, store: Path
) -> None:
    """The first row has another rate than all files give now; a typed one is told in other words."""
    for row, rate in (("transformer", 0.25), ("weighted", None)):
        config = to_dict(compose_run([f"variation=quickstart/{row}", *(words if rate else [])]))
        config["sweep"] |= {"overrides": [], "typed": words if rate else []}
        config["recipe"]["lr"] = rate or config["recipe"]["lr"]
        make_run("quickstart", row, 1, 30.0, config=config)
    rows = ["transformer", "weighted"]
    line = build(define(SweepConfig(name="quickstart", rows=rows, seeds=[1]), store=store), store).lines[1]
    note = "differs from its base row in recipe.lr 0.25→0.5, which their files do not say: one was edited since"
    assert (note in line.notes) == told
    assert any("recipe.lr" in text for text in line.notes)


def beside_its_base_row(make_run: Any, store: Path, words: list[str]) -> Line:
    """The line of a row that was run with `words`, which neither its sweep's file nor what was typed contains."""
    for row, more in (("transformer", []), ("weighted", words)):
        config = to_dict(compose_run([f"variation=quickstart/{row}", *more]))
        config["sweep"] |= {"overrides": [], "typed": []}
        make_run("quickstart", row, 1, 30.0, config=config)
    rows = ["transformer", "weighted"]
    return build(define(SweepConfig(name="quickstart", rows=rows, seeds=[1]), store=store), store).lines[1]


def test_a_precision_that_a_choice_of_the_trainer_gives_to_one_row_is_told(make_run: Any, store: Path) -> None:
    """Such a choice, trainer=gpu, is not kept with what was typed."""
    line = beside_its_base_row(make_run, store, ["trainer=gpu"])
    (note,) = [text for text in line.notes if "precision" in text]
    end = "which their files do not say: trainer=… was typed, or one was edited since"
    assert note == f"differs from its base row in trainer.precision 32-true→bf16-mixed, {end}"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("overrides: [recipe=quick, data.root=/there]", None),
        ("overrides: [recipe=quick, recipe.lr=0.2]", "nothing where its sweep's file has recipe.lr=0.2"),
        ("overrides: [size=tiny]", "recipe=quick where its sweep's file has size=tiny"),
        ("defaults: [older, _self_]", "nothing where its sweep's file has recipe.lr=0.3"),
        (
            "overrides: ['recipe=${oc.env:OF_A_TEST}', recipe.lr=0.3]",
            "nothing where its sweep's file has recipe.lr=0.3",
        ),
        ("defaults: [_self_, mine]", None),
        ("overrides: 5", None),
    ],
)
def test_overrides_of_a_sweeps_file_that_were_edited_since_are_told(
    now: str, told: str | None, make_run: Any, store: Path, configuration: Any, config_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What was typed replaces them, and where the data are does not count. A faulty file is not compared."""
    monkeypatch.setenv("OF_A_TEST", "quick")
    (config_dir / "sweep").mkdir(parents=True, exist_ok=True)
    (config_dir / "sweep/older.yaml").write_text("name: older\noverrides: [recipe=quick, recipe.lr=0.3]\n")
    (config_dir / "sweep/mine.yaml").write_text(f"name: mine\n{now}\n")
    sweep: dict[str, Any] = {"variation__table": "mine", "sweep__name": "mine"}
    sweep |= {"sweep__overrides": ["recipe=quick", "data.root=/here"]}
    for typed, note in (([], told), (["recipe.lr=0.1", "recipe=base", "size=small"], None)):
        make_run("mine", "one", 1, 31.0, config=configuration(**sweep, sweep__typed=typed))
        (line,) = build(define(SweepConfig(name="mine", rows=["one"], seeds=[1]), store=store), store).lines
        found = [text.removeprefix("finished with ") for text in line.notes if text.startswith("finished with")]
        assert found == [note] * bool(note)
        shutil.rmtree(store / "mine")


def test_seeds_that_were_computed_in_another_way_count_as_trained_alike(
    make_run: Any, store: Path, configuration: Any
) -> None:
    """The way is told, but it is no reason to leave a row out; a budget is."""
    make_run("mine", "one", 1, 31.0, config=configuration())
    make_run("mine", "one", 2, 31.0, config=configuration(seed=2, trainer__accelerator="gpu", trainer__max_nan_steps=3))
    (line,) = build(define(SweepConfig(name="mine", rows=["one"]), store=store), store).lines
    assert line.notes == ("computed with trainer.accelerator cpu→gpu, trainer.max_nan_steps 0→3 from seed 1 to 2",)
    assert caveats(line.row) == []
    make_run("mine", "one", 3, 31.0, config=configuration(seed=3, trainer__accelerator="gpu", trainer__max_steps=5))
    (line,) = build(define(SweepConfig(name="mine", rows=["one"]), store=store), store).lines
    (told,) = caveats(line.row)
    assert told.startswith("its seeds were not trained alike: steps 100000→5 from seed 1 to 3")


@pytest.mark.parametrize("key", ["trainer__tokens_per_batch", "trainer__devices"])
def test_seeds_with_other_batches_were_not_trained_alike(
    key: str, make_run: Any, store: Path, configuration: Any
) -> None:
    """Batches group pairs by length, so an update of several smaller ones holds other pairs."""
    make_run("mine", "one", 1, 31.0, config=configuration())
    number = 2 if key == "trainer__devices" else 12_500
    make_run("mine", "one", 2, 31.0, config=configuration(seed=2, **{key: number}))
    (line,) = build(define(SweepConfig(name="mine", rows=["one"]), store=store), store).lines
    (told,) = caveats(line.row)
    assert told.startswith("its seeds were not trained alike: ")
    assert f"{number} from seed 1 to 2" in told


def test_seeds_whose_updates_have_the_same_batches_were_trained_alike(
    make_run: Any, store: Path, configuration: Any
) -> None:
    """Two devices take in turn the batches that one accumulates; a budget above an update's changes nothing."""
    ways: tuple[dict[str, Any], ...] = (
        {"trainer__tokens_per_batch": 12_500},
        {"trainer__devices": 2},
        {"trainer__nodes": 2, "trainer__tokens_per_batch": 12_500},
    )
    for seed, way in enumerate(ways, start=1):
        make_run("mine", "one", seed, 31.0, config=configuration(seed=seed, **way))
    (line,) = build(define(SweepConfig(name="mine", rows=["one"], seeds=[1, 2, 3]), store=store), store).lines
    assert caveats(line.row) == []
    assert all(note.startswith("computed with ") for note in line.notes)


def test_a_row_with_other_batches_than_its_base_row_says_so(make_run: Any, store: Path) -> None:
    """A recipe that sets the key was edited between the two."""
    line = beside_its_base_row(make_run, store, ["trainer.tokens_per_batch=256"])
    (note,) = line.notes
    assert note.startswith("differs from its base row in trainer.tokens_per_batch")


def test_a_row_that_was_computed_in_another_way_than_its_base_row_is_compared(make_run: Any, store: Path) -> None:
    line = beside_its_base_row(make_run, store, ["trainer.strategy=ddp", "trainer.compile=true"])
    assert line.changed["trainer.compile"] == (False, True)
    assert line.notes == ()
