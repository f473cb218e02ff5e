"""The plan: every row with its sizes, before any resources are spent."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from suite import sampled

from variations.commands.plan import PlanConfig, render
from variations.commands.preflight import preflight
from variations.configuration.compose import compose_run, register_schema
from variations.configuration.faults import faults
from variations.configuration.places import CONF, SWEEPS
from variations.planning import formats
from variations.planning.rows import PAPERS, all_rows, plan_rows
from variations.store.rows import load_row
from variations.sweeping.jobs import expand
from variations.system.errors import ConfigError
from variations.tasks.translation.task import TASK

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = Path(__file__).parent / "published" / "attention_table3.yaml"


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "300"}
    line = [sys.executable, str(ROOT / "src" / "plan.py"), *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=environment, timeout=280, check=False)


@pytest.fixture(scope="module", autouse=True)
def memory_is_not_counted() -> Iterator[None]:
    """Skip memory counting, which takes a second per size; child processes and planning/test_counting.py cover it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("variations.tasks.sequences.counting.activation_bytes", lambda *_: 5_000_000_000)
        yield


def rows(*overrides: str, vocabulary: int | None = None) -> dict[str, dict[str, Any]]:
    text = render(list(overrides), PlanConfig(format="json", vocabulary=vocabulary, measure=False))
    return {row["row"]: row for row in json.loads(text)["rows"]}


@pytest.fixture(scope="module")
def table3() -> dict[str, dict[str, Any]]:
    return rows("sweep=attention_table3")


@pytest.mark.slow
def test_exact_integers_of_table_3_under_both_conventions(table3: dict[str, dict[str, Any]]) -> None:
    wanted = {r["id"]: r["computed_params"] for r in yaml.safe_load(PUBLISHED.read_text())["rows"]}
    found = {r["id"]: {"V37000": r["parameters"], "V40960_t2t": r["parameters_t2t"]} for r in table3.values()}
    assert len(found) == 20
    assert found == wanted
    assert found["att.t3.base"] == {"V37000": 63_082_496, "V40960_t2t": 65_126_400}
    assert found["att.t3.big"] == {"V37000": 214_245_376, "V40960_t2t": 218_333_184}


@pytest.mark.slow
def test_ten_of_eleven_printed_counts_are_reproduced_by_rounding(table3: dict[str, dict[str, Any]]) -> None:
    compared = [row for row in table3.values() if row["reproduced_t2t"] is not None]
    assert len(compared) == 11
    assert [row["row"] for row in compared if not row["reproduced_t2t"]] == ["big"]
    assert [row["row"] for row in compared if row["reproduced"]] == []


def test_a_row_says_what_it_changes(table3: dict[str, dict[str, Any]]) -> None:
    assert table3["base"]["changes"].startswith("N 6, d_model 512, d_ff 2048")
    assert table3["C_N2"]["changes"] == "N 6→2"
    assert table3["B_dk16"]["changes"] == "d_k 64→16"
    assert table3["D_ls0.2"]["changes"] == "ε_ls 0.1→0.2"
    assert table3["E_learned"]["changes"] == "positions sinusoidal→learned"
    assert [table3[row]["steps"] for row in ("base", "big")] == [100_000, 300_000]


@pytest.mark.slow
def test_a_row_alone_is_still_compared_with_its_base() -> None:
    found = rows("sweep=attention_table3", "rows=[C_ff1024]")
    assert list(found) == ["C_ff1024"]
    assert found["C_ff1024"]["changes"] == "d_ff 2048→1024"
    single = rows("variation=attention_table3/C_ff1024", "recipe=multi30k", "data=multi30k")
    assert single["C_ff1024"]["changes"] == "d_ff 512→256"


def test_flops_of_the_base_row() -> None:
    """Counted by hand: 44,040,192 layer weights in products, 37,000 × 512 logits, and scores over 30 positions."""
    found = TASK.size(compose_run(["variation=attention_table3/base"]), memory=False)
    weights = 6 * (4 * 512**2 + 2 * 512 * 2048) + 6 * (8 * 512**2 + 2 * 512 * 2048)
    scores = 18 * 2 * 512 * 30
    assert found.flops == 6 * 25_000 * 100_000 * (weights + scores + 37_000 * 512)


