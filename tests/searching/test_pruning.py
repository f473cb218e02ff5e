"""Runs that report to their study during training, and end when it prunes them."""

import binascii
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from variations.commands.run import run
from variations.configuration.compose import to_dict
from variations.searching.definition import Definition
from variations.searching.pruning import Pruning, Reporter
from variations.searching.study import Study
from variations.store.naming import run_folder
from variations.store.run_folder import RunFolder
from variations.system.errors import ExitCode, Interrupted, UserError
from variations.training import tracking
from variations.training.loop import Loop

Make = Callable[..., Definition]
SMALL = {
    "model__N": 1,
    "model__d_model": 16,
    "model__d_ff": 16,
    "model__h": 2,
    "data__train_pairs": 200,
    "data__vocabulary": 200,
    "trainer__max_steps": 12,
    "trainer__val_every": 3,
    "trainer__val_bleu": 8,
    "trainer__limit_test": 4,
    "trainer__progress": "false",
    "recipe__warmup": 20,
    "recipe__batch_tokens": 256,
    "branch__freeze_last": 0,
    "decode__beam": 1,
}


def trial(study: Study, value: float, reports: dict[int, float]) -> None:
    """Add a finished trial to the record."""
    (dimension,) = study.definition.dimensions
    study.optuna.add_trial(
        optuna.trial.create_trial(
            params={dimension.key: 0.1},
            distributions={dimension.key: optuna.distributions.FloatDistribution(0, 0.4)},
            value=value,
            intermediate_values=reports,
        )
    )


def begin(study: Study) -> RunFolder:
    """Reserve a trial and create its run's folder."""
    number, values = study.reserve("me") or (0, {})
    (config,) = study.definition.configs(number, values)
    return RunFolder(run_folder(config)).create(to_dict(config))


@pytest.mark.slow
def test_a_run_behind_the_median_ends_early_and_says_so(defined: Make) -> None:
    pruner = {"sweep__search__pruner__kind": "median", "sweep__search__pruner__startup": 2}
    study = Study(defined("sweep.search.metrics=[dev_ppl]", **SMALL, **pruner))
    for _ in range(2):
        trial(study, 1.0, {3: 1.5, 6: 1.2})
    folder = begin(study)
    done = subprocess.run(
        [sys.executable, "-m", "variations.commands.run", str(folder.path)],
        env=_environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    status = json.loads((folder.path / "status.json").read_text())
    assert (status["state"], status["reason"]) == ("pruned", "pruned by its search at step 3")
    assert folder.result() is None
    reported = study.trials()[2].intermediate_values
    assert reported == {3: pytest.approx(folder.measurements.read()[-1]["dev/ppl"])}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["_agree", "_measure"])
