"""Every recorded figure, label and setting of the papers' tables appears unchanged in conf/variation."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from variations.configuration.compose import compose_run, to_dict
from variations.planning.rows import PAPERS, all_rows
from variations.store.identity import changed_keys
from variations.store.rows import load_row
from variations.tasks.translation.config import TranslationConfig

FOLDER = Path(__file__).parent / "published"
SPEC = Path(__file__).resolve().parents[2] / "shared" / "spec" / "published"
KEYS = {
    "model.N": lambda c: c.model.N,
    "model.d_model": lambda c: c.model.d_model,
    "model.d_ff": lambda c: c.model.d_ff,
    "model.h": lambda c: c.model.h,
    "model.d_k": lambda c: c.model.d_k or c.model.d_model // c.model.h,
    "model.d_v": lambda c: c.model.d_v or c.model.d_model // c.model.h,
    "model.dropout": lambda c: c.model.dropout,
    "model.M": lambda c: (c.branch.M or c.model.h) if c.model.kind == "weighted" else None,
    "model.attention_kind": lambda c: {"transformer": "multihead", "weighted": "branched"}[c.model.kind],
    "model.attention_dropout": lambda c: c.model.attention_dropout,
    "model.pos_encoding": lambda c: c.positions.kind,
    "model.ak_constraint": lambda c: c.branch.constraint,
    "model.ak_train_mode": lambda c: c.branch.train_mode,
    "model.ak_gate": lambda c: c.branch.gate.kind.removesuffix("_input"),
    "train.label_smoothing": lambda c: c.recipe.label_smoothing,
    "train.steps": lambda c: c.trainer.max_steps,
    "train.batch_tokens": lambda c: c.recipe.batch_tokens,
    "eval.ak_mode": lambda c: c.branch.eval_mode.removesuffix("_uniform"),
}
"""Setting names in the published records, and where our configuration holds each one."""


@cache
def document(table: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / f"{table}.yaml").read_text(encoding="utf-8"))


@cache
def records(table: str) -> dict[str, dict[str, Any]]:
    return {record["id"]: record for record in document(table)["rows"]}


@cache
def config(table: str, row: str) -> TranslationConfig:
    return compose_run([f"variation={table}/{row}"])


def diff(first: TranslationConfig, second: TranslationConfig) -> dict[str, tuple[Any, Any]]:
    return changed_keys(to_dict(first), to_dict(second))


def rows_of(table: str, id_: str) -> list[str]:
    return [row for _, row in all_rows((table,)) if load_row(row, table).id == id_]


def the(table: str, id_: str) -> TranslationConfig:
    (row,) = rows_of(table, id_)
    return config(table, row)


def settings(found: TranslationConfig, wanted: dict[str, Any]) -> dict[str, Any]:
    return {key: KEYS[key](found) for key in wanted}


RECORDED = [table for table in PAPERS if table != "weighted_claims"]
CELLS = [(table, id_) for table in RECORDED for id_ in records(table)]
ids = pytest.mark.parametrize(("table", "id_"), CELLS, ids=[id_ for _, id_ in CELLS])


def test_the_tables_have_as_many_records_as_the_papers_have_rows() -> None:
    assert {table: len(records(table)) for table in RECORDED} == {
        "attention_table2": 10,
        "attention_table3": 20,
        "attention_table4": 12,
        "weighted_table1": 9,
        "weighted_table2": 10,
        "weighted_table3": 3,
    }


@pytest.mark.parametrize("table", RECORDED)
def test_every_row_is_a_published_record(table: str) -> None:
    assert {load_row(row, table).id for _, row in all_rows((table,))} == set(records(table))


@ids
def test_published_figures_and_labels(table: str, id_: str) -> None:
    record, found = records(table)[id_], {}
    for row in rows_of(table, id_):
        definition = load_row(row, table)
        assert definition.label == record.get("label", definition.label)
        assert definition.provenance
        assert found.keys().isdisjoint(definition.published)
        found |= definition.published
    if record.get("quoted_from"):  # trainable here, one row per direction
        assert len(rows_of(table, id_)) == 2
    assert found == record["published"]


@ids
def test_quoted_systems_are_quoted_and_own_models_are_not(table: str, id_: str) -> None:
    record = records(table)[id_]
    trainable = record.get("own_model", True) or "quoted_from" in record
    assert {load_row(row, table).quoted for row in rows_of(table, id_)} == {not trainable}


@pytest.mark.slow
@pytest.mark.parametrize("table", list(PAPERS))
def test_a_composed_row_publishes_what_its_own_file_says(table: str) -> None:
    for _, row in all_rows((table,), trainable=True):
        written, v = load_row(row, table), config(table, row).variation
        assert (v.id, v.label, v.group, v.base) == (written.id, written.label, written.group, written.base)
        assert v.published == written.published
        assert (v.note or "") == (written.note or "")


@pytest.mark.slow
def test_groups_of_table_3_are_its_letters() -> None:
    for id_, record in records("attention_table3").items():
        letter = record["row"] if record["row"] in "ABCDE" else None
        assert the("attention_table3", id_).variation.group == letter


@pytest.mark.parametrize("id_", list(records("attention_table3")))
def test_settings_of_attention_table_3(id_: str) -> None:
    meta, record = document("attention_table3")["meta"], records("attention_table3")[id_]
    d_model = record["overrides"].get("model.d_model", 512)
    widths = {"model.d_k": d_model // record["overrides"].get("model.h", 8)}
    widths["model.d_v"] = widths["model.d_k"]
    wanted = meta["base"] | widths | record["overrides"]
    found = the("attention_table3", id_)
    assert settings(found, wanted) == wanted
    assert (found.decode.beam, found.decode.alpha, found.recipe.average) == (4, 0.6, 1)
    assert (found.data.name, found.recipe.name, found.recipe.scale.width) == ("wmt14_en_de", "vaswani2017", 1)


def test_rows_b_keep_the_width_of_values() -> None:
    for row, d_k in (("B_dk16", 16), ("B_dk32", 32)):
        found = config("attention_table3", row)
        assert (KEYS["model.d_k"](found), KEYS["model.d_v"](found)) == (d_k, 64)


@pytest.mark.parametrize(
    ("row", "d_model", "steps", "average", "every", "dropout", "languages"),
    [
        ("base_en_de", 512, 100_000, 5, 1500, 0.1, ("en", "de")),
        ("base_en_fr", 512, 100_000, 5, 1500, 0.1, ("en", "fr")),
        ("big_en_de", 1024, 300_000, 20, 600, 0.3, ("en", "de")),
        ("big_en_fr", 1024, 300_000, 20, 600, 0.1, ("en", "fr")),
    ],
)
def test_settings_of_attention_table_2(
    row: str, d_model: int, steps: int, average: int, every: int, dropout: float, languages: tuple[str, str]
) -> None:
    found = config("attention_table2", row)
    assert (found.model.N, found.model.d_model, found.model.d_ff) == (6, d_model, 4 * d_model)
    assert (found.model.h, found.model.dropout) == (d_model // 64, dropout)
    assert (found.trainer.max_steps, found.recipe.average, found.recipe.average_every) == (steps, average, every)
    assert (found.data.source, found.data.target) == languages
    assert (found.decode.beam, found.decode.alpha, found.decode.max_extra) == (4, 0.6, 50)


def test_both_editions_of_the_english_french_figure_are_kept() -> None:
    found = config("attention_table2", "big_en_fr").variation
    assert found.versions == records("attention_table2")["att.t2.big"]["versions"]
    assert found.published["bleu_enfr"] == 41.8
    assert found.versions["nips2017"] == {"bleu_enfr": 41.0}


@pytest.mark.slow
def test_settings_of_attention_table_4() -> None:
    meta = document("attention_table4")["meta"]["config"]
    for id_, vocabulary in (("att.t4.tr_wsj", "wsj_only"), ("att.t4.tr_semi", "semi")):
        found = the("attention_table4", id_)
        assert (found.model.N, found.model.d_model) == (meta["model.N"], meta["model.d_model"])
        assert found.data.vocabulary == meta["data.vocab"][vocabulary]
        decode = meta["decode"]
        assert (found.decode.beam, found.decode.alpha) == (decode["beam"], decode["alpha"])
        assert f"input+{found.decode.max_extra}" == decode["max_len"]
        assert found.variation.task == "parsing"


@pytest.mark.slow
@pytest.mark.parametrize("id_", list(records("weighted_table2")))
def test_settings_of_weighted_table_2(id_: str) -> None:
    wanted = records("weighted_table2")[id_]["overrides"]
    found, common = the("weighted_table2", id_), document("weighted_table2")["meta"]["common"]
    assert settings(found, wanted) == wanted
    shared = {key: common[key] for key in ("train.label_smoothing", "train.batch_tokens")}
    assert settings(found, shared) == shared
    r = found.recipe
    assert {"beta1": r.beta1, "beta2": r.beta2, "eps": r.eps} == common["adam"]
    assert (r.schedule, r.warmup, r.average) == ("noam", 4000, 1)
    if found.model.kind == "weighted":
        assert found.model.attention_dropout == common["model.attention_dropout"]
        assert found.branch.freeze_last == common["freeze_alpha_kappa_last_steps"]
        assert (found.branch.warmup, found.branch.lr_scale, found.recipe.name) == (400, 1.0, "ahmed2017")


@pytest.mark.slow
@pytest.mark.parametrize("table", ["weighted_table2", "weighted_table3"])
def test_rows_that_equal_a_row_of_another_table_are_the_same_run(table: str) -> None:
    prefixes = {"att.t3": "attention_table3", "wt.t2": "weighted_table2"}
    equal = {id_: record["equals"] for id_, record in records(table).items() if "equals" in record}
    assert len(equal) == {"weighted_table2": 5, "weighted_table3": 1}[table]
    for id_, other in equal.items():
        changed = diff(the(table, id_), the(prefixes[other[: other.index(".", 4)]], other))
        assert {key for key in changed if not key.startswith("variation.")} == set()


@pytest.mark.slow
def test_weighted_table_1_has_the_configurations_a_and_b() -> None:
    for size, letter in (("small", "A"), ("large", "B")):
        changed = diff(
            config("weighted_table1", f"weighted_{size}_en_de"), config("weighted_table2", f"{letter}_weighted")
        )
        # Table 1 reports the test set, Table 2 the dev set.
        assert {key for key in changed if not key.startswith("variation.")} == {"decode.sets"}
        theirs = config("attention_table2", {"small": "base_en_fr", "large": "big_en_fr"}[size])
        changed = diff(config("weighted_table1", f"transformer_{size}_en_fr"), theirs)
        assert {key for key in changed if not key.startswith("variation.")} == set()


@pytest.mark.parametrize("id_", list(records("weighted_table3")))
def test_weighted_table_3_replaces_weights_at_test_time_only(id_: str) -> None:
    found, learned = the("weighted_table3", id_), config("weighted_table3", "learned")
    wanted = records("weighted_table3")[id_]["overrides"]
    assert settings(found, wanted) == wanted
    changed = {key for key in diff(found, learned) if not key.startswith("variation.")}
    assert changed == (set() if id_ == "wt.t3.learned" else {"branch.eval_mode"})
    assert found.variation.reuse == (None if id_ == "wt.t3.learned" else "learned")


@pytest.mark.slow
def test_claims_of_the_text_are_rows_with_the_claim_in_words() -> None:
    claims = {r["id"]: r for r in document("weighted_figures_and_text")["rows"] if "overrides" in r}
    assert set(claims) == {"wt.s3.softmax", "wt.s4.4.shakeshake", "wt.s4.5.gating"}
    for id_, record in claims.items():
        for row in rows_of("weighted_claims", id_):
            found = config("weighted_claims", row)
            assert settings(found, record["overrides"]) == record["overrides"]
            assert record["claim"] in (found.variation.note or "")
            assert found.variation.published == {}


def test_every_claim_of_the_text_is_told_by_a_row_of_the_claims() -> None:
    notes = " ".join(load_row(row, "weighted_claims").note or "" for _, row in all_rows(("weighted_claims",)))
    told = [r["claim"] for r in document("weighted_figures_and_text")["rows"] if r["id"].startswith("wt.s")]
    assert len(told) == 8
    assert [claim for claim in told if claim not in notes] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "changed"),
    [
        ("attention_dropout", {"model.attention_dropout": (0.0, 0.1)}),
        ("equal_steps", {"trainer.max_steps": (100_000, 60_000)}),
        (
            "equal_steps_attention_dropout",
            {"model.attention_dropout": (0.0, 0.1), "trainer.max_steps": (100_000, 60_000)},
        ),
    ],
)
def test_controls_that_the_paper_lacks(row: str, changed: dict[str, Any]) -> None:
    found = diff(config("weighted_claims", "transformer"), config("weighted_claims", row))
    assert {key: pair for key, pair in found.items() if not key.startswith("variation.")} == changed


@pytest.mark.slow
def test_more_branches_divide_the_same_width() -> None:
    for M in (16, 32):
        found = config("weighted_claims", f"M{M}")
        assert (KEYS["model.M"](found), KEYS["model.d_k"](found), found.model.d_model) == (M, 512 // M, 512)


@pytest.mark.parametrize(
    ("row", "d_model", "d_ff", "h", "d_k", "steps"),
    [
        ("base", 128, 512, 8, 16, 4000),
        ("A_h32", 128, 512, 32, 4, 4000),
        ("B_dk16", 128, 512, 8, 4, 4000),
        ("C_d256", 64, 512, 8, 8, 4000),
        ("C_ff4096", 128, 1024, 8, 16, 4000),
        ("big", 256, 1024, 16, 16, 12_000),
    ],
)
def test_a_small_recipe_scales_all_rows_alike(row: str, d_model: int, d_ff: int, h: int, d_k: int, steps: int) -> None:
    found = compose_run([f"variation=attention_table3/{row}", "recipe=multi30k", "data=multi30k"])
    assert (found.model.d_model, found.model.d_ff, found.model.h) == (d_model, d_ff, h)
    assert (KEYS["model.d_k"](found), found.trainer.max_steps) == (d_k, steps)
    assert (found.recipe.name, found.data.name, found.recipe.schedule) == ("multi30k", "multi30k", "inverse_sqrt")


@pytest.mark.slow
def test_weighted_rows_keep_their_share_of_the_steps_in_a_small_recipe() -> None:
    small = ["recipe=multi30k", "data=multi30k"]
    base = compose_run(["variation=weighted_table2/C_weighted", *small])
    big = compose_run(["variation=weighted_table2/B_weighted", *small])
    assert (base.trainer.max_steps, base.branch.freeze_last, base.branch.warmup) == (2400, 400, 200)
    assert (big.trainer.max_steps, big.branch.freeze_last, big.model.d_model) == (10_000, 400, 256)


def test_what_is_typed_wins_over_a_row() -> None:
    found = compose_run(["variation=attention_table3/A_h16", "size=tiny", "trainer.max_steps=7", "recipe.average=3"])
    assert (found.model.d_model, found.model.N, found.model.h) == (128, 2, 16)
    assert (found.trainer.max_steps, found.recipe.average, found.recipe.name) == (7, 3, "vaswani2017")


@pytest.mark.slow
def test_english_french_rows_stay_french_on_another_corpus() -> None:
    found = compose_run(["variation=attention_table2/base_en_fr", "recipe=multi30k", "data=multi30k"])
    french = compose_run(["recipe=multi30k", "data=multi30k_en_fr"])
    assert to_dict(found)["data"] == to_dict(french)["data"]


# Golden check 18: the columns of the bAbI tables add up ---------------------------------------------------------------

BABI = {
    record["id"]: record
    for name in ("memn2n_babi_1k", "memn2n_babi_10k", "memn2n_reimplementations", "dmn_babi")
    for record in document(name)["rows"]
}


@pytest.mark.parametrize("id_", list(BABI))
def test_the_mean_of_a_babi_column_is_the_printed_one(id_: str) -> None:
    published = BABI[id_]["published"]
    column = published.get("error_percent") or published["accuracy"]
    assert len(column) == 20
    assert sum(column) / 20 == pytest.approx(published.get("mean_error", published.get("mean")), abs=0.0501)


@pytest.mark.parametrize("id_", list(BABI))
def test_the_failed_tasks_of_a_babi_column_are_as_many_as_printed(id_: str) -> None:
    published = BABI[id_]["published"]
    if "passed" in published:
        assert sum(value >= 95 for value in published["accuracy"]) == published["passed"]
        return
    failed = sum(value > 5 for value in published["error_percent"])
    rounding = 1 if id_ == "mem.n2n.1k.joint_2hop" else 0  # a cell printed as 5.0 was higher before rounding
    assert failed + rounding == published.get("failed", failed)


def test_the_copies_are_those_of_the_specification() -> None:
    folder = Path(os.environ.get("VARIATIONS_TEST_SPEC", SPEC))
    if not folder.is_dir():
        pytest.skip(f"no specification at {folder}")
    for path in sorted(FOLDER.glob("*.yaml")):
        assert yaml.safe_load(path.read_text()) == yaml.safe_load((folder / path.name).read_text()), path.name
