"""Fixtures: fabricated run stores with the files that a sweep writes."""

import copy
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from variations.store.ledger import RunFolder, run_home
from variations.tasks.translation.config import TranslationConfig

Maker = Callable[..., RunFolder]


def _configuration(**changes: Any) -> dict[str, Any]:
    """Return the default configuration with dotted keys replaced (`model__h=16`)."""
    config = asdict(TranslationConfig())
    for name, value in changes.items():
        *path, last = name.split("__")
        node = config
        for part in path:
            node = node[part]
        node[last] = value
    return copy.deepcopy(config)


def _result(bleu: float, **more: Any) -> dict[str, Any]:
    """Return a result.json as a run writes it."""
    scores = {
        "bleu": {"value": bleu, "convention": "sacreBLEU on detokenised text", "signature": "nrefs:1|tok:13a|v:2.6.0"},
        "exact_match": {"value": bleu / 2, "convention": "Percent of lines equal to their reference."},
    }
    base = {
        "schema": 1,
        "scores": {"test": scores, "dev": {"bleu": {"value": bleu - 0.5, "convention": "sacreBLEU"}}},
        "loss": {"dev_nll": 0.5, "dev_ppl": 1.6487},
        "parameters": 1_500_000,
        "steps": 1200,
        "source_tokens": 1_000_000,
        "target_tokens": 1_100_000,
        "padded_tokens": 50_000,
        "flops": 1.25e14,
        "seconds": 63.0,
        "dropped_pairs": 0,
    }
    return base | more


def _curve(bleu: float, *, branches: int = 0, points: int = 12, steps: int = 1200) -> list[dict[str, Any]]:
    """Return metrics that rise towards `bleu`, with branch weights that diverge."""
    lines = []
    for point in range(1, points + 1):
        part = point / points
        line: dict[str, Any] = {"step": steps * point // points, "epoch": point, "seconds": 63.0 * part}
        line |= {"dev/bleu": bleu * (1 - math.exp(-4 * part)), "dev/nll": 0.5 + 4 * math.exp(-8 * part)}
        for name in ("encoder.0", "encoder.1", "decoder.0", "decoder.1") if branches else ():
            for letter, slope in (("kappa", 0.5), ("alpha", -0.4)):
                weights = [1 / branches + slope * part * (b / (branches - 1) - 0.5) / branches for b in range(branches)]
                line[f"branch/{name}.{letter}"] = weights
        lines.append(line)
    return lines


def babi_configuration(tasks: Iterable[int]) -> dict[str, Any]:
    """What a table reads of the configuration of a memory network on bAbI, with ten restarts."""
    return {
        "task": "question_answering",
        "data": {"kind": "babi", "name": "babi", "questions": "1k", "tasks": [*tasks]},
        "model": {"restarts": 10},
        "recipe": {"name": "x"},
        "trainer": {"devices": 1},
    }


@pytest.fixture
def configuration() -> Callable[..., dict[str, Any]]:
    """`configuration(model__h=16)`: the default configuration with dotted keys replaced."""
    return _configuration


@pytest.fixture
def curve() -> Callable[..., list[dict[str, Any]]]:
    """`curve(88.0, branches=4)`: metrics of a run that rises to a BLEU."""
    return _curve


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def make_run(store: Path) -> Maker:
    """Write one run: `make_run("quickstart", "weighted", 1, 88.0, config=…, metrics=…, texts=…)`."""

    def make(
        sweep: str,
        row: str,
        seed: int,
        bleu: float | None,
        *,
        state: str = "finished",
        reason: str | None = None,
        config: dict[str, Any] | None = None,
        metrics: Sequence[dict[str, Any]] = (),
        texts: tuple[list[str], list[str], list[str]] | None = None,
        status: dict[str, Any] | None = None,
        **more: Any,
    ) -> RunFolder:
        folder = RunFolder(run_home(store, sweep=sweep, row=row, seed=seed))
        folder.create((config or _configuration()) | {"seed": seed})
        for line in metrics or [{"step": 1}]:
            folder.measurements.append(line)
        if bleu is not None:
            result = _result(bleu, **more)
            if texts and "scores" not in more:
                _, references, hypotheses = texts
                hits = sum(ours == theirs for ours, theirs in zip(hypotheses, references, strict=False))
                result["scores"]["test"]["exact_match"]["value"] = 100 * hits / len(references)
            folder.write_environment({})
            folder.write_result(result)
        if not texts:  # below every score, as there is no source to be copied
            (folder.path / "baselines.json").write_text(json.dumps({"test": {"copy of the source": -1.0}}))
        for kind, lines in zip(("src", "ref", "hyp"), texts or (), strict=False):
            (folder.hypotheses / f"test.{kind}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        folder.set_status(state, reason, **(status or {}))
        return folder

    return make


@pytest.fixture
def own_model(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a model of another package, whose options are `width` (32) and `pooling` ("mean")."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "contract" / "foreign_package")
    return "foreign_variations.model:MeanModel"
