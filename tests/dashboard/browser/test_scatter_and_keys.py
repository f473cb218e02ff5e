"""Scatter and Keys in headless Chromium: the front, what is not trained, shares, labels that are whole."""

import json
import math
import re
from pathlib import Path
from typing import Any

import browser_store
import pytest

pytestmark = pytest.mark.slow


def test_rows_that_are_not_trained_are_hollow_and_on_no_front(
    browser: Any, fresh_tab: Any, serve: Any, tmp_path: Path
) -> None:
    browser_store.quickstart(tmp_path)
    for path in (tmp_path / "quickstart" / "transformer").glob("seed*/metrics.jsonl"):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        steep = [
            line | {"dev/nll": 5 - line["step"] / 400, "dev/ppl": math.exp(5 - line["step"] / 400)} for line in lines
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in steep))
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="light")
    tab = fresh_tab(context)
    tab.open(serve(tmp_path), view="scatter")
    told = tab.page.locator("#front").inner_text()
    front, rest = told.removeprefix("Pareto front (dashed line, large marks): ").split(". No other trained row", 1)
    assert "Weighted Transformer" in front and "Transformer" not in front.split(" → ")
    assert "Hollow: not trained." in rest
    listed = tab.page.locator("#unlabelled li")
    assert {*front.split(" → ")}.isdisjoint(re.sub(r" [\d.]+$", "", text) for text in tab.texts("#unlabelled li"))
    assert listed.count() + len(front.split(" → ")) == 4  # every row is named, in the chart or below it
    hollow = tab.page.locator("#unlabelled li:has(svg [fill=none])")
    assert hollow.count() == 1 and hollow.inner_text().startswith("Transformer ")
    context.close()
    assert tab.faults == []


def test_rows_that_are_not_compared_are_on_no_front(browser: Any, fresh_tab: Any, serve: Any, tmp_path: Path) -> None:
    browser_store.quickstart(tmp_path)
    for row, text in (("transformer", "1"), ("weighted", "2")):
        for folder in (tmp_path / "quickstart" / row).glob("seed*"):
            (folder / "environment.json").write_text(json.dumps({"data": {"train.de": text}}))
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="light")
    tab = fresh_tab(context)
    tab.open(serve(tmp_path), view="scatter")
    told = tab.page.locator("#front").inner_text()
    front, rest = told.removeprefix("Pareto front (dashed line, large marks): ").split(". No other compared row", 1)
    assert "Weighted Transformer" not in front.split(" → ")
    assert "Not compared, and on no front: Weighted Transformer." in rest
    context.close()
    assert tab.faults == []


def test_a_loss_that_is_not_compared_is_on_no_front_and_named_by_curves(tab: Any, serve: Any, tmp_path: Path) -> None:
    """Losses per sub-word of different vocabularies; test BLEU is compared."""
    for row, vocabulary in (("transformer", 66), ("vocabulary", 77)):
        for seed in (1, 2):
            browser_store.write(tmp_path, row, seed, sweep="words", data__vocabulary=vocabulary)
    url = serve(tmp_path)
    tab.open(url, view="scatter", measure="dev_ppl")
    assert "Not compared, and on no front: vocabulary." in tab.page.locator("#front").inner_text()
    tab.open(url, view="curves", metric="dev/nll")
    tab.page.locator("#apart", has_text="Not comparable with the base row: vocabulary.").wait_for()
    tab.open(url, view="scatter", measure="test.bleu")
    assert "no front" not in tab.page.locator("#front").inner_text()


def test_a_score_is_compared_where_the_measure_of_the_sweep_is_a_loss(tab: Any, serve: Any, tmp_path: Path) -> None:
    measure = {"sweep__name": "words", "sweep__metric": "dev_ppl"}
    for row, vocabulary in (("transformer", 66), ("vocabulary", 77)):
        browser_store.write(tmp_path, row, 1, sweep="words", data__vocabulary=vocabulary, **measure)
    url = serve(tmp_path)
    tab.open(url, view="curves", metric="dev/nll")
    tab.page.locator("#apart", has_text="Not comparable with the base row: vocabulary.").wait_for()
    tab.open(url, view="curves", metric="dev/bleu")
    tab.page.locator("h2", has_text="dev BLEU (greedy, in training) against steps").wait_for()
    assert "Not comparable" not in tab.page.locator("#apart").inner_text()
    tab.open(url, view="scatter", measure="test.bleu")
    assert "no front" not in tab.page.locator("#front").inner_text()


def test_curves_of_other_dev_sentences_and_unlike_seeds_are_named(tab: Any, serve: Any, tmp_path: Path) -> None:
    for row, seed, changes in (
        ("transformer", 1, {}),
        ("part", 1, {"trainer__val_bleu": 5, "recipe__ema": 0.99}),
        ("mixed", 1, {}),
        ("mixed", 2, {"model__h": 2}),
    ):
        browser_store.write(tmp_path, row, seed, sweep="words", **changes)
    tab.open(serve(tmp_path), view="curves", metric="dev/bleu")
    tab.page.locator("#apart", has_text="Not comparable with the base row: part.").wait_for()
    assert "Seeds that were not trained or validated alike: those of mixed." in tab.page.locator("#apart").inner_text()
    averaged = "Of part, the current weights are drawn, and their moving average is tested."
    assert averaged in tab.page.locator("#apart").inner_text()


