"""Fixtures: a corpus of a few hundred pairs, and a place for sweeps."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "sweeping")]  # for the modules in this folder, and the drill

from cluster_sweeps import Place  # noqa: E402

SIZES = {"train": 203, "valid": 21, "test": 11}


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write train, valid and test text; the target is the source with its words reversed."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(5)
    for name, size in SIZES.items():
        lines = [[f"w{rng.randrange(40)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))} .\n" for line in lines))
    return folder


@pytest.fixture
def place(tmp_path: Path, small_corpus: Path, words: list[str]) -> Iterator[Place]:
    """Return a place for sweeps that use the launcher of the test module."""
    made = Place(tmp_path, small_corpus, words)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # lets it end the processes that it started
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
