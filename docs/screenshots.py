r"""Makes the pictures of the dashboard in docs/images: every view, light and dark, of a stored sweep.

    python src/train.py --multirun sweep=quickstart 'seeds=[1,2]'
    python docs/screenshots.py runs

The picture of the README is the table of recorded runs, and so needs no training:

    python docs/screenshots.py records --sweep toy_weighted_readings --rows learned random uniform \
        --views table --name readme --height 560

Needs Chromium and the Python package playwright. The store is only read.
"""

import argparse
import io
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

SCREEN: Any = {"width": 1366, "height": 768}
"""A laptop's."""
SWEEP = "quickstart"
SHOWN = 'html[data-shown^="{}:"]'
VIEWS: dict[str, dict[str, Any]] = {
    "table": {"open": "weighted"},
    "curves": {},
    "compare": {"ids": [f"{SWEEP}/transformer/seed1", f"{SWEEP}/weighted/seed1"]},
    "sentences": {"view": "compare", "ids": [f"{SWEEP}/transformer/seed1", f"{SWEEP}/weighted/seed1"]},
    "branches": {"run": f"{SWEEP}/weighted/seed1"},
    "attention": {"run": f"{SWEEP}/transformer/seed1"},
    "sweep": {},
    "scatter": {"cost": "flops"},
}
"""Each view, and what is chosen in it; `sentences` is further down in `compare`."""


def main() -> None:
    """Serve the store, and take every picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="a run store that holds the sweep")
    parser.add_argument("--sweep", default=SWEEP)
    parser.add_argument("--rows", nargs="*", help="show only these rows of the sweep")
    parser.add_argument("--views", nargs="*", choices=list(VIEWS), default=list(VIEWS))
    parser.add_argument("--name", default="dashboard", help="how the files' names begin")
    parser.add_argument("--height", type=int, default=SCREEN["height"])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    sweep = arguments.sweep
    if not (arguments.runs / sweep).is_dir():
        parser.error(f"{arguments.runs} holds no sweep {sweep}: train it with src/train.py --multirun sweep={sweep}")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        parser.error("there is no Chromium on this machine")

    from playwright.sync_api import sync_playwright

    from variations.dashboard.api import Api
    from variations.dashboard.server import Server
    from variations.dashboard.store import Store

    runs = arguments.runs
    if arguments.rows:
        runs = Path(tempfile.mkdtemp())
        for row in arguments.rows:
            shutil.copytree(arguments.runs / sweep / row, runs / f"{sweep}_rows" / row)
        sweep = f"{sweep}_rows"
    server = Server(Api(Store(runs), sweep=sweep))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    arguments.out.mkdir(parents=True, exist_ok=True)
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if root else [])
        for theme in ("light", "dark"):
            screen = {**SCREEN, "height": arguments.height}
            context = browser.new_context(viewport=screen, color_scheme=theme, reduced_motion="reduce")
            for view in arguments.views:
                keys = VIEWS[view] if sweep == SWEEP else {}
                path = arguments.out / f"{arguments.name}-{view}-{theme}.png"
                path.write_bytes(smaller(picture(context, server.url, sweep, view, keys)))
                print(path, flush=True)
            context.close()
        browser.close()
    server.shutdown()


def picture(context: Any, url: str, sweep: str, view: str, keys: dict[str, Any]) -> bytes:
    """One view as PNG, after its charts and the tests of significance have come."""
    keys = {"view": view, **keys}
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{url}#{urlencode({'sweep': sweep, **keys}, doseq=True)}", wait_until="commit")
    page.wait_for_selector(SHOWN.format(keys["view"]), state="attached")
    if view != "sweep":
        page.wait_for_selector(".chart[data-drawn]")
    page.wait_for_timeout(1500)
    if view == "sentences":
        page.locator("h3", has_text="Sentences").evaluate("node => node.scrollIntoView()")
    found: bytes = page.screenshot()
    page.close()
    return found


def smaller(png: bytes) -> bytes:
    """The same picture in 256 colours, which a drawing does not exceed by much: a third of the bytes."""
    from PIL import Image

    out = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
