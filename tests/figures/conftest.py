"""Fabricated runs for the figures, with the files that training writes."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from variations.store.ledger import RunFolder, run_home
from variations.tasks.translation.config import TranslationConfig

Line = dict[str, Any]


def measured(step: int, bleu: float, *, pace: float = 1.0, **more: Any) -> Line:
    """Return a line of metrics: 100 source and 110 target tokens, 2 seconds and 1e9 FLOPs per step, times `pace`."""
    nll = 5 - bleu / 25
    costs = {"source_tokens": 100 * step, "target_tokens": 110 * step, "seconds": 2 * step * pace}
    scores = {"dev/bleu": bleu, "dev/nll": nll, "dev/ppl": 2.718281828**nll, "train/nll": nll + 0.1}
    return {"step": step, "epoch": 1, "flops": 1e9 * step * pace} | costs | scores | more


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def make_run(store: Path) -> Callable[..., RunFolder]:
    """`make_run("plain", 1, lines)`: write one finished run of the sweep `q`."""

    def make(row: str, seed: int, lines: Sequence[Line], *, test_nll: float | None = 1.5) -> RunFolder:
        config = asdict(TranslationConfig())
        folder = RunFolder(run_home(store, sweep="q", row=row, seed=seed)).create(config | {"seed": seed})
        for line in lines:
            folder.measurements.append(line)
        folder.write_environment({})
        folder.write_result({"schema": 1, "scores": {}, "loss": {"test_nll": test_nll}})
        folder.set_status("finished")
        return folder

    return make


@pytest.fixture
def sweep(make_run: Callable[..., RunFolder]) -> None:
    """Base row `a` and row `w` with two seeds each; `w` has branch weights in three sub-layers."""
    for seed in (1, 2):
        make_run("a", seed, [measured(step, 10 * step / 100 + seed) for step in (100, 200, 300, 400)])
        names = [
            f"{name}.{letter}"
            for name in ("encoder.0.self", "encoder.1.self", "decoder.1.cross")
            for letter in ("kappa", "alpha")
        ]
        lines = []
        for step in (100, 200, 300, 400):
            weights = {f"branch/{name}": [0.2 + step / 4000, 0.3 - step / 4000, 0.5] for name in names}
            lines.append(measured(step, 12 * step / 100 + seed, pace=1.1, **weights))
        make_run("w", seed, lines)
