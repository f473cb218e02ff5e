"""A table of two rows of one paper, with fictitious runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.schema import SweepConfig
from variations.store.rows import define
from variations.tables.table import Table, build

Configure = Callable[..., dict[str, Any]]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf" / "variation" / "papers"
    folder.mkdir(parents=True)
    (folder / "base.yaml").write_text("variation: {label: base, published: {dev_bleu: 25.8, params_millions: 65}}\n")
    (folder / "A_h16.yaml").write_text(
        "variation: {label: 'h=16 & <more_heads>', group: A, base: base, provenance: recalled,"
        " published: {dev_bleu: 25.5}}\n"
    )
    return tmp_path / "conf"


@pytest.fixture
def read(conf: Path, store: Path) -> Callable[..., Table]:
    def table(seeds: list[int] | None = None, **keys: Any) -> Table:
        sweep = SweepConfig(name="papers", rows=["base", "A_h16"], seeds=seeds or [1, 2, 3], **keys)
        return build(define(sweep, conf=conf), store)

    return table


@pytest.fixture
def full(make_run: Any, configuration: Configure, read: Callable[..., Table]) -> Table:
    for seed, base, row in ((1, 30.0, 31.0), (2, 32.0, 32.0), (3, 34.0, 36.0)):
        make_run("papers", "base", seed, base)
        make_run("papers", "A_h16", seed, row, config=configuration(model__h=16), parameters=1_499_000)
    return read()
