"""Searches defined by a sweep file and the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from variations.configuration.compose import compose_run
from variations.configuration.places import CONF, SWEEPS
from variations.searching.definition import Definition, define, is_search
from variations.store.naming import run_folder
from variations.system.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SEARCHES = sorted(path.stem for path in SWEEPS.glob("search_*.yaml"))


def faults(make: Callable[..., Definition], *arguments: str, **changes: object) -> str:
    with pytest.raises(ConfigError) as error:
        make(*arguments, **changes)
    return "\n".join(error.value.faults)


def test_three_searches_are_shipped() -> None:
    assert SEARCHES == ["search_dropout", "search_pareto", "search_toy"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_a_shipped_search_is_free_of_faults(name: str) -> None:
    definition = define((f"sweep={name}",))
    assert definition.name == name
    assert definition.total > 0
    assert is_search([f"sweep={name}"])


def test_tables_and_grids_are_no_searches() -> None:
    assert not is_search(["sweep=quickstart"])
    assert not is_search(["model=transformer,weighted"])
    assert is_search(["model=transformer,weighted", "++sweep.search={trials: 3}"])


@pytest.mark.slow
def test_the_baselines_own_values_are_the_first_trial() -> None:
    definition = define(("sweep=search_toy",))
    assert definition.enqueued == {
        "model.dropout": 0.0,
        "recipe.lr": 0.5,
        "recipe.warmup": 250,
        "model.norm": "post",
    }
    assert "variation=quickstart/transformer" in definition.overrides


@pytest.mark.slow
def test_a_baseline_outside_the_space_is_a_fault(defined: Callable[..., Definition]) -> None:
    text = faults(defined, "sweep.search.baseline=quickstart/transformer", model__dropout="interval(0.1,0.4)")
    assert "has model.dropout=0.0, which is not in its space (0.1 to 0.4)" in text


@pytest.mark.slow
def test_a_typed_value_is_no_longer_searched_and_a_typed_interval_is() -> None:
    definition = define(("sweep=search_toy", "model.norm=pre", "model.dropout=interval(0,0.1)", "model.N=1,2"))
    found = {dimension.key: dimension.text() for dimension in definition.dimensions}
    assert found == {
        "recipe.lr": "0.1 to 2 (log)",
        "recipe.warmup": "50 to 400 (in steps of 50)",
        "model.dropout": "0 to 0.1",
        "model.N": "1, 2",
    }
    assert definition.base.model.norm == "pre"
    (config, *_) = definition.configs(0, {"recipe.lr": 1.0, "recipe.warmup": 50, "model.dropout": 0.1, "model.N": 1})
    assert config.sweep.typed == ["model.norm=pre"]  # which the table of the trials names


@pytest.mark.slow
def test_a_quick_look_at_a_search_stays_quick() -> None:
    definition = define(("sweep=search_toy", "debug=limit", "sweep.name=look"))
    (config,) = definition.configs(0, definition.enqueued or {})
    assert (config.debug.name, config.trainer.max_steps, config.model.d_model) == ("limit", 20, 128)
    typed = define(("sweep=search_toy", "debug=limit", "sweep.name=look", "trainer.max_steps=30"))
    assert typed.base.trainer.max_steps == 30


@pytest.mark.slow
def test_a_trials_runs_live_below_the_search_and_know_their_study(
    tmp_path: Path, defined: Callable[..., Definition]
) -> None:
    definition = defined(seeds="[1,2]")
    configs = definition.configs(7, {"model.dropout": 0.125})
    assert [run_folder(config) for config in configs] == [tmp_path / f"probe/trial7/seed{seed}" for seed in (1, 2)]
    assert {config.model.dropout for config in configs} == {0.125}
    assert (configs[0].search.trial, configs[0].search.study) == (7, "probe")
    assert configs[0].search.storage == str(tmp_path / "probe/study.log")
    assert compose_run(definition.trial_overrides({"model.dropout": 0.125})).model.dropout == 0.125
    typed = defined("model.h=2,4", model__dropout="interval(0,0.2)").configs(7, {"model.dropout": 0.125, "model.h": 4})
    named = {"model.dropout": "interval(0.0,0.2)", "model.h": [2, 4]}  # by which tables label trials
    assert typed[0].sweep.search.space == named


@pytest.mark.slow
def test_storage_is_a_journal_or_sqlite(tmp_path: Path, defined: Callable[..., Definition]) -> None:
    assert defined().storage == str(tmp_path / "probe/study.log")
    url = f"sqlite:///{tmp_path}/x.db"
    assert defined(sweep__search__storage=url).storage == url
    assert "write the path of a journal file, or sqlite:///FILE" in faults(
        defined, sweep__search__storage="mysql://host/db"
    )


@pytest.mark.slow
def test_the_total_of_a_grid_is_its_cells(defined: Callable[..., Definition]) -> None:
    grid = {"sweep__search__sampler": "grid", "model__dropout": "0.1,0.2,0.3", "model__N": "range(1,3)"}
    assert defined(**grid, sweep__search__trials="null").total == 6
    assert defined(**grid, sweep__search__trials=4).total == 4
    assert defined(**grid, sweep__search__trials=40).total == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep.search.metrics=[dev.blue]"], "there is no 'dev.blue'. Did you mean 'dev.bleu'?"),
        (["sweep.search.metrics=[test.bleu]"], "test is scored only if it is translated"),
        (["sweep.search.directions=[up]"], "'up': valid choices are maximize, minimize"),
        (["sweep.search.sampler=nsgaii"], "nsgaii optimises several metrics"),
        (["sweep.search.sampler=grid"], "model.dropout is continuous (0 to 0.4)"),
        (["sweep.search.trials=null"], "sweep.search.trials is not set: give the total"),
        (["sweep.search.baseline=quickstart/nobody"], "there is no such row"),
        (["sweep.search.baseline=weighted_table1/gnmt"], "published figure of another system"),
        (["sweep.search.metrics=[dev.bleu,parameters]", "sweep.search.pruner.kind=median"], "a single metric"),
        (["seeds=[1,2]", "sweep.search.pruner.kind=median"], "one seed per trial"),
        (["sweep.search.metrics=[parameters]", "sweep.search.pruner.kind=median"], "is known only at the end"),
        (["sweep.search.metrics=[dev_ppl]", "sweep.search.pruner.kind=wilcoxon"], "compares translated sentences"),
        (["trainer.val_bleu=0", "sweep.search.pruner.kind=median"], "validations measure no BLEU"),
        (["sweep.overrides=['trainer.val_bleu=0']", "sweep.search.pruner.kind=median"], "validations measure no BLEU"),
        (["trainer.val_bleu=0,20", "sweep.search.pruner.kind=median"], "validations measure no BLEU"),
        (["trainer.val_bleu=10,20", "sweep.search.pruner.kind=wilcoxon"], "depend on it: leave trainer.val_bleu out"),
        (["trainer.val_every=10,20", "sweep.search.pruner.kind=median"], "depend on it: leave trainer.val_every out"),
        (["rows=[a]"], "leave it out"),
        (["variation=quickstart/uniform"], "sweep.search.baseline=TABLE/ROW"),
        (["name=foo"], "a search is named by sweep.name=NAME"),
        (["force=true"], "trials are never repeated"),
        (["seed=1,2"], "a search takes seeds=[1,2]"),
        (["seeds=[]"], "seeds=[] selects no seed"),
        (["sweep.seeds=[]"], "sweep.seeds=[] leaves no seed to run: name some."),
        (["seeds=[-1]"], "seeds=[-1]: seeds must be at least 0 and at most 4294967295."),
        (["seeds=[99999999999]"], "seeds must be at least 0 and at most 4294967295."),
        (["seeds=[1,1]"], "seeds=[1, 1] names a seed twice: leave the second out."),
        (["sweep.overrides=['seed=5']"], "`seed` belongs to a command, not to a trial: leave it out of the sweep's"),
        (["sweep.overrides=['force=true','name=foo']"], "`name`, `force` belongs to a command, not to a trial"),
        (["sweep.overrides=['seeds=[1,2]']"], "`seeds` belongs to a command, not to a trial"),
        (["sweep.overrides=['sweep.search.seed=3']"], "`sweep.search` belongs to a command, not to a trial"),
        (["data.lowercase=true,false"], "data.lowercase: dev.bleu depends on it, so trials could not be"),
        (["sweep.search.metrics=[dev_ppl]", "data.vocabulary=400,900"], "data.vocabulary: dev_ppl depends on it"),
        (["trainer.limit_test=5,9"], "trainer.limit_test: dev.bleu depends on it"),
        (
            ["sweep.search.metrics=[dev_ppl]", "trainer.limit_val_batches=1", "recipe.batch_tokens=512,1024"],
            "recipe.batch_tokens: dev_ppl depends on it",
        ),
        (["model.h=2,3"], "model.h=3 does not divide model.d_model=128"),
    ],
)
def test_faults(defined: Callable[..., Definition], arguments: list[str], words: str) -> None:
    assert words in faults(defined, *arguments)


@pytest.mark.slow
def test_overrides_of_trials_cannot_move_them_away_from_their_study() -> None:
    text = faults(lambda *lines: define(lines), "sweep=search_toy", "sweep.overrides=['sweep.name=zz','runs=x']")
    place = "conf/variation/quickstart/transformer.yaml and of the sweep's overrides"
    assert f"`runs`, `sweep.name` belongs to a command, not to a trial: leave it out of {place}." in text


@pytest.mark.slow
def test_a_pruner_counts_the_seeds_that_are_run(defined: Callable[..., Definition]) -> None:
    words = ("sweep.search.pruner.kind=median", "trainer.val_bleu=10")
    assert defined("seed=3", "sweep.seeds=[1,2]", *words).seeds == (3,)
    assert "one seed per trial" in faults(defined, "sweep.seeds=[1,2]", *words)


@pytest.mark.slow
def test_all_faults_come_at_once(defined: Callable[..., Definition]) -> None:
    text = faults(defined, "sweep.search.metrics=[x]", "rows=[a]", "model.h=2,3", model__dropout="interval(0,2)")
    for words in ("there is no 'x'", "rows=…", "model.h=3 does not divide", "model.dropout=2.0: must be"):
        assert words in text


@pytest.mark.slow
def test_a_search_without_a_space_is_a_fault(defined: Callable[..., Definition]) -> None:
    text = "sweep.search.space is empty: name what to vary, as in model.dropout=interval(0,0.3) model.h=2,4, or in"
    assert text in faults(defined, model__dropout=None)
    listed = faults(defined, "++model.options.width=[16,32]", model__dropout=None)
    assert "model.options.width=[16,32] is a single value, a list: type choices without brackets." in listed


@pytest.mark.slow
def test_options_of_a_model_of_another_package_are_searched(
    defined: Callable[..., Definition], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests/contract/foreign_package")
    kind = "model.kind=foreign_variations.model:MeanModel"
    for space in ("++model.options.width=16,32", "++sweep.search.space={model.options.width: [16,32]}"):
        definition = defined(kind, space, model__dropout=None)
        (config,) = definition.configs(0, {"model.options.width": 16})
        assert config.model.options == {"width": 16}
    space = "++sweep.search.space={model.options.width: [16,32]}"
    (one,) = defined(kind, space, "++model.options.width=8").dimensions  # Hydra's `++` is no part of the key
    assert one.key == "model.dropout"


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["mine", "mine,quick"])
def test_trials_have_the_settings_with_which_their_search_was_defined(
    defined: Callable[..., Definition], tmp_path: Path, config_dir: Path, recipe: str
) -> None:
    file = config_dir / "recipe/mine.yaml"
    file.parent.mkdir()
    quick = (CONF / "recipe/quick.yaml").read_text(encoding="utf-8")
    file.write_text(quick, encoding="utf-8")
    definition = defined(recipe=recipe, recipe__warmup="10,20")
    values = {"recipe": "mine", "recipe.warmup": 20, "model.dropout": 0.1}
    for edit in (lambda: file.write_text(quick.replace("lr: 0.5", "lr: 2.0"), encoding="utf-8"), file.unlink):
        edit()
        (config,) = definition.configs(0, values)
        assert (config.recipe.lr, config.recipe.warmup, config.branch.warmup) == (0.5, 20, 2)


@pytest.mark.slow
def test_arguments_of_a_callback_are_searched_from_those_of_the_baseline(defined: Callable[..., Definition]) -> None:
    words = ("sweep.search.baseline=quickstart/transformer", "callbacks=early_stopping")
    found = defined(*words, "callbacks.early_stopping.patience=range(2,5)", model__dropout=None)
    assert found.enqueued == {"callbacks.early_stopping.patience": 3}
    text = faults(defined, *words, "+callbacks.early_stopping.stopping_threshold=interval(1,2)", model__dropout=None)
    assert "has no callbacks.early_stopping.stopping_threshold, which the search varies: set it in the row's" in text


@pytest.mark.slow
def test_defaults_of_a_class_of_ones_own_are_searched_from(defined: Callable[..., Definition], own_model: str) -> None:
    words = ("sweep.search.baseline=quickstart/transformer", f"model.kind={own_model}")
    found = defined(*words, "model.options.width=range(8,40)", model__dropout=None)
    assert found.enqueued == {"model.options.width": 32}
