"""The commands printed in the README and the tutorial run in order in a new checkout.

Slow commands are shortened (`SHORTENED`). Commands that train a single run are composed, here and by test_readme.py.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from pages import FENCE, PLACEHOLDER, ROOT
from served import served

from variations.configuration.compose import compose_run
from variations.store.naming import run_folder

SHORTENED = {
    "train": ["debug=limit", "trainer.max_steps=4", "trainer.val_every=2"],
    "plan": ["measure=false"],  # measuring takes a minute
    "dashboard": ["port=0"],  # any free port
}


def lines_of(page: str) -> list[list[str]]:
    """Return the words of each `python src/…` command in a page's code blocks, in page order."""
    blocks = FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
    typed = [line for block in blocks for line in block.splitlines() if line.startswith("python src/")]
    return [shlex.split(line, comments=True)[1:] for line in typed]


class Checkout:
    """A copy of the commands and their configuration, in which command lines are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        left_out = shutil.ignore_patterns("__pycache__", "heads", "heads.yaml")  # the reader may have created these
        for name in ("src", "conf", "sweeps"):
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
        self.environment = os.environ | {"PYTHONPATH": str(folder / "src"), "COLUMNS": "160"}

    def typed(self, words: list[str], read: str | None = None, *, refused: bool = False) -> str:
        """Run a command line, which reads `read`; return its standard output, or what it says when it is `refused`."""
        short = [word for word in SHORTENED.get(Path(words[0]).stem, []) if word not in words]
        if "--multirun" in words:
            short = [*short, "seeds=[1]"]
        done = subprocess.run(
            [sys.executable, *words, *short],
            capture_output=True, text=True, input=read, env=self.environment, cwd=self.folder, check=False, timeout=200,
        )  # fmt: skip
        assert done.returncode == (2 if refused else 0), f"{shlex.join(words)}:\n{done.stderr}"
        return done.stderr if refused else done.stdout

    def served(self, words: list[str]) -> str:
        """Start the dashboard and return its first page."""
        command = [sys.executable, *words, *SHORTENED["dashboard"]]
        with served(command, folder=self.folder, environment=self.environment) as url:
            return urlopen(url, timeout=60).read().decode()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.slow
def test_an_ablation_of_ones_own(checkout: Checkout) -> None:
    """Run the commands of both pages, from `new.py` to a LaTeX table and records without checkpoints."""
    tutorial = [tuple(words) for words in lines_of("docs/tutorial.md") if "sweep=attention_table3" not in words]
    assert {tuple(words) for words in lines_of("README.md") if words[-1] == "sweep=heads"} < {*tutorial}
    page, printed = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8"), {}
    for words in dict.fromkeys(tutorial):
        verb = Path(words[0]).stem
        if "figure=differences" in words:  # after so few steps, there is no difference to draw
            assert "one head: not drawn, not trained: " in checkout.typed(list(words), refused=True)
            continue
        printed[verb] = checkout.served(list(words)) if verb == "dashboard" else checkout.typed(list(words))
    blocks = FENCE.findall(page)
    (piped,) = [line for block in blocks for line in block.splitlines() if "| python src/translate" in line]
    sentence, _, words = piped.partition(" | python ")
    translated = checkout.typed(shlex.split(words), read=shlex.split(sentence)[1] + "\n")
    assert len(translated.splitlines()) == 1
    assert printed["new"] in blocks
    assert "d_k 32→128" in printed["plan"]  # as the tutorial explains
    assert "2 finished" in printed["train"]
    assert "<html" in printed["dashboard"]
    assert r"\begin{tabular}" in (checkout.folder / "table.tex").read_text(encoding="utf-8")
    drawn = printed["figures"].splitlines()
    assert drawn and all((checkout.folder / path).stat().st_size > 0 for path in drawn), drawn
    records = checkout.folder / "records/heads"
    assert sorted(path.name for path in records.iterdir()) == ["base", "one_head"]
    assert not list(records.rglob("*.ckpt"))


@pytest.mark.slow
def test_make_demo_ends_with_the_table_the_report_and_two_commands_to_go_on_with(checkout: Checkout) -> None:
    shutil.copy(ROOT / "Makefile", checkout.folder)
    python = checkout.folder / "python"
    shortened = f'[ "$1" = src/train.py ] && set -- "$@" {shlex.join(SHORTENED["train"])}'
    python.write_text(f'#!/bin/sh\n{shortened}\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "--old-file=setup", "demo", f"PY={python}"],
        capture_output=True, text=True, env=checkout.environment, cwd=checkout.folder, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 finished" in done.stdout
    table, _, below = done.stdout.partition("How to read it")
    assert all(label in table for label in ("Transformer", "learned positions", "Δ base"))
    report = next(line for line in below.splitlines() if line.startswith("report: ")).removeprefix("report: ")
    assert "<html" in (checkout.folder / report).read_text(encoding="utf-8")
    next_commands = [line.strip() for line in below.splitlines() if line.startswith("  python ")]
    assert next_commands == ["python src/dashboard.py sweep=demo", "python src/new.py heads one_head"]


@pytest.mark.slow
def test_the_lines_of_one_run() -> None:
    lines = [words for words in lines_of("README.md") if words[0] == "src/train.py" and "--multirun" not in words]
    long = re.compile(r"size=(?:big|small)|trainer\.max_steps=|variation=")
    short = [words for words in lines if not any(PLACEHOLDER.search(word) or long.match(word) for word in words)]
    first, spelled_out, other = (run_folder(compose_run(words[1:])) for words in short)
    assert first == spelled_out, "the README says that the first line is short for the second"
    assert other != first
