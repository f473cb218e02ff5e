"""Fixtures: headless Chromium, and servers for it to open."""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from variations.dashboard.api import Api
from variations.dashboard.server import Server
from variations.dashboard.store import Store

sys.path.append(str(Path(__file__).parent))  # for the module in this folder

import browser_store

SIZE = {"width": 1366, "height": 768}


class Tab:
    """A page and its errors."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.faults: list[str] = []
        page.set_default_timeout(30_000)
        page.on("console", self._console)
        page.on("pageerror", self._error)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def _error(self, error: Any) -> None:
        self.faults.append(str(error))

    def leave(self) -> None:
        """Make the page ready for another test."""
        if self.page.url.startswith("http"):
            self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        self.page.unroute_all()
        self.page.set_viewport_size(SIZE)
        self.page.remove_listener("console", self._console)
        self.page.remove_listener("pageerror", self._error)

    def open(self, url: str, **keys: Any) -> None:
        """Load a view anew and wait until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(f"{url}#{urlencode(keys, doseq=True)}", wait_until="commit")
        self.drawn()

    def go(self, view: str) -> None:
        """Follow a link to another view of the open page, as a user does; loaded data stays loaded."""
        self.page.locator(f"#nav-{view}").click()
        self.drawn(view)

    def drawn(self, view: str = "") -> None:
        self.page.wait_for_selector(f'html[data-shown^="{view}:"]' if view else "html[data-shown]", state="attached")

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work as root
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if root else [])
        yield found
        found.close()


@pytest.fixture
def fresh_tab() -> Callable[[Any], Tab]:
    """Open a page in a new browser context; the caller checks its faults."""
    return lambda context: Tab(context.new_page())


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    """A page for all tests of a file, because Chromium needs a second of CPU time for a new one."""
    context = browser.new_context(viewport=SIZE, color_scheme="light", accept_downloads=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def tab(page: Any) -> Iterator[Tab]:
    """The empty page; the test fails on any console error, including policy violations."""
    found = Tab(page)
    yield found
    found.leave()
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
    return browser_store.quickstart(tmp_path_factory.mktemp("store") / "runs")


@pytest.fixture
def url(quickstart: Path, serve: Callable[[Path], str]) -> str:
    return serve(quickstart)
