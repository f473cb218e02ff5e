"""Pictures of optuna-dashboard for docs/search.md: `python docs/screenshots_optuna.py runs/search_toy/study.log`."""

import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

IMAGE = Path(__file__).parent / "images" / "optuna-dashboard.png"


def main(storage: str) -> None:
    """Serve the storage on this machine, open its first study, and save what is seen."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(Path(sys.executable).with_name("optuna-dashboard"))
    server = subprocess.Popen([program, "--port", str(port), storage], stderr=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}/api/studies")
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1400, "height": 650})
            page.set_default_timeout(400_000)  # a busy machine
            page.goto(f"http://127.0.0.1:{port}/dashboard/studies/0", wait_until="commit")
            page.wait_for_selector(".js-plotly-plot .main-svg")
            page.wait_for_timeout(8_000)
            IMAGE.parent.mkdir(exist_ok=True)
            page.screenshot(path=str(IMAGE))
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _wait(url: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10):  # noqa: S310 - its own server
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


if __name__ == "__main__":
    main(sys.argv[1])
