"""Commands as a user types them: run in a process, or only checked."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import ROOT


@pytest.fixture
def restored_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a verb that is started in this process sets for its end."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def config_dir(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that is open as that of `--config-dir`."""
    from variations.configuration.doors import open_given

    open_given(tmp_path)
    yield tmp_path
    open_given(None)


def run(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    line = [sys.executable, str(script), *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, env=environment, timeout=60, check=False)


def faults_of(*lines: str, multirun: bool = False) -> list[str]:
    """The faults that `train.py` tells of these overrides."""
    from variations.commands.preflight import preflight
    from variations.tasks.translation.config import TranslationConfig

    return preflight(lines, TranslationConfig, "train", multirun=multirun, runs_models=True)
