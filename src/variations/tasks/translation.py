"""Translation as a LightningModule: the training step, the optimiser, and what a checkpoint holds."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from variations import models
from variations.config import Config
from variations.data.batching import Batch
from variations.models.flops import Tokens, training_flops
from variations.models.weighted import WeightedTransformer
from variations.training import schedule
from variations.training.budget import Budget
from variations.training.loss import Smoothing, cross_entropy


class Translation(pl.LightningModule):
    """Maximum likelihood with label smoothing (Vaswani et al. 2017, section 5).

    Gradients are of the sum over target tokens of all batches and ranks of one update, divided by their number: an
    update is the same however its sentences were cut into batches.
    """

    def __init__(self, config: Config, vocabulary: int, device: str = "cpu") -> None:
        super().__init__()
        self.config = config
        self.model = models.build(config, vocabulary, device)
        self.smoothing = Smoothing(config.recipe.label_smoothing, config.recipe.smoothing)
        self.budget = Budget()
        self.micro_batches = 0
        """Batches so far, from which each batch's randomness is derived."""
        self.window = _Window()
        """Loss since the last line of metrics."""
        self._update_tokens: Tensor | float = 0

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Sum over the batch's target tokens; see `on_before_optimizer_step` for the mean."""
        hidden = self.model(batch.source, batch.target)
        loss, nll = cross_entropy(hidden, self.model.output, batch.target, self.smoothing)
        tokens = Tokens(batch.source_tokens, batch.target_tokens, *batch.products)
        self.window.add(loss.detach(), nll, tokens.target)
        self.budget.count(
            len(batch), tokens, batch.padded_tokens, training_flops(self.config, tokens, self.model.vocabulary)
        )
        self._update_tokens += tokens.target
        return loss * self.trainer.accumulate_grad_batches  # Lightning divides by it

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed this batch's dropout by its number, so that a continued run draws what an unbroken one would have."""
        torch.manual_seed(
            (self.config.seed * 1_000_003 + self.micro_batches) * self.trainer.world_size + self.global_rank
        )
        self.micro_batches += 1

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the summed gradients by the number of target tokens of the update; centre those of κ and α."""
        tokens = torch.as_tensor(float(self._update_tokens), device=self.device)
        if self.trainer.world_size > 1:
            # DDP has averaged the gradients, so the divisor is the mean over ranks.
            tokens = self.trainer.strategy.reduce(tokens, reduce_op="mean")
        self._update_tokens = 0
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch._foreach_div_(gradients, tokens)
        if self.config.branch.center_grad:
            for name, parameter in self.model.named_parameters():
                if schedule.is_branch_weight(name) and parameter.grad is not None:
                    parameter.grad -= parameter.grad.mean()

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """One update; κ and α return to the simplex unless they are frozen."""
        super().optimizer_step(*args, **kwargs)
        if isinstance(self.model, WeightedTransformer) and not self.frozen():
            self.model.constrain()

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
            "micro_batches": self.micro_batches,
            "window": self.window.state(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take the totals up again."""
        state = checkpoint["variations"]
        self.budget.load(state["budget"])
        self.micro_batches = state["micro_batches"]
        self.window.load(state["window"])


class _Window:
    """Sums over the updates since the last line of metrics; read, and thereby waited for, only then."""

    def __init__(self) -> None:
        self.loss: Tensor | float = 0.0
        self.nll: Tensor | float = 0.0
        self.tokens = 0

    def add(self, loss: Tensor, nll: Tensor, tokens: int) -> None:
        """Count one batch."""
        self.loss, self.nll, self.tokens = self.loss + loss, self.nll + nll, self.tokens + tokens

    def take(self) -> dict[str, float]:
        """Means per target token since the last call."""
        tokens = max(self.tokens, 1)
        means = {"train/loss": float(self.loss) / tokens, "train/nll": float(self.nll) / tokens}
        self.__init__()  # type: ignore[misc]
        return means

    def state(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"loss": float(self.loss), "nll": float(self.nll), "tokens": self.tokens}

    def load(self, state: dict[str, Any]) -> None:
        """From checkpoints."""
        self.loss, self.nll, self.tokens = state["loss"], state["nll"], state["tokens"]
