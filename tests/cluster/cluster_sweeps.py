"""Start sweeps as a user does, inject faults at given steps (`faults/`), and inspect the results."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from variations.store.ledger import RunFolder

ROOT = Path(__file__).parents[2]
STEPS = 12
TINY = (
    "data=files data.vocabulary=48 data.max_length=64 model.d_model=16 model.d_ff=32 model.h=2 model.N=1 "
    f"recipe.batch_tokens=512 recipe.warmup=10 trainer.max_steps={STEPS} trainer.val_every=4 trainer.val_bleu=0 "
    "trainer.log_every=1 trainer.progress=false trainer.threads=1 trainer.limit_test=3 decode.beam=1 logger=none"
).split()
SECONDS = 150.0
TIMED = ("seconds", "decoding_seconds", "speed", "flops_paper_rule", "hardware", "sha256", "metrics_sha256")
"""Keys of metrics and results that depend on the clock or the machine."""


def wait_for(what: Callable[[], object], told: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


class Sweep(subprocess.Popen[bytes]):
    """The process of a sweep."""

    def __init__(self, line: list[str], environment: dict[str, str], output: Path) -> None:
        self.output = output
        with output.open("wb") as file:
            super().__init__(line, env=environment, stdout=file, stderr=subprocess.STDOUT)

    @property
    def text(self) -> str:
        """Its output so far."""
        return self.output.read_text(errors="replace")

    def takes_up(self, count: int) -> None:
        """Wait until it watches `count` runs that were already running when it started."""
        told = f"the sweep does not find its runs:\n{self.text}"
        wait_for(lambda: self.text.count("and this one follows it") == count or self.poll() is not None, told)
        assert self.poll() is None, self.text


@dataclass
class Place:
    """A run store, the faults of its runs, and the sweeps started on it."""

    folder: Path
    corpus: Path
    words: list[str]
    """Command-line arguments that select the launcher."""
    started: list["Sweep"] = field(default_factory=list)

    def run(self, store: str, seed: int) -> RunFolder:
        """Return the run with this seed; it may not exist yet."""
        found = list((self.folder / store / "grid").glob(f"*/seed{seed}"))
        assert len(found) < 2, found
        return RunFolder(found[0] if found else self.folder / store / "grid" / "none" / f"seed{seed}")

    def fault(self, seed: int, what: str, step: int) -> Path:
        """Request a fault and return its file. Deleting the file of a `hold` lets the run continue."""
        file = self.folder / "faults" / f"seed{seed}.{what}.{step}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return file

    def sweep(self, store: str, *words: str) -> Sweep:
        """Start a sweep that stores its runs in `store`."""
        line = [*self.words, *TINY, f"data.root={self.corpus}", f"runs={self.folder / store}", *words]
        (self.folder / "faults").mkdir(parents=True, exist_ok=True)
        paths = [str(ROOT / "tests/cluster/faults"), str(ROOT / "src")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "VARIATIONS_TEST_FAULTS": str(self.folder / "faults"),
            "COLUMNS": "300",
        }
        output = self.folder / f"sweep{len(self.started)}.txt"
        process = Sweep([sys.executable, str(ROOT / "src/train.py"), "--multirun", *line], environment, output)
        self.started.append(process)
        return process

    def end(self, process: Sweep, seconds: float = SECONDS) -> str:
        """Wait for a sweep to end and return its output."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"the sweep did not end:\n{process.text}\n{self.logs()}")
        return process.text

    def logs(self) -> str:
        """Return the end of each run's log, for the message of a failed test."""
        found = [*self.folder.rglob("log*.txt"), *self.folder.rglob("*_log.out")]
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in found)


def steps(folder: RunFolder) -> list[int]:
    """Return the steps whose metrics the run has written."""
    return [line["step"] for line in folder.measurements.read() if "train/loss" in line]


def starts(folder: RunFolder) -> int:
    """Return how many times a process has started the run, counted in its log."""
    text = folder.log.read_text() if folder.log.exists() else ""
    return len(re.findall(r"^== \S+ process \d+ on ", text, re.MULTILINE))


def assert_same(one: RunFolder, other: RunFolder) -> None:
    """Assert that two runs have equal metrics at every step and equal translations."""
    for lines in zip(one.measurements.read(), other.measurements.read(), strict=True):
        assert _timeless(lines[0]) == _timeless(lines[1])
    first, second = one.result(), other.result()
    assert first is not None and second is not None
    assert _timeless(first) == _timeless(second)
    assert (one.hypotheses / "test.hyp").read_text() == (other.hypotheses / "test.hyp").read_text()


def _timeless(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in TIMED}
