"""A multirun: which runs it has, in which order, and why it may be rejected as a whole."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from suite import sampled

from variations.commands.preflight import with_task
from variations.configuration.compose import compose_run, to_dict
from variations.configuration.tasks import named
from variations.store import inputs
from variations.store.atomic import write_yaml
from variations.store.identity import changed_keys
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.store.row_files import fingerprint
from variations.sweeping.grid_jobs import spelled_before
from variations.sweeping.jobs import _composed_jobs, expand
from variations.sweeping.outcomes import Outcome, idle_rows, other_inputs
from variations.sweeping.table_jobs import single_run
from variations.system.errors import ConfigError
from variations.tasks.translation.data.fingerprints import present

ROOT = Path(__file__).resolve().parents[2]


LIKE_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
"""Starts a command without the permission of root to read everything."""


def sweep(folder: Path, *arguments: str, start: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "220"}
    line = [*start, sys.executable, str(ROOT / "src" / "train.py"), "--multirun", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, env=environment, timeout=60, check=False)


@pytest.mark.slow
def test_a_table_is_rows_times_seeds_with_the_base_row_first() -> None:
    jobs = expand(["sweep=quickstart", "seeds=[1,2]", "rows=[uniform,transformer]"])
    assert [(job.row, job.seed) for job in jobs] == [
        ("transformer", 1),
        ("transformer", 2),
        ("uniform", 1),
        ("uniform", 2),
    ]
    assert jobs[3].folder == Path("runs/quickstart/uniform/seed2")
    assert (jobs[3].config.model.kind, jobs[3].config.branch.train_mode) == ("weighted", "uniform")


@pytest.mark.slow
def test_a_jobs_overrides_compose_the_same_run_again() -> None:
    for job in expand(["sweep=quickstart", "trainer.max_steps=50", "trainer.threads=1", "runs=elsewhere"]):
        assert job.config.trainer.max_steps == 50
        assert job.config.sweep.typed == ["trainer.max_steps=50"]
        assert job.config.variation.sha256 == fingerprint(job.row, "quickstart", to_dict(job.config))
        job.config.sweep.typed, job.config.variation.sha256 = [], None  # stored with the run, not composed
        assert compose_run(job.overrides) == job.config


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sweep", "row", "typed", "recorded"),
    [
        ("demo", "quickstart/transformer", [], []),
        ("demo", "quickstart/transformer", ["recipe=quick", "seed=3", "model.h=2"], ["recipe=quick", "model.h=2"]),
        ("demo", "quickstart/transformer", ["runs=elsewhere", "trainer.threads=1", "logger=none"], []),
        ("multi30k_weighted_claims", "weighted_claims/weighted", ["debug=limit"], ["debug=limit"]),
        ("babi_memn2n_1k", "babi_memn2n_1k/pe", ["data.tasks=[4]"], ["data.tasks=[4]"]),
    ],
)
def test_a_single_run_of_a_row_of_a_sweep_is_the_one_of_multirun(
    sweep: str, row: str, typed: list[str], recorded: list[str]
) -> None:
    (job, *_) = expand(with_task([f"sweep={sweep}", f"rows=[{row.rpartition('/')[2]}]", *typed]))
    alone = compose_run(single_run([f"sweep={sweep}", f"variation={row}", *typed]))
    assert run_folder(alone) == job.folder
    kept = {"seed": job.seed, "rows": None}
    expected = replace(job.config, **kept, variation=replace(job.config.variation, sha256=None))
    assert to_dict(alone) == to_dict(expected)
    assert alone.sweep.typed == recorded


@pytest.mark.slow
def test_a_single_run_outside_a_sweep_has_no_other_overrides_than_were_typed() -> None:
    for words in (["variation=quickstart/uniform", "model.h=2"], ["model=weighted"], ["sweep=null", "model.h=2"]):
        assert single_run(words) == words
    named = compose_run(single_run(["sweep=demo", "name=pilot"]))
    assert (run_folder(named), named.recipe.name) == (Path("runs/demo/pilot/seed1"), "quick_cosine")


@pytest.mark.slow
def test_the_users_override_wins_over_the_sweeps() -> None:
    jobs = expand(["sweep=quickstart", "size=small", "rows=[weighted]"])
    assert [job.config.model.d_model for job in jobs] == [256]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "steps"),
    [
        (["debug=limit"], [20]),
        (["debug=limit", "trainer.max_steps=30"], [30]),
        (["debug=none,limit"], [300, 20]),
        (["debug=limit,none"], [20, 300]),
    ],
)
def test_a_quick_look_stays_quick_under_a_sweep_that_sets_the_steps(typed: list[str], steps: list[int]) -> None:
    own = "sweep.overrides=['size=tiny','data=toy','recipe=quick','trainer.max_steps=300','recipe.warmup=7']"
    jobs = expand(["sweep=quickstart", own, "rows=[transformer]", *typed])
    assert [(job.config.trainer.max_steps, job.config.recipe.warmup) for job in jobs] == [(n, 7) for n in steps]


@pytest.mark.slow
def test_a_row_named_twice_is_run_once() -> None:
    rows = "sweep.rows=[transformer,uniform,transformer,quickstart/uniform]"
    assert [job.row for job in expand(["sweep=quickstart", rows])] == ["transformer", "uniform"]
    assert [job.seed for job in expand(["model=transformer,transformer", "seed=2,2"])] == [2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["A_h16", "attention_table3/A_h16"])
def test_a_row_of_another_table_is_picked_by_its_name_alone_too(name: str) -> None:
    (job,) = expand(["sweep=my_ablation", f"rows=[{name}]", "seeds=[1]"])
    assert job.folder == Path("runs/my_ablation/A_h16/seed1")


def test_all_wrong_rows_and_seeds_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        expand(
            [
                "sweep=quickstart",
                "sweep.rows=[uniform,nosuch,attention_table3/nope]",
                "rows=[x]",
                "seeds=[2,2]",
                "name=y",
            ]
        )
    assert [fault.split(". ")[0] for fault in error.value.faults] == [
        "name=y names a single run: the folder of a multirun is named by sweep.name=NAME.",
        "seeds=[2, 2] names a seed twice: leave the second out.",
        "sweep.rows: there is no row 'nosuch' in conf/variation/quickstart/",
        "sweep.rows: there is no row 'nope' in conf/variation/attention_table3/",
        "rows: the sweep 'quickstart' has no row 'x'",
    ]


@pytest.mark.slow
def test_one_seed_may_be_written_as_for_a_single_run() -> None:
    assert [job.seed for job in expand(["sweep=quickstart", "rows=[uniform]", "seed=5"])] == [5]


@pytest.mark.slow
def test_a_grid_is_the_product_with_a_folder_for_each() -> None:
    jobs = expand(["model=transformer,weighted", "size=tiny,small", "seed=1,2", "runs=store"])
    assert len(jobs) == 8
    assert str(jobs[0].folder) == "store/grid/model=transformer,size=tiny/seed1"
    assert str(jobs[7].folder) == "store/grid/model=weighted,size=small/seed2"
    assert compose_run(jobs[7].overrides) == jobs[7].config
    assert len({job.folder for job in jobs}) == 8


@pytest.mark.slow
def test_a_grid_may_have_a_name() -> None:
    jobs = expand(["variation=quickstart/transformer", "size=tiny,small", "sweep.name=mine", "runs=store"])
    names = [f"size={size},variation=quickstart_transformer" for size in ("tiny", "small")]
    assert [str(job.folder) for job in jobs] == [f"store/mine/{name}/seed1" for name in names]
    assert [run_folder(compose_run(job.overrides)) for job in jobs] == [job.folder for job in jobs]


@pytest.mark.slow
def test_the_name_of_a_long_combination_says_what_varies(tmp_path: Path) -> None:
    fixed = [
        "data=files",
        f"data.root={tmp_path}",
        *(f"data.{key}={key * 8}" for key in ("train", "dev", "test", "name")),
    ]
    jobs = expand([*fixed, "model.dropout=0.1,0.2"])
    names = [job.row for job in jobs]
    assert [name.rpartition(",")[0] for name in names] == ["model.dropout=0.1", "model.dropout=0.2"]
    assert len({name.rpartition(",")[2] for name in names}) == 2  # identifies the whole combination
    other = expand([*fixed[:-1], "data.name=other", "trainer.max_steps=100", "model.dropout=0.1,0.2"])
    assert not {job.folder for job in jobs} & {job.folder for job in other}


@pytest.mark.slow
def test_a_glob_enters_the_tables_of_the_rows() -> None:
    jobs = expand(["variation=glob(quickstart/*)", "trainer.max_steps=50"])
    rows = ["learned_positions", "transformer", "uniform", "weighted"]
    assert [job.config.variation.row for job in jobs] == rows
    assert {job.config.trainer.max_steps for job in jobs} == {50}
    assert [job.config.model.N for job in expand(["size=glob(*, exclude=[big,base*,multi30k])"])] == [
        job.config.model.N for job in expand(["size=small,tiny"])
    ]


@pytest.mark.slow
def test_a_glob_passes_over_what_nobody_can_run() -> None:
    """Quoted rows hold other systems' figures; naming one explicitly is a fault."""
    jobs = expand(["variation=glob(attention_table2/*)"])
    assert [job.config.variation.row for job in jobs] == ["base_en_de", "base_en_fr", "big_en_de", "big_en_fr"]