def test_padded_rows_of_the_vocabulary_are_counted() -> None:
    plain, padded = (
        TASK.size(compose_run([f"data.vocabulary_pad_to={multiple}"]), memory=False, vocabulary=3_000)
        for multiple in (1, 4_096)
    )
    config = compose_run([])
    rows, tokens = 4_096 - 3_000, config.recipe.batch_tokens * TASK.lengths[1] // max(TASK.lengths)
    assert padded.parameters - plain.parameters == rows * config.model.d_model
    assert padded.flops - plain.flops == 6 * config.trainer.max_steps * tokens * config.model.d_model * rows


@pytest.mark.parametrize(("row", "weights"), [("C_weighted", 64), ("A_weighted", 192), ("B_weighted", 384)])
def test_branch_weights_are_counted(row: str, weights: int) -> None:
    config = compose_run([f"variation=weighted_table2/{row}"])
    assert TASK.size(config, memory=False, vocabulary=1000).further["branch_weights"] == weights


@pytest.mark.slow
def test_weighted_rows_differ_from_the_transformer_by_their_arithmetic() -> None:
    for letter, difference in (("A", -18_240), ("B", -36_480)):
        ours, theirs = (
            TASK.size(compose_run([f"variation=weighted_table2/{letter}_{kind}"]), memory=False).parameters
            for kind in ("weighted", "transformer")
        )
        assert ours - theirs == difference


def test_a_vocabulary_of_ones_own() -> None:
    found = rows("variation=attention_table3/base", vocabulary=1000)["base"]
    assert (found["vocabulary"], found["parameters"], found["parameters_t2t"]) == (1000, 44_138_496 + 512_000, None)


@pytest.mark.slow
def test_scaled_rows_are_not_compared_with_printed_sizes() -> None:
    found = rows("variation=attention_table3/C_N2", "recipe=multi30k", "data=multi30k")["C_N2"]
    assert (found["published_params_millions"], found["reproduced"], found["reproduced_t2t"]) == (36, None, None)


@pytest.mark.slow
def test_quoted_systems_are_listed_and_not_run() -> None:
    found = rows("sweep=attention_table2", "rows=[base_en_de,gnmt]")
    assert (found["gnmt"]["state"], found["gnmt"]["parameters"]) == ("quoted", None)
    assert found["base_en_de"]["state"] == "to train"


@pytest.mark.slow
def test_rows_that_reuse_a_checkpoint_say_so() -> None:
    found = rows("sweep=weighted_table3")
    assert [row["state"] for row in found.values()] == ["to train", *["tests the checkpoint of learned"] * 2]


@pytest.mark.slow
def test_the_faults_of_all_rows_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        plan_rows(["sweep=attention_table3", "rows=[base,A_h1,A_h16]", "model.d_k=null", "model.d_model=20"])
    assert any(fault.startswith("row base: model.h=8") for fault in error.value.faults)
    assert any(fault.startswith("row A_h16: model.h=16") for fault in error.value.faults)


def test_a_plan_takes_the_groups_of_a_run() -> None:
    train, ours = (yaml.safe_load((CONF / f"{name}.yaml").read_text())["defaults"] for name in ("train", "plan"))
    left_out = ["train_schema", {"override hydra/sweeper": "variations"}, {"override hydra/launcher": "local"}]
    assert [item for item in ours if item != "plan_schema"] == [item for item in train if item not in left_out]


def test_rows_are_listed_in_the_order_of_the_paper() -> None:
    found = [row for _, row in all_rows(("attention_table3",))]
    assert (found[0], found[1], found[5], found[-1], len(found)) == ("base", "A_h1", "B_dk16", "big", 20)
    assert next(row for _, row in all_rows(("quickstart",))) == "transformer"
    ours = {
        "quickstart",
        "weighted_readings",
        "babi_ours",
        "babi_memn2n_1k",
        "babi_memn2n_10k",
        "babi_dmn",
        "parsing_small",
        "multi30k_published",
    }
    assert {table for table, _ in all_rows()} == {*PAPERS, *ours}


