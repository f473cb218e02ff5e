"""The dashboard in headless Chromium: every view, live rows, sorting, export, hostile text, themes, keyboard, sizes."""

import importlib.util
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from variations.dashboard.api import Api
from variations.dashboard.server import Server
from variations.dashboard.store import Store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

spec = importlib.util.spec_from_file_location("browser_store", Path(__file__).with_name("browser_store.py"))
assert spec is not None and spec.loader is not None
stores = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stores)

VIEWS = ["table", "curves", "compare", "branches", "attention", "sweep", "scatter"]
EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script> "\' {{7*7}} $$x$$ @x'


class Tab:
    """A page, and what went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.faults: list[str] = []
        page.set_default_timeout(30_000)
        page.on(
            "console",
            lambda message: self.faults.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    def open(self, url: str, **keys: Any) -> None:
        """Open a view afresh and wait until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(f"{url}#{urlencode(keys, doseq=True)}", wait_until="commit")
        self.drawn()

    def drawn(self, view: str = "") -> None:
        self.page.wait_for_selector(f'html[data-shown^="{view}:"]' if view else "html[data-shown]", state="attached")

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work for root
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if root else [])
        yield found
        found.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    """A fresh page; the test fails on any error in its console, a policy violation among them."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme="light", accept_downloads=True)
    found = Tab(context.new_page())
    yield found
    context.close()
    assert found.faults == []


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    servers = []

    def start(root: Path) -> str:
        server = Server(Api(Store(root)))
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server.url

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.quickstart(tmp_path_factory.mktemp("store") / "runs")


@pytest.fixture
def url(quickstart: Path, serve: Callable[[Path], str]) -> str:
    return serve(quickstart)


# Views ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_drawn_in_both_themes_without_a_fault(browser: Any, url: str, theme: str) -> None:
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme=theme)
    tab = Tab(context.new_page())
    for view in VIEWS:
        tab.open(url, view=view)
        assert tab.page.locator("html").get_attribute("data-theme") == theme
        assert tab.page.locator("nav a[aria-current=page]").inner_text().lower() == view
        assert tab.page.locator(".empty").count() == 0, tab.texts(".empty")
        if view != "sweep":
            tab.page.wait_for_selector(".chart[data-drawn]")  # that of the table comes with the tests of significance
            charts = tab.page.locator(".chart[data-drawn]")
            assert all(charts.nth(k).get_attribute("aria-label") for k in range(charts.count()))
        wide = tab.page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{view} is wider than the screen"
    context.close()
    assert tab.faults == []


def test_the_table_says_what_matters_and_names_what_is_missing(tab: Tab, url: str) -> None:
    tab.open(url, view="table")
    tab.page.wait_for_selector("sup.mark:not(:empty)")  # tests of significance come after the first view
    labels = [label for label, _, _ in stores.ROWS.values()]
    assert sorted(tab.texts("table.results th[scope=row] .label")) == sorted(labels)
    assert tab.page.locator("h2").first.inner_text().startswith("Best test BLEU: Transformer, 88.60.")
    assert "88.60 ± 0.28" in tab.page.locator("#line-transformer").inner_text()
    assert "1/2 ✕ failed" in tab.page.locator("#line-learned_positions").inner_text()
    tab.page.locator("#line-weighted").click()
    assert "transformer→weighted" in tab.page.locator("tr.detail").inner_text()
    assert "open=weighted" in tab.page.url


def test_columns_sort_by_click_and_by_enter_and_the_back_button_undoes_it(tab: Tab, url: str) -> None:
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


def test_curves_keep_what_was_chosen_in_the_address(tab: Tab, url: str) -> None:
    tab.open(url, view="curves")
    assert tab.page.locator(".rows input:checked").count() == 4
    tab.page.locator("#row-uniform").uncheck()
    tab.page.locator("#metric").select_option("train/loss")
    tab.page.locator("#x").select_option("flops")
    tab.page.locator("#logy").check()
    tab.page.locator("#seeds-each").click()
    tab.page.locator(
        "h2", has_text="training loss (nats per sub-word, label-smoothed) against training FLOPs"
    ).wait_for()
    address = tab.page.url
    tab.page.goto("about:blank")
    tab.page.goto(address)
    tab.drawn("curves")
    assert tab.page.locator("#row-uniform").is_checked() is False
    assert tab.page.locator("#row-weighted").is_checked() is True
    assert tab.page.locator("#metric").input_value() == "train/loss"
    assert tab.page.locator("#logy").is_checked() is True
    assert tab.page.locator("#seeds-each").get_attribute("aria-pressed") == "true"


def test_smoothing_moves_by_key_and_hover_tells_the_run(tab: Tab, url: str) -> None:
    tab.open(url, view="curves")
    tab.page.locator("#smooth").focus()
    for _ in range(4):
        tab.page.keyboard.press("ArrowRight")
    assert "smooth=0.2" in tab.page.url
    assert tab.page.evaluate("() => document.activeElement.id") == "smooth"
    tab.drawn("curves")
    box = tab.page.locator(".plot").bounding_box()
    tips = tab.page.locator(".bk-tooltip-content")
    for k in range(30):  # somewhere on the way up there is a line
        tab.page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] * (0.02 + 0.02 * k), steps=2)
        tab.page.wait_for_timeout(150)
        if tips.count():
            break
    assert "step:" in tips.first.inner_text()
    assert "Transformer" in tips.first.inner_text()


def test_two_runs_are_compared_by_what_differs(tab: Tab, url: str) -> None:
    ids = ["quickstart/transformer/seed1", "quickstart/weighted/seed1"]
    tab.open(url, view="compare", ids=ids)
    keys = tab.texts("#config tbody th")
    assert "model.kind" in keys
    assert not any(key.startswith("trainer") for key in keys)
    scores = tab.page.locator("#scores").inner_text()
    assert "88.40" in scores and "83.40" in scores and "−5.00" in scores
    assert tab.page.locator(".sample").count() >= 5
    assert tab.page.locator(".sample mark", has_text="falsch").count() > 0
    tab.page.locator("#add-run").select_option("quickstart/uniform/seed1")
    tab.page.locator("h2", has_text="2 runs compared with Transformer").wait_for()


def test_branches_show_the_dead_one_and_follow_the_step(tab: Tab, url: str) -> None:
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


def test_attention_picks_layer_and_heads(tab: Tab, url: str) -> None:
    tab.open(url, view="attention")
    assert tab.page.locator("#layer").input_value() == "cross.0"
    lines = tab.page.locator("svg.bipartite line")
    both = lines.count()
    tab.page.locator("#head-2").click()
    tab.page.locator("h3", has_text="Heat map: head 1").wait_for()
    assert lines.count() == both // 2
    word = tab.page.locator("svg.bipartite text[data-side=q]").nth(1)
    assert word.get_attribute("aria-label") == "Hund looks most at dog, weight 0.85"
    word.hover()
    assert tab.page.locator("svg.bipartite line.off").count() == lines.count() * 3 // 4
    tab.page.locator("#layer").select_option("encoder.0")
    tab.page.locator("h2", has_text="encoder, layer 1").wait_for()


def test_the_sweep_shows_failures_with_their_log(tab: Tab, url: str) -> None:
    tab.open(url, view="sweep")
    assert tab.page.locator("h2").inner_text() == "quickstart: 7 finished, 1 failed"
    assert "The loss is not finite." in tab.page.locator(".reason").inner_text()
    assert "step 500 loss nan" in tab.page.locator("pre.log").inner_text()


def test_the_scatter_names_its_front(tab: Tab, url: str) -> None:
    tab.open(url, view="scatter")
    front = tab.page.locator("p.hint").inner_text()
    assert "Weighted Transformer → Transformer." in front
    tab.page.locator("#cost-flops").click()
    tab.page.locator("h2", has_text="test BLEU against FLOPs: 4 rows").wait_for()


# Live -----------------------------------------------------------------------------------------------------------------


def test_running_rows_and_new_rows_appear_and_the_selection_stays(
    tab: Tab, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    root = tmp_path / "runs"
    stores.write(root, "transformer", label="Transformer", bleu=88.0)
    run = stores.write(root, "weighted", label="Weighted Transformer", bleu=84.0, state="running", until=300)
    tab.open(serve(root), view="curves", rows=["weighted"])
    value = tab.page.locator("li:has(#row-weighted) .value")
    before = value.inner_text()
    tab.page.locator("#row-weighted").focus()
    canvas = tab.page.locator(".plot canvas").first.element_handle()
    run.append_metrics(stores.line(600, 84.0))
    run.set_status("running", step=600)
    tab.page.wait_for_function(
        "before => document.querySelector('li:has(#row-weighted) .value').innerText !== before", arg=before
    )
    assert tab.page.locator(".rows input:checked").count() == 1
    assert tab.page.evaluate("() => document.activeElement.id") == "row-weighted"
    assert canvas.evaluate("node => node.isConnected"), "the chart moves on without being drawn anew"
    stores.write(root, "uniform", label="Weighted, all weights 1/M", state="running", until=100)
    tab.page.wait_for_selector("#row-uniform")
    assert tab.page.locator("#row-uniform").is_checked() is False
    assert "2 running" in tab.page.locator(".states").inner_text()
    tab.page.keyboard.press("6")
    tab.drawn("sweep")
    assert tab.page.locator("progress").count() == 2


# Export ---------------------------------------------------------------------------------------------------------------


def test_an_export_opens_from_the_file_system_with_every_view(tab: Tab, url: str, tmp_path: Path) -> None:
    tab.open(url, view="table")
    with tab.page.expect_download() as download:
        tab.page.locator("#export").click()
    path = tmp_path / "sent.html"
    download.value.save_as(path)
    assert path.stat().st_size < 3_000_000
    requests: list[str] = []
    tab.page.on("request", lambda request: requests.append(request.url))
    for view in VIEWS:
        tab.open(path.as_uri(), view=view)
        assert tab.page.locator(".empty").count() == 0, tab.texts(".empty")
    assert tab.page.locator("#live").inner_text() == "exported file"
    assert {re.sub(r"#.*", "", item) for item in requests if not item.startswith(("data:", "blob:", "about:"))} == {
        path.as_uri()
    }
    tab.open(path.as_uri(), view="table")
    tab.page.locator("[id='sort-test.bleu']").click()
    assert tab.texts("table.results th[scope=row] .label")[0] == "Transformer"
    tab.open(path.as_uri(), view="compare", ids=["quickstart/transformer/seed1", "quickstart/weighted/seed1"])
    assert "model.kind" in tab.texts("#config tbody th")
    tab.page.locator("#nav-table").click()
    tab.drawn("table")
    tab.page.go_back()
    tab.drawn("compare")


# Hostile text ---------------------------------------------------------------------------------------------------------


def test_text_from_runs_is_only_text(tab: Tab, tmp_path: Path, serve: Callable[[Path], str]) -> None:
    root = tmp_path / "runs"
    row = "<b onmouseover=alert(1)>"
    texts = ([EVIL] * 6, ["eins zwei drei"] * 6, [f"eins {EVIL}"] * 6)
    good = (texts[0], texts[1], ["eins zwei drei"] * 6)
    first = stores.write(root, "base", sweep="evil", label=f"base {EVIL}", base=None, texts=good, branched=True)
    other = stores.write(
        root, row, sweep="evil", label=EVIL, base="base", texts=texts, branched=True, bleu=70.0, name=EVIL
    )
    failed = stores.write(root, "failed", sweep="evil", label=EVIL, state="failed", reason=EVIL, until=300)
    failed.log.write_text(f"{EVIL}\n")
    maps = stores.attention()
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
        for view in VIEWS:
            tab.open(address, view=view, open=row)
            box = tab.page.locator(".plot").first
            if box.count():
                box.hover()
            assert tab.page.evaluate("() => window.hacked") is None
            assert tab.page.locator("main img, main b, header img, main script").count() == 0
        assert EVIL.split("<script>")[0] in tab.page.content().replace("&lt;", "<").replace("&gt;", ">")


# Keyboard and themes --------------------------------------------------------------------------------------------------


def test_everything_is_reached_by_keyboard(tab: Tab, url: str) -> None:
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
    tab.page.locator("#filter, tr.line").first.focus()
    first, second = (tab.page.locator("tr.line").nth(k).get_attribute("id") for k in (0, 1))
    assert tab.page.evaluate("() => document.activeElement.id") == first
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate("() => document.activeElement.id") == second
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("tr.line[aria-expanded=true]")
    assert tab.page.evaluate("() => document.activeElement.id") == second


def test_the_theme_switches_and_is_remembered(tab: Tab, url: str) -> None:
    tab.open(url, view="curves")
    light = tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    tab.page.keyboard.press("t")
    tab.page.wait_for_selector("html[data-theme=dark]")
    assert tab.page.evaluate("() => getComputedStyle(document.body).backgroundColor") != light
    tab.page.reload()
    tab.drawn("curves")
    assert tab.page.locator("html").get_attribute("data-theme") == "dark"


# Sizes ----------------------------------------------------------------------------------------------------------------


def test_an_empty_store_says_what_to_do_and_fills_by_itself(
    tab: Tab, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    tab.open(serve(root))
    assert "python src/train.py --multirun sweep=quickstart" in tab.page.locator(".empty").inner_text()
    stores.write(root, "transformer", label="Transformer", state="running", until=100)
    tab.page.wait_for_selector("#line-transformer")


def test_one_run_is_enough_for_every_view(tab: Tab, tmp_path: Path, serve: Callable[[Path], str]) -> None:
    root = tmp_path / "runs"
    stores.write(root, "first", sweep="single", label="first", base=None)
    url = serve(root)
    for view in VIEWS:
        tab.open(url, view=view)
    assert tab.page.locator(".chart[data-drawn]").count() == 1
    tab.open(url, view="compare")
    assert "Nothing to compare yet" in tab.page.locator(".empty").inner_text()


def test_two_hundred_runs_are_listed_filtered_and_drawn_by_the_best(
    tab: Tab, tmp_path: Path, serve: Callable[[Path], str]
) -> None:
    url = serve(stores.many(tmp_path / "runs", 200))
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