@pytest.mark.slow
def test_a_table_can_be_crossed_with_values_of_other_keys() -> None:
    jobs = expand(["sweep=quickstart", "rows=[transformer,uniform]", "model.dropout=0.1,0.2", "seeds=[1,2]"])
    assert [(job.row, job.seed) for job in jobs if job.seed == 1] == [
        ("transformer,model.dropout=0.1", 1),
        ("transformer,model.dropout=0.2", 1),
        ("uniform,model.dropout=0.1", 1),
        ("uniform,model.dropout=0.2", 1),
    ]
    assert len(jobs) == 8
    last = jobs[-1]
    assert last.folder == Path("runs/quickstart/uniform,model.dropout=0.2/seed2")
    assert last.config.model.dropout == 0.2
    assert last.config.variation.base == "weighted,model.dropout=0.2"
    assert last.config.variation.label.endswith(", model.dropout=0.2")
    last.config.variation.sha256 = None  # stored with the run, not composed
    assert compose_run(last.overrides) == last.config
    assert run_folder(last.config) == last.folder


@pytest.mark.slow
def test_a_crossed_table_wins_over_the_sweeps_own_word() -> None:
    jobs = expand(["sweep=quickstart", "rows=[transformer]", "size=tiny,small"])
    assert [(job.row, job.config.model.d_model) for job in jobs] == [
        ("transformer,size=tiny", 128),
        ("transformer,size=small", 256),
    ]


