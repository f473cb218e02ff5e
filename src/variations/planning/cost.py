"""The cost of a run from the measurements of its shape: seconds, device-hours, disk, memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from variations.configuration.schema import RunConfig

FULL, BEST = 2, 2
"""Checkpoints that are kept: the newest two, and the best weights at each (training/checkpoints.py)."""


@dataclass(frozen=True)
class Cost:
    """One run, in seconds and bytes."""

    start: float
    """Imports, opening the data, building the network."""
    updates: float
    validation: float
    saving: float
    test: float
    """Everything after training."""
    disk: int
    """Checkpoints that are kept after the run."""
    memory: int
    """Peak of the process, or of one GPU."""
    room: int | None
    """Memory available to it; None if not known."""
    devices: int
    exact: bool
    """False if batches were too slow or too large to be measured whole, or their lengths are assumed."""
    part: float = 1.0
    """Fraction of the updates for which `trainer.max_minutes` leaves time."""

    @property
    def training(self) -> float:
        """Updates, validation and checkpoints: `seconds` in `result.json`."""
        return self.updates + self.validation + self.saving

    def seconds(self, share: float = 1.0) -> float:
        """Time from start to scores, with the fraction `share` of the training left to do."""
        return self.start + share * self.training + self.test

    def hours(self, share: float = 1.0) -> float:
        """Device-hours for the same."""
        return self.seconds(share) * self.devices / 3600

    @property
    def fits(self) -> bool | None:
        """Whether there is enough memory; None if not known."""
        return None if self.room is None else self.memory <= self.room


def run_cost(config: RunConfig, values: Mapping[str, Any], room: int | None) -> Cost:
    """Compute the cost of one run of `config`.

    Args:
        config: A complete configuration.
        values: The measurements of its shape by `probe.py`.
        room: Bytes of memory for each run.
    """
    trainer, recipe, weights = config.trainer, config.recipe, values["weights_bytes"]
    every = trainer.val_every or max(1, trainer.max_steps // 10)
    validations = -(-trainer.max_steps // every)
    full = weights * (1 + recipe.further_copies)
    averaged = recipe.average if recipe.average > 1 else 0
    checkpoints = -(-trainer.max_steps // (trainer.checkpoint_every or every))
    saved = checkpoints * full + (validations + averaged) * weights  # the dev loss falls at most validations
    updates = trainer.max_steps * values["update_seconds"]
    validation = validations * values["validation_seconds"]
    saving = saved * values["save_seconds_per_byte"]
    limit, whole = trainer.max_minutes, updates + validation + saving
    part = 1.0 if limit is None or whole <= 60 * limit else 60 * limit / whole
    return Cost(
        start=values["startup_seconds"],
        updates=part * updates,
        validation=part * validation,
        saving=part * saving,
        test=values["test_seconds"],
        disk=min(FULL, checkpoints) * full + (min(BEST, validations) + averaged) * weights,
        memory=values["memory_bytes"],
        room=values.get("room_bytes") or room,
        devices=trainer.devices * trainer.nodes,
        exact=values["share"] == 1 and not values["invented"],
        part=part,
    )


def preparation(values: Mapping[str, Any]) -> float:
    """Seconds to prepare all training items, extrapolated from the part that was read; 0 if all are ready."""
    read = values.get("read", 1.0)  # a shape that could not be measured has no such value
    return float(values["prepare_seconds"] / read) if read < 1 else 0.0
