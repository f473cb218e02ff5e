"""A task defined in this file: tables, significance tests, searches, outcomes read its runs through the seam only."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from variations.configuration import tasks
from variations.configuration.schema import RunConfig, SearchConfig, SweepConfig
from variations.searching.objectives import objective_faults
from variations.store.atomic import write_json, write_yaml
from variations.store.rows import RowDefinition, SweepDefinition
from variations.system.errors import DataError
from variations.tables.chance import SignificanceConfig
from variations.tables.grid import lay_out
from variations.tables.table import Table, build, document
from variations.tasks.base import Measure, TestedRun
from variations.tasks.task import Task

MSE = Measure("test.mse", "test MSE", False, "mean squared error", items="points", digits=4)
X = np.linspace(-1, 1, 200)


@dataclass
class Line(Task):
    """Regression on a line."""

    name: str = "line"
    schema: type[RunConfig] = RunConfig
    metrics: Sequence[str] = ("test.mse",)
    incidental: Sequence[str] = ()

    def measure(self, key: str) -> Measure:
        return MSE if key == MSE.key else super().measure(key)

    def items(self, run: TestedRun, measure: Measure, *, cache: bool = True) -> Any:
        path = run.folder.path / "errors.npy"
        if not path.is_file():
            raise DataError("no errors are stored")
        errors = np.load(path)
        return np.stack([errors, np.ones_like(errors)], axis=1)  # (points, 2)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    task = Line()
    known = tasks.named
    monkeypatch.setattr(tasks, "named", lambda name: task if name == "line" else known(name))
    return task


def squared_errors(slope: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    y = X + np.random.default_rng(99).normal(0, 0.1, len(X))
    return (y - (slope + rng.normal(0, 0.01)) * X) ** 2


@pytest.fixture
def table(line: Line, tmp_path: Path) -> Table:
    """Two rows with two seeds each: a slope that fits, and one that does not."""
    for row, slope in (("right", 1.0), ("wrong", 0.5)):
        for seed in (1, 2):
            folder = tmp_path / "lines" / row / f"seed{seed}"
            folder.mkdir(parents=True)
            errors = squared_errors(slope, seed)
            write_yaml(
                folder / "config.yaml",
                {"task": "line", "seed": seed, "data": {"name": "a line"}, "trainer": {"devices": 1}},
            )
            write_json(folder / "result.json", {"scores": {"test": {"mse": {"value": float(errors.mean())}}}})
            write_json(folder / "environment.json", {})
            write_json(folder / "status.json", {"state": "finished"})
            np.save(folder / "errors.npy", errors)
    rows = (RowDefinition("right", "right"), RowDefinition("wrong", "wrong", base="right"))
    sweep = SweepDefinition("lines", rows, (1, 2), None, "mse")
    return build(sweep, tmp_path, SignificanceConfig(n=200))


def test_a_table_measures_and_tests_what_the_task_declares(table: Table) -> None:
    right, wrong = table.lines
    expected = np.mean([squared_errors(0.5, seed).mean() - squared_errors(1.0, seed).mean() for seed in (1, 2)])
    assert table.primary == MSE
    assert wrong.delta["test.mse"].mean == pytest.approx(expected)
    assert wrong.test is not None
    assert wrong.test.across.difference == pytest.approx(expected)
    assert wrong.test.across.low > 0.05
    assert wrong.test.significant
    assert wrong.test.across.variance == ("items", "seeds")
    assert right.untested is None


def test_the_printed_table_speaks_of_the_tasks_own_things(table: Table) -> None:
    grid = lay_out(table)
    text = " ".join(
        [*(cell.text for row in grid.rows for cell in row), *grid.remarks, *(note for _, note in grid.notes)]
    )
    assert "test MSE" in [column.title for column in grid.columns]
    assert f"{table.lines[0].measured['test.mse'].mean:.4f}" in text
    assert "Measured on a line." in text
    assert "chance in seeds and points together" in text
    assert not any(word in text for word in ("BLEU", "sentence", "sub-word", "beam", "translat"))
    assert document(table)["metric"] == "test.mse"


def test_differences_have_the_decimals_of_their_measure(table: Table) -> None:
    grid = lay_out(table)
    cells = {column.key: grid.rows[1][at].text for at, column in enumerate(grid.columns)}
    test, found = table.lines[1].test, table.lines[1].delta["test.mse"]
    assert test is not None
    assert cells["delta"] == f"+{found.mean:.4f} ± {found.sd:.4f}"
    assert cells["ci"] == f"[+{test.across.low:.4f}, +{test.across.high:.4f}]"


def test_a_further_measure_that_a_seed_lacks_is_marked(table: Table, line: Line, monkeypatch: Any) -> None:
    dev = Measure("dev.mse", "dev MSE", False, digits=4, set="dev")
    monkeypatch.setattr(Line, "measure", lambda self, key: {"test.mse": MSE, "dev.mse": dev}[key])
    monkeypatch.setattr(Line, "columns", lambda self, metric: [MSE, dev])
    for path in table.store.rglob("result.json"):
        value = None if path.match("wrong/seed2/*") else 0.5
        scores = json.loads(path.read_text())["scores"] | {"dev": {"mse": {"value": value}}}
        write_json(path, {"scores": scores})
    grid = lay_out(build(table.sweep, table.store, SignificanceConfig(n=200)))
    at = next(i for i, column in enumerate(grid.columns) if column.key == "dev.mse")
    assert grid.rows[0][at].marks == ()
    assert grid.rows[1][at].text == "0.5000"
    assert [text for mark, text in grid.notes if (mark,) == grid.rows[1][at].marks] == ["mean of 1 of 2 seeds"]


def test_small_scores_that_their_items_contradict_are_told(table: Table) -> None:
    """A thousandth of an error is no rounding if a measure has four decimals."""
    path = table.store / "lines" / "wrong" / "seed1" / "result.json"
    stored = json.loads(path.read_text())["scores"]["test"]["mse"]["value"]
    write_json(path, {"scores": {"test": {"mse": {"value": stored + 0.001}}}})
    again = build(table.sweep, table.store, SignificanceConfig(n=200))
    assert again.lines[1].test is not None
    assert again.lines[1].test.contradictions == (
        f"seed 1: the score in result.json is {stored + 0.001:.4f}, but that of its stored points, which are tested, "
        f"is {stored:.4f}",
    )


def test_a_measure_that_some_draws_leave_undefined_is_not_tested(table: Table, monkeypatch: Any) -> None:
    def items(self: Line, run: TestedRun, measure: Measure, *, cache: bool = True) -> Any:
        errors = np.load(run.folder.path / "errors.npy")
        counted = np.arange(len(errors)) < 3  # the others have no weight: a draw without these is 0/0
        return np.stack([errors * counted, counted], axis=1)

    monkeypatch.setattr(Line, "items", items)
    wrong = build(table.sweep, table.store, SignificanceConfig(n=200)).lines[1]
    assert wrong.test is None
    assert wrong.untested == (
        "not tested: chance in the points cannot be estimated: the measure is not a number for some of the draws"
    )


def test_items_that_the_task_cannot_read_are_told(table: Table, monkeypatch: Any) -> None:
    monkeypatch.setattr(Line, "items", lambda self, run, measure, *, cache=True: np.load(run.folder.path / "none.npy"))
    (note,) = [build(table.sweep, table.store, SignificanceConfig(n=200)).lines[1].untested]
    assert note is not None
    assert note.startswith("not tested: its points cannot be read (FileNotFoundError: [Errno 2] No such file")


def test_missing_items_are_told(table: Table) -> None:
    store = table.store
    for path in store.rglob("errors.npy"):
        path.unlink()
    again = build(table.sweep, store, SignificanceConfig(n=200))
    assert again.lines[1].untested == "not tested: no errors are stored"


def test_a_search_takes_the_tasks_measures_and_directions(line: Line) -> None:
    found, faults = objective_faults(SearchConfig(metrics=["test.mse", "parameters"]), line)
    assert faults == []
    assert [(each.key, each.direction, each.measure.label) for each in found] == [
        ("test.mse", "minimize", "test MSE"),
        ("parameters", "minimize", "parameters"),
    ]
    assert found[0].measure.value({"scores": {"test": {"mse": {"value": 0.25}}}}) == 0.25
    _, faults = objective_faults(SearchConfig(metrics=["test.bleu"]), line)
    assert faults == [
        "sweep.search.metrics: There is no measure 'test.bleu'. Did you mean 'test.mse'? Valid: test.mse."
    ]
    assert SweepConfig().metric == "bleu"
    assert line.unknown_metric("bleu") == "There is no measure 'test.bleu'. Did you mean 'test.mse'? Valid: test.mse."