@pytest.mark.slow
def test_a_crossed_row_that_only_tests_again_borrows_from_its_own_point() -> None:
    words = ["sweep=toy_weighted_table3", "rows=[learned,random]", "model.dropout=0.1,0.2"]
    reused = {job.row: job.config.variation.reuse for job in expand(words)}
    assert reused == {
        "learned,model.dropout=0.1": None,
        "learned,model.dropout=0.2": None,
        "random,model.dropout=0.1": "learned,model.dropout=0.1",
        "random,model.dropout=0.2": "learned,model.dropout=0.2",
    }


@pytest.mark.slow
def test_grids_take_ranges_and_quoted_values() -> None:
    fractions = [job.config.model.dropout for job in expand(["model.dropout=range(0.1,0.4,0.1)"])]
    assert fractions == [0.1, 0.2, 0.3]  # Hydra's own sum gives 0.30000000000000004, and then 0.4
    jobs = expand(["model.N=range(1,4)", "recipe.name='my, recipe'"])
    assert [job.config.model.N for job in jobs] == [1, 2, 3]
    assert {job.config.recipe.name for job in jobs} == {"my, recipe"}
    assert [job.config.model.N for job in expand(["variation='quickstart/uniform'", "model.N=1,2"])] == [1, 2]
    assert {job.row for job in expand(["variation='quickstart/uniform','quickstart/transformer'"])} == {
        "variation=_quickstart_uniform",
        "variation=_quickstart_transformer",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep=quickstart", "rows=[unifrm]"], "the sweep 'quickstart' has no row 'unifrm'. Did you mean 'uniform'?"),
        (
            ["sweep=quickstart", "rows=['uniform,model.dropout=0.1,seed=2']"],
            "has no row 'uniform,model.dropout=0.1,seed=2'. Type rows=[uniform] model.dropout=0.1 seed=2. Its rows",
        ),
        (["sweep=quickstart", "rows=[x]"], "Its rows are transformer, weighted, uniform, learned_positions."),
        (["sweep=quickstart", "seeds=[]"], "seeds=[] selects no seed"),
        (["sweep=quickstart", "sweep.seeds=[]"], "sweep.seeds=[] leaves no seed to run: name some."),
        (["sweep=quickstart", "sweep.seeds=[]", "sweep.metric=nope"], "sweep.metric: there is no 'nope'"),
        (["sweep=quickstart", "seeds=[2,2]"], "seeds=[2, 2] names a seed twice: leave the second out."),
        (["sweep=quickstart", "seeds=[-1,2]"], "seeds=[-1, 2]: seeds must be at least 0 and at most 4294967295."),
        (["sweep=quickstart", "seeds=[4294967296]"], "seeds must be at least 0 and at most 4294967295."),
        (["sweep=quickstart", "rows=[uniform,uniform]"], "names a row twice: leave the second out."),
        (["sweep=quickstart", "model.dropout=interval(0,1)"], "an interval is infinite"),
        (["data=files", "data.root=here,there"], "data.root=here,there: data.root does not belong to what a run's"),
        (["sweep=quickstart", "data.root=here,there"], "start the multirun once for each value"),
        (["sweep=quickstart", "rows=[]"], "rows=[] selects no row"),
        (
            [
                "sweep=quickstart",
                "sweep.rows=[quickstart/transformer,weighted_claims/transformer]",
                "rows=[transformer]",
            ],
            "rows: 'transformer' can mean quickstart/transformer or weighted_claims/transformer: also write",
        ),
        (["sweep=quickstart", "seed=1,2"], "use seeds=[1,2]"),
        (["sweep=quickstart", "variation=quickstart/uniform"], "write rows=[…]"),
        (["sweep=quickstart", "sweep.table=nowhere", "sweep.rows=[]"], "no rows in conf/variation/nowhere/"),
        (["seed=range(0,2000)"], "this grid has 2000 runs; at most 1000"),
        (
            ["model=transformer,weighted", "seeds=[1,2]"],
            "seeds=[1,2] is for a table: a grid takes several as seed=1,2.",
        ),
        (
            ["model.h=1,2", "sweep.name=g", "sweep.seeds=[1,2]"],
            "sweep.seeds=[1,2] is for a table: a grid takes several as seed=1,2.",
        ),
        (
            ["size=tiny,small", "rows=[a]", "seeds=[1]"],
            "rows=[a] is for a table: rows belong to a sweep, so add sweep=NAME.",
        ),
        (
            ["sweep=quickstart", "name=foo"],
            "name=foo names a single run: the folder of a multirun is named by sweep.name=",
        ),
        (
            ["size=tiny,small", "name=foo"],
            "name=foo names a single run: the folder of a multirun is named by sweep.name=",
        ),
        (
            ["sweep=quickstart", "sweep.overrides=['name=foo']"],
            "row transformer: `name` belongs to a command, not to a row: leave it out of",
        ),
        (
            ["sweep=quickstart", "seed=3", "sweep.overrides=['seed=5','sweep.seeds=[7]']"],
            "row transformer: `seed`, `sweep.seeds` belongs to a command, not to a row: leave it out of",
        ),
        (["recipe.lr=interval(0,1)"], "or search it (docs/search.md), with sweep.name=NAME sweep.search.trials=N"),
        (
            [f"data.train={'x' * 60},{'y' * 60}", f"data.dev={'z' * 60},b"],
            "which is longer than a folder's name may be (120 characters): vary fewer keys at a time",
        ),
        (
            ["sweep=quickstart", "sweep.rows=[transformer,weighted_claims/transformer]"],
            "rows quickstart/transformer and weighted_claims/transformer would share the folder "
            "runs/quickstart/transformer: leave one out",
        ),
        (
            ["data.dev='validä','validö',valid", "seed=1,2"],
            "rows data.dev='validä' and data.dev='validö' would share the folder runs/grid/data.dev=_valid: leave one "
            "out, and start it with another sweep.name.",
        ),
        (
            ["sweep=quickstart", "rows=[uniform]", "data.dev='validä','validö'"],
            "rows quickstart/uniform with data.dev='validä' and quickstart/uniform with data.dev='validö' would share "
            "the folder runs/quickstart/uniform,data.dev=_valid: leave one out, and start it with another sweep.name.",
        ),
        (
            ["model.dropout=0,0.0"],
            "rows model.dropout=0 and model.dropout=0.0 would share the folder runs/grid/model.dropout=0: leave one "
            "out, and start it with another sweep.name.",
        ),
        (
            ["sweep=quickstart", "rows=[uniform]", "model.dropout=0,0.0"],
            "rows quickstart/uniform with model.dropout=0 and quickstart/uniform with model.dropout=0.0 would share "
            "the folder runs/quickstart/uniform,model.dropout=0: leave one out, and start it with another sweep.name.",
        ),
        (["sweep=quickstart", "sweep.metric=blue"], "sweep.metric: there is no 'blue'. Did you mean 'bleu'?"),
        (
            ["sweep=quickstart", "sweep.metric=dev.blue"],
            "sweep.metric: there is no 'dev.blue'. Did you mean 'dev.bleu'?",
        ),
        (
            ["sweep=quickstart", "sweep.metric=dev.bleu"],
            "dev is scored only if it is translated: add decode.sets=[test,dev]",
        ),
        (["model.h=4,2", "decode.sets=[dev]"], "sweep.metric=bleu: test is scored only if it is translated"),
        (["model.h=4,3"], "row model.h=3: model.h=3 does not divide"),
        (
            ["sweep=quickstart", "sweep.overrides=['++trainer.max_steps=300']", "debug=limit"],
            "sweep.overrides: ++trainer.max_steps=300: the key trainer.max_steps exists already; write it without ++.",
        ),
        (
            ["sweep=quickstart", "rows=[uniform,weighted]", "variation.reuse=weighted"],
            "row weighted: variation.reuse: would test its own weights: remove `reuse`",
        ),
    ],
)
def test_a_sweep_that_cannot_run_says_why(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        expand(arguments)
    assert message in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["rows=[a]"], ["sweep=quickstart", "sweep.overrides=['no.such.key=1']", "rows=[transformer]"]]
)
def test_names_that_are_too_long_are_told_once_and_with_the_other_faults(words: list[str]) -> None:
    long = [f"data.train={'x' * 60},{'y' * 60}", f"data.dev={'z' * 60},{'w' * 60}"]
    with pytest.raises(ConfigError) as told:
        expand([*words, *long])
    assert len(told.value.faults) == 2, told.value
    assert sum("longer than a folder's name may be" in fault for fault in told.value.faults) == 1


