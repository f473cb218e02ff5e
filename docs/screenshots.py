"""Makes the pictures of the dashboard in docs/images: every view, light and dark, of a stored quickstart sweep.

    python src/train.py --multirun sweep=quickstart 'seeds=[1,2]'
    python docs/screenshots.py runs

Needs Chromium and the Python package playwright. The store is only read.
"""

import argparse
import io
import os
import shutil
import sys
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
    parser.add_argument("runs", type=Path, help="a run store that holds the quickstart sweep")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    if not (arguments.runs / SWEEP).is_dir():
        parser.error(f"{arguments.runs} holds no sweep {SWEEP}: train it with src/train.py --multirun sweep={SWEEP}")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        parser.error("there is no Chromium on this machine")

    from playwright.sync_api import sync_playwright

    from variations.dashboard.api import Api
    from variations.dashboard.server import Server
    from variations.dashboard.store import Store

    server = Server(Api(Store(arguments.runs), sweep=SWEEP))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    arguments.out.mkdir(parents=True, exist_ok=True)
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if root else [])
        for theme in ("light", "dark"):
            context = browser.new_context(viewport=SCREEN, color_scheme=theme, reduced_motion="reduce")
            for view, keys in VIEWS.items():
                path = arguments.out / f"dashboard-{view}-{theme}.png"
                path.write_bytes(smaller(picture(context, server.url, view, keys)))
                print(path, flush=True)
            context.close()
        browser.close()
    server.shutdown()


def picture(context: Any, url: str, view: str, keys: dict[str, Any]) -> bytes:
    """One view as PNG, after its charts and the tests of significance have come."""
    keys = {"view": view, **keys}
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{url}#{urlencode({'sweep': SWEEP, **keys}, doseq=True)}", wait_until="commit")
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
