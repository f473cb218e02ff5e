"""Intervals, p and marks in every format."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from variations.tables.chance import p_text
from variations.tables.formats import FORMATS, render, terminal
from variations.tables.table import Table, document

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def tested(put: Callable[..., list[str]], read: Callable[..., Table]) -> Table:
    for seed in (1, 2):
        put("base", seed, 0.3)
        put("good", seed, 0.05)
        put("same", seed, 0.3, steps=600)
    return read(seeds=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"csv", "json"}))
def test_every_printed_format_has_interval_p_and_mark(tested: Table, name: str) -> None:
    text = render(tested, name)
    assert "CI" in text
    test = tested.lines[1].test
    assert test is not None
    assert f"{test.across.p:.3f}" in text
    assert "steps 600 v. 1,200" in text
    mark = {"terminal": "*", "markdown": "<sup>\\*</sup>", "latex": "$^{\\mathrm{*}}$"}[name]
    assert mark in text


@pytest.mark.slow
def test_json_and_csv_hold_the_tests_unrounded(tested: Table) -> None:
    row = json.loads(render(tested, "json"))["rows"][1]
    test = tested.lines[1].test
    assert test is not None
    assert row["significance"]["across_seeds"]["p"] == test.across.p
    assert sorted(row["significance"]["seeds"]["1"]) == ["bootstrap", "randomisation"]
    assert document(tested)["significance"]["n"] == 200
    line = list(csv.DictReader(io.StringIO(render(tested, "csv"))))[1]
    assert float(line["test.low"]) == test.across.low
    assert (line["test.significant"], line["test.seeds"], line["device"]) == ("True", "2", "CPU")


@pytest.mark.slow
@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_terminal_of_usual_width_keeps_difference_and_interval(tested: Table, width: int) -> None:
    text = terminal(tested, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "*" in text
    assert "95 % CI" in text


def test_one_p_is_printed_alike_in_tables_and_in_the_dashboard() -> None:
    chances = (1 / 1001, 0.0124, 0.0625, 0.0005, 0.00049, 1 / 10_001)
    assert [p_text(p) for p in chances] == ["0.001", "0.012", "0.063", "0.001", "< 0.001", "< 0.001"]
    script = (PROJECT / "src/variations/dashboard/static/format.js").read_text()
    assert 'V.p = (value) => (known(value) ? (value < 0.0005 ? "< 0.001" : V.fixed(value, 3)) : NONE);' in script
