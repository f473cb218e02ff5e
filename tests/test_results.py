"""docs/claims.md and the tables of docs/results match the records: `make results` would change nothing."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from suite import sampled

from readme_table import END, START, filled
from result_pages import write as write_page
from variations.commands.table import TableConfig, show
from variations.configuration.compose import compose_run
from variations.configuration.places import SWEEPS
from variations.dashboard.api import Api
from variations.dashboard.store import Store
from variations.store.hidden import clean
from variations.store.ledger import RunFolder
from variations.store.rows import define
from variations.tables.claims.claim import read_papers
from variations.tables.claims.evidence import Evidence
from variations.tables.claims.page import page
from variations.tables.records import LARGEST
from variations.tables.table import build
from variations.tasks.translation.trained import OWN_CORPORA

ROOT = Path(__file__).resolve().parents[1]
RECORDS = Path("records")
RECORDED = sorted(path.name for path in (ROOT / RECORDS).glob("*") if path.is_dir())
WITH_RUNS = [name for name in RECORDED if any((ROOT / RECORDS / name).glob("*/seed*"))]
AGAIN = "run `make results` and commit what it writes"


README_FIGURES = {
    "docs/claims.md": ["0.75", "0.44", "0.90", "−3.53", "[−4.80, −2.26]"],
    "docs/results/multi30k_published.md": ["40.90", "41.02"],
    "docs/results/GPU.md": ["0.12", "0.31"],
}
"""Figures that the README quotes in its text, by the page, made from records, that has them."""


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
def test_the_page_of_claims_is_that_of_the_records() -> None:
    assert (ROOT / "docs/claims.md").read_text(encoding="utf-8") == page(read_papers(), Evidence(RECORDS)), AGAIN


def test_the_readme_counts_the_verdicts_on_both_transformer_papers() -> None:
    claims = (ROOT / "docs/claims.md").read_text(encoding="utf-8")
    counts = re.findall(r"^## (.*)\n\n(\d+) claims and questions: (.*)\.$", claims, re.MULTILINE)
    verdicts, total, questions = Counter[str](), 0, Counter[str]()
    for title, number, found in counts:
        if "Memory" not in title:
            total += int(number)
            verdicts.update({name: int(n) for n, name in re.findall(r"(\d+) ([a-z ]+)", found)})
            listed = claims.partition(f"## {title}\n")[2].partition("\n## ")[0]
            questions.update(re.findall(r"^\|.*\| \*\*(.+?)\*\* \| open question \|", listed, re.MULTILINE))
    assert len(counts) == 3
    assert verdicts.total() == total
    said = (ROOT / "README.md").read_text(encoding="utf-8").replace("**", "")
    order = ("reproduced", "partly", "not reproduced", "undecided", "untested here")
    listed = ", ".join(f"{verdicts[name]} {name}" for name in order)
    assert f"| The {total} claims and questions on both Transformer papers | {listed}:" in said
    ours = ", ".join(f"{questions[name]} {name}" for name in order if questions[name])
    assert questions.total() == 5
    assert f"Five of them are questions of this project, not claims of a paper: {ours}." in said


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_a_committed_table_and_its_figure_are_those_of_its_records(name: str, tmp_path: Path) -> None:
    assert (SWEEPS / f"{name}.yaml").is_file(), f"records/{name} is of no sweep in sweeps/"
    for written in write_page(name, tmp_path):
        committed = ROOT / "docs/results" / written.relative_to(tmp_path)
        assert committed.read_bytes() == written.read_bytes(), AGAIN


@pytest.mark.slow
def test_the_table_of_the_readme_is_that_of_the_records() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count(START) == readme.count(END) == 1
    assert readme == filled(readme), AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(WITH_RUNS, 4))
def test_the_dashboard_shows_the_records_with_what_the_table_says_of_published_figures(name: str) -> None:
    shown = json.loads(Api(Store(RECORDS)).answer(f"sweep/{name}"))
    table = build(define(compose_run([f"sweep={name}"]).sweep, store=RECORDS), RECORDS)
    said = [agreement["sentence"] for agreement in shown["rank_correlation"]]
    assert said == [note for note in table.remarks if "rank correlation" in note]
    # The dashboard shows the sweep's rows at the time of its newest run, the table those now in its file.
    runs = (ROOT / RECORDS / name).glob("*/seed*")
    newest = max(runs, key=lambda run: json.loads((run / "status.json").read_text(encoding="utf-8"))["started"])
    then = [reference.rsplit("/", 1)[-1] for reference in RunFolder(newest).config()["sweep"]["rows"]]
    rows = [line.row.definition.row for line in table.lines]
    assert [row["row"] for row in shown["table"]["rows"]] == [row for row in rows if row in then]


def test_the_page_of_parsers_is_that_of_the_records() -> None:
    import parsing_report

    assert (ROOT / "docs/results/parsing.md").read_text(encoding="utf-8") == parsing_report.page(RECORDS), AGAIN


@pytest.mark.slow
def test_the_page_of_branch_weights_is_that_of_the_records() -> None:
    import branch_weights

    assert (ROOT / "docs/results/branch_weights.md").read_text(encoding="utf-8") == branch_weights.page(RECORDS), AGAIN


@pytest.mark.slow
def test_the_learning_curves_are_those_of_the_records(tmp_path: Path) -> None:
    import learning_curves

    committed = ROOT / "docs/results/learning_curves.md"
    assert committed.read_text(encoding="utf-8") == learning_curves.page(RECORDS), AGAIN
    learning_curves.draw_figures(RECORDS, tmp_path / committed.name)
    drawn = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.svg")}
    assert len(drawn) == len(learning_curves.STUDIES)
    for path, content in drawn.items():
        assert (committed.parent / path).read_bytes() == content, AGAIN


@pytest.mark.parametrize("page", README_FIGURES)
def test_figures_in_the_text_of_the_readme_are_those_of_the_pages(page: str) -> None:
    for figure in README_FIGURES[page]:
        for name in ("README.md", page):
            text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", text), (figure, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "words"), [(["A_h4", "A_h1"], "one against four"), (["A_h1"], "one against eight, as in the paper")]
)
def test_the_comparison_of_heads_in_the_readme_is_that_of_the_records(
    rows: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(TableConfig(sweep=compose_run(["sweep=toy_attention_table3"]).sweep, runs=str(RECORDS), diff=rows))
    tested = r"test BLEU: .*, (\S+), 95 % CI (\[.*?\]), p = (\S+); 3 seeds"
    ((delta, interval, p),) = re.findall(tested, capsys.readouterr().out)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| {words} | Table 3, 5,000 steps | {delta} | {interval} | {p} |" in readme


def test_pictures_show_the_present_tables_of_records_and_the_present_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from screenshots import PICTURES, TABLE, WORDS, source, table_of

    ours = source()
    assert table_of(PICTURES["readme-table"])
    for name, picture in PICTURES.items():
        again = f"run `python docs/screenshots.py --pictures {name}`"
        for theme in ("light", "dark"):
            with Image.open(ROOT / "docs" / "images" / f"{name}-{theme}.png") as image:
                assert image.info.get(TABLE, "") == table_of(picture), again
                words = str(image.info[WORDS]).splitlines()
            assert words, again
            assert [text for text in words if text not in ours] == [], again


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_records_are_small_and_hold_nothing_of_a_machine_or_of_others(name: str) -> None:
    for run in sorted((ROOT / RECORDS / name).glob("*/seed*")):
        files = [path for path in run.rglob("*") if path.is_file()]
        own = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))["data"]["kind"] in OWN_CORPORA
        assert sum(path.stat().st_size for path in files) <= LARGEST, run
        assert not [path for path in files if path.suffix in {".ckpt", ".pt", ".model"}], run
        text = "".join(
            path.read_text(encoding="utf-8") for path in files if path.suffix in {".json", ".yaml", ".jsonl"}
        )
        for word in ("/home/", "/root/", "/tmp/"):
            assert word not in text, f"{run} names a folder of the machine"
        status = json.loads((run / "status.json").read_text(encoding="utf-8"))
        assert not {"host", "pid", "process"} & status.keys(), f"{run} names the machine"
        assert clean(text) == text, f"{run} holds what looks like a secret"
        others = (
            (".ref.gz", ".src.gz") if RunFolder(run).config().get("task", "translation") == "translation" else (".gz",)
        )
        texts = [path for path in files if path.parent.name == "hypotheses" and path.name.endswith(others)]
        assert own or not [path for path in texts if not path.name.endswith(".counts.npy.gz")], run
