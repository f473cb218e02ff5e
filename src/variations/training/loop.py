"""What happens between updates: validation, metrics, checkpoints, stopping; in this order, so that a run continued
from a checkpoint does exactly what an uninterrupted one would have done next."""

import signal
import time
from typing import Any

import pytorch_lightning as pl
import torch

from variations.configuration.compose import to_dict
from variations.configuration.faults import averaged_steps
from variations.configuration.schema import RunConfig
from variations.store.identity import identifying
from variations.store.ledger import RunFolder
from variations.system.errors import RunFailedError
from variations.training import checkpoints
from variations.training.finite import refuse_diverged
from variations.training.interrupt import Interrupt
from variations.training.seeding import seed_batch
from variations.training.tracking import Trackers

Metrics = dict[str, Any]
PRUNED = "pruned"
"""The reason if a search has pruned the run."""
CALLBACK = "callback"
"""The reason if a callback of the configuration has stopped training."""


class Loop(pl.Callback):
    """The run's side of the training loop.

    Args:
        config: The run's configuration.
        folder: Where metrics and checkpoints go.
        interrupt: Says after each update whether to stop.
        progress: Receives each update and each line of metrics.
        trackers: Receive each line of metrics.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        interrupt: Interrupt,
        progress: Any,
        trackers: Trackers | None = None,
    ) -> None:
        self.config, self.folder = config, folder
        self.interrupt, self.progress, self.trackers = interrupt, progress, trackers or Trackers()
        trainer = config.trainer
        self.val_every = trainer.val_every or max(1, trainer.max_steps // 10)
        self.checkpoint_every = trainer.checkpoint_every or self.val_every
        self.average_steps = averaged_steps(config)
        self.best: float | None = None
        self.stopped: str | None = None
        """Why training ended before max_steps: `max_minutes`, PRUNED or CALLBACK. A continued run keeps it."""
        self.interrupted = False
        """Whether a signal ends this process, which decides nothing about the run."""
        self.validated: tuple[int, Metrics] = (-1, {})
        """Step and metrics of the latest validation."""
        self._callbacks = self._ended_by = to_dict(config)["callbacks"]
        """Of the configuration, and those with which the checkpoint was written."""
        self._measured: list[Any] | None = None
        """Of the latest checkpoint: size and hash of the measurements before it."""
        self._known: Metrics = {}
        """What callbacks find in `trainer.callback_metrics`, at the latest checkpoint: Lightning's own lacks it."""
        self._last_step = self._saved_step = -1
        self._due = self._postponed = False
        self._last_save = 0.0
        self._tracked = False

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        """Delete metrics and checkpoints after the step from which training continues."""
        step = trainer.global_step
        if len(set(task.ranks.gather(step))) > 1:
            raise RunFailedError("the ranks read different checkpoints: is the run's folder the same on all machines?")
        self._last_step = self._saved_step = step
        self._last_save = time.monotonic()
        trainer.callback_metrics.update({name: value.to(task.device) for name, value in self._known.items()})
        task.budget.start_clock()
        if trainer.is_global_zero:
            measured = self._measured if self.config.variation.source is None else None  # not the source's
            if measured is not None:
                self.folder.refuse_lost_measurements(measured)
            facts = {"copied": None} if step == 0 else {}  # what a copy that was cut off has left is trained anew
            self.folder.set_status("running", step=step, epoch=trainer.current_epoch, measured=measured, **facts)
            self.folder.measurements.truncate(step)
            checkpoints.drop_after(self.folder.checkpoints, step)
            self.progress.start(step, self.config.trainer.max_steps)
        self.interrupt.defer()
        self.stopped = self.stopped if self._stays_stopped(task) else None
        trainer.should_stop = self.stopped is not None

    def _stays_stopped(self, task: Any) -> bool:
        """Whether the reason why the checkpoint's training ended still applies."""
        if self.stopped == CALLBACK:
            return bool(self._callbacks == self._ended_by)
        if self.stopped == PRUNED:
            return self.config.search.trial is not None
        return self.stopped == "max_minutes" and self._overtime(task)  # then it gets no further ones

    def on_train_end(self, trainer: pl.Trainer, task: Any) -> None:
        """From here on, a signal may stop the run at once."""
        task.budget.stop_clock()
        self.interrupt.undefer()

    def on_train_epoch_start(self, trainer: pl.Trainer, task: Any) -> None:
        """Seed what the configuration's callbacks draw from here on; this one is called before them."""
        if self.config.callbacks:
            seed_batch(task.seed(trainer.current_epoch, 0, of=2))

    def on_train_batch_start(self, trainer: pl.Trainer, task: Any, batch: Any, batch_idx: int) -> None:
        """Seed what they draw before the batch, which is seeded again."""
        if self.config.callbacks:
            seed_batch(task.seed(*task.place_of_batch(), of=1))

    def on_train_batch_end(self, trainer: pl.Trainer, task: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each update (not after each of its accumulated batches)."""
        step = trainer.global_step
        if step == self._last_step:
            return
        self._last_step = step
        self.progress.update(step, task.budget)
        last = step >= self.config.trainer.max_steps
        timed = self._agree(trainer, task, last)
        due = step % self.val_every == 0 or last
        measured = due or step % self.config.trainer.log_every == 0
        ends = last or self.stopped is not None
        wanted = step % self.checkpoint_every == 0 or timed or ends or self.interrupted or self._postponed
        self._postponed = wanted and not ends and self._callbacks_follow(trainer, task)
        saved = self._due = wanted and not self._postponed
        if measured or saved or step in self.average_steps:
            task.guard.settle()
        if measured:
            self._measure(trainer, task, step, validate=due)
        if step in self.average_steps:
            self._save_weights(trainer, task, checkpoints.WEIGHTS, step)
        if trainer.is_global_zero and not self._tracked:
            self._tracked = True
            task.budget.stop_clock()  # connecting to a service is not training
            self.trackers.start(self.folder)
            task.budget.start_clock()

    def save_if_due(self, trainer: pl.Trainer) -> None:
        """Save the run's state after an update, if a checkpoint is due or training ends; after all other callbacks."""
        step = trainer.global_step
        if step != self._last_step or step == self._saved_step:
            return
        self._note_stop(trainer)
        if self.interrupted:  # only now, so that a callback's stop can be told from it
            trainer.should_stop = True
        if self._due or self.stopped is not None:
            self._save_full(trainer, step)

    def save_at_epoch_end(self, trainer: pl.Trainer, task: Any) -> None:
        """Save the run's state if a callback has stopped training with this epoch; after all other callbacks."""
        if not self.interrupted and _ends_epoch(trainer, task) and self._note_stop(trainer):
            self._save_full(trainer, trainer.global_step)

    def _note_stop(self, trainer: pl.Trainer) -> bool:
        """Whether a callback has stopped training since the last call."""
        found = trainer.should_stop and self.stopped is None and trainer.global_step < self.config.trainer.max_steps
        if found:
            self.stopped = CALLBACK
        return found

    def _agree(self, trainer: pl.Trainer, task: Any, last: bool) -> bool:
        """Decide for all ranks whether to stop, and whether a checkpoint is due: True if it is."""
        minutes = self.config.trainer.checkpoint_minutes
        timed = minutes is not None and time.monotonic() - self._last_save > 60 * minutes
        received, timed, overtime = task.ranks.max([self.interrupt.received or 0, timed, self._overtime(task)])
        if received:
            self.interrupt.received = signal.Signals(received)
        self.interrupted = bool(received) and not last and not self._callbacks_follow(trainer, task)
        if overtime and not (last or received):
            self.stopped = "max_minutes"
            trainer.should_stop = True
        return bool(timed)

    def _callbacks_follow(self, trainer: pl.Trainer, task: Any) -> bool:
        """Whether callbacks of the configuration may still do something at the end of the epoch, after this update.

        Then no checkpoint is written here, and a signal does not stop the run before the next update: Lightning does
        not call them again when it continues. If an epoch is a single update, nothing could ever be written, so it is.
        """
        return bool(self._callbacks) and _ends_epoch(trainer, task) and trainer.num_training_batches > task.accumulate

    def _overtime(self, task: Any) -> bool:
        limit = self.config.trainer.max_minutes
        return limit is not None and task.budget.elapsed() > 60 * limit

    def _measure(self, trainer: pl.Trainer, task: Any, step: int, *, validate: bool) -> None:
        metrics: Metrics = task.window.take()
        metrics["lr"] = task.rate
        if validate:
            found = trainer.strategy.broadcast(task.validate())  # only rank 0 decodes; callbacks read it on every rank
            self.validated = (step, found)
            task.validated_step = step
            metrics |= self.validated[1]
            watched = metrics.get(task.task.monitor)
            if watched is None:
                raise RunFailedError(
                    f"The validation at step {step} returned no {task.task.monitor}, which the task names as "
                    f"its monitor. It returned: {found}."
                )
            refuse_diverged(watched, step, task.task.steadier)
            if self.best is None or watched < self.best:
                self.best = watched
                self._save_weights(trainer, task, checkpoints.BEST, step)
        task.log_dict(metrics, on_step=True, on_epoch=False, logger=False)  # for Lightning's own callbacks
        metrics |= task.experiment.metrics()
        if not trainer.is_global_zero:
            return
        _, *units = task.budget.counted  # items, which repeat in each epoch, are less informative than their tokens
        spent = {"seconds": task.budget.elapsed()} | {unit: task.budget.counted[unit] for unit in units}
        epoch, _ = task.place_of_batch()
        line = {"step": step, "epoch": epoch} | spent | metrics
        self.folder.measurements.append(line)
        self.trackers.line(line)
        self.folder.set_status("running", step=step, epoch=epoch)
        self.progress.metrics(step, metrics)

    def _save_full(self, trainer: pl.Trainer, step: int) -> None:
        task: Any = trainer.lightning_module
        task.guard.settle()  # a callback may stop at any update
        self._saved_step = step
        self.folder.measurements.sync()  # after a power cut, no checkpoint may lack its earlier lines
        self._measured = self.folder.measurements.fingerprint()
        self._known = {
            name: torch.as_tensor(value).detach().clone() for name, value in trainer.callback_metrics.items()
        }
        trainer.save_checkpoint(self.folder.checkpoints / f"{checkpoints.FULL}{step}.ckpt", weights_only=False)
        if trainer.is_global_zero:
            checkpoints.prune(self.folder.checkpoints, planned=self.average_steps)
            facts: dict[str, Any] = {"checkpoint": step, "measured": self._measured}
            self.folder.set_status("running", step=step, epoch=task.place_of_batch()[0], **facts)
        self._last_save = time.monotonic()

    def _save_weights(self, trainer: pl.Trainer, task: Any, stem: str, step: int) -> None:
        if trainer.is_global_zero:
            path = self.folder.checkpoints / f"{stem}{step}.pt"
            whose = identifying(to_dict(self.config))
            checkpoints.save(path, {"model": task.model.state_dict(), "step": step, "config": whose})

    def state_dict(self) -> dict[str, Any]:
        """The best dev loss so far, why the run stopped here, if it did, and what it has measured."""
        return {
            "best": self.best,
            "stopped": self.stopped,
            "measured": self._measured,
            "callbacks": self._callbacks,
            "known": self._known,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.best, self.stopped = state_dict["best"], state_dict["stopped"]
        self._measured, self._known = state_dict.get("measured"), state_dict.get("known", {})
        self._ended_by = state_dict.get("callbacks", self._callbacks)


def _ends_epoch(trainer: pl.Trainer, task: Any) -> bool:
    """Whether the present batch is the last one of its epoch."""
    return bool(task.place_of_batch()[1] + 1 == trainer.num_training_batches)
