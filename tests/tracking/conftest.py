"""Small runs in separate processes, started as users start them, that log to a service on loopback."""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # for the two modules next to this one

from wandb_service import Service, serve
from wandb_user import python

RUN = """
import os, sys
import variations.training.loop as loop
from variations.configuration.compose import compose_run
from variations.commands.run import execute

last, how = int(sys.argv[1]), sys.argv[2]
measure = loop.Loop._measure

def measure_and_die(self, trainer, task, step, *, validate):
    measure(self, trainer, task, step, validate=validate)
    if step == last and how == "killed":
        os.kill(os.getpid(), 9)
    if step == last and how == "failed":
        raise ValueError("step of a failing run")

loop.Loop._measure = measure_and_die
execute(compose_run(sys.argv[3:]))
"""


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of a weighted model of width 16, trained for 30 updates on a corpus of 200 pairs."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(5)
    for name, size in {"train": 203, "valid": 21, "test": 11}.items():
        lines = [[f"w{rng.randrange(40)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))} .\n" for line in lines))
    sizes = "model.d_model=16 model.d_ff=32 model.h=2 model.N=2 data.vocabulary=48 data.max_length=64"
    recipe = "recipe.batch_tokens=512 recipe.warmup=10 trainer.max_steps=30 trainer.val_every=10 trainer.val_bleu=0"
    rest = "trainer.log_every=1 trainer.progress=false trainer.threads=1 decode.beam=1 decode.max_extra=5"
    return f"data=files data.root={folder} model=weighted {sizes} {recipe} {rest}".split()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A separate service for each test module."""
    with serve() as found:
        yield found


@pytest.fixture(scope="session")
def train(words: list[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Train in a process that has `failed` or is `killed` after measuring step `last` (0: neither)."""

    def call(env: dict[str, str], *more: str, last: int = 0, how: str = "") -> Any:
        return python(RUN, last, how, *words, *more, env=env)

    return call