@pytest.mark.slow
def test_rows_that_test_each_others_weights_are_refused(config_dir: Path) -> None:
    folder = config_dir / "variation/mine"
    folder.mkdir(parents=True)
    for row, source in {"a": "b", "b": "c", "c": "b", "d": "null"}.items():
        text = f"variation: {{row: {row}, table: mine, reuse: {source}}}\n"
        (folder / f"{row}.yaml").write_text(f"# @package _global_\n{text}", encoding="utf-8")
    words = ["sweep.table=mine", "sweep.rows=[]", "rows=[a,b,c,d]"]
    with pytest.raises(ConfigError) as error:
        expand(["sweep=quickstart", *words])
    (fault,) = error.value.faults
    assert fault.startswith("rows b, c: variation.reuse: would test each other's weights: remove `reuse` from")
    assert len(expand(["sweep=quickstart", *words, "sweep.reuse=false"])) == 4
    assert len(expand(["sweep=quickstart", *words[:2], "rows=[a,b,d]"])) == 3  # c is not in this sweep


@pytest.mark.slow
def test_nothing_starts_when_one_row_is_at_fault(tmp_path: Path) -> None:
    done = sweep(tmp_path, "sweep=quickstart", "branch.freeze_last=5000")
    assert done.returncode == 2
    assert "rows weighted: " in done.stderr or "row weighted: " in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_finished_run_of_another_configuration_is_not_taken_for_this_one(tmp_path: Path) -> None:
    config = compose_run(["sweep=quickstart", "variation=quickstart/transformer", "trainer.max_steps=77"])
    RunFolder(tmp_path / "runs/quickstart/transformer/seed1").create(to_dict(config)).set_status("finished")
    done = sweep(tmp_path, "sweep=quickstart", "rows=[transformer]")
    assert done.returncode == 2
    assert "trainer.max_steps: 77 → 2400" in done.stderr
    assert "sweep.name=…" in done.stderr


