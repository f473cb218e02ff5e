"""A table of three rows whose hypotheses have a known share of wrong words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoiled_text import REFERENCES, SETTINGS, SOURCES, score, spoiled

from variations.configuration.schema import SweepConfig
from variations.store.rows import define
from variations.tables.chance import SignificanceConfig
from variations.tables.table import Table, build


@pytest.fixture
def put(make_run: Any) -> Callable[..., list[str]]:
    """Store a run whose text has a share of wrong words, with the score of that text."""

    def make(row: str, seed: int, share: float, **more: Any) -> list[str]:
        hypotheses = spoiled(REFERENCES, share, 100 * seed + len(row))
        texts = more.pop("texts", (SOURCES, REFERENCES, hypotheses))
        make_run("papers", row, seed, more.pop("stated", score(hypotheses)), texts=texts, **more)
        return hypotheses

    return make


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf" / "variation" / "papers"
    folder.mkdir(parents=True)
    (folder / "base.yaml").write_text("variation: {label: base}\n")
    (folder / "good.yaml").write_text("variation: {label: good, base: base}\n")
    (folder / "same.yaml").write_text("variation: {label: same, base: base}\n")
    return tmp_path / "conf"


@pytest.fixture
def read(conf: Path, store: Path) -> Callable[..., Table]:
    def table(seeds: tuple[int, ...] = (1, 2, 3), settings: SignificanceConfig = SETTINGS, **keys: Any) -> Table:
        sweep = SweepConfig(**({"name": "papers", "rows": ["base", "good", "same"], "seeds": list(seeds)} | keys))
        return build(define(sweep, conf=conf), store, settings)

    return table
