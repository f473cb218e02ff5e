"""What a sweep shows for a row that is still running."""

import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from variations.configuration.compose import compose_run, to_dict
from variations.store.ledger import RunFolder
from variations.store.status import Status
from variations.sweeping.job import Job
from variations.sweeping.outcomes import Outcome
from variations.sweeping.overview import UNTRAINED, Overview, _table_line, summary


def look(show: Overview, outcomes: list[Outcome], folder: RunFolder, *steps: int) -> None:
    """Let it see a run at two steps, ten seconds apart."""
    now = time.monotonic()
    for moment, step in zip((now - 10, now), steps, strict=True):
        folder.set_status("running", step=step)
        show.pace.look(outcomes, moment)


def test_a_running_row_shows_its_latest_validation_and_the_time_left(rows: Callable[..., list[Outcome]]) -> None:
    outcomes = rows("a", "b", changes=["trainer.max_steps=1000"])
    folder = RunFolder(outcomes[0].folder.path).create(to_dict(outcomes[0].job.config))
    for step, bleu in ((100, 12.34), (200, 41.23)):
        folder.measurements.append({"step": step, "dev/nll": 1.0, "dev/ppl": 2.72, "dev/bleu": bleu})
    folder.measurements.append({"step": 250, "train/nll": 0.5})
    with folder.measurements.path.open("a", encoding="utf-8") as file:
        file.write('{"step": 275, "dev/n')  # still being written
    outcomes[0].state = "submitted"
    written = StringIO()
    show = Overview(Console(file=written, force_terminal=True, width=120, height=30))
    look(show, outcomes, folder, 150, 250)
    assert outcomes[0].so_far() == "dev BLEU 41.2"
    assert outcomes[1].so_far() == ""
    assert show.pace.words(outcomes[0]) == "step 250/1000, dev BLEU 41.2"
    assert show.pace.words(outcomes[1]) == "pending"
    show.console.print(show.picture(outcomes))
    (line,) = [line for line in written.getvalue().splitlines() if "running" in line and "250/1000" in line]
    assert "dev BLEU 41.2" in line


def test_the_time_left_of_a_sweep_counts_this_command_s_speed_and_not_that_of_earlier_runs(
    rows: Callable[..., list[Outcome]],
) -> None:
    before, running, waiting, later = outcomes = rows("a", "b", "c", "d", changes=["trainer.max_steps=1000"])
    before.state, before.seconds, later.state = "skipped", 50_000.0, "skipped"
    RunFolder(running.folder.path).create(to_dict(running.job.config))
    running.state = "submitted"
    show = Overview(Console(file=StringIO()))
    look(show, outcomes, running.folder, 150, 250)
    left = show.pace.sweep_left(outcomes)
    assert left == pytest.approx(75 + 100, abs=5)  # 0.1 s per step: the rest of the running row, all of the waiting one
    before.state, before.seconds = "finished", 200.0  # by this command
    left = show.pace.sweep_left(outcomes)
    assert left == pytest.approx(75 + 200, abs=5)
    running.state, running.seconds = "finished", 85.0  # this command has run 850 of its 1,000 steps
    waiting.state = "submitted"
    waiting.folder.create(to_dict(waiting.job.config))
    look(show, outcomes, waiting.folder, 0, 100)
    before.state, later.state = "skipped", "pending"
    assert show.pace.sweep_left(outcomes) == pytest.approx(90 + 100, abs=5)


@pytest.mark.parametrize(("waiting", "words"), [("starting", "85 s\n"), ("queued", "85 s since it was submitted\n")])
def test_the_seconds_of_a_queued_run_are_said_to_contain_its_wait(
    waiting: str, words: str, rows: Callable[..., list[Outcome]]
) -> None:
    (row,) = outcomes = rows("a")
    row.state, row.seconds = "finished", 85.0
    written = StringIO()
    Overview(Console(file=written, width=200), waiting).ended(outcomes, row)
    assert written.getvalue() == f"[1/1] a, seed 1: finished, {words}"


def test_a_row_that_is_continued_is_not_called_started(rows: Callable[..., list[Outcome]]) -> None:
    _, begun = outcomes = rows("a", "b")
    begun.former = Status("interrupted", checkpoint=5000)
    written = StringIO()
    show = Overview(Console(file=written, width=400))
    for outcome in outcomes:
        show.started(outcomes, outcome)
    words = [line.partition("; log: ")[0] for line in written.getvalue().splitlines()]
    assert words == ["[1/2] a, seed 1: started", "[2/2] b, seed 1: continues from step 5,000"]


def test_the_time_left_of_a_row_ends_with_its_minutes(rows: Callable[..., list[Outcome]]) -> None:
    (row,) = outcomes = rows("a", changes=["trainer.max_steps=100000", "trainer.max_minutes=1"])
    RunFolder(row.folder.path).create(to_dict(row.job.config))
    row.state = "submitted"
    show = Overview(Console(file=StringIO()))
    look(show, outcomes, row.folder, 400, 500)
    assert show.pace.left(row) == pytest.approx(10, abs=2)  # 0.1 s per step, of which a minute has 600
    assert show.pace.sweep_left(outcomes) == pytest.approx(10, abs=2)