def test_a_verdict_is_kept_if_a_signal_comes_with_it(
    method: str, defined: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal during the update before the validation, or during the validation."""
    pruner = {"sweep__search__pruner__kind": "median", "sweep__search__pruner__startup": 2}
    study = Study(defined("sweep.search.metrics=[dev_ppl]", **SMALL, **pruner))
    for _ in range(2):
        trial(study, 1.0, {3: 1.5, 6: 1.2})
    folder, original = begin(study), getattr(Loop, method)

    def signalled(self: Loop, trainer: Any, *others: Any, **keywords: Any) -> Any:
        if trainer.global_step == 3:
            self.interrupt.received = signal.SIGTERM
        return original(self, trainer, *others, **keywords)

    closed: list[int] = []
    monkeypatch.setattr(tracking, "close", closed.append)
    with monkeypatch.context() as patched:
        patched.setattr(Loop, method, signalled)
        with pytest.raises(Interrupted):
            run(folder.path)
    assert run(folder.path) == {}
    assert closed == [ExitCode.TERMINATED, ExitCode.OK]  # to loggers, a pruned run is no failure
    status = folder.status()
    assert status is not None and (status.state, status.reason) == ("pruned", "pruned by its search at step 3")
    assert sorted(study.trials()[2].intermediate_values) == [3]


@pytest.mark.slow
def test_a_run_ahead_of_the_median_reports_every_validation_and_finishes(defined: Make) -> None:
    pruner = {"sweep__search__pruner__kind": "median", "sweep__search__pruner__startup": 2}
    study = Study(defined("sweep.search.metrics=[dev_ppl]", **SMALL, **pruner))
    for _ in range(2):
        trial(study, 1e9, {3: 1e9, 6: 1e9, 9: 1e9, 12: 1e9})
    folder = begin(study)
    result = run(folder.path)
    assert folder.state() == "finished"
    assert sorted(study.trials()[2].intermediate_values) == [3, 6, 9, 12]
    assert result["loss"]["dev_ppl"] == pytest.approx(study.trials()[2].intermediate_values[12])


@pytest.mark.slow
def test_hyperband_ends_those_behind_at_the_steps_of_their_bracket(defined: Make) -> None:
    """Validations at 3, 6, 9, 12 and factor 3 give two brackets: one halts at 3 and 9, the other at 9.

    Optuna assigns trials by crc32("probe_<n>") modulo 5: the first if below 3 = ceil(2 * 3 / 2), else the second.
    """
    study = Study(defined("sweep.search.metrics=[dev_ppl]", **SMALL | {"sweep__search__pruner__kind": "hyperband"}))
    ended: dict[int, int] = {}
    for n in range(6):  # each is worse than all before it
        number, values = study.reserve("me") or (0, {})
        reporter = Reporter(study.definition.configs(number, values)[0])
        given_up = (step for step in (3, 6, 9, 12) if reporter.report({step: 10.0 + n}, ask=True))
        ended[number] = next(given_up, 12)
    assert [binascii.crc32(f"probe_{n}".encode()) % 5 < 3 for n in range(6)] == [False, True, False, False, True, True]
    assert ended == {0: 12, 1: 12, 2: 9, 3: 9, 4: 3, 5: 3}


@pytest.mark.slow
def test_hyperband_ends_a_run_that_is_behind(defined: Make) -> None:
    pruner = {"sweep__search__pruner__kind": "hyperband", "trainer__val_every": 2}
    study = Study(defined("sweep.search.metrics=[dev_ppl]", **SMALL | pruner))
    for _ in range(4):  # in every bracket, and better than any run of 12 steps
        number, values = study.reserve("me") or (0, {})
        reporter = Reporter(study.definition.configs(number, values)[0])
        assert not any(reporter.report({step: 1.0}, ask=True) for step in (2, 4, 6, 8, 10, 12))
        study.tell(number, "COMPLETE", [1.0])
    folder = begin(study)
    run(folder.path)
    assert folder.state() == "pruned"
    assert sorted(study.trials()[4].intermediate_values)[-1] < 12


@pytest.mark.slow
def test_wilcoxon_gets_a_score_for_each_dev_sentence_once_at_half_time(defined: Make) -> None:
    study = Study(defined(**SMALL, sweep__search__pruner__kind="wilcoxon"))
    trial(study, 99.0, dict.fromkeys(range(8), 99.0))
    folder = begin(study)
    run(folder.path)
    assert (folder.state(), folder.status().reason) == ("pruned", "pruned by its search at step 6")  # type: ignore[union-attr]
    reported = study.trials()[1].intermediate_values
    assert sorted(reported) == list(range(9))  # the ninth is their mean, the trial's value
    assert reported[8] == pytest.approx(sum(reported[n] for n in range(8)) / 8)


@pytest.mark.slow
def test_without_its_study_a_run_goes_on_unpruned(defined: Make, caplog: pytest.LogCaptureFixture) -> None:
    study = Study(defined(**SMALL, sweep__search__pruner__kind="median"))
    folder = begin(study)
    Path(study.definition.storage).unlink()
    run(folder.path)
    assert folder.state() == "finished"
    assert "the run continues without pruning" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(("at", "step"), [(0.5, 500), (0.01, 100), (0.55, 600), (0.99, 1000)])
def test_sentences_are_compared_at_the_first_validation_after_the_given_part(
    defined: Make, at: float, step: int
) -> None:
    config = defined(trainer__max_steps=1000, sweep__search__pruner__at=at).base

    class Loop:
        val_every = 100

    callback: Any = Pruning(config, Loop(), list)
    assert callback.compared_at() == step


QUESTIONS = {
    "task": "question_answering",
    "model.dropout": None,
    "decode.sets": None,
    "recipe.noise": "interval(0,0.2)",
    "model.restarts": 1,
    "data.toy_questions": 20,
    "trainer.max_steps": 12,
    "trainer.val_every": 3,
    "trainer.progress": "false",
}
TREES = {key: value for key, value in SMALL.items() if not key.startswith(("data__", "branch__"))} | {
    "task": "parsing",
    "data__train_trees": 40,
    "recipe__batch_tokens": 512,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "settings", "logged"),
    [
        ("dev_nll", QUESTIONS, "dev/loss"),
        ("dev.recall", TREES, "dev/f1"),
    ],
)
def test_other_tasks_report_what_their_validations_measure(
    metric: str, settings: dict[str, Any], logged: str, defined: Make
) -> None:
    pruner = {"sweep__search__pruner__kind": "median", "sweep__search__pruner__startup": 2}
    study = Study(defined(f"sweep.search.metrics=[{metric}]", **settings, **pruner))
    folder = begin(study)
    run(folder.path)
    measured = {line["step"]: line[logged] for line in folder.measurements.read() if logged in line}
    assert sorted(measured) == [3, 6, 9, 12]
    assert study.trials()[0].intermediate_values == pytest.approx(measured)


def test_a_pruner_that_validations_do_not_serve_is_a_fault(defined: Make) -> None:
    class Loop:
        validated = (3, {"dev/nll": 1.0, "dev/ppl": 2.7})

    base = defined(sweep__search__pruner__kind="median").base
    callback: Any = Pruning(base, Loop(), list)
    callback.reporter = object()
    with pytest.raises(
        UserError, match=r"median needs dev/bleu of every validation, which measures only dev/nll, dev/ppl"
    ):
        callback._report(3)
    base.sweep.search.pruner.kind = "none"
    assert callback._report(3) is False


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
