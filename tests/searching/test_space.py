"""Search spaces: every valid form of a dimension, and the messages for invalid ones."""

from typing import Any

import optuna
import pytest

from variations.configuration.compose import loader
from variations.configuration.overrides import leaf_keys
from variations.configuration.tasks import schema_of
from variations.searching.space import Dimension, read_space

KEYS = leaf_keys(schema_of(None))


def one(key: str, value: Any) -> Dimension:
    dimensions, faults = read_space({key: value}, KEYS, loader())
    assert faults == []
    return dimensions[0]


def fault(key: str, value: Any) -> str:
    dimensions, faults = read_space({key: value}, KEYS, loader())
    assert dimensions == []
    return "\n".join(faults)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("model.dropout", "interval(0, 0.3)", {"type": "float", "low": 0.0, "high": 0.3, "step": None, "log": False}),
        ("model.N", "interval(1, 6)", {"type": "int", "low": 1, "high": 6, "step": 1, "log": False}),
        ("model.N", "range(1, 7, 2)", {"type": "int", "low": 1, "high": 5, "step": 2, "log": False}),
        (
            "recipe.lr",
            "tag(log, interval(0.0001, 0.01))",
            {"type": "float", "low": 0.0001, "high": 0.01, "step": None, "log": True},
        ),
        (
            "model.dropout",
            "range(0, 0.35, 0.1)",
            {"type": "float", "low": 0.0, "high": pytest.approx(0.3), "step": 0.1, "log": False},
        ),
        ("recipe.lr", "range(2, 2.5, 0.5)", {"type": "float", "low": 2.0, "high": 2.0, "step": 0.5, "log": False}),
        (
            "model.d_ff",
            "tag(log, interval(64, 1024))",
            {"type": "int", "low": 64, "high": 1024, "step": 1, "log": True},
        ),
        ("model.h", "choice(2, 4)", {"choices": [2, 4]}),
        ("model.h", "2,4", {"choices": [2, 4]}),
        ("model.h", [2, 4], {"choices": [2, 4]}),
        ("size", "tiny,small", {"choices": ["tiny", "small"]}),
        ("model.d_k", [None, 16], {"choices": [None, 16]}),
    ],
)
def test_forms(key: str, value: Any, wanted: dict[str, Any]) -> None:
    found = one(key, value)
    assert found.plain() == wanted
    assert one(key, found.form()).plain() == wanted


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model.dropuot", "interval(0,1)", "Did you mean model.dropout"),
        ("model.dropout", "interval(0,1.5)", "model.dropout=1.5: must be at least 0 and less than 1"),
        ("model.hops", [2, 3], "It is a key of task=question_answering."),
        ("model.dropout", 0.3, "is not a space"),
        ("model.dropout", "0.3", "is not a space"),
        ("model.dropout", "interval(0.3,0.1)", "start 0.3 must be less than its end 0.1"),
        ("model.dropout", {"low": 0, "high": 0.1}, "is not a space: write interval(0,0.3)"),
        ("model.dropout", "tag(lgo, interval(0,0.3))", "tag lgo is unknown; valid: log"),
        ("recipe.warmup", "tag(log, range(50, 450, 50))", "a tag (log) applies to an interval only, not to a range or"),
        ("model.dropout", "tag(log, choice(0.1, 0.2))", "a tag (log) applies to an interval only, not to a range or"),
        ("model.dropout", "interval(0,inf)", "both finite"),
        ("model.dropout", "tag(log, interval(0,0.3))", "must start above 0"),
        ("model.N", "range(1, 4, 0.5)", "takes only whole numbers"),
        ("model.N", "interval(1.5, 4)", "must have whole ends"),
        ("model.N", "range(4, 4)", "this range is empty"),
        ("model.norm", ["post", "per"], "model.norm=per: valid choices are post, pre. Did you mean 'pre'?"),
        ("model.h", [2], "at least two choices"),
        ("model.h", [2, 2], "there is a duplicate"),
        ("model.h", [[1], 2], "choices are numbers, words, true, false or null"),
        ("size", ["tiny", "hugh"], "there is no such option"),
        ("seed", [1, 2], "Seeds of a trial are set by sweep.seeds"),
        ("runs", ["a", "b"], "cannot be searched"),
        ("model.dropout", "interval(0", "cannot be read"),
    ],
)
def test_faults_name_the_key_and_what_is_valid(key: str, value: Any, words: str) -> None:
    assert words in fault(key, value)
    assert fault(key, value).startswith("sweep.search.space: ")


def test_all_faults_are_told_at_once() -> None:
    _, faults = read_space({"model.N": "range(2,1)", "model.dropout": 3, "model.h": [2, 4]}, KEYS, loader())
    assert [line.split(":")[1].strip().split(" ")[0] for line in faults] == ["model.N", "model.dropout"]


def test_cells_ends_and_membership() -> None:
    steps = one("model.dropout", "range(0, 0.35, 0.1)")
    assert (steps.cells(), steps.ends(), steps.holds(0.2), steps.holds(0.25)) == (4, (0.0, steps.high), True, False)
    whole = one("model.N", "range(1, 7, 2)")
    assert [value for value in range(8) if whole.holds(value)] == [1, 3, 5]
    assert one("model.dropout", "interval(0,0.3)").cells() is None
    tenths = one("model.dropout", "range(0.1, 0.4, 0.1)")
    assert (tenths.cells(), tenths.ends()) == (3, (0.1, 0.3))  # Hydra's sum comes to less than 0.4
    assert tenths.override(0.1 + 2 * 0.1) == "model.dropout=0.3"  # Optuna's multiple is 0.30000000000000004
    rates = one("model.dropout", [0, 0.1])
    assert (rates.holds(0.0), rates.holds(0), rates.holds(False)) == (True, True, False)
    assert "there is a duplicate in 0, 0.0" in fault("model.dropout", [0, 0.0])
    choice = one("model.attention_bias", [True, False])
    assert (choice.holds(True), choice.holds(1)) == (True, False)


def test_a_value_is_written_as_hydra_reads_it() -> None:
    assert one("recipe.lr", "interval(0.00001,1)").override(1e-05) == "recipe.lr=1e-05"
    assert one("model.attention_bias", [True, False]).override(False) == "model.attention_bias=false"
    assert one("model.d_k", [None, 16]).override(None) == "model.d_k=null"
    assert one("size", "tiny,small").override("tiny") == "size='tiny'"


def test_optuna_draws_within_the_space() -> None:
    space = {"model.N": "range(1,7,2)", "recipe.lr": "tag(log,interval(0.1,2))", "size": "tiny,small"}
    dimensions, _ = read_space(space, KEYS, loader())
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    for _ in range(20):
        trial = study.ask()
        assert all(dimension.holds(dimension.suggest(trial)) for dimension in dimensions)


def test_keys_are_those_of_the_trials_task() -> None:
    keys = leaf_keys(schema_of("question_answering"))
    dimensions, faults = read_space({"model.hops": [1, 3]}, keys, loader())
    assert faults == [] and dimensions[0].choices == (1, 3)
    _, faults = read_space({"model.hops": [1, 3]}, KEYS, loader())
    assert "model.hops" in faults[0]