@pytest.mark.slow
def test_finished_rows_are_skipped_and_nothing_is_started(tmp_path: Path) -> None:
    for job in expand(["sweep=quickstart", f"runs={tmp_path / 'runs'}"]):
        folder = RunFolder(job.folder).create(to_dict(job.config))
        folder.write_result({"scores": {"test": {"bleu": {"value": 12.345}}}, "seconds": 1.0})
        folder.set_status("finished")
    done = sweep(tmp_path, "sweep=quickstart")
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 skipped" in done.stdout
    assert done.stdout.count("12.3") == 4
    assert not list(tmp_path.rglob("log.txt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "score"), [("bleu", "12.13"), ("test.chrf", "40.00"), ("dev.bleu", "11.50"), ("dev_ppl", "3.210")]
)
def test_the_summary_shows_the_sweeps_metric(tmp_path: Path, metric: str, score: str) -> None:
    words = ["sweep=quickstart", "rows=[uniform]", f"sweep.metric={metric}", "decode.sets=[dev,test]"]
    (job,) = expand([*words, f"runs={tmp_path}"])
    folder = RunFolder(job.folder).create(to_dict(job.config))
    scores = {"test": {"bleu": {"value": 12.125}, "chrf": {"value": 40.0}}, "dev": {"bleu": {"value": 11.5}}}
    folder.write_result({"scores": scores, "loss": {"dev_ppl": 3.21}, "seconds": 1.0})
    folder.set_status("finished")
    assert Outcome.of(job).score() == score


@pytest.mark.slow
@pytest.mark.parametrize("value", sampled(["0", "lots", "1.5"], 3))
def test_a_number_of_rows_on_a_gpu_that_is_none(tmp_path: Path, value: str) -> None:
    done = sweep(tmp_path, "sweep=quickstart", f"hydra.launcher.per_gpu={value}")
    assert done.returncode == 2
    fault = f"hydra.launcher.per_gpu={value}: must be a whole number, at least 1, or auto."
    assert done.stderr == f"error: 1 fault in the configuration:\n  - {fault}\n"


@pytest.mark.slow
@pytest.mark.parametrize("launcher", sampled(["slurm", "ray"], 2))
def test_a_cluster_is_not_measured(tmp_path: Path, launcher: str) -> None:
    done = sweep(tmp_path, "sweep=quickstart", "sweep.at_once=auto", f"hydra/launcher={launcher}")
    assert done.returncode == 2
    assert "sweep.at_once=auto measures this machine: with hydra/launcher=" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_launcher_that_has_no_pool_is_refused(tmp_path: Path) -> None:
    done = sweep(tmp_path, "sweep=quickstart", "hydra/launcher=basic")
    assert done.returncode == 2
    assert "rows are run by local, slurm or ray" in done.stderr


@pytest.mark.slow
def test_rows_that_were_finished_with_another_text_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for name in ("train", "valid", "test"):
        for language in ("en", "de"):
            (text / f"{name}.{language}").write_text("one\n")
    words = ["data=files", f"data.root={text}", f"data.cache={tmp_path / 'cache'}", "trainer.progress=false"]
    jobs = expand([*words, f"runs={tmp_path / 'runs'}", "model.h=2,4"])
    for job in jobs:
        folder = RunFolder(job.folder).create(to_dict(job.config))
        inputs.remember(folder, present(job.config))
        folder.write_result({"schema": 1})
        folder.set_status("finished")
    assert list(other_inputs(Outcome.of(job) for job in jobs)) == []
    (text / "test.de").write_text("two\n")
    (warning,) = other_inputs(Outcome.of(job) for job in jobs)
    assert warning.startswith(f"data=files,model.h=2, seed 1; data=files,model.h=4, seed 1: test.de in {text} changed")


@pytest.mark.slow
def test_rows_whose_only_change_is_undone_are_named(tmp_path: Path) -> None:
    words = [f"runs={tmp_path}", "sweep=demo", "sweep.seeds=[1,2]"]
    assert idle_rows(Outcome.of(job) for job in expand(words)) == []
    equal, replaced = idle_rows(Outcome.of(job) for job in expand([*words, "positions=sinusoidal"]))
    assert equal.startswith("transformer; learned_positions: these rows make the same changes")
    assert replaced.startswith("learned_positions: positions.kind=learned of the row's file is replaced by sinusoidal")
    crossed = idle_rows(
        Outcome.of(job) for job in expand([*words, "positions=sinusoidal", "model.attention_dropout=0,0.1"])
    )
    assert any(text.startswith("learned_positions,model.attention_dropout=0") for text in crossed)
    axis = ["variation=quickstart/uniform", "model.attention_dropout=0.1,0.2", "size=tiny", f"runs={tmp_path}"]
    assert idle_rows(Outcome.of(job) for job in expand(axis)) == []
    table = ["variation=attention_table3/A_h4", "model.h=2,4", "size=tiny", f"runs={tmp_path}"]
    assert idle_rows(Outcome.of(job) for job in expand([*table, "sweep.name=attention_table3"])) == []


@pytest.mark.slow
def test_rows_that_test_the_weights_of_another_row_are_not_named_as_equal(tmp_path: Path) -> None:
    jobs = expand([f"runs={tmp_path}", "sweep=toy_weighted_table3", "branch.eval_mode=learned"])
    assert idle_rows(Outcome.of(job) for job in jobs) == []


@pytest.mark.parametrize(
    ("task", "axis", "measure"),
    [("question_answering", "recipe.noise=0,0.1", "test.error"), ("parsing", "model.h=2,4", "test.f1")],
)
def test_a_grid_of_another_task_has_the_first_score_of_its_task(
    tmp_path: Path, task: str, axis: str, measure: str
) -> None:
    jobs = expand([f"task={task}", axis, f"runs={tmp_path}"])
    assert {named(task).primary(job.config.sweep.metric).key for job in jobs} == {measure}
    assert len(jobs) == 2


def test_what_was_typed_for_all_rows_of_a_grid_is_stored_with_them() -> None:
    jobs = expand(["sweep.name=g", "model.h=2,4", "recipe.optimizer=sgd", "data.root=null", "seed=1,2", "logger=none"])
    assert [job.config.sweep.typed for job in jobs] == [["recipe.optimizer=sgd"]] * 4


def test_the_interval_of_validations_counts_as_typed_where_a_callback_acts_on_them() -> None:
    lines = ["sweep.name=g", "model.h=2,4", "trainer.val_every=5"]
    assert [job.config.sweep.typed for job in expand(lines)] == [[]] * 2
    stopping = "callbacks=early_stopping"
    assert [job.config.sweep.typed for job in expand([*lines, stopping])] == [["trainer.val_every=5", stopping]] * 2


def test_a_seed_that_is_spelled_in_two_ways_is_one_run() -> None:
    assert [job.seed for job in expand(["seed=1,01,2"])] == [1, 2]


def test_equal_rows_of_two_tables_are_two_rows_of_a_grid_also_when_it_is_started_again(tmp_path: Path) -> None:
    line = [f"runs={tmp_path}", "variation=weighted_table2/C_transformer,attention_table3/C_N2"]
    first, second = expand(line)
    assert not changed_keys(to_dict(first.config), to_dict(second.config))
    RunFolder(first.folder).create(to_dict(first.config))
    _composed_jobs.cache_clear()
    assert [job.folder for job in expand(line)] == [first.folder, second.folder]


@pytest.mark.parametrize(
    "damage",
    [{"task": "mine"}, {"task": "gone.tasks:Mine"}, {"task": 5}, {"data": 5}, {"variation": "x"}],
    ids=str,
)
def test_a_stored_row_that_nobody_can_read_is_in_no_new_rows_way(damage: dict[str, Any], tmp_path: Path) -> None:
    """Such as one whose task's package is not installed."""
    line = [f"runs={tmp_path}", "model.dropout=0.1,0.2"]
    (job, _) = expand(line)
    write_yaml(job.folder.parent.with_name("other") / "seed1" / "config.yaml", {**to_dict(job.config), **damage})
    _composed_jobs.cache_clear()
    assert [job.row for job in expand(line)] == ["model.dropout=0.1", "model.dropout=0.2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [("grid", ["model.h=2,4"]), ("quickstart", ["sweep=quickstart", "rows=[transformer]", "model.h=2,4"])],
)
def test_a_sweeps_folder_of_another_user_is_told_in_a_sentence(name: str, words: list[str], tmp_path: Path) -> None:
    if LIKE_ANYBODY and shutil.which(LIKE_ANYBODY[0]) is None:
        pytest.skip("root may read everything")
    (tmp_path / name).mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / name, 12345, -1)
    (tmp_path / name).chmod(0o700 if os.geteuid() == 0 else 0)
    done = sweep(tmp_path, *words, "size=tiny", f"runs={tmp_path}", "logger=none", start=LIKE_ANYBODY)
    (tmp_path / name).chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: Cannot read {tmp_path / name}/"), done.stderr
    assert "Permission denied" in done.stderr.splitlines()[0] and "Traceback" not in done.stderr


