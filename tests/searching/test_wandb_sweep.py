"""Sweeps written for W&B's agents: valid under W&B's schema, with train.py accepting every combination."""

import importlib.util
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from suite import sampled

from variations.commands.preflight import preflight
from variations.configuration.compose import compose_run
from variations.searching.wandb_sweep import sweep_yaml
from variations.store.naming import run_folder
from variations.sweeping.jobs import expand
from variations.sweeping.table_jobs import single_run
from variations.system.errors import ConfigError
from variations.tasks.translation.config import TranslationConfig


def written(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(sweep_yaml(arguments))
    return found


def line(facts: dict[str, Any], **values: Any) -> list[str]:
    """Return the arguments that an agent passes to `python src/train.py`."""
    fixed = [word for word in facts["command"] if not word.startswith("${")]
    return [*fixed, *(f"{key}={value}" for key, value in values.items())]


@pytest.mark.slow
def test_a_table_is_a_grid_of_rows_and_seeds_with_the_same_folders_as_under_multirun() -> None:
    arguments = ("sweep=quickstart", "seeds=[1,2]", "rows=[transformer,uniform]", "trainer.max_steps=500")
    facts = written(*arguments)
    assert (facts["method"], facts["program"], facts["name"]) == ("grid", "src/train.py", "quickstart")
    assert facts["parameters"] == {
        "variation": {"values": ["quickstart/transformer", "quickstart/uniform"]},
        "seed": {"values": [1, 2]},
    }
    combinations = itertools.product(facts["parameters"]["variation"]["values"], facts["parameters"]["seed"]["values"])
    lines = [line(facts, variation=row, seed=seed) for row, seed in combinations]
    jobs = expand(arguments)
    assert {run_folder(compose_run(words)) for words in lines} == {job.folder for job in jobs}
    assert {compose_run(words).trainer.max_steps for words in lines} == {500}
    for words in lines:
        assert preflight(words, TranslationConfig, "train", runs_models=True) == []
        assert compose_run(single_run(words)).sweep.typed == ["trainer.max_steps=500"]  # the rest is the file's


@pytest.mark.slow
def test_an_agent_may_run_rows_that_do_not_use_an_override_of_the_sweeps_file() -> None:
    facts = written("sweep=quickstart", "sweep.overrides=['size=tiny','data=toy','branch.impl=naive']")
    words = line(facts, variation="quickstart/transformer", seed=1)
    assert "branch.impl=naive" in words
    assert preflight(words, TranslationConfig, "train", runs_models=True) == []


@pytest.mark.slow
def test_a_search_keeps_its_space_its_metric_and_its_total() -> None:
    facts = written("sweep=search_toy", "model.N=range(1,4)", "model.d_k=null,16")
    assert (facts["method"], facts["run_cap"]) == ("bayes", 8)
    assert facts["metric"] == {"name": "dev/bleu", "goal": "maximize"}
    found = facts["parameters"]
    assert found["model.dropout"] == {"distribution": "uniform", "min": 0.0, "max": 0.3}
    assert found["recipe.lr"] == {"distribution": "log_uniform_values", "min": 0.1, "max": 2.0}
    assert found["recipe.warmup"] == {"values": [50, 100, 150, 200, 250, 300, 350, 400]}
    assert found["model.norm"] == {"values": ["post", "pre"]}
    assert found["model.N"] == {"distribution": "int_uniform", "min": 1, "max": 3}
    assert found["model.d_k"] == {"values": ["null", 16]}
    words = line(facts, **{"model.dropout": 0.1, "recipe.lr": 1.0, "model.norm": "pre", "model.d_k": "null", "seed": 1})
    assert preflight(words, TranslationConfig, "train", runs_models=True) == []
    assert compose_run(words).model.d_k is None


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "ends_early"), [("dev.bleu", True), ("dev_ppl", True), ("dev.chrf", False)])
def test_hyperband_is_wandbs_own_from_the_first_validation_if_validations_log_the_metric(
    metric: str, ends_early: bool
) -> None:
    facts = written("sweep=search_toy", "sweep.search.pruner.kind=hyperband", f"sweep.search.metrics=[{metric}]")
    expected = {"type": "hyperband", "min_iter": 1, "eta": 3} if ends_early else None
    assert facts.get("early_terminate") == expected


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "cap"), [("2", 4), ("16", None), ("null", None)])
def test_a_part_of_a_grid_keeps_its_total(trials: str, cap: int | None) -> None:
    given = ["model.dropout=0", "recipe.lr=0.5", "sweep.search.sampler=grid", "sweep.search.pruner.kind=none"]
    facts = written("sweep=search_toy", "seeds=[1,2]", *given, f"sweep.search.trials={trials}")
    assert (facts["method"], facts.get("run_cap")) == ("grid", cap)  # of 8 × 2 cells, each with two seeds


@pytest.mark.slow
def test_what_wandb_has_no_word_for_is_said() -> None:
    with pytest.raises(ConfigError, match="one metric"):
        sweep_yaml(["sweep=search_pareto"])
    with pytest.raises(ConfigError, match=r"would choose among the seeds as well: type seeds=\[1\]"):
        sweep_yaml(["sweep=search_toy", "seeds=[1,2]", "sweep.search.pruner.kind=none"])
    with pytest.raises(ConfigError, match=r"leave out the keys with several values \(model\.h\)"):
        sweep_yaml(["sweep=quickstart", "model.h=2,4"])
    with pytest.raises(ConfigError, match="name one with sweep=NAME"):
        sweep_yaml(["model=weighted"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sampled(["quickstart", "attention_table3", "weighted_claims", "search_toy", "search_dropout"], 3)
)
def test_wandbs_own_schema_holds(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = importlib.util.find_spec("sweeps")
    path = Path(found.origin or "").parent / "config" / "schema.json" if found else Path()
    if not path.is_file():  # a module of ours may have the package's name
        pytest.skip("W&B's package `sweeps`, which holds the schema, is not installed")
    schema = json.loads(path.read_text())
    sweep = written(f"sweep={name}")
    sweep.pop("run_cap", None)  # the service accepts it, but the package's schema lacks it
    faults = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(sweep)]
    assert faults == []
