"""The picture of TensorBoard for docs/wandb.md: `python docs/screenshots_tensorboard.py build/pictures/quickstart`.

The folder holds runs made with logger=tensorboard, such as those of screenshots.py. Needs Chromium and the Python
package playwright.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

IMAGE = Path(__file__).parent / "images" / "tensorboard.png"
UNSMOOTHED = {"scalarSmoothing": 0, "sideBarWidthInPercent": 34}
"""TensorBoard's own settings: it smooths curves and cuts the names of runs if nothing is set."""


def main(runs: str) -> None:
    """Serve the runs on this machine, open the curves, and save what is seen."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", runs, "--port", str(port), "--load_fast", "false"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}/data/runs")
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.set_default_timeout(120_000)
            page.add_init_script(
                f"localStorage.setItem('_tb_global_settings', JSON.stringify({json.dumps(UNSMOOTHED)}))"
            )
            page.goto(f"http://127.0.0.1:{port}/?darkMode=false#timeseries")
            page.wait_for_selector("card-view")
            page.get_by_role("button", name="Settings").last.click()  # closes them
            page.get_by_role("combobox", name="Filter tags (regex)").fill("train/loss|dev/|dead")
            runs_filter = page.get_by_role("textbox", name="Filter runs (regex)").last
            runs_filter.press_sequentially("seed1")
            runs_filter.press("Enter")
            page.mouse.click(700, 870)  # closes the list of suggestions
            page.mouse.move(700, 2)  # from the charts, where it shows values
            page.wait_for_timeout(8_000)
            IMAGE.parent.mkdir(exist_ok=True)
            page.screenshot(path=str(IMAGE))
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _wait(url: str) -> None:
    """Until the runs are read. Raises OSError after two minutes."""
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - its own server
                if answer.read().strip() not in (b"", b"[]"):
                    return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.3)


if __name__ == "__main__":
    main(sys.argv[1])