def test_a_row_whose_next_report_is_overdue_needs_longer(
    rows: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = outcomes = rows("a", changes=["trainer.max_steps=1000"])
    RunFolder(row.folder.path).create(to_dict(row.job.config))
    row.state = "submitted"
    show = Overview(Console(file=StringIO()))
    look(show, outcomes, row.folder, 150, 250)
    reported = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: reported + 9)  # 0.1 s per step: the next 100 are not overdue yet
    assert show.pace.left(row) == pytest.approx(75 - 9, abs=1)
    monkeypatch.setattr(time, "monotonic", lambda: reported + 90)  # at least 100 s for 200 steps
    assert show.pace.left(row) == pytest.approx(750 * 0.5 - 90, abs=1)
    assert show.pace.sweep_left(outcomes) == pytest.approx(750 * 0.5 - 90, abs=1)


def test_the_test_of_a_row_is_not_a_slower_step(
    rows: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tested, waiting = outcomes = rows("a", "b", changes=["trainer.max_steps=250"])
    RunFolder(tested.folder.path).create(to_dict(tested.job.config))
    tested.state = "submitted"
    show = Overview(Console(file=StringIO()))
    look(show, outcomes, tested.folder, 150, 250)
    reported = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: reported + 500)
    assert waiting.state == "pending"
    assert show.pace.sweep_left(outcomes) == pytest.approx(250 * 0.1, abs=1)


def test_a_row_that_has_made_its_last_step_is_being_tested(rows: Callable[..., list[Outcome]]) -> None:
    (row,) = outcomes = rows("a", changes=["trainer.max_steps=300"])
    RunFolder(row.folder.path).create(to_dict(row.job.config))
    row.state = "submitted"
    show = Overview(Console(file=StringIO()))
    look(show, outcomes, row.folder, 200, 300)
    assert show.pace.words(row) == "step 300/300, testing"
    assert (show.pace.time_left(row), show.pace.sweep_left(outcomes)) == ("testing", None)


@pytest.mark.slow
def test_scores_of_different_tasks_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An error in percent must not stand below the heading "test BLEU"."""
    found = {"question_answering": ("error", 68.12), "translation": ("bleu", 31.5)}
    outcomes = []
    for task, (score, value) in found.items():
        config = compose_run([f"task={task}", f"runs={tmp_path}", f"name={task}"])
        outcome = Outcome.of(Job(task, 1, (), config, tmp_path / task / "seed1"))
        outcome.folder.create(to_dict(config)).write_result({"scores": {"test": {score: {"value": value}}}})
        outcome.state = "finished"
        outcomes.append(outcome)
    summary(outcomes)
    told = capsys.readouterr().out
    assert "mean error % 68.12" in told and "test BLEU 31.50" in told
    summary(outcomes[:1])
    told = capsys.readouterr().out
    assert "mean error %" in told and "mean error % 68.12" not in told


@pytest.mark.parametrize("words", [[], ["debug=limit"]])
def test_a_row_whose_loss_still_falls_is_told_when_it_ends_and_in_the_summary(
    words: list[str], rows: Callable[..., list[Outcome]], capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = rows("steep", "flat", changes=words)
    for outcome, last in zip(outcomes, (1.0, 2.0), strict=True):
        outcome.folder = RunFolder(outcome.folder.path).create(to_dict(outcome.job.config))
        for step, nll in ((10, 4.0), (40, 2.0), (50, last)):
            outcome.folder.measurements.append({"step": step, "dev/nll": nll})
        outcome.folder.write_result({"scores": {"test": {"bleu": {"value": 12.0}}}})
        outcome.state = "finished"
    text = StringIO()
    show = Overview(Console(file=text, width=200))
    for outcome in outcomes:
        show.ended(outcomes, outcome)
    summary(outcomes)
    fell = "dev perplexity fell by 63.2 % in the last fifth of its steps"  # from e^2 to e^1
    assert (f"steep, seed 1: finished, test BLEU 12.00, not trained ({fell})" in text.getvalue()) == (not words)
    told = [line for line in capsys.readouterr().out.splitlines() if "not trained" in line]
    assert told == ([] if words else [f"not trained steep: {fell}. {UNTRAINED}"])
    assert "flat, seed 1: finished, test BLEU 12.00\n" in text.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_it_is_said_at_once_that_an_untrained_base_row_leaves_the_others_without_a_comparison(
    terminal: bool, rows: Callable[..., list[Outcome]]
) -> None:
    outcomes = rows("steep", "other")
    base, other = outcomes
    other.job.config.variation.base = "steep"
    base.folder = RunFolder(base.folder.path).create(to_dict(base.job.config))
    for step, nll in ((10, 4.0), (40, 2.0), (50, 1.0)):
        base.folder.measurements.append({"step": step, "dev/nll": nll})
    base.folder.write_result({"scores": {"test": {"bleu": {"value": 12.0}}}})
    base.state = "finished"
    said = "No row will be compared with steep, which is not trained (dev perplexity fell by 63.2 %"
    for first in (Overview.ended, Overview.started):  # it ends now, or has ended before this command
        text = StringIO()
        with Overview(Console(file=text, force_terminal=terminal, highlight=False, width=300)) as show:
            other.state = "failed"  # then there is nothing to stop
            show.ended(outcomes, base)
            assert said not in text.getvalue()
            other.state = "pending"
            first(show, outcomes, other if first is Overview.started else base)
            assert text.getvalue().count(said) == 1
            show.started(outcomes, other)
            assert text.getvalue().count(said) == 1


def test_the_printed_table_command_keeps_seeds_however_they_were_typed(rows: Callable[..., list[Outcome]]) -> None:
    (row,) = rows("a")
    for typed in ("seeds=[1,2]", "sweep.seeds=[1,2]"):
        assert f"'{typed}'" in _table_line(row, [typed, "trainer.max_steps=4"])
