"""A pool whose runs behave as a test specifies, and sweeps of a few rows."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.sweeping.control import Control
from variations.sweeping.job import Job
from variations.sweeping.outcomes import Outcome
from variations.sweeping.overview import Overview
from variations.sweeping.pool import Ended, PooledRun
from variations.system.errors import UserError

sys.path.append(str(Path(__file__).parent))  # for drill.py


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, valid and test text; the target reverses the source's words."""
    from drill import corpus

    folder: Path = tmp_path_factory.mktemp("drill") / "corpus"
    corpus(folder)
    return folder


@dataclass
class FakePool:
    """A pool whose runs end when the test ends them."""

    most: int = 2
    name: str = "fake"
    outlives: bool = False
    running: dict[str, PooledRun] = field(default_factory=dict)
    adopted: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    over: list[Ended] = field(default_factory=list)
    refuses: str = ""

    def room(self) -> int:
        return self.most - len(self.running)

    def submit(self, run: PooledRun) -> str:
        if self.refuses:
            raise UserError(self.refuses)
        self.submitted.append(run.name)
        self.running[run.name] = run
        return run.name

    def alive(self, key: str) -> bool | None:
        return key in self.running

    def adopt(self, run: PooledRun, key: str) -> None:
        self.adopted.append(key)

    def ended(self) -> list[Ended]:
        over, self.over = self.over, []
        return over

    def stop(self) -> None:
        for name in [] if self.outlives else list(self.running):
            self.end(name, "interrupted", 130)

    def end(self, name: str, state: str | None, code: int | None = 0, reason: str = "") -> None:
        """End a run; write `state` to its folder unless it is None."""
        run = self.running.pop(name)
        if state is not None:
            folder = RunFolder(run.folder)
            folder.set_status("running")
            if state == "finished":
                folder.write_result({"schema": 1})
            folder.set_status(state, "so it is" if state == "failed" else None)
        self.over.append(Ended(run, code, reason))


@pytest.fixture
def pool() -> FakePool:
    return FakePool()


Make = Callable[..., list[Outcome]]


@pytest.fixture
def rows(tmp_path: Path) -> Make:
    """Make outcomes of rows with these names: `rows("a", "b", retries=0)`."""

    def make(*names: str, at_once: int | None = None, retries: int = 1, changes: Sequence[str] = ()) -> list[Outcome]:
        config = compose_run([f"runs={tmp_path}", "sweep=quickstart", *changes])
        sweep = replace(config.sweep, at_once=at_once, retries=retries, name="mine")
        found = []
        for name in names:
            own = replace(config, sweep=sweep, variation=replace(config.variation, row=name))
            found.append(Outcome.of(Job(name, 1, (), own, tmp_path / "mine" / name / "seed1")))
        return found

    return make


@pytest.fixture
def control(pool: FakePool) -> Callable[[list[Outcome]], Control]:
    return lambda outcomes: Control(pool, outcomes, Overview())


@pytest.fixture
def finished() -> Callable[[Outcome], RunFolder]:
    """Make an outcome's run a finished one."""

    def make(outcome: Outcome) -> RunFolder:
        folder = RunFolder(outcome.folder.path).create(to_dict(outcome.job.config))
        folder.write_result({"schema": 1})
        folder.set_status("finished")
        return folder

    return make
