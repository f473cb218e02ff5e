"""Pruning: a run that is a trial reports its dev scores to the study, which may stop it."""

import logging
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl

from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.system.errors import UserError
from variations.training.loop import PRUNED

log = logging.getLogger(__name__)

Sentences = Callable[[], list[float]]


def reports(config: RunConfig) -> bool:
    """Whether a run reports to a study: Optuna accepts intermediate values of one metric only."""
    return config.search.trial is not None and len(config.sweep.search.metrics) == 1


class Reporter:
    """A run's connection to the study. If the study fails, the run continues without pruning."""

    def __init__(self, config: RunConfig) -> None:
        from variations.searching.study import make_pruner, open_storage

        self.pruner = make_pruner(config.sweep.search.pruner, config)
        self.study: Any = None
        self._number = config.search.trial
        try:
            self._open(open_storage(config.search.storage or ""), config.search.study or "")
        except Exception as error:  # noqa: BLE001 - any storage, any fault
            self._lose(error)

    def _open(self, storage: Any, name: str) -> None:
        import optuna

        self._storage = storage
        self.study = optuna.load_study(
            study_name=name, storage=storage, sampler=optuna.samplers.RandomSampler(seed=0), pruner=self.pruner
        )
        self._trial = storage.get_trial_id_from_study_id_trial_number(
            storage.get_study_id_from_name(name), self._number
        )

    def _lose(self, error: Exception) -> None:
        log.warning("The study of this trial cannot be used (%s); the run continues without pruning.", error)
        self.study = None

    def report(self, values: dict[int, float], *, ask: bool) -> bool:
        """Report values by step, each only once even if a run repeats steps; True if the study stops the trial.

        Args:
            values: By step: the step of training, or the number of a sentence.
            ask: Whether to ask the pruner.
        """
        if self.study is None:
            return False
        try:
            known = self._storage.get_trial(self._trial)
            if known.state.is_finished():
                raise RuntimeError(f"it has closed trial {self._number}")
            for step, value in values.items():
                if step not in known.intermediate_values:
                    self._storage.set_trial_intermediate_value(self._trial, step, value)
            return ask and bool(self.pruner.prune(self.study, self._storage.get_trial(self._trial)))
        except Exception as error:  # noqa: BLE001 - any storage, any fault
            self._lose(error)
            return False


class Pruning(pl.Callback):
    """Reports after each validation, and ends the run if the study stops the trial.

    Args:
        config: The run's configuration, whose `search` block names the study.
        loop: Provides the latest validation, and records why training ends.
        sentences: Scores of the dev sentences in the latest validation, for `wilcoxon`.
    """

    def __init__(self, config: RunConfig, loop: Any, sentences: Sentences) -> None:
        self.config, self.loop, self.sentences = config, loop, sentences
        self.reporter: Reporter | None = None
        self._seen = -1

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        """Open the study, on the rank that reports."""
        self._seen = trainer.global_step
        if trainer.is_global_zero:
            self.reporter = Reporter(self.config)

    def on_train_batch_end(self, trainer: pl.Trainer, task: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After a validation; all ranks follow the decision of the first one."""
        step = trainer.global_step
        if step == self._seen or self.loop.validated[0] != step:
            return
        self._seen = step
        pruned = self._report(step) if self.reporter is not None else False
        (given_up,) = task.ranks.max([int(pruned)])
        if given_up and self.loop.stopped is None and step < self.config.trainer.max_steps:
            self.loop.stopped = PRUNED
            trainer.should_stop = True

    def _report(self, step: int) -> bool:
        if self.reporter is None:
            return False
        kind = self.config.sweep.search.pruner.kind
        if kind == "wilcoxon":
            return self._compare() if step == self.compared_at() else False
        watched = named(self.config.task).watched(self.config.sweep.search.metrics[0])
        measured = self.loop.validated[1]
        if watched not in measured:
            if kind == "none":
                return False
            raise UserError(
                f"sweep.search.pruner.kind={kind} needs {watched} of every validation, which measures only "
                f"{', '.join(measured)}: choose another sweep.search.metrics, or sweep.search.pruner.kind=none."
            )
        return self.reporter.report({step: float(measured[watched])}, ask=True)

    def _compare(self) -> bool:
        """Make one test over all sentences, so that its level is correct; their mean is reported as the last value."""
        reporter = self.reporter
        if reporter is None:
            return False
        scores = self.sentences()
        pruned = reporter.report(dict(enumerate(scores)), ask=True)
        mean = sum(scores) / max(1, len(scores))
        reporter.report({len(scores): mean}, ask=False)  # Optuna uses it as the value of a pruned trial
        return pruned

    def compared_at(self) -> int:
        """The validation at which sentences are compared: the first after the fraction `pruner.at` of training."""
        last, every = self.config.trainer.max_steps, self.loop.val_every
        wanted = self.config.sweep.search.pruner.at * last
        return int(min(last, max(1, -(-wanted // every)) * every))
