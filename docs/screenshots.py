r"""Makes the pictures of the dashboard in docs/images, light and dark.

    python docs/screenshots.py

Table, Compare, Scatter and Keys show recorded runs (`records/`). What records do not hold (attention maps, κ and α, a
grid, a row that is running and one that failed) comes from a small grid on the built-in corpus, which this script
trains first: nine runs of 300 updates, some minutes on two cores. They are kept in `--store`, and finished ones are not
run again.

A picture of records contains the hash of their table, and every picture those of its words that are written in our
source. By these a test notices that a picture is out of date.

`--pictures NAME …` makes some of them. Needs Chromium and the Python package playwright.
"""

import argparse
import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

GRID = "quickstart"
SHARED = ["model.d_model=64", "model.d_ff=128", "trainer.max_steps=300", "logger=tensorboard"]
AXES = ["model.N=1,2", "recipe.lr=0.25,0.5,1"]
CELLS = [f"transformer,model.N={n},recipe.lr={lr}" for n in (1, 2) for lr in (0.25, 0.5, 1)]
FAILING = "recipe.lr=1e30"
"""A learning rate at which the loss is soon not finite: a row that fails as rows do."""
BEST = f"{GRID}/transformer,model.N=2,recipe.lr=1/seed1"
BRANCHED = f"{GRID}/weighted/seed1"
READINGS, MEMORY, TABLE3 = "readings", "memn2n", "toy_attention_table3"
RECORDED = {READINGS: "toy_weighted_readings", MEMORY: "babi_memn2n_1k", TABLE3: TABLE3}
"""Sweeps, and whose records they show; one of another name than its records has the recorded rows alone."""
ROWS = {MEMORY: ("pe", "bow", "pe_ls", "pe_ls_rn")}
"""The recorded rows that are shown; of other sweeps all."""
TABLE, WORDS = "table-sha256", "words"
"""Keys of a picture's text: the hash of the table that it shows, and its words that are in our source, a line each."""


@dataclass(frozen=True)
class Picture:
    """One view of a store, and what is chosen in it."""

    view: str
    sweep: str = GRID
    keys: dict[str, Any] = field(default_factory=dict)
    height: int = 768


PICTURES = {
    "dashboard-sweep": Picture("sweep", height=900),
    "readme-table": Picture("table", MEMORY, height=700),
    "dashboard-compare": Picture(
        "compare", READINGS, {"ids": [f"{READINGS}/{row}/seed1" for row in ("learned", "uniform")]}
    ),
    "dashboard-table": Picture("table", TABLE3, {"group": "model.N"}),
    "dashboard-curves": Picture("curves", keys={"group": "recipe.lr", "rows": CELLS}),
    "dashboard-panels": Picture("curves", keys={"panels": "measures", "rows": CELLS[3:]}, height=800),
    "dashboard-branches": Picture("branches", keys={"run": BRANCHED}),
    "dashboard-attention": Picture("attention", keys={"run": BEST}),
    "dashboard-scatter": Picture("scatter", TABLE3, {"cost": "flops"}, height=860),
    "dashboard-keys": Picture("keys", TABLE3, height=900),
}
"""By the names of their files; that of the running row comes first."""


def main() -> None:
    """Train what is missing, serve both stores, and take every picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "pictures", help="where the small grid is kept")
    parser.add_argument("--pictures", nargs="*", choices=list(PICTURES), default=list(PICTURES))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        parser.error("there is no Chromium on this machine")
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = {name: picture for name, picture in PICTURES.items() if name in arguments.pictures}
    with contextlib.ExitStack() as stack:
        urls = dict.fromkeys(RECORDED, stack.enter_context(served(recorded(stack))))
        if any(picture.sweep == GRID for picture in wanted.values()):
            train(arguments.store, "rows=[transformer]", *AXES)
            train(arguments.store, "rows=[weighted]")
            train(arguments.store, "rows=[uniform]", FAILING, fails=True)
            if "dashboard-sweep" in wanted:
                stack.enter_context(running(arguments.store, "rows=[learned_positions]"))
            urls[GRID] = stack.enter_context(served(arguments.store))
        take(chromium, wanted, urls, arguments.out)


# Stores ---------------------------------------------------------------------------------------------------------------


def recorded(stack: contextlib.ExitStack) -> Path:
    """A store with copies of RECORDED."""
    store = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for name, records in RECORDED.items():
        for row in (ROOT / "records" / records).iterdir():
            if row.name in ROWS.get(name, (row.name,)):
                shutil.copytree(row, store / name / row.name)
    return store


def command(store: Path, *keys: str) -> list[str]:
    """Train rows of the grid's sweep."""
    return [
        sys.executable,
        str(ROOT / "src" / "train.py"),
        "--multirun",
        f"sweep={GRID}",
        f"runs={store}",
        *SHARED,
        *keys,
    ]