def test_a_part_of_a_crossed_table_has_the_same_names_however_it_is_typed(tmp_path: Path) -> None:
    """Also where the store has other rows of the table, and for a row that tests another one's weights."""
    table = ["sweep=toy_weighted_table3", "seeds=[1]", f"runs={tmp_path}"]
    (learned,) = expand([*table, "rows=[learned]", "recipe.lr=choice(0.10)", "model.dropout=choice(0.2)"])
    RunFolder(learned.folder).create(to_dict(learned.config))
    jobs = expand([*table, "rows=[random]", "model.dropout=choice(2e-1)", "recipe.lr=choice(0.1)"])
    assert [job.row for job in jobs] == ["random,model.dropout=0.2,recipe.lr=0.1"]
    assert jobs[0].config.variation.reuse == learned.row == "learned,model.dropout=0.2,recipe.lr=0.1"


def test_rows_of_a_crossed_table_that_an_older_version_named_as_typed_are_found(tmp_path: Path) -> None:
    """Only one row of the table is stored; all take its spelling of the point."""
    line = ["sweep=quickstart", "model.dropout=choice(0.2)", "model.d_ff=choice(64)", f"runs={tmp_path}", "seeds=[1]"]
    jobs = {job.row.partition(",")[0]: job for job in expand(line)}
    older = "weighted,model.dropout=0.2,model.d_ff=64"
    assert jobs["weighted"].row == "weighted,model.d_ff=64,model.dropout=0.2"
    write_yaml(tmp_path / "quickstart" / older / "seed1" / "config.yaml", to_dict(jobs["weighted"].config))
    _composed_jobs.cache_clear()
    assert {job.row.partition(",")[2] for job in expand(line)} == {older.partition(",")[2]}


