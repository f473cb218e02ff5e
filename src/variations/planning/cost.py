"""What a run costs, from what was measured of its shape: seconds, device-hours, disk, memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from variations.tasks.translation.config import TranslationConfig as Config

FULL, BEST = 2, 2
"""Checkpoints that stay: the newest two, and the best weights at each of them (training/checkpoints.py)."""
ADAM = 3
"""A full checkpoint holds the weights and Adam's two moments."""


@dataclass(frozen=True)
class Cost:
    """One run; seconds."""

    start: float
    """Imports, opening the data, building the network."""
    updates: float
    validation: float
    saving: float
    test: float
    """Translating the test sets, the losses on dev and test set, scoring."""
    disk: int
    """Bytes of the checkpoints that stay when it has ended."""
    memory: int
    """Bytes of the process, or of one GPU, at its peak."""
    room: int | None
    """Bytes that there are for it."""
    devices: int
    exact: bool
    """False where batches were too slow or too large to be measured whole, or their lengths are invented."""

    @property
    def training(self) -> float:
        """What `result.json` calls seconds: updates, validation and checkpoints."""
        return self.updates + self.validation + self.saving

    @property
    def seconds(self) -> float:
        """Everything."""
        return self.start + self.training + self.test

    def hours(self, share: float = 1.0) -> float:
        """Device-hours of a run, of which `share` of the training is still to be done."""
        return (self.start + share * self.training + self.test) * self.devices / 3600

    @property
    def fits(self) -> bool | None:
        """Whether there is memory enough; None where that is not known."""
        return None if self.room is None else self.memory <= self.room


def run_cost(config: Config, values: Mapping[str, Any], room: int | None) -> Cost:
    """Put together what one run of `config` costs.

    Args:
        config: A complete configuration.
        values: What `probe.py` measured of its shape.
        room: Bytes of memory for each run.
    """
    trainer, recipe = config.trainer, config.recipe
    steps = trainer.max_steps
    weights = values["weights_bytes"]
    full = weights * (ADAM + (recipe.ema > 0))
    val_every = trainer.val_every or max(1, steps // 10)
    validations = _times(steps, val_every)
    saved = _times(steps, trainer.checkpoint_every or val_every) * full
    averaged = recipe.average if recipe.average > 1 else 0
    saved += (validations + averaged) * weights  # the dev loss falls at most validations
    updates = steps * values["update_seconds"]
    validation = validations * (values["dev_seconds"] + values["greedy_seconds"])
    saving = saved * values["save_seconds_per_byte"]
    if trainer.max_minutes is not None and updates + validation + saving > 60 * trainer.max_minutes:
        part = 60 * trainer.max_minutes / (updates + validation + saving)
        updates, validation, saving = part * updates, part * validation, part * saving
    test = values["test_seconds"] + values["dev_seconds"] + values["test_loss_seconds"] + values["score_seconds"]
    if trainer.val_bleu:  # the dev set is measured once more, with its translations
        test += values["greedy_seconds"]
    return Cost(
        start=values["startup_seconds"],
        updates=updates,
        validation=validation,
        saving=saving,
        test=test,
        disk=FULL * full + (min(BEST, validations) + averaged) * weights,
        memory=values["memory_bytes"],
        room=values.get("room_bytes") or room,
        devices=trainer.devices * trainer.nodes,
        exact=values["share"] == 1 and values["corpus"] != "invented lengths",
    )


def preparation(values: Mapping[str, Any]) -> float:
    """Seconds to prepare the whole corpus, from what the part that was prepared took; 0 if it is ready."""
    if not values.get("whole_pairs"):
        return 0.0
    return float(values["prepare_seconds"] * values["whole_pairs"] / max(1, values["pairs"]))


def _times(steps: int, every: int) -> int:
    """How often something happens that is due each `every` steps and at the end."""
    return -(-steps // every)