def train(store: Path, *keys: str, fails: bool = False) -> None:
    """Run what is not finished; a row that is to fail is not tried again."""
    if fails and (store / GRID / "uniform").exists():
        return
    code = subprocess.run(command(store, *keys), check=False).returncode
    if code != int(fails):
        sys.exit(f"training ended with exit code {code}, and {int(fails)} was expected")


@contextlib.contextmanager
def running(store: Path, *keys: str) -> Iterator[None]:
    """A row under way, from its hundredth update on; stopped at the end."""
    home = store / GRID / "learned_positions"
    shutil.rmtree(home, ignore_errors=True)
    process = subprocess.Popen(command(store, *keys))
    try:
        while not any('"step": 100' in path.read_text() for path in home.glob("*/metrics.jsonl")):
            if process.poll() is not None:
                sys.exit("the row that was to be running has ended")
            time.sleep(0.5)
        yield
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def served(store: Path) -> Iterator[str]:
    """The address of a dashboard of `store`."""
    from variations.dashboard.api import Api
    from variations.dashboard.server import Server
    from variations.dashboard.store import Store

    server = Server(Api(Store(store)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.url
    finally:
        server.shutdown()


# Pictures -------------------------------------------------------------------------------------------------------------


def take(chromium: str, wanted: dict[str, Picture], urls: dict[str, str], out: Path) -> None:
    """Every picture in both themes."""
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's sandbox does not work for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if root else [])
        for name, picture in wanted.items():
            for theme in ("light", "dark"):
                screen: Any = {"width": 1366, "height": picture.height}
                context = browser.new_context(viewport=screen, color_scheme=theme, reduced_motion="reduce")
                path = out / f"{name}-{theme}.png"
                image, texts = shot(context, urls[picture.sweep], picture)
                path.write_bytes(smaller(image, {TABLE: table_of(picture), WORDS: "\n".join(in_source(texts))}))
                print(path, flush=True)
                context.close()
        browser.close()


def shot(context: Any, url: str, picture: Picture) -> tuple[bytes, list[str]]:
    """One view as PNG, after its charts and the tests of significance have come, and its pieces of text."""
    page = context.new_page()
    page.set_default_timeout(120_000)
    keys = {"sweep": picture.sweep, "view": picture.view, **picture.keys}
    page.goto(f"{url}#{urlencode(keys, doseq=True)}", wait_until="commit")
    page.wait_for_selector(f'html[data-shown^="{picture.view}:"]', state="attached")
    if picture.view not in ("table", "sweep", "keys"):
        page.wait_for_selector(".chart[data-drawn]")
    page.wait_for_function("() => !document.body.innerText.includes('being tested')")
    page.wait_for_timeout(1500)
    image: bytes = page.screenshot()
    texts: list[str] = page.evaluate(
        """() => {
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
          while (walk.nextNode())
            if (walk.currentNode.parentElement.checkVisibility()) found.push(walk.currentNode.data);
          return found;
        }"""
    )
    page.close()
    return image, texts


def source() -> str:
    """Whatever the dashboard's words can come from."""
    files = (path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".py", ".js", ".html", ".yaml"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def in_source(texts: list[str]) -> list[str]:
    """Those of two words or more that are written in our source as they are shown."""
    ours, pieces = source(), sorted({" ".join(text.split()) for text in texts})
    return [text for text in pieces if " " in text and text in ours]


def table_of(picture: Picture) -> str:
    """SHA-256 of the committed table of the records that a picture shows; empty if it shows none."""
    if picture.sweep not in RECORDED:
        return ""
    page = (ROOT / "docs" / "results" / f"{RECORDED[picture.sweep]}.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def smaller(png: bytes, texts: dict[str, str]) -> bytes:
    """The same picture in 256 colours, which a drawing does not exceed by much: a third of the bytes.

    `texts` that are not empty are stored in it.
    """
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    out, info = io.BytesIO(), PngInfo()
    for key, text in texts.items():
        if text:
            info.add_itxt(key, text)
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True, pnginfo=info
    )
    return out.getvalue()


if __name__ == "__main__":
    main()
