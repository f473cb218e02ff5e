"""Rows run at once in processes of their own: what becomes of each, and of the rest when one dies."""

import os
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from variations import together
from variations.compose import compose_run, to_dict
from variations.experiments.ledger import RunFolder
from variations.jobs import Job
from variations.outcomes import Outcome

CHILD = textwrap.dedent(
    """
    import os, signal, sys, time
    from pathlib import Path
    from variations.experiments.ledger import RunFolder

    path, what = Path(sys.argv[1]), sys.argv[2]
    folder = RunFolder(path)
    folder.set_status("running")
    (path / "threads").write_text(os.environ["OMP_NUM_THREADS"])
    (path / "began").write_text(str(time.monotonic()))
    time.sleep(0.5)
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fails":
        folder.set_status("failed", "the loss is not finite")
        sys.exit(1)
    print("a line of", what)
    folder.set_status("finished")
    (path / "ended").write_text(str(time.monotonic()))
    """
)


@pytest.fixture
def outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    monkeypatch.setattr(together, "_script", lambda: str(script))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    config = compose_run([f"runs={tmp_path}"])
    made = []
    for what in ("good", "killed", "fails", "fine"):
        home = tmp_path / what / "seed1"
        named = replace(config, name=what)
        RunFolder(home).create(to_dict(named))
        made.append(Outcome(Job(what, 1, (str(home), what), named, home)))
    return made


def test_a_killed_and_a_failed_row_do_not_stop_the_others(outcomes: list[Outcome]) -> None:
    together.run_together(outcomes, 2)
    assert [outcome.state for outcome in outcomes] == ["finished", "failed", "failed", "finished"]
    assert "signal 9" in outcomes[1].reason
    assert "the loss is not finite" in outcomes[2].reason


def test_rows_overlap_and_share_the_threads(outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_cores", lambda: 6)
    chosen = [outcomes[0], outcomes[3]]
    together.run_together(chosen, 2)
    first, second = (outcome.job.folder for outcome in chosen)
    assert (first / "threads").read_text() == "3"
    assert float((second / "began").read_text()) < float((first / "ended").read_text())


def test_lines_of_the_rows_are_shown(outcomes: list[Outcome], capfd: pytest.CaptureFixture[str]) -> None:
    together.run_together(outcomes[:1], 1)
    assert "a line of good" in capfd.readouterr().err


def test_finished_rows_are_not_started(outcomes: list[Outcome]) -> None:
    outcomes[0].state = "skipped"
    together.run_together(outcomes[:1], 2)
    assert not (outcomes[0].job.folder / "began").exists()
