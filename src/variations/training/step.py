"""One update of the weights: read `Step.training_step` and `Step.update_weights` from top to bottom.

An update does not depend on how its items are divided into batches and among ranks: the gradient is that of the loss
summed over all items, divided by the number of units (target tokens, questions, …).
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig
from variations.data.batching import begun
from variations.store.identity import identifying
from variations.system.errors import UserError
from variations.tasks.base import Experiment
from variations.tasks.task import Task
from variations.training import checkpoints, memory, schedule
from variations.training.budget import Budget
from variations.training.ema import MovingAverage
from variations.training.finite import Guard, Seen
from variations.training.ranks import Place, Ranks
from variations.training.seeding import seed_batch
from variations.training.update import Update, Window


class Step(pl.LightningModule):
    """An experiment as a LightningModule.

    Args:
        config: The run's configuration.
        task: The experiment's task.
        experiment: The network, newly initialised, and its loss.
        accumulate: Number of batches per rank in one update.
    """

    def __init__(self, config: RunConfig, task: Task, experiment: Experiment, accumulate: int = 1) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.config, self.task, self.experiment, self.accumulate = config, task, experiment, accumulate
        self.model = experiment.network
        self.average = MovingAverage(config.recipe.ema) if config.recipe.ema else None
        self.budget = Budget(task.units)
        self.window = Window(task.losses)
        self.update = Update()
        self.groups = experiment.parameter_groups()
        self.rate = self.groups[0].rate(1)
        """The learning rate of the first group in the last update."""
        self._restored, self._former = False, None
        self._optimizer_state: dict[str, Any] | None = None
        self.validated_step = -1
        """The update after which the last validation was made."""

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Add a batch's gradient to the update's; after its last batch, apply the update."""
        seed = self.seed(*self.place_of_batch())
        counts = self.experiment.count(batch)  # first: it may run the network, and so use random numbers
        seed_batch(seed)
        self.update.begin(batch, seed, counts)
        done = batch_idx + 1  # `trainer.is_last_batch` counts from the start of a continued run
        last = done % self.accumulate == 0 or done >= self.trainer.num_training_batches
        with nullcontext() if last else self._gradients_of_this_rank():
            try:
                self.forward_backward(batch)
            except (RuntimeError, MemoryError) as error:
                self._only_out_of_memory(error)
                exhausted = True
            else:
                exhausted = False
            if exhausted:  # outside of `except`, which would keep the memory of the failed attempt alive
                work = (self._forget, self.forward_backward, self.experiment, self.task.smaller)
                self.budget.oom_splits += memory.accumulate(self.update.batches, *work)
        if last:
            self.update_weights()

    def forward_backward(self, batch: Any) -> None:
        """Add the gradient of a batch's summed loss, or of the update's mean loss if its divisor is already known."""
        with self.place.precision():
            losses = self.experiment.losses(batch)
        self.update.sums.append(torch.stack([loss.detach() for loss in losses]).double())
        # Dividing the loss of a single-batch update is free; dividing its gradients takes a further pass over them.
        share = torch.full_like(losses[0], 1 / self._units(self.update.counts)) if self._alone() else None
        with torch.autocast(self.device.type, enabled=False):  # the backward pass uses the forward pass's types
            self.manual_backward(losses[0], gradient=share)

    def update_weights(self) -> None:
        """One update, from the gradients of its batches."""
        update, step = self.update, self.global_step + 1
        counted = self.ranks.sum(update.counts)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if not self._alone():
            torch._foreach_div_(
                gradients, self._units(counted) / self.trainer.world_size
            )  # DDP has averaged over ranks
        self.experiment.before_update(self._units(counted))
        own, norm = torch.stack(update.sums).sum(0), torch.nn.utils.get_total_norm(gradients)
        where = "epoch {}, batch {}".format(*self.place_of_batch())
        seen = Seen(step, where, own[0], [batch.index for _, batch in update.batches], norm)
        skipped = self.guard.skips(seen, self.budget.nan_steps)
        self.budget.add(counted)
        if skipped:
            self.budget.nan_steps += 1
            self.zero_grad(set_to_none=True)  # Adam skips weights without a gradient, and their moments
        else:
            self.window.add(self.place.reduce(own), self._units(counted))
            if self.config.recipe.clip:  # Lightning does not clip for a fused optimiser with bf16-mixed
                torch.nn.utils.clip_grads_with_norm_(self.parameters(), self.config.recipe.clip, norm)
        optimizer, rates = self.optimizers(), self.lr_schedulers()
        self.rate = optimizer.param_groups[0]["lr"]  # type: ignore[union-attr]  # a callback may have changed it
        optimizer.step()  # type: ignore[union-attr]  # one optimiser, one schedule for each of its groups
        rates.step()  # type: ignore[union-attr, call-arg]
        self.zero_grad(set_to_none=True)  # before the next forward pass, which needs the memory
        if not skipped:
            self.experiment.after_update(step)
            if self.average is not None:
                self.average.update(self.model)
        self.update = Update()

    def place_of_batch(self) -> tuple[int, int]:
        """The epoch of the present batch, and its number in it."""
        batches = self.trainer.num_training_batches
        if batches == float("inf"):
            return self.current_epoch, self.trainer.fit_loop.epoch_loop.batch_idx
        return divmod(begun(self.trainer) - 1, int(batches))

    def seed(self, epoch: int, batch_idx: int, *, of: int = 0) -> int:
        """The seed of a batch's random numbers, from its place in the data, so that a continued run draws the same.

        Several devices take batches in turn, so they draw the same numbers as one device for the same batches.

        Args:
            epoch: Number of the epoch, from 0.
            batch_idx: Number of the batch in it, from 0.
            of: Of what: 0 the batch itself, 1 what callbacks do before it, 2 what they do before the epoch.
        """
        place = batch_idx * self.trainer.world_size + self.global_rank
        sequence = np.random.SeedSequence([self.config.seed, epoch, place, *([of] if of else [])])
        return int(sequence.generate_state(1, np.uint64)[0])

    def validate(self) -> dict[str, float]:
        """Evaluate the current weights without affecting training's mode and random numbers."""
        training = self.training
        self.eval()
        try:
            return self.experiment.validate(self.place)
        finally:
            self.train(training)

    def on_fit_start(self) -> None:
        """Connect to the other ranks, and check what the device supports."""
        self.ranks = Ranks(self.trainer.world_size)
        self.place = Place(self.trainer)
        eager, advice = self.device.type == "cpu", self.task.steadier
        self.guard = Guard(self.config.trainer.max_nan_steps, eager, self.ranks, advice, self._at_fault)
        self.experiment.start(self.place)
        if self.average is not None:
            self.average.start(self.model)

    def on_train_start(self) -> None:
        """Use settings and rates of the optimiser that were changed since the checkpoint, and its state's own types."""
        if self._restored:
            schedule.renew(self.optimizers(), self._configured(), self._former)
            if self._optimizer_state is not None:
                schedule.restore_types(self.optimizers(), self._optimizer_state)
                self._optimizer_state = None

    def configure_optimizers(self) -> Any:
        """The recipe's optimiser over the experiment's parameter groups, whose rates follow the schedule."""
        optimizer, rates = schedule.optimizer(self.groups, self.config)
        self._settings = schedule.settings(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": rates}

    def _configured(self) -> list[dict[str, Any]]:
        return schedule.configured(self._settings, self.lr_schedulers())

    def _units(self, counts: list[int]) -> int:
        return counts[self.task.units.index(self.task.loss_unit)]

    def _alone(self) -> bool:
        return self.trainer.world_size == 1 and self.accumulate == 1

    def _gradients_of_this_rank(self) -> AbstractContextManager[Any]:
        """A context in which DDP does not average gradients over ranks."""
        blocked: Any = getattr(self.trainer.strategy, "block_backward_sync", nullcontext)
        context: AbstractContextManager[Any] = blocked()
        return context

    def _at_fault(self) -> bool:
        """Whether this rank's own gradient is not finite; the update's, averaged over ranks, is lost."""
        self._forget()
        with self._gradients_of_this_rank():
            for seed, batch in self.update.batches:
                if seed is not None:
                    seed_batch(seed)
                self.forward_backward(batch)
        own = torch.nn.utils.get_total_norm(p.grad for p in self.model.parameters() if p.grad is not None)
        return not bool(own.isfinite())

    def _forget(self) -> None:
        self.update.sums.clear()
        self.zero_grad(set_to_none=True)

    def _only_out_of_memory(self, error: Exception) -> None:
        if not memory.is_exhausted(error):
            raise error
        if self.trainer.world_size > 1:  # the other ranks wait for this one's gradients of whole batches
            raise memory.failure(f"on rank {self.global_rank}", self.task.smaller) from error

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the totals to Lightning's checkpoint."""
        checkpoint["variations"] = {
            "budget": self.budget.state(),
            "window": self.window.state(),
            "average": None if self.average is None else self.average.state(),
            "shares": self._shares(),
            "optimizer": self._configured(),
            "config": identifying(to_dict(self.config)),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the totals.

        Raises:
            UserError: the run had other batches or other devices, or the checkpoint is another run's.
        """
        # Lightning copies the weights before it converts the network: those of 64-true would be rounded to float32.
        self.trainer.precision_plugin.convert_module(self)
        state = checkpoint["variations"]
        if self.config.variation.source is None:
            place = Path(self.trainer.ckpt_path or "")
            checkpoints.refuse_foreign(place, state.get("config"), to_dict(self.config))
        if state["shares"] != self._shares():
            raise UserError(
                f"the checkpoint was written with {_words(state['shares'])}, now there are {_words(self._shares())}: "
                "positions in the data cannot be carried over, so continue with the former trainer.devices, "
                "trainer.nodes, batch size and data, or train under another name."
            )
        self._restored, self._former = True, state.get("optimizer")
        # With another precision than before, the state takes the weights' new type.
        before = (state.get("config") or {}).get("trainer.precision")
        if before in (None, self.config.trainer.precision):
            self._optimizer_state = next(iter(checkpoint.get("optimizer_states", ())), None)
        self.budget.load(state["budget"])
        self.window.load(state["window"])
        if self.average is not None and state["average"] is not None:
            self.average.load(state["average"])

    def _shares(self) -> list[int]:
        data: Any = getattr(self.trainer, "datamodule", None)
        return [self.trainer.world_size, self.accumulate, 0 if data is None else data.batches()]


def _words(shares: list[int]) -> str:
    world, accumulated, batches = shares
    return f"{world} device(s), {accumulated} batch(es) per device and update, {batches} per device and epoch"