def test_finished_runs_without_the_measure_are_not_called_unfinished(tab: Any, serve: Any, tmp_path: Path) -> None:
    sweep = {"sweep__name": "own", "sweep__metric": "test.chrf", "sweep__rows": ["base"]}
    folder = browser_store.write(tmp_path, "base", sweep="own", base="base", **sweep)
    url = serve(tmp_path)
    told = ".empty p"
    tab.open(url, view="scatter")
    assert tab.texts(told) == ["Each row with a finished run is a point here. No finished run has a test chrF."]
    folder.write_result({**(folder.result() or {}), "flops": None})
    tab.open(url, view="scatter", measure="test.bleu", cost="flops")
    assert tab.texts(told) == ["Each row with a finished run is a point here. No row with a test BLEU has known FLOPs."]
    tab.page.locator("#cost-parameters").click()  # where a choice has no points, another can be made
    tab.page.locator("h2", has_text="against parameters: 1 row").wait_for()
    folder.set_status("failed", None, step=300)
    (folder.path / "result.json").unlink()
    tab.open(url, view="scatter")
    assert tab.texts(told) == ["Each row with a finished run is a point here. No run of this sweep has finished."]


def test_the_scatter_names_its_front(tab: Any, url: str) -> None:
    tab.open(url, view="scatter")
    tab.page.locator("h2", has_text="test BLEU against FLOPs: 4 rows").wait_for()  # all have 1.0 million parameters
    tab.page.locator("#cost-parameters").click()
    tab.page.locator("h2", has_text="test BLEU against parameters: 4 rows").wait_for()
    assert "Weighted Transformer → Transformer." in tab.page.locator("#front").inner_text()
    assert tab.page.locator("#zero").is_checked()


def test_rows_with_the_same_cost_and_score_are_both_on_the_front(tab: Any, url: str) -> None:
    tab.open(url, view="scatter")
    points = [{"x": 20, "y": 10}, {"x": 10, "y": 12}, {"x": 20, "y": 10}, {"x": 30, "y": 11}]
    front = tab.page.evaluate("(points) => V.pareto(points, { higher_is_better: false })", points)
    assert front == [points[1], points[0], points[2]]


def test_keys_are_ranked_and_a_range_of_an_axis_keeps_its_rows(tab: Any, serve: Any, tmp_path: Path) -> None:
    tab.open(serve(browser_store.grid(tmp_path)), view="keys")
    assert tab.page.locator("h2").inner_text().startswith("What matters most: recipe.lr, ")
    assert tab.texts("#importance tbody th")[:2] == ["recipe.lr", "N model.N"]
    lines = tab.page.locator("svg.parallel .line")
    assert lines.count() == 9
    assert tab.page.locator("#pointed").inner_text() == "All 9 rows: test BLEU 61.00 to 75.00."
    axis = tab.page.locator("svg.parallel .axis .drag").first
    box = next(box for _ in range(100) if (box := axis.bounding_box()))  # none while the page draws the axes again
    tab.page.mouse.move(box["x"] + 10, box["y"] + 5)
    tab.page.mouse.down()
    tab.page.evaluate("V.app.render()")  # new data during the drag
    tab.page.mouse.move(box["x"] + 10, box["y"] + 0.35 * box["height"], steps=3)
    tab.page.evaluate("V.app.render()")
    tab.page.mouse.up()
    tab.page.locator("#pointed", has_text="3 of 9 rows: test BLEU 71.00 to 75.00.").wait_for()
    assert tab.page.locator("svg.parallel .line.off").count() == 6
    assert "range=recipe.lr" in tab.page.url
    tab.page.locator("#clear").click()
    tab.page.locator("#pointed", has_text="All 9 rows").wait_for()


def test_keys_say_that_the_worst_of_many_rows_are_not_drawn(tab: Any, serve: Any, tmp_path: Path) -> None:
    for at in (1, 2):
        browser_store.write(tmp_path, f"row{at}", sweep="own", base=None, bleu=70.0 + at, model__N=at)

    def answer(route: Any) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=browser_store.repeated(response.json(), 1010))

    tab.page.route(re.compile("/api/sweep/own"), answer)
    url = serve(tmp_path)
    tab.open(url, view="keys")
    assert tab.texts("#pointed") == ["The best 1,000 of 1,010 rows: test BLEU 71.00 to 72.00."]
    tab.open(url, view="keys", range="model.N:0.5:1")
    assert tab.texts("#pointed") == ["505 of the best 1,000 rows: test BLEU 72.00 to 72.00."]


