"""Rows in headless Chromium: grouped by a key that some of them have not, counted where they are drawn, and priced."""

from pathlib import Path
from typing import Any

import browser_store
import pytest

from variations.system.quantities import hours_text

pytestmark = pytest.mark.slow


@pytest.fixture
def optional(serve: Any, tmp_path: Path) -> str:
    """The address of a sweep: two rows without a key, and one that sets it to the text `none`."""
    for at, options in enumerate(({}, {"gate": "none"}, {})):
        name = f"row{at}"
        settings = {"model__kind": "my_model:Gated", "model__options": options, "model__h": 1 if at == 2 else 4}
        browser_store.write(tmp_path, name, sweep="own", base="row0", bleu=70.0 + at, **settings)
    address: str = serve(tmp_path)
    return address


def test_an_absent_key_is_not_the_value_none_in_table_and_curves(tab: Any, optional: str) -> None:
    tab.open(optional, view="table", group="model.options.gate")
    assert tab.texts("tr.group th") == [
        "options.gate = none: 1 row, mean of test BLEU: 71.00",
        "options.gate = –: 2 rows, mean of test BLEU: 71.00",
    ]
    tab.open(optional, view="curves", group="model.options.gate")
    assert tab.texts(".legend li") == ["options.gate = none (1 run)", "options.gate = – (2 runs)"]


def test_an_absent_key_is_a_place_of_its_own_on_its_axis(tab: Any, optional: str) -> None:
    tab.open(optional, view="keys", keys="all")
    axis = tab.page.locator("svg.parallel .axis", has_text="options.gate")
    assert axis.locator("text.tick tspan").all_text_contents() == ["none", "–"]
    values = "() => ['none', null].map(V.coordinate('gate', ['none', null]).share)"
    assert tab.page.evaluate(values) == [0.25, 0.75]


def test_numbers_that_share_six_figures_are_different_groups_and_places(tab: Any, serve: Any, tmp_path: Path) -> None:
    steps = (1_000_000, 1_000_001, 1_000_004)
    for at, (seed, most) in enumerate(zip((20250101, 20250102, 20250103), steps, strict=True)):
        changes = {"data__seed": seed, "trainer__max_steps": most}
        browser_store.write(tmp_path, f"row{at}", sweep="own", base="row0", bleu=60.0 + at, **changes)
    url = serve(tmp_path)
    tab.open(url, view="table", group="data.seed")
    assert [text.split(":")[0] for text in tab.texts("tr.group th")] == [
        "data.seed = 20250101",
        "data.seed = 20250102",
        "data.seed = 20250103",
    ]
    tab.open(url, view="keys", keys="all")
    axis = tab.page.locator("svg.parallel .axis", has_text="steps")
    assert axis.locator("text.tick tspan").all_text_contents() == [str(number) for number in steps]
    values = [0.1234567, 0.1234568, 0.5, 3, -20250101, "3", 0.1234567]
    assert tab.page.evaluate("values => V.levels(values).length", values) == 6
    texts = ["0.123457", "0.123457", "0.5", "3", "-20250101", "3", "0.123457"]
    assert tab.page.evaluate("values => values.map(V.value)", values) == texts


def test_a_switch_is_not_the_text_that_it_is_shown_as(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    assert tab.page.evaluate("() => V.levels([true, 'on', true, false, 'on']).length") == 3


def test_hours_have_the_digits_of_the_printed_table(tab: Any, serve: Any, tmp_path: Path) -> None:
    """0.149 h and 0.155 h, on two devices; `V.hours`, for rows of no table, follows the same rule."""
    for row, seconds, device in (("a", 536.4, "cpu"), ("b", 558.0, "gpu"), ("c", 4_444_400.0, "cpu")):
        folder = browser_store.write(tmp_path, row, sweep="own", base="a")
        result = folder.result() or {}
        folder.write_result(result | {"seconds": seconds, "hardware": {"accelerator": device, "devices": 1}})
    tab.open(serve(tmp_path), view="table")
    at = next(k for k, text in enumerate(tab.texts("table.results thead th")) if text.startswith("cost"))
    assert tab.texts(f"tr.line > :nth-child({at + 1})") == ["0.149 CPU", "0.155 GPU", "1,235 CPU"]
    hours = [0.149, 0.155, 0.1, 0.00012345, 1e-7, 12.34, 84.25, 99.96, 100.4, 1234.5, 1234.6]
    assert tab.page.evaluate("hours => hours.map(V.hours)", hours) == [hours_text(each, 3) for each in hours]


def test_a_group_keeps_one_colour_in_chart_and_legend_when_a_group_comes_before_it(
    tab: Any, serve: Any, tmp_path: Path
) -> None:
    for row, n in (("first", 1), ("third", 3)):
        browser_store.write(tmp_path, row, sweep="own", base="first", model__N=n)
    tab.open(serve(tmp_path), view="curves", group="model.N")
    chart = """() => Bokeh.documents.flatMap((page) => page.roots()).at(-1).renderers
        .filter((renderer) => renderer.glyph.type === 'Line').map((renderer) => renderer.glyph.line_color.value)"""
    legend = "() => [...document.querySelectorAll('.legend svg line')].map((line) => line.getAttribute('stroke'))"
    before = tab.page.evaluate(legend)
    assert len({*before}) == 2 and tab.page.evaluate(chart) == before
    browser_store.write(tmp_path, "second", sweep="own", base="first", model__N=2, state="running", until=0)
    tab.page.locator("#waiting", has_text="second").wait_for()
    tab.page.wait_for_selector(".plot[data-drawn]")
    after = tab.page.evaluate(legend)
    assert after != before and tab.page.evaluate(chart) == after


@pytest.mark.parametrize("panels", ["one", "rows", "measures"])
def test_curves_count_the_rows_that_are_drawn_and_name_the_others(
    panels: str, tab: Any, serve: Any, tmp_path: Path
) -> None:
    browser_store.write(tmp_path, "first", sweep="own", base="first", label="First")
    browser_store.write(tmp_path, "second", sweep="own", base="first", label="k = 5, gated", state="running", until=0)
    tab.open(serve(tmp_path), view="curves", panels=panels)
    assert tab.page.locator("h2").inner_text().endswith("against steps: 1 row")
    assert tab.page.locator(".picker .hint").first.inner_text().startswith("1 of 2 rows drawn, ")
    told = "Not drawn, because no value has been measured yet: k = 5, gated."
    assert tab.page.locator("#waiting").inner_text() == told
    assert tab.page.locator("#row-second").is_checked()
