"""Translation as a LightningModule: the training step, the optimiser, and what a checkpoint holds."""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from variations import models
from variations.config import RunConfig
from variations.data.batching import Batch
from variations.errors import UserError
from variations.lightning import pl
from variations.models.flops import training_flops
from variations.models.kernels import segments, varlen
from variations.training import budget, memory, schedule
from variations.training.ema import MovingAverage
from variations.training.finite import Guard, Seen
from variations.training.loss import Smoothing, cross_entropy
from variations.training.ranks import Ranks
from variations.training.update import Update, Window


class Translation(pl.LightningModule):
    """Maximum likelihood with label smoothing (Vaswani et al. 2017, section 5).

    Gradients are of the sum over target tokens of all batches and ranks of one update, divided by their number: an
    update is the same however its sentences were cut into batches.
    """

    def __init__(self, config: RunConfig, vocabulary: int, device: str = "cpu") -> None:
        super().__init__()
        self.config = config
        # torch.compile makes kernels of its own from torch's, and cannot look into ours for a CPU.
        plain = config.trainer.compile and device == "cpu"
        kernels = dataclasses.replace(config, profile="reference") if plain else config
        self.model = models.build(kernels, vocabulary, device)
        self.smoothing = Smoothing(config.recipe.label_smoothing, config.recipe.smoothing)
        self.average = MovingAverage(config.recipe.ema) if config.recipe.ema else None
        self.budget = budget.Budget()
        self.window = Window()
        self.update = Update()
        self.packs = False
        """Whether training batches go through the network without padding."""
        self._graph: Tensor | None = None
        self._skipped = False

    def on_fit_start(self) -> None:
        """Meet the other ranks, and see what the device can do."""
        self.ranks = Ranks(self.trainer.world_size)
        self.packs = self.model.varlen and varlen.packs(self.config, self.device, self.model.kernels)
        self.guard = Guard(self.config.trainer.max_nan_steps, self.device.type == "cpu", self.ranks)
        if self.average is not None:
            self.average.start(self.model)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed this batch's dropout by its place in the data, so that it is the same in a continued run.

        Two devices take their batches in turn, so they draw what one device draws for the same batches.
        """
        place = batch_idx * self.trainer.world_size + self.global_rank
        seed = np.random.SeedSequence([self.config.seed, self.current_epoch, place]).generate_state(1, np.uint64)
        flops = training_flops(self.config, budget.tokens(batch), self.model.vocabulary)
        self.update.begin(batch, int(seed[0]), budget.counts(batch, flops))
        torch.manual_seed(int(seed[0]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of one batch: a sum over its target tokens; see `on_before_optimizer_step` for the mean."""
        try:
            self._graph = self.loss(batch)
        except (RuntimeError, MemoryError) as error:
            self._only_out_of_memory(error)
        # What Lightning gets has no graph: after a failure nobody but `backward` must hold on to its memory.
        return torch.zeros((), device=self.device) if self._graph is None else self._graph.detach()

    def loss(self, batch: Batch) -> Tensor:
        """Sum of the smoothed cross-entropy over a batch's target tokens, in nats; noted in the update's sums."""
        if self.packs:
            tokens = batch.source_tokens, batch.target_tokens
            source, target, packed = segments.pack(batch.source, batch.target, tokens, pad=self.model.pad)
            hidden = self.model(source, target, packed)
        else:
            target = batch.target
            hidden = self.model(batch.source, target)
        loss, nll = cross_entropy(hidden, self.model.output, target, self.smoothing)
        self.update.sums.append(torch.stack([loss.detach(), nll]).double())
        return loss

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Add a batch's gradient; if memory runs out, begin the update again with that batch in pieces."""
        graph, self._graph = self._graph, None
        if graph is not None:
            try:
                graph.backward(self._per_token(graph))
                return
            except (RuntimeError, MemoryError) as error:
                self._only_out_of_memory(error)
            graph = None
        self.update.sums.clear()
        cuts = memory.accumulate(self.update.batches, self._forget, self._forward_backward)
        self.budget.oom_splits += cuts

    def _forget(self) -> None:
        self.update.sums.clear()
        self.zero_grad(set_to_none=True)

    def _forward_backward(self, batch: Batch) -> None:
        with self.trainer.precision_plugin.forward_context():
            loss = self.loss(batch)
        loss.backward(self._per_token(loss))

    def _per_token(self, loss: Tensor) -> Tensor | None:
        """Gradient of the update's mean by this sum, where that is known already: in an update of one batch.

        It costs nothing there, whereas dividing all gradients afterwards is one more pass over the memory.
        """
        return torch.full_like(loss, 1 / self.update.batches[0][1].target_tokens) if self._alone() else None

    def _alone(self) -> bool:
        return self.trainer.world_size == 1 and self.trainer.accumulate_grad_batches == 1

    def _only_out_of_memory(self, error: Exception) -> None:
        if not memory.is_exhausted(error):
            raise error
        if self.trainer.world_size > 1:  # the other ranks wait for this one's gradients, of whole batches
            raise memory.failure(f"on rank {self.global_rank}") from error

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the summed gradients by the update's number of target tokens; centre those of κ and α; clip."""
        world, update = self.trainer.world_size, self.update
        counted = self.ranks.sum(update.counts)
        tokens = counted[budget.COUNTED.index("target_tokens")]
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if not self._alone():
            torch._foreach_div_(gradients, tokens / world)  # DDP has averaged them over ranks
        self.model.adjust_gradients()
        own = torch.stack(update.sums).sum(0)
        step, norm = self.global_step + 1, torch.nn.utils.get_total_norm(gradients)
        where = f"epoch {self.current_epoch}, batch {self.trainer.fit_loop.epoch_loop.batch_idx}"
        pairs = [batch.index for _, batch in update.batches]
        self._skipped = self.guard.skips(Seen(step, where, own[0], pairs, norm), self.budget.nan_steps)
        self.budget.add(counted)
        if self._skipped:
            self.budget.nan_steps += 1
            self.zero_grad(set_to_none=True)  # Adam leaves weights without a gradient, and their moments, alone
        else:
            summed = self.trainer.strategy.reduce(own.clone(), reduce_op="sum") if world > 1 else own
            self.window.add(summed, tokens)
            if self.config.recipe.clip:  # Lightning does not clip for a fused optimiser under bf16-mixed
                torch.nn.utils.clip_grads_with_norm_(self.parameters(), self.config.recipe.clip, norm)
        self.update = Update()

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """One update; κ and α return to the simplex unless they are frozen."""
        super().optimizer_step(*args, **kwargs)
        self.zero_grad(set_to_none=True)  # Lightning does it after the next forward pass, which needs the memory
        if self._skipped:
            return
        self.model.after_update(frozen=self.frozen())
        if self.average is not None:
            self.average.update(self.model)

    def frozen(self) -> bool:
        """Whether the update in progress is one of the last, in which κ and α stay constant."""
        steps = self.config.trainer.max_steps
        return self.global_step >= steps - schedule.frozen_steps(self.config.branch, steps)

    def configure_optimizers(self) -> Any:
        """Adam and the two schedules, stepped once per update."""
        optimizer, rates = schedule.optimizer(self.model, self.config)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rates, "interval": "step"}}

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[float, int]:
        """Unsmoothed negative log-likelihood in nats and number of target tokens of a batch."""
        hidden = self.model(batch.source, batch.target)
        _, nll = cross_entropy(hidden, self.model.output, batch.target, self.smoothing)
        return float(nll), batch.target_tokens

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the totals to what Lightning stores."""
        checkpoint["variations"] = {
            "budget": self.budget.state(),
            "window": self.window.state(),
            "average": None if self.average is None else self.average.state(),
            "shares": self._shares(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the totals up again.

        Raises:
            UserError: the run was cut into other batches or among other devices.
        """
        state = checkpoint["variations"]
        if state["shares"] != self._shares():
            raise UserError(
                f"the checkpoint was written with {_words(state['shares'])}, now there are {_words(self._shares())}: "
                "places in the data cannot be carried over, so continue with the former trainer.devices, "
                "trainer.nodes, trainer.tokens_per_batch, recipe.batch_tokens and data, or train under another name."
            )
        self.budget.load(state["budget"])
        self.window.load(state["window"])
        if self.average is not None and state["average"] is not None:
            self.average.load(state["average"])

    def _shares(self) -> list[int]:
        data: Any = getattr(self.trainer, "datamodule", None)
        batches = 0 if data is None else len(data.sampler)
        return [self.trainer.world_size, self.trainer.accumulate_grad_batches, batches]


def _words(shares: list[int]) -> str:
    world, accumulated, batches = shares
    return f"{world} device(s), {accumulated} batch(es) per device and update, {batches} per device and epoch"
