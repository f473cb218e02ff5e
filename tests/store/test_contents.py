"""A run whose files do not contain what runs write is named as broken; the other runs of its table are read."""

import hashlib
import json
import math
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.schema import SweepConfig
from variations.dashboard.api import Api
from variations.dashboard.store import Store
from variations.store.atomic import json_text
from variations.store.contents import config_fault, exchanged, intact_measurements, no_score, result_fault, sealed
from variations.store.rows import define
from variations.tables.formats import render
from variations.tables.table import build

TOO_LARGE = "it contains the number"
NAN = "its test MSE is nan, not a finite number"


def changed(path: Path, text: str, key: str) -> None:
    """Write the JSON `text` as the value of a dotted key."""
    values = json.loads(path.read_text(encoding="utf-8"))
    *parts, last = key.split(".")
    node = values
    for part in parts:
        node = node[part]
    node[last] = "@"
    path.write_text(json.dumps(values).replace('"@"', text), encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "text", "fault"),
    [
        ("scores.test.bleu.value", "1e999", f"{TOO_LARGE} inf"),
        ("scores.test.bleu.value", "1" * 400, f"{TOO_LARGE} 111"),
        ("scores.test.bleu.value", '"31"', "result.json: scores.test.bleu is '31', not a number"),
        ("scores.test", '"31"', "result.json: scores.test is '31', not a number"),
        ("loss.dev_ppl", "[1]", "result.json: loss.dev_ppl is [1], not a number"),
        ("parameters", '"many"', "result.json: parameters is 'many', not a number"),
        ("parameters", "-5", "result.json: parameters is -5, which no run writes"),
        ("seconds", "true", "result.json: seconds is True, not a number"),
        ("seconds", "1e300", "result.json: seconds is 1e+300, which no run writes"),
        ("flops", "-1.0", "result.json: flops is -1.0, which no run writes"),
        ("scores.test.bleu.value", "3100", "result.json: scores.test.bleu is 3100, but can only be between 0 and 100"),
        ("scores.test.bleu.value", "-0.5", "result.json: scores.test.bleu is -0.5, but can only be between 0 and 100"),
        ("loss.dev_ppl", "-3", "result.json: loss.dev_ppl is -3, but can only be at least 0"),
        ("loss.dev_ppl", "3.5", "result.json was edited: its sha256 is not that of its other entries"),
        ("scores.test.bleu.value", "33.0", "result.json was edited: its sha256 is not that of its other entries"),
    ],
)
def test_a_result_with_impossible_numbers(
    key: str, text: str, fault: str, make_run: Callable[..., Any], store: Path
) -> None:
    for seed in (1, 2):
        damaged = make_run("papers", "base", seed, 30.0 + seed)
    changed(damaged.path / "result.json", text, key)
    table = build(define(SweepConfig(name="papers", seeds=[1, 2]), store=store), store)
    (gap,) = table.gaps
    assert gap.startswith("base, seed 2: broken (") and fault in gap
    assert table.lines[0].row.finished[0].seed == 1
    assert "31.00" in render(table, "markdown")
    runs = json.loads(Api(Store(store)).answer("sweep/papers"))["runs"]
    assert sorted(run["state"] for run in runs) == ["broken", "finished"]


def test_a_result_may_have_another_layout_or_no_hash(make_run: Callable[..., Any]) -> None:
    path = make_run("papers", "base", 1, 30.0).path / "result.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result_fault(json.loads(json.dumps(result, indent=7))) is None
    del result["sha256"]  # as older versions wrote it
    assert result_fault(result) is None
    assert "was edited" in str(result_fault({**result, "sha256": None}))


