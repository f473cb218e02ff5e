"""The report is one file that stands alone, shows what the runs hold, and escapes it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from variations.config import SweepConfig
from variations.figures.curves import COLOURS, colour, dashes, series, weights_chart
from variations.store.rows import define
from variations.tables.report import choose_samples, report
from variations.tables.table import Table, build

PROJECT = Path(__file__).parents[2]
Configure = Callable[..., dict[str, Any]]
Curve = Callable[..., list[dict[str, Any]]]
SOURCE = [f"sentence {i} & <script>alert(1)</script>" for i in range(30)]
REFERENCE = [f"Satz {i}" for i in range(30)]


@pytest.fixture
def table(make_run: Any, configuration: Configure, curve: Curve, store: Path) -> Table:
    other = ["" if i == 4 else f"Satz {i}" if i % 2 else "falsch" for i in range(30)]
    make_run("q", "plain", 1, 80.0, metrics=curve(80.0), texts=(SOURCE, REFERENCE, REFERENCE))
    weighted = configuration(model__kind="weighted")
    make_run("q", "w", 1, 82.0, config=weighted, metrics=curve(82.0, branches=4), texts=(SOURCE, REFERENCE, other))
    make_run("q", "late", 1, None, state="failed", reason="<b>boom</b>")
    return build(define(SweepConfig(name="q", rows=["plain", "w", "late"], seeds=[1]), conf=store), store)


class Ids(HTMLParser):
    """Collects ids, links and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in {"src", "href", "xlink:href"} and value:
                self.links.append(value)


def test_the_page_stands_alone_and_its_ids_are_unique(table: Table) -> None:
    page = report(table)
    found = Ids()
    found.feed(page)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(found.ids)
    assert not {"script", "img", "link", "iframe"} & set(found.tags)
    assert "prefers-color-scheme: dark" in page


def test_what_runs_hold_is_escaped(table: Table) -> None:
    page = report(table)
    assert "<script>" not in page
    assert "<b>boom" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "failed (&lt;b&gt;boom&lt;/b&gt;)" in page


def test_curves_weights_changes_and_samples_are_there(table: Table) -> None:
    page = report(table)
    for heading in (
        "Dev BLEU against steps",
        "Dev BLEU against time",
        "Dev loss against steps",
        "Dev loss against time",
    ):
        assert heading in page
    assert "encoder layer 1: κ" in page
    assert "decoder layer 2: α" in page
    assert "branch 4" in page
    assert "branch 5" not in page
    assert "model transformer→weighted, M 8; parameters +0" in page
    assert "✓ as reference" in page
    assert colour(0) in page
    assert colour(1) in page


def test_samples_are_sentences_on_which_the_rows_differ(table: Table) -> None:
    samples, origin = choose_samples(table, count=5)
    assert len(samples) == 5
    for sample in samples:
        assert [label for label, _ in sample.outputs] == ["plain", "w"]
        assert sample.outputs[0][1] == sample.reference
        assert sample.outputs[1][1] != sample.reference
    assert origin == "5 sentences on which the rows differ, evenly spread over 30; seed 1."


def test_a_report_of_nothing_is_still_a_report(store: Path) -> None:
    page = report(build(define(SweepConfig(name="q", rows=["plain"], seeds=[1]), conf=store), store))
    assert "No result: plain, seed 1: missing" in page
    assert "Learning curves" not in page


def test_damaged_metrics_cost_only_their_curve(table: Table, store: Path) -> None:
    (store / "q" / "w" / "seed1" / "metrics.jsonl").write_text("nonsense\n{}\n")
    page = report(table)
    assert "Dev BLEU against steps" in page
    assert "encoder layer 1" not in page


def test_weights_that_never_move_get_no_chart(curve: Curve) -> None:
    constant = [{"step": step, "branch/encoder.0.kappa": [0.25] * 4} for step in (1, 2, 3)]
    assert weights_chart(constant, name="x") is None
    assert weights_chart([{"step": 1}], name="x") is None
    drawn = weights_chart(curve(80.0, branches=4), name="x")
    assert drawn is not None
    assert drawn.index("encoder layer 1: κ") < drawn.index("encoder layer 1: α") < drawn.index("decoder layer 1: κ")


def test_points_without_both_numbers_are_left_out() -> None:
    metrics = [{"step": 1, "dev/bleu": 1.0}, {"step": 2}, {"step": 3, "dev/bleu": None}, {"step": 4, "dev/bleu": 2.0}]
    assert series(metrics, "step", "dev/bleu") == ([1, 4], [1.0, 2.0])


def test_rows_are_told_apart_beyond_the_palette() -> None:
    styles = [(colour(i), dashes(i)) for i in range(3 * len(COLOURS))]
    assert len(set(styles)) == len(styles)


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, str(PROJECT / "src" / "table.py"), *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd="/", env=os.environ | {"PYTHONPATH": ""})


def test_the_command_prints_json_and_nothing_else(make_run: Any, store: Path) -> None:
    make_run("quickstart", "transformer", 1, 85.0)
    done = command("sweep=quickstart", f"runs={store}", "format=json", "report=true")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["measured"]["test.bleu"]["mean"] == 85.0
    assert (store / "quickstart" / "report.html").is_file()


def test_the_command_writes_the_report_and_names_it(make_run: Any, store: Path, tmp_path: Path) -> None:
    make_run("quickstart", "transformer", 1, 85.0)
    done = command("sweep=quickstart", f"runs={store}", "format=html")
    assert done.stdout == f"report: {store / 'quickstart' / 'report.html'}\n"
    done = command("sweep=quickstart", f"runs={store}", "format=html", f"out={tmp_path / 'mine.html'}")
    assert "85.00" in (tmp_path / "mine.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give sweep=NAME; known:"),
        (("sweep=quickstart", "format=word"), "format"),
        (("sweep=quikstart",), "quikstart"),
        (("sweep=quickstart", "rows=[nobody]"), "no row 'nobody'; valid: transformer"),
        (("sweep=quickstart", "format=csv", "out=/proc/nowhere/t.csv"), "choose another file with out=FILE"),
    ],
)
def test_the_command_explains_a_wrong_line(arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