def test_trainable_rows_are_not_quoted() -> None:
    found = all_rows(trainable=True)
    assert ("attention_table2", "bytenet") not in found
    assert ("attention_table4", "transformer_wsj") in found
    assert ("weighted_claims", "topk") in found
    papers = [row for row in found if row[0] in {*PAPERS, "quickstart"}]
    assert len(papers) == 4 + 20 + 1 + 1 + 8 + 10 + 3 + 11 + 4


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.stem for path in sorted(SWEEPS.glob("*.yaml")) if "_" in path.stem])
def test_every_sweep_names_rows_that_exist(name: str) -> None:
    sweep = compose_run([f"sweep={name}"]).sweep
    for reference in sweep.rows:
        table, _, row = f"{sweep.table}/{reference}".rpartition("/")
        assert load_row(row, table.rsplit("/", 1)[-1]).label != "", reference
        assert (CONF / "variation" / table.rsplit("/", 1)[-1] / f"{row}.yaml").is_file()
    if name in PAPERS:
        assert set(sweep.rows) == {row for _, row in all_rows((name,))}


@pytest.mark.slow
def test_a_sweep_runs_all_rows_but_the_quoted() -> None:
    jobs = expand(["sweep=attention_table2", "seeds=[1]"])
    assert [job.row for job in jobs] == ["base_en_de", "base_en_fr", "big_en_de", "big_en_fr"]
    with pytest.raises(ConfigError, match="which has no model here"):
        expand(["sweep=attention_table2", "rows=[bytenet]"])


@pytest.mark.slow
def test_a_sweep_may_take_rows_of_other_tables() -> None:
    jobs = expand(["sweep=my_ablation", "seeds=[1]"])
    assert [job.row for job in jobs] == ["transformer", "learned_positions", "A_h16"]
    assert [(job.config.model.d_model, job.config.model.h) for job in jobs] == [(128, 4), (128, 4), (128, 16)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled([path.stem for path in sorted(SWEEPS.glob("toy_*.yaml"))], 2))
def test_the_tables_on_the_built_in_corpus_can_be_launched(name: str) -> None:
    jobs = expand([f"sweep={name}", "seeds=[1]"])
    rows = {row for _, row in all_rows((name.removeprefix("toy_"),), trainable=True)}
    others = {"learned", "random", "uniform"} if name == "toy_weighted_readings" else set()  # rows of Table 3
    assert {job.row for job in jobs} - others == {row for row in rows if not row.endswith("_en_fr")}  # no French here
    assert len(jobs) == len({job.row for job in jobs})
    assert {(job.config.data.name, job.config.recipe.name) for job in jobs} == {("toy", "converged")}
    assert {job.folder.parts[1] for job in jobs} == {name}
    assert len({job.config.trainer.max_steps for job in jobs}) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled([path.stem for path in sorted(SWEEPS.glob("multi30k_*.yaml"))], 2))
def test_the_tables_on_multi30k_can_be_launched(name: str) -> None:
    jobs = expand([f"sweep={name}", "seeds=[1]"])
    recipe = "multi30k" if name == "multi30k_published" else "reference"
    assert {(job.config.data.name, job.config.recipe.name) for job in jobs} == {("multi30k", recipe)}
    assert len({job.config.data.vocabulary for job in jobs}) == 1


@pytest.mark.usefixtures("config_dir")
def test_a_row_that_names_no_base_row_is_compared_with_the_first_as_in_the_table(tmp_path: Path) -> None:
    for name, text in {
        "sweep/mine.yaml": "name: mine\nrows: [quickstart/transformer, mine/other]\nseeds: [1]\n",
        "variation/mine/other.yaml": "# @package _global_\nmodel: {h: 2}\nvariation: {table: mine, row: other}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    first, other = plan_rows(["sweep=mine"])
    assert first.base is None
    assert other.base == first.config


@pytest.mark.slow
@pytest.mark.usefixtures("config_dir")
def test_a_sweep_of_another_tables_rows_is_headed_with_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep/mine.yaml").write_text("name: mine\ntable: quickstart\nrows: [transformer]\nseeds: [1]\n")
    for words, start in (
        (["sweep=mine"], "Sweep mine\n\nquickstart\n"),
        (["sweep=mine", "sweep.name=check"], "Sweep check\n\nquickstart\n"),
        (["sweep=quickstart", "rows=[transformer]"], "quickstart\n"),
        (["variation=quickstart/transformer"], "quickstart\n"),
    ):
        assert render([*words, f"runs={tmp_path}"], PlanConfig(measure=False)).startswith(start), words


@pytest.mark.slow
def test_every_row_of_both_papers_builds_and_the_written_plan_is_up_to_date() -> None:
    done = plan("format=markdown")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / "docs" / "results" / "parameters.md").read_text(encoding="utf-8")
    for table, row in all_rows(tuple(PAPERS)):
        assert f"| {row.replace('_', chr(92) + '_')} |" in done.stdout, table


