"""docs/claims.md and the tables of docs/results are what the records give: `make results` would change nothing."""

from pathlib import Path

import pytest
import yaml

from variations.configuration.compose import compose_run
from variations.configuration.places import SWEEPS
from variations.store.hidden import clean
from variations.store.rows import define
from variations.tables.claims.claim import read_papers
from variations.tables.claims.evidence import Evidence
from variations.tables.claims.page import page
from variations.tables.formats import render
from variations.tables.records import LARGEST
from variations.tables.table import build
from variations.tasks.translation.recorded import OWN_CORPORA

ROOT = Path(__file__).resolve().parents[1]
RECORDS = Path("records")
RECORDED = sorted(path.name for path in (ROOT / RECORDS).glob("*") if path.is_dir())
AGAIN = "run `make results` and commit what it writes"


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_page_of_claims_is_that_of_the_records() -> None:
    assert (ROOT / "docs/claims.md").read_text(encoding="utf-8") == page(read_papers(), Evidence(RECORDS)), AGAIN


@pytest.mark.parametrize("name", RECORDED)
def test_a_committed_table_is_that_of_its_records(name: str) -> None:
    assert (SWEEPS / f"{name}.yaml").is_file(), f"records/{name} is of no sweep in sweeps/"
    sweep = define(compose_run([f"sweep={name}"]).sweep, store=RECORDS)
    committed = ROOT / "docs/results" / f"{name}.md"
    assert committed.read_text(encoding="utf-8") == render(build(sweep, RECORDS), "markdown"), AGAIN


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
        assert clean(text) == text, f"{run} holds what looks like a secret"
        assert own or not [path for path in files if path.name.endswith((".ref.gz", ".src.gz"))], run