@pytest.mark.parametrize(
    ("usual", "stored", "found"),
    [
        ("a.b=1,c.d=1", ["c.d=2,a.b=1", "c.d=1,a.b=1"], "c.d=1,a.b=1"),  # equal at both points
        ("a.b=1,c.d=2", ["c.d=1,a.b=1"], "a.b=1,c.d=2"),
        ("model.norm=pre", ["model.norm=_pre"], "model.norm=_pre"),  # was typed in quotes
        ("a.b=1,c.d=1", ["a.b=1"], "a.b=1,c.d=1"),
    ],
)
def test_a_point_is_called_as_the_store_calls_it(usual: str, stored: list[str], found: str) -> None:
    assert spelled_before(usual, stored, ["a.b=1,c.d=1", "a.b=1,c.d=2", "model.norm=pre"]) == found


def test_a_row_that_sets_the_crossed_keys_itself_is_a_row_at_each_point(tmp_path: Path, config_dir: Path) -> None:
    for name, text in {"own": "N: 1", "other": "N: 2"}.items():
        (config_dir / "size").mkdir(parents=True, exist_ok=True)
        (config_dir / f"size/{name}.yaml").write_text(f"# @package model\n{text}\n")
    folder = config_dir / "variation/mine"
    folder.mkdir(parents=True)
    for row, text in {"fixed": "model: {N: 3}", "free": ""}.items():
        (folder / f"{row}.yaml").write_text(f"# @package _global_\nvariation: {{table: mine, row: {row}}}\n{text}\n")
    (config_dir / "sweep").mkdir()
    (config_dir / "sweep/mine.yaml").write_text("name: mine\ntable: mine\nrows: [fixed, free]\nseeds: [1]\n")
    jobs = expand(["sweep=mine", "size=own,other", f"runs={tmp_path}"])
    assert {(job.row, job.config.model.N) for job in jobs} == {
        ("fixed,size=own", 3),
        ("fixed,size=other", 3),
        ("free,size=own", 1),
        ("free,size=other", 2),
    }


