"""Fixtures: a pool of quick processes in place of training."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from variations.configuration.compose import to_dict
from variations.searching.definition import Definition, define
from variations.searching.study import Study
from variations.store.ledger import RunFolder
from variations.store.naming import run_folder
from variations.store.process_identity import Process
from variations.sweeping.pool import Ended, PooledRun

HERE = Path(__file__).parent


@dataclass
class QuickPool:
    """A pool that runs `fake_run.py` in at most `at_once` processes."""

    at_once: int = 2
    name: str = "quick"
    outlives: bool = False
    started: list[str] = field(default_factory=list)
    most: int = 0
    processes: dict[Path, tuple[PooledRun, subprocess.Popen[bytes]]] = field(default_factory=dict)

    def room(self) -> int:
        return self.at_once - len(self.processes)

    def submit(self, run: PooledRun) -> str:
        path = os.pathsep.join([str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
        line = [sys.executable, str(HERE / "fake_run.py"), str(run.folder)]
        process = subprocess.Popen(line, env={**os.environ, "PYTHONPATH": path})
        self.processes[run.folder] = (run, process)
        self.started.append(run.name)
        self.most = max(self.most, len(self.processes))
        return Process.of(process.pid).key

    def alive(self, key: str) -> bool | None:
        process = Process.from_key(key)
        return None if process is None else process.alive()

    def adopt(self, run: PooledRun, key: str) -> None:
        raise AssertionError("these runs end with their search")

    def ended(self) -> list[Ended]:
        gone = [(run, process) for run, process in self.processes.values() if process.poll() is not None]
        for run, _ in gone:
            del self.processes[run.folder]
        return [Ended(run, process.returncode) for run, process in gone]

    def stop(self) -> None:
        for _, process in self.processes.values():
            process.terminate()
            process.wait()


def finish(study: Study, number: int, *values: float) -> None:
    """Close a trial as complete, with a run that has begun."""
    (config, *_) = study.definition.configs(number, study.trials()[number].params)
    folder = RunFolder(run_folder(config)).create(to_dict(config))
    folder.measurements.path.write_text('{"step": 1}\n', encoding="utf-8")
    study.tell(number, "COMPLETE", values)


@pytest.fixture
def defined(tmp_path: Path) -> Callable[..., Definition]:
    """A search over dropout that stores its runs in a temporary folder."""

    def make(*arguments: str, **changes: Any) -> Definition:
        given = {
            "sweep.name": "probe",
            "sweep.search.trials": "6",
            "sweep.search.sampler": "random",
            "decode.sets": "[dev]",
            "runs": str(tmp_path),
            "logger": "none",
            "model.dropout": "interval(0,0.4)",
        } | {key.replace("__", "."): value for key, value in changes.items()}
        typed = {line.partition("=")[0] for line in arguments}
        lines = [f"{key}={value}" for key, value in given.items() if key not in typed and value is not None]
        return define((*lines, *arguments))

    return make
