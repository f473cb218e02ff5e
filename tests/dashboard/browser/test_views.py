"""Every view in headless Chromium: contents, sorting, selecting, hovering, keys, themes."""

import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from urllib.parse import parse_qs, urlsplit

import browser_store
import pytest
from browser_store import ROWS, score

from variations.configuration.tasks import named
from variations.store.lease import Lease
from variations.store.ledger import RunFolder, next_attempt

pytestmark = pytest.mark.slow

TESTED = re.compile("(more than|told from) chance")
"""In the headline of a table whose differences have been tested."""
WEIGHTED = ["weighted", "uniform"]
"""Rows that have branches."""
VIEWS = ["table", "curves", "compare", "branches", "attention", "sweep", "scatter", "keys"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_drawn_in_both_themes_without_a_fault(browser: Any, fresh_tab: Any, url: str, theme: str) -> None:
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = fresh_tab(context)
    tab.open(url)
    for view in VIEWS:
        tab.go(view)
        assert tab.page.locator("html").get_attribute("data-theme") == theme
        assert tab.page.locator("nav a[aria-current=page]").inner_text().lower() == view
        assert tab.page.locator(".empty").count() == 0, tab.texts(".empty")
        if view not in ("sweep", "keys"):  # a table and an SVG
            tab.page.wait_for_selector(".chart[data-drawn]")  # the table's chart comes with the significance tests
            charts = tab.page.locator(".chart[data-drawn]")
            assert all(charts.nth(k).get_attribute("aria-label") for k in range(charts.count()))
        wide = tab.page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{view} is wider than the screen"
    context.close()
    assert tab.faults == []


def test_the_table_says_what_matters_and_names_what_is_missing(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    tab.page.locator(
        "h2", has_text=re.compile("(more than|told from) chance")
    ).wait_for()  # significance tests follow the first view
    labels = [label for label, _ in ROWS.values()]
    assert sorted(tab.texts("table.results th[scope=row] .label")) == sorted(labels)
    scores = [score("transformer", seed) for seed in (1, 2)]
    assert tab.page.locator("h2").first.inner_text().startswith(f"Highest test BLEU: Transformer, {fmean(scores):.2f}.")
    assert f"{fmean(scores):.2f} ± {stdev(scores):.2f}" in tab.page.locator("#line-transformer").inner_text()
    assert "1/2 ✕ failed" in tab.page.locator("#line-learned_positions").inner_text()
    tab.page.locator("#line-weighted").click()
    assert "transformer→weighted" in tab.page.locator("tr.detail").inner_text()
    assert "open=weighted" in tab.page.url


def test_a_filter_says_what_it_hides_and_the_headline_is_about_the_rows_that_are_left(tab: Any, url: str) -> None:
    tab.open(url, view="table", filter="weighted")
    tab.page.locator("h2", has_text="hidden by the filter").wait_for()
    assert sorted(tab.texts("table.results th[scope=row] .label")) == sorted(ROWS[row][0] for row in WEIGHTED)
    headline = tab.page.locator("h2").first.inner_text()
    best = max(WEIGHTED, key=lambda row: fmean(score(row, seed) for seed in (1, 2)))
    assert headline.startswith(f"Highest test BLEU: {ROWS[best][0]}, ")
    assert headline.endswith(f"{len(ROWS) - len(WEIGHTED)} rows hidden by the filter.")


def test_the_headline_of_filtered_rows_is_not_about_the_rows_that_are_hidden(
    tab: Any, serve: Any, tmp_path: Path
) -> None:
    for row, ended in (("base", {}), ("b", {}), ("z", {"state": "failed", "until": 300})):
        browser_store.write(tmp_path, row, sweep="own", base="base", **ended)
    tab.open(serve(tmp_path), view="table", filter="z")
    assert tab.texts("h2") == ["No run of these rows has finished yet. 2 rows hidden by the filter."]


def test_the_chart_of_differences_says_how_many_rows_it_leaves_out(tab: Any, serve: Any, tmp_path: Path) -> None:
    for row in ("base", "b"):
        browser_store.write(tmp_path, row, sweep="own", base="base")
    count = [41]

    def answer(route: Any) -> None:
        response = route.fetch()
        payload = browser_store.repeated(response.json(), count[0])
        for row in payload["table"]["rows"]:
            row |= {"base": "base", "ci": [0.5, 1.5], "delta": {"test.bleu": {"mean": 1.0, "n": 1}}}
        route.fulfill(response=response, json=payload)

    tab.page.route(re.compile("/api/sweep/own"), answer)
    url = serve(tmp_path)
    tab.open(url, view="table")
    heading = tab.page.locator(".effects h3").inner_text()
    assert " intervals. The first 40 of 41 rows: filter to see others. One seed, " in heading
    count[0] = 40
    tab.open(url, view="table")
    assert " intervals. One seed, " in tab.page.locator(".effects h3").inner_text()


def test_a_row_without_the_chosen_measure_has_no_value_of_another_one(tab: Any, url: str) -> None:
    tab.open(url, view="curves", metric="branch/dead", rows=[*ROWS])
    tab.page.wait_for_selector(".chart[data-drawn]")
    shown = dict(zip(tab.texts(".picker .rows .name"), tab.texts(".picker .rows .value"), strict=True))
    assert {label for label, value in shown.items() if value != "–"} == {ROWS[row][0] for row in WEIGHTED}


def test_the_address_always_names_the_sweep(tab: Any, url: str) -> None:
    tab.open(url)
    tab.drawn("table")
    assert urlsplit(tab.page.url).fragment == "sweep=quickstart"
    tab.go("keys")
    assert parse_qs(urlsplit(tab.page.url).fragment) == {"view": ["keys"], "sweep": ["quickstart"]}
    tab.page.go_back()
    tab.drawn("table")
    tab.page.go_back()
    assert tab.page.url == "about:blank", "the address of the first view is no further entry of the history"


def test_differences_from_several_base_rows_name_them(tab: Any, serve: Any, tmp_path: Path) -> None:
    """`b` is compared with `a`, and `c` with `b`; `c` has no group, but the row above it has one."""
    for row, like, base, group in [
        ("a", "transformer", None, None),
        ("b", "weighted", "a", "claim"),
        ("c", "uniform", "b", None),
    ]:
        for seed in (1, 2):
            made = {"texts": browser_store.texts_of(like, seed), "bleu": score(like, seed), "variation__group": group}
            browser_store.write(tmp_path, row, seed, sweep="own", label=ROWS[like][0], base=base, **made)
    tab.open(serve(tmp_path), view="table")
    tab.page.locator("h2", has_text=TESTED).wait_for()
    rows, only = (
        [{"label": "A", "score": 1.0, "p": 0.01, "significant": True, "delta": {}, "base": base} for base in bases]
        for bases in (["x", "y"], ["x", "x"])
    )
    measure = {"key": "k", "label": "k", "digits": 2, "higher_is_better": True}
    sweep = {"primary": measure, "rows": [], "runs": [], "tested": True}
    told = [tab.page.evaluate("([sweep, rows]) => V.verdict(sweep, rows)", [sweep, found]) for found in (rows, only)]
    assert "2 of 2 tested rows differ from their base rows by more" in told[0]
    assert "2 of 2 tested rows differ from the base row by more" in told[1]
    assert tab.texts("tr.line .against") == ["v.\u00a0Weighted Transformer"]
    assert tab.page.locator("#line-c .against").count() == 1
    chart = tab.page.locator(".effects .chart[data-drawn]")
    chart.wait_for()
    assert (
        tab.page.locator(".effects h3")
        .inner_text()
        .startswith("Which variation matters? Differences from their base rows with")
    )
    shown = chart.get_attribute("aria-label")
    assert "Weighted Transformer −" in shown
    assert "Weighted, all weights 1/M (v.\u00a0Weighted Transformer) −" in shown
    order = tab.page.evaluate("() => [...document.querySelectorAll('.results tbody tr')].map((line) => line.className)")
    assert [name.split()[0] for name in order] == ["line", "group", "line", "end", "line"]
    assert tab.page.locator("caption").first.inner_text().endswith("A thick line is below each base row.")
    width = "node => parseFloat(getComputedStyle(node).borderBottomWidth)"
    end, base = (tab.page.locator(f"tr.{kind} td").first.evaluate(width) for kind in ("end", "base"))
    assert end < base


@pytest.mark.parametrize(("higher", "order"), [(True, ["b", "a"]), (False, ["a", "b"])])
def test_running_rows_are_ranked_by_what_is_better(
    higher: bool, order: list[str], tab: Any, serve: Any, tmp_path: Path
) -> None:
    browser_store.write(tmp_path, "transformer", 1, label="T", bleu=score("transformer", 1))
    tab.open(serve(tmp_path), view="table")
    rows = [
        {"name": name, "index": index, "score": None, "runs": [{"live_score": live}], "isBase": False}
        for index, (name, live) in enumerate([("a", 1.0), ("b", 2.0)])
    ]
    sweep = {"primary": {"higher_is_better": higher}, "rows": rows, "keys": []}
    assert tab.page.evaluate("sweep => V.selected(sweep)", sweep) == order


def test_one_seed_is_told_of_in_a_sentence(tab: Any, serve: Any, tmp_path: Path) -> None:
    for row, base in [("transformer", None), ("weighted", "transformer")]:
        browser_store.write(
            tmp_path, row, 1, label=ROWS[row][0], base=base, bleu=score(row, 1), texts=browser_store.texts_of(row, 1)
        )
    tab.open(serve(tmp_path), view="table")
    heading = tab.page.locator(".effects h3")
    heading.wait_for()
    assert heading.inner_text().endswith("95 % intervals. One seed, so the chance between seeds is not covered")
    headline = tab.page.locator("h2").first.inner_text()
    assert headline.endswith("One seed a row: intervals cover only chance in the test set.")


@pytest.mark.parametrize(
    ("tested", "p", "significant", "sentence"),
    [
        (False, None, None, "Highest test BLEU: B, 2.00."),
        (True, None, None, "Highest test BLEU: B, 2.00. No difference is tested."),
        (
            True, 0.4, False,
            "Highest test BLEU: B, 2.00 (its difference from the base row may be chance). "
            "The difference of B from the base row cannot be told from chance.",
        ),
        (
            True, 0.01, True,
            "Highest test BLEU: B, 2.00. 1 of 1 tested row differs from the base row by more than chance; "
            "most of all B (+1.00).",
        ),
    ],
)  # fmt: skip
def test_the_headline_says_whether_the_best_row_may_be_chance(
    tab: Any, url: str, tested: bool, p: float | None, significant: bool | None, sentence: str
) -> None:
    tab.open(url, view="table")
    measure = {"key": "test.bleu", "label": "test BLEU", "digits": 2, "higher_is_better": True}
    rows = [
        {"label": "A", "score": 1.0, "p": None, "delta": {}},
        {"label": "B", "score": 2.0, "p": p, "significant": significant, "delta": {"test.bleu": {"mean": 1.0}}},
    ]
    sweep = {"primary": measure, "rows": rows, "runs": rows, "tested": tested}
    assert tab.page.evaluate("([sweep, rows]) => V.verdict(sweep, rows)", [sweep, rows]) == sentence
    equal = [{**row, "score": 2.0} for row in rows]
    told = tab.page.evaluate("([sweep, rows]) => V.verdict(sweep, rows)", [sweep, equal])
    assert told.startswith("Highest test BLEU: 2 rows with 2.00.")
    if significant:
        more = [*rows, {**rows[0], "label": "C", "base": "A", "p": 0.6, "significant": False}]
        told = tab.page.evaluate("([sweep, rows]) => V.verdict(sweep, rows)", [sweep, more])
        assert " 1 of 2 tested rows " in told and " by more than chance (p not corrected for 2 comparisons); " in told
    if p is not None and not significant:  # a third row has a base row, and no test
        rows = [rows[0], {**rows[1], "base": "A"}, {**rows[0], "label": "C", "base": "A"}]
        told = tab.page.evaluate("([sweep, rows]) => V.verdict(sweep, rows)", [sweep, rows])
        assert told.endswith(" The difference of B from the base row cannot be told from chance.")


def test_columns_sort_by_click_and_by_enter_and_the_back_button_undoes_it(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    names = "table.results th[scope=row] .label"
    own = tab.texts(names)
    tab.page.locator("[id='sort-test.bleu']").click()
    down = tab.texts(names)
    assert down == [
        "Transformer",
        "Transformer, learned positions",
        "Weighted Transformer",
        "Weighted, all weights 1/M",
    ]
    tab.page.locator("[id='sort-test.bleu']").focus()
    tab.page.keyboard.press("Enter")
    assert tab.texts(names) == down[::-1]
    assert tab.page.locator("th[aria-sort=ascending]").count() == 1
    tab.page.go_back()
    tab.page.wait_for_selector("th[aria-sort=descending]")
    assert tab.texts(names) == down
    tab.page.go_back()
    tab.page.wait_for_selector("th[aria-sort=descending]", state="detached")
    assert tab.texts(names) == own


@pytest.mark.parametrize(
    ("up", "order"), [("1", ["none", "half", "all"]), ("0", ["all", "half", "none"])], ids=["up", "down"]
)
def test_rows_without_a_finished_run_are_sorted_as_none_finished(
    up: str, order: list[str], tab: Any, serve: Any, tmp_path: Path
) -> None:
    for row, states in (("half", "fu"), ("all", "ff"), ("none", "uu")):
        for seed, state in enumerate(states, 1):
            ended = {"state": "finished"} if state == "f" else {"state": "failed", "until": 300}
            browser_store.write(tmp_path, row, seed, sweep="own", base="all", **ended)
    tab.open(serve(tmp_path), view="table", sort="state", up=up)
    assert tab.texts("table.results th[scope=row] .label") == order


def test_a_finished_run_without_the_measure_is_said_to_have_none(tab: Any, serve: Any, tmp_path: Path) -> None:
    sweep = {"sweep__name": "own", "sweep__metric": "test.chrf", "sweep__rows": ["base", "late"]}
    for row, ended in (("base", {}), ("late", {"state": "failed", "until": 300})):
        browser_store.write(tmp_path, row, sweep="own", base="base", **sweep, **ended)
    tab.open(serve(tmp_path), view="table")
    at = next(k for k, text in enumerate(tab.texts("table.results thead th")) if text.startswith("test chrF"))
    assert tab.texts(f"tr.line > :nth-child({at + 1})") == ["not measured", "✕ failed"]


def test_a_change_below_the_header_leaves_its_links_in_place(tab: Any, url: str) -> None:
    """A click on a link that is replaced between press and release would be lost."""
    tab.open(url, view="table")
    tab.page.locator("#export").evaluate("link => link.dataset.mark = 'same'")
    before = tab.page.evaluate("document.documentElement.dataset.shown")
    tab.page.locator("#theme").focus()
    tab.page.locator("table thead button").first.click()
    tab.page.wait_for_function("before => document.documentElement.dataset.shown !== before", arg=before)
    assert tab.page.locator("#export").get_attribute("data-mark") == "same"


def test_curves_keep_what_was_chosen_in_the_address(tab: Any, url: str) -> None:
    tab.open(url, view="curves")
    assert tab.page.locator(".rows input:checked").count() == 4
    tab.page.locator("#row-uniform").uncheck()
    tab.page.locator("#metric").select_option("train/loss")
    tab.page.locator("#x").select_option("flops")
    tab.page.locator("#logy").check()
    tab.page.locator("#seeds-each").click()
    tab.page.locator("h2", has_text="training loss, as minimised against training FLOPs").wait_for()
    address = tab.page.url
    tab.page.goto("about:blank")
    tab.page.goto(address)
    tab.drawn("curves")
    assert tab.page.locator("#row-uniform").is_checked() is False
    assert tab.page.locator("#row-weighted").is_checked() is True
    assert tab.page.locator("#metric").input_value() == "train/loss"
    assert tab.page.locator("#logy").is_checked() is True
    assert tab.page.locator("#seeds-each").get_attribute("aria-pressed") == "true"


def test_curves_ask_only_for_what_is_drawn_and_not_known_yet(tab: Any, url: str) -> None:
    asked: list[tuple[set[str], list[str], list[str]]] = []

    def listen(request: Any) -> None:
        if "/api/curves" in request.url:
            query = parse_qs(urlsplit(request.url).query)
            rows = {name.split("/")[1] for name in query["ids"][0].split(",")}
            asked.append((rows, query["metrics"][0].split(","), query["x"]))

    tab.page.on("request", listen)
    value = tab.page.locator("li:has(#row-weighted) .value")
    tab.open(url, view="curves", rows=["weighted", "uniform"], metric="dev/bleu")
    assert asked == [({"weighted", "uniform"}, ["dev/bleu"], ["step"])]
    tab.page.locator("#row-transformer").check()
    tab.page.locator("li:has(#row-transformer) .value", has_text=re.compile(r"\d")).wait_for()
    assert asked[1:] == [({"transformer"}, ["dev/bleu"], ["step"])]
    before = value.inner_text()
    tab.page.locator("#metric").select_option("train/loss")
    tab.page.wait_for_function(
        "before => document.querySelector('li:has(#row-weighted) .value').innerText !== before", arg=before
    )
    assert asked[2:] == [({"transformer", "weighted", "uniform"}, ["train/loss"], ["step"])]
    tab.page.locator("#metric").select_option("dev/bleu")
    value.filter(has_text=before).wait_for()
    assert len(asked) == 3


def test_a_log_axis_leaves_the_latest_values_as_they_are(tab: Any, serve: Any, tmp_path: Path) -> None:
    folder = browser_store.write(tmp_path, "m", sweep="own", base="m", state="running")
    lines = [{"step": step, "dev/error": max(0, 50 - step // 20), "dev/zero": 0} for step in range(0, 1201, 100)]
    folder.measurements.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    url = serve(tmp_path)
    for log in ({}, {"logy": 1}, {"logx": 1}, {"logy": 1, "panels": "rows"}):
        tab.open(url, view="curves", metric="dev/error", **log)
        assert tab.texts(".picker .value") == ["0"]
        label = tab.page.locator(".plot[aria-label]").get_attribute("aria-label")
        assert label is not None and label.endswith(": m ends at 0")
    tab.open(url, view="curves", metric="dev/zero", logy=1)
    assert tab.texts(".picker .value") == ["0"]
    told = "A log axis has only positive values, and the selected rows have none of dev zero: switch it off."
    assert tab.texts(".empty") == [f"Nothing to draw on a log axis\n\n{told}"]


def test_the_text_of_a_chart_follows_a_running_row(tab: Any, serve: Any, tmp_path: Path) -> None:
    folder = browser_store.write(tmp_path, "m", sweep="own", base="m", state="running", until=600)
    tab.open(serve(tmp_path), view="curves", metric="train/loss")
    chart = tab.page.locator(".plot[aria-label]")
    before = chart.get_attribute("aria-label")
    with folder.measurements.path.open("a") as file:
        file.write(json.dumps(browser_store.line(700, 80.0) | {"train/loss": 1.25}) + "\n")
    tab.page.locator(".picker .value", has_text="1.25").wait_for()
    assert chart.get_attribute("aria-label") == f"{before.rsplit(' ', 1)[0]} 1.25"


def test_smoothing_moves_by_key_and_hover_tells_the_run(tab: Any, url: str) -> None:
    tab.open(url, view="curves")
    tab.page.locator("#smooth").focus()
    for _ in range(4):
        tab.page.keyboard.press("ArrowRight")
    assert "smooth=0.2" in tab.page.url
    assert tab.page.evaluate("() => document.activeElement.id") == "smooth"
    tab.drawn("curves")
    box = tab.page.locator(".plot").bounding_box()
    tips = tab.page.locator(".bk-tooltip-content")
    for k in range(int(box["height"]) // 2):  # moves vertically, by two pixels, until it meets a line
        tab.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 2 * k)
        tab.page.wait_for_timeout(40)
        if tips.count():
            break
    assert "step:" in tips.first.inner_text()
    assert "Transformer" in tips.first.inner_text()


def test_two_runs_are_compared_by_what_differs(tab: Any, url: str) -> None:
    ids = ["quickstart/transformer/seed1", "quickstart/weighted/seed1"]
    tab.open(url, view="compare", ids=ids)
    keys = tab.texts("#config tbody th")
    assert "model.kind" in keys
    assert not any(key.startswith("trainer") for key in keys)
    assert tab.texts("#scores .same") == ["The same within 0.1: test BLEU (lower-cased)"]
    assert tab.page.locator("main h3").first.inner_text().startswith("Sentences that differ most")
    scores = tab.page.locator("#scores").inner_text()
    ours, base = score("weighted", 1), score("transformer", 1)
    assert f"{base:.2f}" in scores and f"{ours:.2f}" in scores and f"−{base - ours:.2f}" in scores
    assert tab.page.locator(".sample").count() >= 5
    assert tab.page.locator(".sample mark", has_text="falsch").count() > 0
    assert tab.page.locator(".sample .hint, .hint", has_text="or more often than there").count() == 1
    assert tab.texts("#scores .interval")[1].startswith("p (sentences) ")
    assert tab.page.locator("#scores .better, #scores .worse").count() == 0  # one seed: nothing is marked
    assert (
        "More than chance in the test sentences? Only if the interval excludes 0; chance between seeds is not covered."
        in tab.texts("main h3")
    )
    tab.page.locator("#add-run").select_option("quickstart/uniform/seed1")
    tab.page.locator("h2", has_text="2 runs compared with Transformer").wait_for()


def test_an_empty_translation_and_one_that_is_not_there_are_told_apart(tab: Any, serve: Any, tmp_path: Path) -> None:
    sources, references, outputs = browser_store.texts_of("transformer", 1)
    for row, texts in (("transformer", outputs), ("weighted", ["", *outputs[1:]]), ("uniform", None)):
        written = texts and (sources, references, texts)
        browser_store.write(tmp_path, row, 1, texts=written, bleu=score("transformer", 1))
    tab.open(
        serve(tmp_path),
        view="compare",
        ids=[f"quickstart/{row}/seed1" for row in ("transformer", "weighted", "uniform")],
    )
    tab.page.locator(".sample").first.wait_for()
    assert tab.texts(".sample td .soft") == ["(empty)", "–"]


def test_branches_show_the_dead_one_and_follow_the_step(tab: Any, url: str) -> None:
    tab.open(url, view="branches", run="quickstart/weighted/seed1")
    note = tab.page.locator("p.note").inner_text()
    assert note.startswith("1 dead branch in Weighted Transformer") or "dead branches in Weighted" in note
    assert "encoder layer 2, self branch 4" in note
    assert tab.page.locator(".small .chart[data-drawn]").count() == 4
    tab.page.locator("#at").focus()
    tab.page.keyboard.press("Home")
    tab.page.locator("h3", has_text="step 100").first.wait_for()
    tab.page.locator("#weight-alpha").click()
    tab.page.locator("h4", has_text="α of each branch").first.wait_for()
    assert "Equal branches would have 0.250 each (dotted below)." in tab.page.locator("p.note").inner_text()


def test_equal_branches_have_the_mean_of_the_weights_whatever_their_sum(tab: Any, serve: Any, tmp_path: Path) -> None:
    folder = browser_store.write(tmp_path, "weighted", 1, sweep="single", label="Weighted")
    lines = [
        {"step": step, "branch/encoder.0.self.kappa": [3.0, 1.0], "branch/encoder.0.self.alpha": [1.5, 2.5]}
        for step in (1, 2)
    ]
    folder.measurements.path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    folder.write_result(folder.result() or {})
    tab.open(serve(tmp_path), view="branches", run="single/weighted/seed1")
    assert "Equal branches would have 2.000 each" in tab.page.locator("p.hint", has_text="Equal").inner_text()


def test_negative_branch_weights_are_in_the_charts(tab: Any, serve: Any, tmp_path: Path) -> None:
    """Without a constraint, weights may become negative."""
    folder = browser_store.write(tmp_path, "weighted", 1, sweep="single", label="Weighted")
    weights = {"branch/encoder.0.self.kappa": [0.8, -0.4], "branch/encoder.0.self.alpha": [0.5, 0.5]}
    lines = [{"step": step} | weights for step in (1, 2)]
    folder.measurements.path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    folder.write_result(folder.result() or {})
    tab.open(serve(tmp_path), view="branches", run="single/weighted/seed1")
    tab.page.wait_for_selector(".small .chart[data-drawn]")
    starts = "() => Bokeh.documents.flatMap((page) => page.roots()).map((chart) => chart.y_range.start)"
    assert min(start for start in tab.page.evaluate(starts) if start is not None) < -0.4


def test_drawings_are_a_view_of_runs_that_have_some_and_hold_nothing_but_shapes(
    tab: Any, serve: Any, tmp_path: Path
) -> None:
    folder = browser_store.write(tmp_path, "parser", 1, sweep="single", label="Parser", task="parsing")
    gold = "(TOP (S (NP (DT the) (NN <b>)) (VP (VBD sat))))\n"
    for side, text in {"ref": gold * 2, "hyp": gold + gold.replace("NP", "VP"), "src": "the <b> sat\n" * 2}.items():
        (folder.hypotheses / f"test.{side}").write_text(text, encoding="utf-8")
    tab.open(serve(tmp_path), view="table")
    tab.go("drawings")
    shown = "Above: predicted (wrong brackets: 1). Below: gold (missed brackets: 1)."
    assert tab.page.locator("main svg text").first.text_content() == shown
    assert {"<b>", "sat", "NP", "VP"} <= set(tab.page.locator("main svg text").all_text_contents())
    assert tab.page.locator("main svg rect").count() == 2
    shape = "<script>1</script><text id='a' fill='url(#x)' x='3'>a</text>"
    bad = f"<svg xmlns='http://www.w3.org/2000/svg'>{shape}</svg>"
    taken = tab.page.evaluate("(text) => V.drawing(text).outerHTML", bad)
    assert taken == '<svg><text x="3">a</text></svg>'


def test_drawings_are_no_view_of_translation(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    assert tab.page.locator("#nav-drawings").count() == 0


def test_attention_picks_layer_and_heads(tab: Any, url: str) -> None:
    tab.open(url, view="attention")
    assert tab.page.locator("#layer").input_value() == "cross.0"
    lines = tab.page.locator("svg.bipartite line")
    both = lines.count()
    tab.page.locator("#head-2").click()
    tab.page.locator("h3", has_text="Heat map: head 1").wait_for()
    assert lines.count() == both // 2
    word = tab.page.locator("svg.bipartite text[data-side=q]").nth(1)
    assert word.get_attribute("aria-label") == "Hund attends most to dog, weight 0.85"
    word.hover()
    assert tab.page.locator("svg.bipartite line.off").count() == lines.count() * 3 // 4
    tab.page.locator("#layer").select_option("encoder.0")
    tab.page.locator("h2", has_text="encoder, layer 1").wait_for()


def test_attention_on_references_is_not_called_a_translation(tab: Any, serve: Any, tmp_path: Path) -> None:
    folder = browser_store.write(tmp_path, "transformer", 1, label="Transformer")
    note = "The targets are references: no stored translation of this run is short enough to be drawn."
    stored = browser_store.attention() | {"references": True, "note": note}
    stored["sentences"][0]["target_tokens"] = ["der", "läu", "·ft", "⟨end⟩"]
    (folder.path / "attention.json").write_text(json.dumps(stored))
    tab.open(serve(tmp_path), view="attention")
    assert tab.texts("dl.sentence dt") == ["source", "reference (no translation was short enough)"]
    places = tab.page.evaluate("() => ['p.note', '.pair'].map((name) => document.querySelector(name).offsetTop)")
    assert places[0] < places[1]
    assert tab.page.locator("p.note").inner_text() == note
    assert "·ft: the dot marks a sub-word that continues the word before it." in tab.texts(".hint")


def test_the_sweep_shows_failures_with_their_log(tab: Any, url: str) -> None:
    tab.open(url, view="sweep")
    assert tab.page.locator("h2").inner_text() == "quickstart: 7 finished, 1 failed"
    assert "The loss is not finite." in tab.page.locator(".reason").inner_text()
    assert "step 500 loss nan" in tab.page.locator("pre.log").inner_text()


def test_the_sweep_tells_queued_runs_and_runs_under_test(tab: Any, serve: Any, tmp_path: Path) -> None:
    waiting = browser_store.write(tmp_path, "a", 1, sweep="own", base=None, state="interrupted", until=300)
    Lease.claim(waiting.path, None, "queued", pool="slurm", key="onehost/abc_0")
    browser_store.write(tmp_path, "b", 1, sweep="own", base=None, state="running", until=1200)
    tab.open(serve(tmp_path), view="sweep")
    assert tab.page.locator("h2").inner_text() == "own: 1 running, 1 queued"
    assert tab.texts("h3") == ["Running (1)", "In a queue: they start or continue by themselves (1)"]
    assert [text for text in tab.texts("[data-label='time left']") if text] == ["testing"]


def test_the_sweep_counts_an_attempt_that_runs_beside_a_finished_one(tab: Any, serve: Any, tmp_path: Path) -> None:
    folder = browser_store.write(tmp_path, "a", 1, sweep="own", base=None)
    again = RunFolder(next_attempt(folder.path)).create(folder.config())
    again.measurements.append(browser_store.line(300, 10.0))
    again.set_status("running", step=300)
    tab.open(serve(tmp_path), view="sweep")
    assert tab.page.locator("h2").inner_text() == "own: 1 finished; 1 trained anew"
    # Their text has no line breaks before the style sheet is there.
    parts = "tiles => tiles.map((tile) => [...tile.children].slice(0, 2).map((part) => part.textContent))"
    tiles = dict(tab.page.locator(".tile").evaluate_all(parts))
    assert {name: tiles[name] for name in ("finished", "running", "still to start or continue")} == {
        "finished": "1 of 1",
        "running": "1",
        "still to start or continue": "0",
    }


def test_a_log_is_opened_at_its_end_and_stays_where_it_was_scrolled(tab: Any, serve: Any, tmp_path: Path) -> None:
    folder = browser_store.write(tmp_path, "a", 1, sweep="own", state="failed", reason="ValueError: bad", until=300)
    folder.log.write_text("".join(f"line {at}\n" for at in range(60)) + "ValueError: bad\n")
    other = browser_store.write(tmp_path, "b", 1, sweep="own", state="running", until=300)
    tab.open(serve(tmp_path), view="sweep")
    at_end = "() => { const log = document.querySelector('pre.log'); return log.scrollTop > 0 && %s; }"
    tab.page.wait_for_function(at_end % "log.scrollTop + log.clientHeight > log.scrollHeight - 2")
    tab.page.evaluate("() => { document.querySelector('pre.log').scrollTop = 40; }")
    other.measurements.append(browser_store.line(600, 84.0))
    other.set_status("running", step=600)
    tab.page.locator("tr", has_text="600 / 1,200").first.wait_for()
    tab.page.wait_for_timeout(200)  # the log of the new page has been opened by now
    assert tab.page.evaluate("() => document.querySelector('pre.log').scrollTop") == 40


def mean(row: str) -> float:
    return fmean(score(row, seed) for seed in (1, 2))


def test_rows_are_grouped_by_a_key_in_the_table_and_in_the_curves(tab: Any, url: str) -> None:
    tab.open(url, view="table")
    tab.page.locator("#group").select_option("model.kind")
    headings = "tr.group th"
    tab.page.locator(headings).first.wait_for()
    assert tab.texts(headings) == [
        "model = transformer: 2 rows, mean of test BLEU: "
        f"{(mean('transformer') + score('learned_positions', 1)) / 2:.2f}",
        f"model = weighted: 2 rows, mean of test BLEU: {(mean('weighted') + mean('uniform')) / 2:.2f}",
    ]
    tab.go("curves")
    tab.page.locator("h2", has_text="dev BLEU (greedy, in training) against steps: 2 groups").wait_for()
    assert tab.texts(".legend li") == ["model = transformer (4 runs)", "model = weighted (4 runs)"]


def test_curves_are_a_grid_of_one_chart_for_each_line_or_measure(tab: Any, url: str) -> None:
    tab.open(url, view="curves", panels="rows")
    tab.page.wait_for_selector(".small section:nth-child(4) .chart[data-drawn]")
    assert tab.texts(".small h4") == [label for label, _ in ROWS.values()]
    labels = tab.page.locator(".small .chart")
    assert "Transformer, mean of 2 seeds ends at" in (labels.first.get_attribute("aria-label") or "")
    tab.page.locator("#panels").select_option("measures")
    tab.page.wait_for_selector(".small section:nth-child(5) .chart[data-drawn]")
    assert tab.texts(".small h4")[:2] == ["dev BLEU (greedy, in training)", "dev loss, nats per sub-word"]


def test_scores_of_validations_have_the_names_that_figures_use(tab: Any, url: str) -> None:
    """These are of greedy search on some sentences; the table's are of beam search on all."""
    tab.open(url, view="curves")
    assert tab.page.locator("#metric option").first.inner_text() == named("translation").curves["dev/bleu"].label
    assert sum("the latest values" in text for text in tab.texts(".hint")) == 1  # told once


def test_every_view_fits_a_phone(browser: Any, fresh_tab: Any, url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="light")
    tab = fresh_tab(context)
    tab.open(url)
    for view in VIEWS:
        tab.go(view)
        wide = tab.page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{view} is wider than a phone"
        tables = "[...document.querySelectorAll('.settings')].map((table) => table.scrollWidth)"
        assert all(width <= 390 for width in tab.page.evaluate(tables)), f"a table of {view} is wider than a phone"
    tab.open(url, view="table", open="weighted")
    lines = """() => {
        const node = document.querySelector('.changes');
        if (!node?.getClientRects().length) return null;
        ['a.first_key: 1→2', 'options.direction: 3→4'].forEach((text) => node.append(V.el('code', { text })));
        const rectangles = (chip, all = document.createRange()) => (all.selectNodeContents(chip), all.getClientRects());
        return [...node.querySelectorAll('code')].map((chip) => rectangles(chip).length);
    }"""  # in one step, when it is shown: the page may draw its table again at any time
    found = tab.page.wait_for_function(lines).json_value()
    assert found == [1] * len(found) and len(found) > 2
    context.close()
    assert tab.faults == []


def test_a_table_that_goes_on_at_the_right_fades_there(browser: Any, fresh_tab: Any, url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    tab = fresh_tab(context)
    tab.open(url, view="table")
    tab.page.locator(
        "h2", has_text=re.compile("(more than|told from) chance")
    ).wait_for()  # the table is widened by its intervals
    part = "[data-scroll=table]"
    tab.page.wait_for_selector(f"{part}.more-right")
    assert "gradient" in tab.page.locator(part).evaluate("node => getComputedStyle(node).maskImage")
    tab.page.locator(part).evaluate("node => { node.scrollLeft = node.scrollWidth; }")
    tab.page.wait_for_selector(f"{part}:not(.more-right)")
    tab.page.set_viewport_size({"width": 1366, "height": 768})
    tab.page.wait_for_selector(f"{part}:not(.more-right)")
    context.close()
    assert tab.faults == []


def test_everything_is_reached_by_keyboard(tab: Any, url: str) -> None:
    tab.open(url)
    for at, view in enumerate(VIEWS):
        tab.page.keyboard.press(str(at + 1))
        tab.drawn(view)
    tab.page.keyboard.press("?")
    assert tab.page.locator("dialog[open] kbd").count() >= 8
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("dialog[open]").count() == 0
    tab.page.keyboard.press("2")
    tab.drawn("curves")
    tab.page.keyboard.press("/")
    assert tab.page.evaluate("() => document.activeElement.id") == "filter"
    tab.page.keyboard.type("weighted")
    tab.page.wait_for_function("() => document.querySelectorAll('.rows li').length === 2")
    assert tab.page.evaluate("() => document.activeElement.id") == "filter"
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("1")
    tab.drawn("table")
    tab.page.locator("tr.line").first.focus()
    first, second = (tab.page.locator("tr.line").nth(k).get_attribute("id") for k in (0, 1))
    assert tab.page.evaluate("() => document.activeElement.id") == first
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate("() => document.activeElement.id") == second
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("tr.line[aria-expanded=true]")
    assert tab.page.evaluate("() => document.activeElement.id") == second


def test_the_theme_switches_and_is_remembered(tab: Any, url: str) -> None:
    tab.open(url, view="curves")
    light = tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    tab.page.keyboard.press("t")
    tab.page.wait_for_selector("html[data-theme=dark]")
    assert tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor") != light
    tab.page.reload()
    tab.drawn("curves")
    assert tab.page.locator("html").get_attribute("data-theme") == "dark"