def test_rows_that_an_older_version_named_as_they_were_typed_are_found(tmp_path: Path) -> None:
    line = ["sweep.name=g", "model.h=2,4", "model.N=1", f"runs={tmp_path}"]
    typed = [f"model.h={h},model.N=1" for h in (2, 4)]
    for job, name in zip(expand(line), typed, strict=True):
        assert job.row != name
        write_yaml(tmp_path / "g" / name / "seed1" / "config.yaml", to_dict(job.config) | {"name": name})
    _composed_jobs.cache_clear()
    assert [job.row for job in expand(line)] == typed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "again"),
    [
        (["model.h=2,4", "model.N=1", "sweep.name=g"], ["sweep.name=g", "model.N=1", "model.h=4,2"]),
        (["sweep=quickstart", "recipe.lr=1,2"], ["sweep=quickstart", "recipe.lr=1.0,2.0"]),
        (["sweep=toy_weighted_table3", "recipe.lr=1,2"], ["sweep=toy_weighted_table3", "recipe.lr=1e0,2.0"]),
    ],
)
def test_a_row_is_the_same_in_another_order_or_spelling_of_what_was_typed(
    first: list[str], again: list[str], tmp_path: Path
) -> None:
    """The rows of the first command are in the store; a further value is a row of its own."""
    store = f"runs={tmp_path}"
    jobs = expand([*first, store])
    for job in jobs:
        RunFolder(job.folder).create(to_dict(job.config))
    found = expand([*again, store])
    assert sorted(job.folder for job in found) == sorted(job.folder for job in jobs)
    assert {job.row: job.config.variation.reuse for job in found} == {
        job.row: job.config.variation.reuse for job in jobs
    }
    known = {job.folder: job.config for job in jobs}
    assert not any(changed_keys(to_dict(known[job.folder]), to_dict(job.config)) for job in found)
    for job in found:
        job.config.variation.sha256, job.config.sweep.typed = None, []  # stored with the run, not composed
        assert compose_run(job.overrides) == job.config
    more = [word.replace("model.h=4,2", "model.h=8").replace("2.0", "3.0") for word in again]
    assert {job.folder for job in expand([*more, store])} - known.keys()