@pytest.mark.slow
def test_one_json_document_on_standard_output() -> None:
    done = plan("variation=attention_table3/A_h16", "format=json", "vocabulary=37000", "measure=false")
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["label"], row["parameters"], row["changes"]) == ("h=16", 63_082_496, "heads 8→16, d_k 64→32")


@pytest.mark.slow
def test_comma_separated_values() -> None:
    text = render(["variation=attention_table3/big"], PlanConfig(format="csv", measure=False))
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["row"], row["parameters"], row["published_params_millions"]) == ("big", "214245376", "213")


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_a_narrow_terminal_leaves_out_columns_and_cuts_no_number(width: int) -> None:
    planned = plan_rows(["sweep=attention_table3", "rows=[base,big]", "seeds=[1]"])
    shown = formats.terminal([formats.line(row, None) for row in planned], width=width)
    assert "…" not in shown
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines())) <= width
    for number in ("63,082,496", "214,245,376", "100,000", "300,000"):
        assert number in shown
    assert "A wider terminal, or format=markdown, also shows: label" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure=true", "data=files", "data.root=/no/such"], "data.root=/no/such: there is no such folder"),
        (["sweep=attention_tabel3"], "attention_table3"),
        (["sweep.search.trials=9", "model.dropout=interval(0,0.3)"], "a search has no rows"),
        (["format=latex", "vocabulary=2"], "valid choices are terminal, markdown, csv, json"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(arguments: list[str], message: str) -> None:
    done = plan(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_counting_says_how_many_runs_are_left_and_which_base_row_is_missing() -> None:
    done = plan("sweep=attention_table3", "rows=[A_h1,A_h16]", "seeds=[1,2,3]", "measure=false")
    assert done.stdout.count("3 of 3") == 2
    assert "\nLeft: 6 runs, 5.7e18 FLOPs in all.\n" in done.stdout  # six times 9.5e17
    told = "base, the base row of A_h1, A_h16, is not among these rows: name it, too, to compare them."
    assert f"\n{told}\n" in done.stdout


@pytest.mark.slow
def test_a_plan_needs_no_multirun_and_says_only_that() -> None:
    told = "--multirun is for python src/train.py; leave it out here."
    done = plan("--multirun", "sweep=quickstart", "measure=false")
    assert (done.returncode, done.stderr) == (2, f"error: 1 fault in the configuration:\n  - {told}\n")


@pytest.mark.slow
def test_rules_between_fields_hold_for_the_rows_and_not_for_the_defaults() -> None:
    """25,000 tokens per update in the paper's rows, 4,096 in the default recipe."""
    assert faults(compose_run(["trainer.tokens_per_batch=20000"])) != []
    done = plan(
        "sweep=attention_table3", "rows=[C_N2]", "trainer.tokens_per_batch=20000", "format=json", "measure=false"
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_faulty_value_hides_no_fault_of_the_rows() -> None:
    register_schema(PlanConfig, "plan")
    words = ["branch.M=0", "limit=-1", "model.h=3"]
    for several in ("sweep=quickstart", "model.N=1,2"):
        *of_keys, of_heads = preflight([several, *words], PlanConfig, "plan", axes=True)
        assert of_keys == ["branch.M=0: must be at least 1.", "limit=-1: must be greater than 0."]
        assert of_heads.startswith("model.h=3 does not divide model.d_model=128")
    quoted = ["sweep=attention_table4", "rows=[luong]", "limit=-1"]
    assert preflight(quoted, PlanConfig, "plan", axes=True) == ["limit=-1: must be greater than 0."]


def test_rules_hold_for_the_points_of_a_grid_and_not_for_the_defaults() -> None:
    """90 is no multiple of the default's four heads."""
    register_schema(PlanConfig, "plan")
    assert preflight(["model.d_model=90", "model.h=5,9"], PlanConfig, "plan", axes=True) == []


@pytest.mark.slow
def test_a_sweep_whose_file_chooses_the_corpus_takes_its_folder() -> None:
    register_schema(PlanConfig, "plan")
    line = ["sweep=multi30k_weighted_table2", "data.root=/corpora/multi30k"]
    assert preflight(line, PlanConfig, "plan", axes=True) == []
    with pytest.raises(ConfigError, match="data=toy is the built-in corpus, and reads no files"):
        rows("sweep=quickstart", "data.root=/corpora/multi30k")


# Other tasks, and keys with several values ----------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_whose_memory_cannot_be_counted_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "memory cannot be counted from shapes alone; a plan that measures has it."
    assert told not in render(["sweep=quickstart"], PlanConfig(measure=False))
    monkeypatch.setattr("variations.planning.formats._COUNTED", {})
    monkeypatch.setattr("variations.tasks.sequences.counting.activation_bytes", lambda *_: None)
    found = render(["sweep=quickstart", "rows=[weighted]"], PlanConfig(measure=False, format="json"))
    assert f"weighted: {told}" in json.loads(found)["remarks"]


@pytest.mark.slow
def test_question_answering_is_counted_on_its_own_data() -> None:
    (row,) = rows("task=question_answering", "data.tasks=[1]", "data.toy_questions=60", "model.restarts=3").values()
    (twice,) = rows("task=question_answering", "data.tasks=[1]", "data.toy_questions=60", "model.restarts=6").values()
    assert (row["state"], row["label"], row["fault"]) == ("to train", "run", None)
    assert (twice["parameters"], twice["flops"]) == (2 * row["parameters"], 2 * row["flops"])
    assert "vocabulary" not in row
    assert row["memory_bytes_counted"] > 16 * row["parameters"]


@pytest.mark.slow
def test_a_row_whose_data_are_missing_is_named_and_not_counted(tmp_path: Path) -> None:
    (row,) = rows("task=question_answering", "data=babi", f"data.root={tmp_path}").values()
    assert row["parameters"] is None
    assert str(tmp_path) in row["fault"]


@pytest.mark.parametrize("measure", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_plan_downloads_no_stories_and_names_the_row_that_needs_them(measure: bool, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    words = ["task=question_answering", "data=babi", f"data.cache={cache}", f"runs={tmp_path / 'runs'}"]
    told = f"the 1k questions of bAbI are not in data.cache={cache}, and a plan downloads nothing"
    if measure:
        with pytest.raises(ConfigError, match=re.escape(told)):
            render(words, PlanConfig(measure=True))
    else:
        (row,) = json.loads(render(words, PlanConfig(measure=False, format="json")))["rows"]
        assert row["parameters"] is None and row["fault"].startswith(told)
    assert not (cache / "downloads").exists() and not (cache / "babi").exists()


@pytest.mark.slow
def test_a_row_whose_source_is_not_launched_trains_itself(tmp_path: Path) -> None:
    lines = ("sweep=weighted_table3", f"runs={tmp_path}", "seeds=[1]")
    assert rows(*lines, "rows=[learned,random]")["random"]["state"] == "tests the checkpoint of learned"
    assert rows(*lines, "rows=[random]")["random"]["state"] == "to train"


@pytest.mark.slow
def test_parsing_is_counted_without_its_trees() -> None:
    (row,) = rows("variation=attention_table4/transformer_wsj", "recipe=parsing_small", "data.root=/no/such").values()
    assert (row["state"], row["vocabulary"], row["reproduced"]) == ("to train", 16_000, None)
    assert row["parameters"] == 2_841_600


@pytest.mark.slow
def test_a_table_is_crossed_with_values_of_another_key() -> None:
    found = rows("sweep=quickstart", "rows=[transformer,weighted]", "model.dropout=0.1,0.3", "seeds=[1,2]")
    assert list(found) == [f"{row},model.dropout={p}" for row in ("transformer", "weighted") for p in (0.1, 0.3)]
    assert {row["runs"] for row in found.values()} == {2}
    assert found["weighted,model.dropout=0.3"]["changes"].startswith("model transformer→weighted")


@pytest.mark.slow
def test_a_grid_is_planned_without_a_table() -> None:
    found = rows("model.h=2,4", "seed=1,2")
    assert [(name, row["runs"]) for name, row in found.items()] == [("model.h=2", 2), ("model.h=4", 2)]


@pytest.mark.slow
def test_rows_of_a_grid_over_rows_of_a_table_are_priced_by_themselves() -> None:
    found = plan_rows(["variation=quickstart/transformer,quickstart/uniform", "size=tiny,small"])
    assert [row.definition.row for row in found] == [
        f"size={size},variation=quickstart_{row}" for row in ("transformer", "uniform") for size in ("tiny", "small")
    ]
    assert len({row.name for row in found}) == len({row.definition.label for row in found}) == 4


@pytest.mark.slow
def test_a_value_of_a_rows_file_that_the_sweep_replaces_is_named() -> None:
    words = ["sweep=multi30k_weighted_table2", "rows=[N4_weighted,N8_weighted,B_weighted]"]
    text = render(words, PlanConfig(format="json", measure=False))
    assert [line for line in json.loads(text)["remarks"] if "is replaced" in line] == [
        "N8_weighted, B_weighted: model.dropout=0.3 of the row's file is replaced by 0.1, "
        "which the sweep's overrides or the command line give to all rows."
    ]


@pytest.mark.slow
def test_rows_that_differ_in_nothing_are_named() -> None:
    text = render(["trainer.log_every=10,20", "model.h=2,4"], PlanConfig(format="json", measure=False))
    remarks = [line for line in json.loads(text)["remarks"] if "equal networks" in line]
    assert remarks == [
        f"model.h={h},trainer.log_every=10; model.h={h},trainer.log_every=20: these rows make the same changes "
        "and train equal networks."
        for h in (2, 4)
    ]


@pytest.mark.slow
def test_the_verb_takes_keys_with_several_values_but_none_of_its_own() -> None:
    done = plan("model.h=2,4", "format=json", "measure=false")
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["row"] for row in json.loads(done.stdout)["rows"]] == ["model.h=2", "model.h=4"]
    (line,) = plan("format=json,csv").stderr.splitlines()[1:]
    assert line == "  - format=json,csv: keys of the plan itself take one value."


@pytest.mark.slow
@pytest.mark.parametrize("words", [["branch.M=4"], ["branch.M=4", "model.N=1,2"]])
def test_a_key_that_no_run_uses_is_refused_as_in_training(words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"branch\.M=4 has no effect: model=transformer has no"):
        render(words, PlanConfig(measure=False))


def test_a_limit_of_time_is_told_beside_steps_and_flops() -> None:
    words = ["sweep=quickstart", "rows=[weighted,transformer]"]
    told = "transformer, weighted: trainer.max_minutes=0.1 may end trainings early; steps and FLOPs are those of all"
    assert told in render([*words, "trainer.max_minutes=0.1"], PlanConfig(format="markdown", measure=False))
    assert "max_minutes" not in render(words, PlanConfig(format="markdown", measure=False))


@pytest.mark.parametrize(
    ("part", "told"), [(0.42, ["base: trainer.max_minutes=5 leaves time for about 42 % of the updates"]), (1.0, [])]
)
def test_a_measured_plan_says_how_many_updates_a_limit_of_time_leaves(part: float, told: list[str]) -> None:
    config = compose_run(["trainer.max_minutes=5"])
    row = SimpleNamespace(config=config, launches=True, definition=SimpleNamespace(row="base"))
    line: Any = SimpleNamespace(row=row, price=SimpleNamespace(cost=SimpleNamespace(part=part)))
    assert [text.partition(";")[0] for text in formats._limited([line])] == told


def test_a_vocabulary_for_rows_that_have_none_of_sub_words_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"vocabulary=50000: no task of these rows has data\.vocabulary: leave it out"
    ):
        render(["task=question_answering"], PlanConfig(measure=False, vocabulary=50000))


def test_a_row_is_compared_with_its_base_row_of_another_table() -> None:
    text = render(
        ["sweep=toy_weighted_readings", "rows=[transformer,learned,softmax_xM,encoder_only_M2,rescale_M2]"],
        PlanConfig(measure=False, format="markdown"),
    )
    assert "branch.constraint project→softmax\\_xM" in text and "branch.rescale none→M2" in text
    told = "Base rows other than transformer: learned (of rescale_M2, softmax_xM); rescale_M2 (of encoder_only_M2)."
    assert told in text
