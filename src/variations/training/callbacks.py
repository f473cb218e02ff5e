"""Lightning callbacks that a configuration names: the group `callbacks`, for classes of any package.

    callbacks:
      early_stopping:
        _target_: variations.training.callbacks.EarlyStopping
        patience: 3

They receive the results of validations (`dev/nll`, …) under the names in metrics.jsonl. Their state is part of every
checkpoint, so that a continued run restores it.
"""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from variations.configuration.hydra_door import instantiate
from variations.system.errors import ConfigError
from variations.training.checkpoints import refuse_unreadable


class EarlyStopping(pl.callbacks.EarlyStopping):
    """Stops training when a quantity has not improved in `patience` consecutive validations.

    Args:
        monitor: A quantity in metrics.jsonl, such as `dev/nll`; None: the dev loss of the task.
        mode: `min` or `max`: whether lower or higher is better.
        patience: Number of validations without improvement.
        min_delta: The smallest change that counts as improvement.
    """

    def __init__(
        self, monitor: str | None = None, mode: str = "min", patience: int = 3, min_delta: float = 0.0
    ) -> None:
        super().__init__(
            monitor or "", min_delta=min_delta, patience=patience, mode=mode, check_on_train_epoch_end=False
        )
        self._seen = -1

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        """Watch the task's dev loss, unless another quantity is named; its name is the key of the stored state."""
        super().setup(trainer, pl_module, stage)
        self.monitor = self.monitor or pl_module.task.monitor

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue to count; the patience is that of the configuration, which may have been changed."""
        super().load_state_dict({**state_dict, "patience": self.patience})

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After an update that was followed by a validation."""
        step = trainer.global_step
        if step != self._seen and pl_module.validated_step == step:
            self._seen = step
            self._run_early_stopping_check(trainer)


class Saving(pl.callbacks.Checkpoint):
    """Writes the checkpoint of an update after all other callbacks, so that it includes their changes.

    Lightning calls callbacks of this kind last.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse a callback whose state no checkpoint could hold before there is any training to be lost."""
        refuse_unreadable({"callbacks": {each.state_key: each.state_dict() for each in trainer.callbacks}})

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Save if a checkpoint is due, or a callback stops training."""
        self.loop.save_if_due(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Save if a callback has stopped training with the epoch."""
        self.loop.save_at_epoch_end(trainer, pl_module)


def configured(callbacks: Mapping[str, Any]) -> list[pl.Callback]:
    """The callbacks of a configuration, in its order.

    Raises:
        ConfigError: A class cannot be imported or created, or is not a callback.
    """
    found = []
    for name, settings in callbacks.items():
        made = instantiate(settings, f"callbacks.{name}")
        if not isinstance(made, pl.Callback):
            raise ConfigError([f"callbacks.{name}: {settings.get('_target_')} is not a Lightning Callback."])
        found.append(made)
    return found