def test_a_result_knows_its_configuration_and_its_measurements() -> None:
    config = {"model": {"h": 8}, "seed": 1, "name": "a", "variation": {"row": "a"}}
    result = sealed({"scores": {}, "sha256": "former"}, config, b'{"step": 1}\n')
    hashed = {name: hashlib.sha256(text).hexdigest() for name, text in (("metrics", b'{"step": 1}\n'), ("none", b""))}
    assert result["metrics_sha256"] == hashed["metrics"]
    assert result["config_sha256"] == hashlib.sha256(b'{"model": {"h": 8}, "seed": 1}').hexdigest()
    rest = json_text({key: value for key, value in result.items() if key != "sha256"}, indent=None)
    assert result["sha256"] == hashlib.sha256(rest.encode()).hexdigest()
    assert exchanged({**config, "name": "b", "variation": {}}, result) is None  # as after a row was renamed
    for changed in ({**config, "seed": 2}, {**config, "model": {"h": 16}}):
        assert "config.yaml is not the configuration of result.json" in str(exchanged(changed, result))
    assert exchanged(config, {"scores": {}}) is None  # of an older version
    assert (
        exchanged({"day": date(2026, 1, 1)}, result)
        == "config.yaml: Cannot store a date in a run folder: datetime.date(2026, 1, 1)"
    )
    assert intact_measurements(b'{"step": 1}\n', result)
    assert not intact_measurements(b'{"step": 2}\n', result)
    assert intact_measurements(b'{"step": 2}\n', {}) and not intact_measurements(b"\0\0", {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trainer.max_steps", "abc"),
        ("model.d_model", ["a"]),
        ("recipe.lr", {}),
        ("trainer.max_steps", math.inf),
        ("trainer.max_steps", 10**400),
    ],
)
def test_a_configuration_with_other_things_than_numbers(key: str, value: Any, make_run: Callable[..., Any]) -> None:
    folder = make_run("papers", "base", 1, 30.0)
    config = folder.config()
    assert config_fault(config) is None
    part, _, name = key.partition(".")
    config[part][name] = value
    assert config_fault(config) == f"config.yaml: {key} is {value!r:.60}, not a finite number"
    assert config_fault({**config, "task": "of_a_removed_package"}) is None
    assert config_fault({**config, "task": ["a"]}) == "config.yaml: task is ['a'], not a name"
    told = "config.yaml: variation.published does not contain keys and values"
    assert config_fault({**config, "variation": {"published": "25.8"}}) == told


def test_a_usual_result_has_no_fault() -> None:
    result = {"scores": {"test": {"bleu": {"value": None}, "f1": 3}}, "loss": {"dev_nll": None}, "flops": None}
    assert result_fault(result) is None
    assert result_fault({}) is None
    most = {"scores": {"test": {"bleu": {"value": 100.00000000000001}, "chrf": 0, "of_a_later_version": 1234}}}
    assert result_fault(most) is None
    assert result_fault({"scores": {"test": {"failed": 20}}}, "question_answering") is None
    told = "result.json: scores.test.failed is 21, but can only be between 0 and 20"
    assert result_fault({"scores": {"test": {"failed": 21}}}, "question_answering") == told
    assert result_fault({"scores": {"test": {"f1": 101}}}, "parsing") is not None
    assert result_fault({"scores": {"test": {"f1": 101}}}, "of_a_removed_package") is None
    assert result_fault({"scores": [1]}) == "result.json: scores does not contain keys and values"


def test_further_entries_of_a_task_may_be_any_numbers() -> None:
    assert result_fault({"scores": {"test": {"bleu": 30.0}}, "log_likelihood": -350.3, "flops": 2.0}) is None


@pytest.mark.parametrize(
    ("result", "compared", "fault"),
    [
        ({"scores": {"test": {"mse": {"value": 0.5}}}}, ("test MSE", 0.5), None),
        ({"scores": {"dev": {"mse": {"value": 0.5}}}}, ("test MSE", None), None),  # another set was tested
        ({"loss": {"dev_nll": 0.5}}, None, None),
        ({"error": 0.5}, ("error", 0.5), None),  # a task's own entry
        ({"scores": {"test": {"mse": {"value": math.nan}}}}, ("test MSE", math.nan), NAN),
        ({"scores": {"test": {"mse": {"value": None}}}}, ("test MSE", None), "it has no scores"),
        ({"score": {"test": {"mse": {"value": 0.5}}}, "steps": 3}, ("test MSE", None), "it has no scores"),
    ],
)
def test_a_result_that_tells_nothing_is_not_stored(
    result: dict[str, Any], compared: tuple[str, float | None] | None, fault: str | None
) -> None:
    assert no_score(result, compared) == fault
