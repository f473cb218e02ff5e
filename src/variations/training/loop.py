"""What happens between updates: validation, metrics, checkpoints, stopping; in this order, so that a run continued
from a checkpoint repeats exactly what an unbroken one would have done next."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytorch_lightning as pl

from variations.config import Config
from variations.errors import RunFailedError
from variations.experiments.ledger import RunFolder
from variations.models.weighted import WeightedTransformer
from variations.training import checkpoints
from variations.training.interrupt import Interrupt

Metrics = dict[str, Any]


class Loop(pl.Callback):
    """The run's side of the training loop.

    Args:
        config: The run's configuration.
        folder: Where metrics and checkpoints go.
        validate: Dev metrics of the task's present weights.
        interrupt: Asked after each update whether to stop.
        progress: Told of each update and of each line of metrics.
    """

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        validate: Callable[[pl.LightningModule], Metrics],
        interrupt: Interrupt,
        progress: Any,
    ) -> None:
        self.config, self.folder, self.validate = config, folder, validate
        self.interrupt, self.progress = interrupt, progress
        trainer, recipe = config.trainer, config.recipe
        self.val_every = trainer.val_every or max(1, trainer.max_steps // 10)
        self.checkpoint_every = trainer.checkpoint_every or self.val_every
        self.average_steps = averaged_steps(config)
        self.keep_weights = recipe.average if recipe.average > 1 else 0
        self.best: float | None = None
        self.stopped: str | None = None
        """Why training ended before max_steps: `interrupted` or `max_minutes`."""
        self._last_step = -1
        self._last_save = 0.0

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        """Forget metrics and checkpoints beyond the step from which training goes on."""
        self._last_step = trainer.global_step
        self._last_save = time.monotonic()
        task.budget.start_clock()
        if trainer.is_global_zero:
            self.folder.truncate_metrics(trainer.global_step)
            checkpoints.drop_after(self.folder.checkpoints, trainer.global_step)
            self.progress.start(trainer.global_step, self.config.trainer.max_steps)

    def on_train_batch_end(self, trainer: pl.Trainer, task: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each update (not after each of its accumulated batches)."""
        step = trainer.global_step
        if step == self._last_step:
            return
        self._last_step = step
        self._guard_loss(task, outputs, step, batch)
        self.progress.update(step, task.budget)
        last = step >= self.config.trainer.max_steps
        self._stop_early(trainer, task, step)
        due = step % self.val_every == 0 or last
        if due or step % self.config.trainer.log_every == 0:
            self._measure(trainer, task, step, validate=due)
        minutes = self.config.trainer.checkpoint_minutes
        timed = minutes is not None and trainer.strategy.broadcast(time.monotonic() - self._last_save > 60 * minutes)
        if step in self.average_steps:
            self._save_weights(trainer, task, checkpoints.WEIGHTS, step)
        if step % self.checkpoint_every == 0 or last or timed or self.stopped:
            self._save_full(trainer, step)

    def _guard_loss(self, task: Any, outputs: Mapping[str, Any], step: int, batch: Any) -> None:
        if task.device.type != "cpu" and step % self.config.trainer.log_every:
            return  # looking at the loss would make the device wait
        if outputs["loss"].isfinite().all():
            return
        rows = ", ".join(str(int(i)) for i in batch.index[:5])
        raise RunFailedError(
            f"the loss is not finite at step {step}; the batch holds the training pairs {rows}, … "
            "Lower recipe.lr, lengthen recipe.warmup, or set recipe.clip."
        )

    def _stop_early(self, trainer: pl.Trainer, task: Any, step: int) -> None:
        limit = self.config.trainer.max_minutes
        wanted = None
        if self.interrupt.requested:
            wanted = "interrupted"
        elif limit is not None and task.budget.elapsed() > 60 * limit:
            wanted = "max_minutes"
        if trainer.world_size > 1:  # all ranks agree, or some would wait for ever
            wanted = trainer.strategy.broadcast(wanted)
        if wanted and step < self.config.trainer.max_steps:
            self.stopped = wanted
            trainer.should_stop = True

    def _measure(self, trainer: pl.Trainer, task: Any, step: int, *, validate: bool) -> None:
        metrics: Metrics = task.window.take()
        metrics["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
        if validate:
            metrics |= self.validate(task)
            nll = metrics["dev/nll"]
            if self.best is None or nll < self.best:
                self.best = nll
                self._save_weights(trainer, task, checkpoints.BEST, step)
        metrics |= _branch_metrics(task)
        if not trainer.is_global_zero:
            return
        budget = task.budget.state()
        kept = {key: budget[key] for key in ("seconds", "source_tokens", "target_tokens", "padded_tokens", "flops")}
        self.folder.append_metrics({"step": step, "epoch": trainer.current_epoch} | kept | metrics)
        scalars = {key: value for key, value in (metrics | kept).items() if isinstance(value, int | float)}
        for logger in trainer.loggers:
            logger.log_metrics(scalars, step=step)
        self.folder.set_status("running", step=step, epoch=trainer.current_epoch)
        self.progress.metrics(step, metrics)

    def _save_full(self, trainer: pl.Trainer, step: int) -> None:
        trainer.save_checkpoint(self.folder.checkpoints / f"{checkpoints.FULL}{step}.ckpt", weights_only=False)
        if trainer.is_global_zero:
            checkpoints.prune(self.folder.checkpoints, keep_weights=self.keep_weights)
        self._last_save = time.monotonic()

    def _save_weights(self, trainer: pl.Trainer, task: Any, stem: str, step: int) -> None:
        if trainer.is_global_zero:
            path = self.folder.checkpoints / f"{stem}{step}.pt"
            checkpoints.save(path, {"model": task.model.state_dict(), "step": step})

    def state_dict(self) -> dict[str, Any]:
        """The best dev loss so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.best = state_dict["best"]


def averaged_steps(config: Config) -> set[int]:
    """Steps whose weights are averaged at test time: the last `average` ones, `average_every` apart."""
    recipe, last = config.recipe, config.trainer.max_steps
    if recipe.average == 1:
        return set()
    apart = recipe.average_every or max(1, round(0.015 * last))
    return set(range(last, 0, -apart)[: recipe.average])


def _branch_metrics(task: Any) -> Metrics:
    if not isinstance(task.model, WeightedTransformer):
        return {}
    metrics: Metrics = {}
    dead = 0
    for name, weights in task.model.branch_weights().items():
        kappa, alpha = weights.values()
        metrics[f"branch/{name}.kappa"] = kappa.detach().tolist()
        metrics[f"branch/{name}.alpha"] = alpha.detach().tolist()
        dead += weights.dead()
    return metrics | {"branch/dead": dead}
