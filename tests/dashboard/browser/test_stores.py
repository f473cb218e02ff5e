"""Run stores in headless Chromium: running, empty, one run, two hundred runs, hostile text; the exported file."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import browser_store
import pytest

pytestmark = pytest.mark.slow

VIEWS = ["table", "curves", "compare", "branches", "attention", "sweep", "scatter"]
EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script> "\' {{7*7}} $$x$$ @x \u202e'


def test_running_rows_and_new_rows_appear_and_the_selection_stays(
    tab: Any, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    root = tmp_path / "runs"
    browser_store.write(root, "transformer", label="Transformer", bleu=88.0)
    run = browser_store.write(root, "weighted", label="Weighted Transformer", bleu=84.0, state="running", until=300)
    tab.open(serve(root), view="curves", rows=["weighted"])
    value = tab.page.locator("li:has(#row-weighted) .value")
    before = value.inner_text()
    tab.page.locator("#row-weighted").focus()
    canvas = tab.page.locator(".plot canvas").first.element_handle()
    run.measurements.append(browser_store.line(600, 84.0))
    run.set_status("running", step=600)
    tab.page.wait_for_function(
        "before => document.querySelector('li:has(#row-weighted) .value').innerText !== before", arg=before
    )
    assert tab.page.locator(".rows input:checked").count() == 1
    assert tab.page.evaluate("() => document.activeElement.id") == "row-weighted"
    assert canvas.evaluate("node => node.isConnected"), "the chart moves on without being drawn anew"
    browser_store.write(root, "uniform", label="Weighted, all weights 1/M", state="running", until=100)
    tab.page.wait_for_selector("#row-uniform")
    assert tab.page.locator("#row-uniform").is_checked() is False
    tab.page.wait_for_function("() => document.querySelector('.states').innerText.includes('2 running')")
    tab.page.keyboard.press("6")
    tab.drawn("sweep")
    assert tab.page.locator("progress").count() == 2


def test_while_another_sweep_is_read_the_former_one_is_not_shown(
    tab: Any, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    root = tmp_path / "runs"
    browser_store.write(root, "transformer", label="Transformer", bleu=88.0)
    browser_store.write(root, "lonely", sweep="other", label="Lonely", base=None, bleu=77.0)
    tab.open(serve(root), sweep="quickstart")
    held: list[Any] = []
    slow = [True]
    tab.page.route(re.compile("/api/sweep/other"), lambda route: held.append(route) if slow[0] else route.continue_())
    tab.page.locator("#choose-sweep").focus()
    tab.page.locator("#choose-sweep").select_option("other")
    tab.page.wait_for_function("() => document.querySelector('main').innerText === 'Reading other …'")
    assert tab.page.locator("#choose-sweep").input_value() == "other"
    assert tab.texts(".states") == [""]
    assert tab.page.evaluate("() => document.activeElement.id") == "choose-sweep"
    slow[0] = False
    for request in held:
        request.continue_()
    tab.page.wait_for_selector("text=Lonely")
    assert tab.texts(".states") == ["✓ 1 finished"]


def test_a_sweep_that_cannot_be_read_is_told_of_and_the_message_stays(
    tab: Any, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    browser_store.write(tmp_path / "runs", "transformer", label="Transformer", bleu=88.0)
    url = serve(tmp_path / "runs")
    tab.page.goto(f"{url}#sweep=nope", wait_until="commit")
    tab.page.wait_for_selector("text=This cannot be shown")
    tab.page.wait_for_timeout(400)
    assert "This cannot be shown" in tab.page.locator("main").inner_text()
    (logged,) = tab.faults  # Chromium's own line about the answer
    assert "404" in logged
    tab.faults.clear()


def test_a_seed_that_is_running_does_not_take_the_shown_value_back(
    tab: Any, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    root = tmp_path / "runs"
    browser_store.write(root, "weighted", 1, label="Weighted Transformer", bleu=84.0)
    tab.open(serve(root), view="curves", rows=["weighted"])
    value = tab.page.locator("li:has(#row-weighted) .value")
    alone = value.inner_text()
    assert float(alone) > 0
    browser_store.write(root, "weighted", 2, label="Weighted Transformer", bleu=84.0, state="running", until=300)
    tab.page.locator(".plot canvas").first.wait_for()
    tab.page.wait_for_selector("li:has(#row-weighted) .running")
    assert value.inner_text() == alone


def test_an_export_opens_from_the_file_system_with_every_view(tab: Any, url: str, tmp_path: Path) -> None:
    tab.open(url, view="table")
    with tab.page.expect_download() as download:
        tab.page.locator("#export").click()
    path = tmp_path / "sent.html"
    download.value.save_as(path)
    assert path.stat().st_size < 3_000_000
    requests: list[str] = []
    tab.page.on("request", lambda request: requests.append(request.url))
    tab.open(path.as_uri())
    for view in VIEWS:
        tab.go(view)
        assert tab.page.locator(".empty").count() == 0, tab.texts(".empty")
    tab.go("keys")
    assert tab.texts("#importance tbody th")[0] == "model model.kind"
    assert tab.page.locator("#live").inner_text() == "exported file"
    assert {re.sub(r"#.*", "", item) for item in requests if not item.startswith(("data:", "blob:", "about:"))} == {
        path.as_uri()
    }
    tab.go("table")
    tab.page.locator("[id='sort-test.bleu']").click()
    assert tab.texts("table.results th[scope=row] .label")[0] == "Transformer"
    tab.open(path.as_uri(), view="compare", ids=["quickstart/transformer/seed1", "quickstart/weighted/seed1"])
    assert "model.kind" in tab.texts("#config tbody th")
    assert "test BLEU" in tab.texts("#scores tbody th") and tab.page.locator("#scores .interval").count() > 0
    tab.open(path.as_uri(), view="compare", ids=["quickstart/weighted/seed1", "quickstart/transformer/seed1"])
    assert "Not in this file" in tab.page.locator(".empty").inner_text()
    tab.open(path.as_uri(), view="compare", ids=["quickstart/transformer/seed1", "quickstart/weighted/seed1"])
    tab.go("table")
    tab.page.go_back()
    tab.drawn("compare")


def test_text_from_runs_is_only_text(tab: Any, tmp_path: Path, serve: Callable[[Path], str]) -> None:
    root = tmp_path / "runs"
    row = "<b onmouseover=alert(1)>"
    texts = ([EVIL] * 6, ["eins zwei drei"] * 6, [f"eins {EVIL}"] * 6)
    good = (texts[0], texts[1], ["eins zwei drei"] * 6)
    first = browser_store.write(root, "base", sweep="evil", label=f"base {EVIL}", base=None, texts=good, branched=True)
    other = browser_store.write(
        root, row, sweep="evil", label=EVIL, base="base", texts=texts, branched=True, bleu=70.0, name=EVIL
    )
    failed = browser_store.write(root, "failed", sweep="evil", label=EVIL, state="failed", reason=EVIL, until=300)
    failed.log.write_text(f"{EVIL}\n")
    maps = browser_store.attention()
    maps["sentences"][0] |= {"source": EVIL, "target": EVIL, "source_tokens": [EVIL] * 4, "target_tokens": [EVIL] * 4}
    for folder in (first, other):
        (folder.path / "attention.json").write_text(json.dumps(maps))
        (folder.path / "environment.json").write_text(json.dumps({"cpu": f"{EVIL} {folder.row}"}))
    url = serve(root)
    address = url
    with tab.page.expect_download() as download:
        tab.open(url, view="table")
        tab.page.locator("#export").click()
    download.value.save_as(tmp_path / "evil.html")
    for address in (url, (tmp_path / "evil.html").as_uri()):
        tab.open(address, view="table", open=row)
        for view in VIEWS:
            tab.go(view)
            box = tab.page.locator(".plot").first
            if box.count():
                box.hover()
            assert tab.page.evaluate("() => window.hacked") is None
            assert "\u202e" not in tab.page.locator("body").inner_text()
            assert tab.page.locator("main img, main b, header img, main script").count() == 0
        assert EVIL.split("<script>")[0] in tab.page.content().replace("&lt;", "<").replace("&gt;", ">")


def test_an_empty_store_says_what_to_do_and_fills_by_itself(
    tab: Any, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    tab.open(serve(root))
    assert "python src/train.py --multirun sweep=quickstart" in tab.page.locator(".empty").inner_text()
    browser_store.write(root, "transformer", label="Transformer", state="running", until=100)
    tab.page.wait_for_selector("#line-transformer")


def test_one_run_is_enough_for_every_view(tab: Any, tmp_path: Path, serve: Callable[[Path], str]) -> None:
    root = tmp_path / "runs"
    browser_store.write(root, "first", sweep="single", label="first", base=None)
    tab.open(serve(root))
    for view in VIEWS:
        tab.go(view)
    assert tab.page.locator(".chart[data-drawn]").count() == 1
    tab.go("compare")
    assert "Nothing to compare yet" in tab.page.locator(".empty").inner_text()


def test_two_hundred_runs_are_listed_filtered_and_drawn_by_the_best(
    tab: Any, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    url = serve(browser_store.many(tmp_path / "runs", 200))
    tab.open(url, view="table")
    assert tab.page.locator("tr.line").count() == 200
    tab.page.locator("#nav-curves").click()
    tab.drawn("curves")
    assert tab.page.locator(".rows li").count() == 200
    assert tab.page.locator(".rows input:checked").count() == 6
    best = max(range(200), key=lambda at: at * 37 % 199)
    assert tab.page.locator(f"#row-row{best:03d}").is_checked()
    tab.page.locator("#filter").fill("Row 19")
    tab.page.wait_for_function("() => document.querySelectorAll('.rows li').length === 12")
    tab.page.locator("#top-all").click()
    tab.page.wait_for_function("() => document.querySelectorAll('.rows input:checked').length === 12")
    tab.page.locator("#nav-scatter").click()
    tab.drawn("scatter")
