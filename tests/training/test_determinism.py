"""The same run twice, and what result.json reports about it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from variations.commands import run
from variations.store import naming
from variations.store.ledger import RunFolder
from variations.tasks.sequences.experiment import SequenceExperiment
from variations.training.fit import fit
from variations.training.interrupt import Interrupt
from variations.training.seeding import seed_torch

CHANGES = ("deterministic=true", "data.workers=1", "model=weighted", "trainer.val_bleu=5")


@contextmanager
def settings_of_a_notebook() -> Iterator[None]:
    """What a program may have set before it trains a run, whose result must not depend on it."""
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
            yield
        assert (torch.get_default_dtype(), torch.get_default_device().type) == (torch.float64, "meta")
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


@pytest.mark.slow
def test_the_same_result_twice(small: Any, same_run: Any) -> None:
    folders = []
    for name, around in (("one", nullcontext()), ("other", settings_of_a_notebook())):
        config = small(*CHANGES, f"name={name}")
        with around:
            run.execute(config)
        folders.append(RunFolder(naming.run_folder(config)))
        torch.manual_seed(len(folders))  # earlier work in this process must not matter
    same_run(*folders)
    one, other = (folder.result() for folder in folders)
    assert one is not None and other is not None
    timed = ("seconds", "decoding_seconds", "flops_paper_rule", "sha256", "metrics_sha256")
    assert {key: value for key, value in one.items() if key not in timed} == {
        key: value for key, value in other.items() if key not in timed
    }
    hypotheses = [(folder.hypotheses / "test.hyp").read_bytes() for folder in folders]
    assert hypotheses[0] == hypotheses[1]


@pytest.mark.slow
@pytest.mark.parametrize("requested", [True, False])  # in this order: a run must not affect the next one
def test_the_result_says_what_was_deterministic(requested: bool, small: Any) -> None:
    config = small(f"deterministic={str(requested).lower()}")
    found = RunFolder(run.execute(config)).result()
    assert found is not None
    told = found["deterministic"]
    assert (told["requested"], told["enforced_by_torch"]) == (requested, requested)
    assert told["seeded"] == ["python", "numpy", "torch", "loader workers", "data order", "dropout of each batch"]
    assert told["kernels"] == "deterministic"  # torch's CPU kernels are deterministic
    assert told["not_covered"] == ["seconds", "speed"]
    assert told["needs_the_same"] == [
        "machine",
        "number of threads and devices",
        "versions of torch and its libraries",
    ]


@pytest.mark.slow
def test_other_seeds_give_other_runs(small: Any) -> None:
    losses = []
    for seed in (1, 2):
        folder = RunFolder(run.execute(small(f"seed={seed}")))
        losses.append([line["train/loss"] for line in folder.measurements.read()])
    assert all(a != b for a, b in zip(*losses, strict=True))


def test_loader_processes_are_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    import random
    import signal

    import numpy as np
    import pytorch_lightning as pl

    from variations.tasks.sequences.data import start_worker

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    drawn = []
    for worker in (0, 1, 0):
        pl.seed_everything(7, workers=True, verbose=False)
        start_worker(worker)
        drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert drawn[0] == drawn[2]
    assert all(a != b for a, b in zip(drawn[0][:2], drawn[1][:2], strict=True))


@pytest.mark.slow
def test_counting_a_batch_changes_no_random_numbers_of_its_update(
    small: Any, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continued run counts its first batch anew, for which the experiment may run the network."""
    losses = []
    for name in ("counted", "anew"):
        folder = made(small("trainer.max_steps=3", "model.dropout=0.3"), name)
        fit(small("trainer.max_steps=3", "model.dropout=0.3"), folder, Interrupt())
        losses.append([line["train/loss"] for line in folder.measurements.read() if "train/loss" in line])
        count = SequenceExperiment.count

        def drawing(self: SequenceExperiment, batch: Any, count: Any = count) -> list[int]:
            torch.rand(1)
            found: list[int] = count(self, batch)
            return found

        monkeypatch.setattr(SequenceExperiment, "count", drawing)
    assert losses[0] == losses[1]


def test_seeds_give_the_numbers_that_torch_gives() -> None:
    for seed in (0, 7, 2**32 - 1):
        torch.manual_seed(seed)
        expected = torch.rand(5)
        seed_torch(seed)
        assert torch.equal(torch.rand(5), expected)
