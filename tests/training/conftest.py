"""Complete runs that take a second or two: a corpus of a few hundred short pairs and a network of width 16."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.tasks.translation.config import TranslationConfig

SIZES = {"train": 203, "valid": 21, "test": 11}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, valid and test text; the target reverses the source's words."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(5)
    for name, size in SIZES.items():
        lines = [[f"w{rng.randrange(40)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))} .\n" for line in lines))
    return folder


@pytest.fixture(scope="session")
def overrides(corpus: Path) -> Callable[..., list[str]]:
    """Make the command line of a tiny run of 12 updates, seven per epoch, with further overrides."""

    def make(runs: Path, *changes: str) -> list[str]:
        base = [
            "data=files",
            f"data.root={corpus}",
            "data.vocabulary=48",
            "data.max_length=64",
            "model.d_model=16",
            "model.d_ff=32",
            "model.h=2",
            "model.N=1",
            "recipe.batch_tokens=512",
            "recipe.warmup=10",
            "trainer.max_steps=12",
            "trainer.val_every=4",
            "trainer.val_bleu=0",
            "trainer.log_every=1",
            "trainer.progress=false",
            "trainer.threads=1",
            "trainer.limit_test=3",
            "decode.beam=1",
            "logger=none",
            "name=tiny",
            f"runs={runs}",
        ]
        keys = {change.partition("=")[0] for change in changes}
        return [*(line for line in base if line.partition("=")[0] not in keys), *changes]

    return make


@pytest.fixture
def small(overrides: Callable[..., list[str]], tmp_path: Path) -> Callable[..., TranslationConfig]:
    """Make the configuration of a tiny run."""
    return lambda *changes: compose_run(overrides(tmp_path / "runs", *changes))


@pytest.fixture
def made(tmp_path: Path) -> Callable[[TranslationConfig, str], RunFolder]:
    """Make a run's folder with its frozen configuration."""

    def make(config: TranslationConfig, name: str) -> RunFolder:
        return RunFolder(tmp_path / "runs" / "single" / name / "seed1").create(to_dict(config))

    return make


@pytest.fixture
def stopped_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """Make an Interrupt that behaves as if SIGTERM arrived during the update after `step` updates."""
    import signal

    from variations.training.interrupt import Interrupt
    from variations.training.loop import Loop

    def make(step: int) -> Any:
        interrupt, agree = Interrupt(), Loop._agree

        def agree_then_stop(self: Loop, trainer: Any, task: Any, last: bool) -> bool:
            if self.interrupt is interrupt and trainer.global_step == step:
                interrupt.received = signal.SIGTERM
            return agree(self, trainer, task, last)

        monkeypatch.setattr(Loop, "_agree", agree_then_stop)
        return interrupt

    return make


@pytest.fixture
def same_run() -> Callable[[RunFolder, RunFolder], None]:
    """Assert that two runs are bit-identical: all contents of a checkpoint, the weights next to it, and metrics."""
    import torch

    from variations.training import checkpoints

    def equal(one: Any, other: Any, where: str) -> None:
        assert type(one) is type(other), where
        if isinstance(one, torch.Tensor):
            assert one.dtype == other.dtype and torch.equal(one, other), where
        elif isinstance(one, dict):
            assert one.keys() == other.keys(), where
            for key in one:
                equal(one[key], other[key], f"{where}.{key}")
        elif isinstance(one, list | tuple):
            assert len(one) == len(other), where
            for place, (a, b) in enumerate(zip(one, other, strict=True)):
                equal(a, b, f"{where}[{place}]")
        else:
            assert one == other, where

    def content(path: Path) -> Any:
        loaded = checkpoints.load(path)
        if "loops" in loaded:
            assert loaded["variations"]["budget"].pop("seconds") > 0
            assert loaded["callbacks"]["Loop"].pop("measured")[0] > 0  # of lines that contain seconds
            loaded.pop("loops")  # Lightning's counters; some depend on the number of starts
        return loaded

    def metrics(folder: RunFolder) -> list[dict[str, Any]]:
        return [{key: value for key, value in line.items() if key != "seconds"} for line in folder.measurements.read()]

    def names(folder: RunFolder) -> list[str]:
        """Return the last full checkpoint (an interrupted run has one more than the other) and all weights."""
        kept = [*checkpoints.full(folder.checkpoints)[-1:], *checkpoints.weights(folder.checkpoints)]
        return [path.name for _, path in [*kept, *checkpoints.best(folder.checkpoints)[-1:]]]

    def compare(one: RunFolder, other: RunFolder) -> None:
        assert names(one) == names(other)
        for name in names(one):
            equal(content(one.checkpoints / name), content(other.checkpoints / name), name)
        equal(metrics(one), metrics(other), "metrics")

    return compare