def test_shares_of_keys_follow_the_runs_that_finish(tab: Any, serve: Any, tmp_path: Path) -> None:
    tab.open(serve(browser_store.grid(tmp_path)), view="keys")
    assert "(9 runs)" in tab.page.locator("h2").inner_text()
    browser_store.write(tmp_path, "lr2.0_N1", sweep="grid", base=None, bleu=76.0, recipe__lr=2.0, model__N=1)
    tab.page.locator("h2", has_text="(10 runs)").wait_for()
    tab.page.locator("#pointed", has_text="All 10 rows").wait_for()


def test_keys_that_changed_together_are_not_called_unexplained(tab: Any, serve: Any, tmp_path: Path) -> None:
    """Of three keys, each follows from the other two: SS_full = 150, MS_residual = 1, ω² = (150 - 2) / (156 + 1)."""
    for at, (lr, n, d_ff) in enumerate([(0.5, 1, 64), (0.5, 2, 128), (1.0, 1, 128)]):
        for seed in (1, 2, 3):
            keys = {"recipe__lr": lr, "model__N": n, "model__d_ff": d_ff}
            browser_store.write(tmp_path, f"row{at}", seed, sweep="along", base=None, bleu=70 + 5 * at + seed, **keys)
    tab.open(serve(tmp_path), view="keys")
    assert tab.page.locator("h2").inner_text() == (
        "Most of the variance (94 %) belongs to several keys together; these runs cannot say which of them matters."
    )
    assert tab.texts("#importance td.share")[:3] == ["cannot be separated from the other keys"] * 3
    assert tab.texts("#importance .shared > *")[::2] == ["shared: explained by several keys, not separable", "94 %"]
    assert tab.texts("#importance .rest > *")[::2] == ["not explained: interactions, seeds, chance", "6 %"]


def test_labels_of_keys_are_whole_and_beside_their_lines(
    browser: Any, fresh_tab: Any, serve: Any, tmp_path: Path
) -> None:
    for at, kind in enumerate(("sinusoidal", "learned")):
        browser_store.write(tmp_path, kind, sweep="own", base=None, bleu=70.0 + at, positions__kind=kind)
    url = serve(tmp_path)
    for wide in (390, 1366):
        context = browser.new_context(viewport={"width": wide, "height": 844})
        tab = fresh_tab(context)
        tab.open(url, view="keys")
        assert tab.page.locator("#pointed").inner_text() == "Both rows: test BLEU 70.00 to 71.00."
        assert tab.page.locator("h2").inner_text() == "One key differs between the rows"
        outside = """() => [...document.querySelectorAll('svg.parallel text')].filter((text) => {
            const box = text.getBBox();
            return box.x < 0 || box.x + box.width > text.ownerSVGElement.viewBox.baseVal.width;
        }).map((text) => text.textContent)"""
        assert tab.page.evaluate(outside) == []
        starts = tab.page.locator("svg.parallel .line").evaluate_all(
            "lines => lines.map((line) => Number(/^M[\\d.]+,([\\d.]+)/.exec(line.getAttribute('d'))[1]))"
        )
        ticks = tab.page.locator("svg.parallel .axis:not(.score) .tick").evaluate_all(
            "texts => texts.map((text) => Number(text.getAttribute('y')))"
        )
        assert sorted(starts) == pytest.approx(sorted(ticks))
        context.close()
        assert tab.faults == []


def test_labels_of_different_values_remain_different(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    names = ["sukhbaatar2015", "sukhbaatar2015_linear", "sukhbaatar2015_joint"]
    assert tab.page.evaluate("names => V.labels(names, 116)", names) == [
        ["sukhbaatar2015"],
        ["sukhbaatar2015_", "linear"],
        ["sukhbaatar2015_", "joint"],
    ]
    alike = [f"{'x' * 40}{letter}{'y' * 40}" for letter in "abc"]
    for high in (True, False):
        found = [
            "".join(lines) for lines in tab.page.evaluate("([names, high]) => V.labels(names, 80, high)", [alike, high])
        ]
        assert len({*found}) == 3 and all("…" in text for text in found)


def test_keys_are_no_view_where_nothing_differs(tab: Any, serve: Any, tmp_path: Path) -> None:
    browser_store.write(tmp_path, "one", sweep="single", label="One")
    tab.open(serve(tmp_path), view="table")
    assert tab.page.locator("#nav-keys").count() == 0
    tab.open(tab.page.url.split("#")[0], view="keys")
    assert "No key differs" in tab.page.locator(".empty").inner_text()


def test_numbers_are_rounded_before_their_unit_is_chosen(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    values = [999_600, 999_400, 999.4, 999.6, 65_320_000, 0.5, 0, -999_600]
    told = tab.page.evaluate("values => values.map(V.short)", values)
    assert told == ["1.00 M", "999 k", "999", "1.00 k", "65.3 M", "0.5", "0", "-1.00 M"]
