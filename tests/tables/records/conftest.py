"""A sweep, its runs and their records."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import REFERENCES, SOURCES, Put, bleu, fill, wrong

from variations.configuration.schema import SweepConfig
from variations.store.ledger import RunFolder
from variations.store.rows import SweepDefinition, define
from variations.tables.records import record


@pytest.fixture
def sweep(tmp_path: Path) -> SweepDefinition:
    return define(SweepConfig(name="papers", rows=["base", "good"], seeds=[1, 2, 3]), conf=tmp_path / "conf")


@pytest.fixture
def put(make_run: Any, configuration: Callable[..., dict[str, Any]]) -> Put:
    def one(row: str, seed: int, every: int, **keys: Any) -> RunFolder:
        config = configuration(runs="/home/somebody/runs", data__root="/home/somebody/corpora/mine", **keys)
        metrics = [{"step": step, "dev/nll": 0.5} for step in (800, 1000)]
        folder: RunFolder = make_run(
            "papers",
            row,
            seed,
            bleu(wrong(every)),
            config=config,
            metrics=metrics,
            texts=(SOURCES, REFERENCES, wrong(every)),
        )
        folder.write_environment({"host": "tower", "git": {"remote": "ssh://me@h/x", "commit": "abc"}, "cpu": "EPYC"})
        return folder

    return one


@pytest.fixture
def records(put: Put, sweep: SweepDefinition, store: Path, tmp_path: Path) -> Path:
    """Records of the sweep's runs."""
    fill(put)
    record(sweep, store, tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def copied(records: Path, tmp_path: Path) -> Path:
    """A run store that has them."""
    return Path(shutil.copytree(records, tmp_path / "copied"))
