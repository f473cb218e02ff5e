"""The weights with which a run is tested, and the trained network of a stored run."""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from variations.configuration.compose import load
from variations.configuration.faults import averaged_steps
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.store import own_code
from variations.store.checksums import is_sound
from variations.store.ledger import RunFolder
from variations.store.reuse import trained_in
from variations.system.errors import UserError
from variations.training import checkpoints

log = logging.getLogger(__name__)


def final_weights(
    config: RunConfig, folder: RunFolder, tested: Collection[int] | None = None
) -> tuple[dict[str, Tensor], list[int]]:
    """The weights to test, and the steps from which they come.

    The mean of the last checkpoints (`recipe.average`), the moving average (`recipe.ema`), or the last weights. A run
    that ended before its last step has no last checkpoints of the plan: its current weights are tested.

    Args:
        config: The run's configuration.
        folder: The run.
        tested: The steps of which the weights in its result are; None: it has no result yet. A run that tests the
            weights of another one then takes those that the other one tested.

    Raises:
        UserError: The run has no intact checkpoint, or lacks weights that were tested; or the run whose weights it
            tests is missing.
    """
    source = trained_in(folder, config.variation.source)
    if tested is None and config.variation.source is not None:
        tested = _tested(source)
    weights, steps = _chosen(config, source, tested)
    if tested is not None and {*steps} != {*tested}:
        raise UserError(
            f"the checkpoints in {source.path} are of step {', '.join(map(str, steps))}, but its result is of step "
            f"{', '.join(map(str, tested))}: restore those of this run, or start a new attempt of it (force=true)."
        )
    return weights, steps


def _tested(folder: RunFolder) -> list[int] | None:
    """The steps of which the weights in the result of a run are; None if it has none."""
    tested = (folder.result() or {}).get("averaged_steps")
    return tested if isinstance(tested, list) else None


def _chosen(
    config: RunConfig, folder: RunFolder, tested: Collection[int] | None
) -> tuple[dict[str, Tensor], list[int]]:
    if tested is not None and (len(tested) > 1 or _alone(config, folder, tested)):
        planned = set(tested)
    else:
        last = max((step for step, _ in checkpoints.full(folder.checkpoints)), default=config.trainer.max_steps)
        planned = averaged_steps(config) if last >= config.trainer.max_steps else set()
    if planned:
        kept = {step: path for step, path in checkpoints.weights(folder.checkpoints) if step in planned}
        sound = {step: path for step, path in kept.items() if is_sound(path)}
        if lost := sorted(planned - set(sound)):
            steps = f"step{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
            if tested is not None:
                raise UserError(
                    f"{folder.path}: the weights of {steps} are missing or damaged, but are part of the average that "
                    "was tested: put them back, or start a new attempt (force=true)."
                )
            log.warning("The weights of %s in %s are missing or damaged; the average omits them.", steps, folder.path)
        if sound:
            return checkpoints.average(sound.values(), folder.config()), list(sound)
    newest = checkpoints.newest(folder.checkpoints)
    if newest is None:
        raise UserError(f"{folder.path} has no readable checkpoint: train the run first.")
    state = checkpoints.load(newest)
    checkpoints.refuse_foreign(newest, state["variations"].get("config"), folder.config())
    step = int(state["global_step"])
    moving = state["variations"].get("average")
    weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
    if config.recipe.ema and moving is not None:
        weights |= moving["weights"]  # which lack what cannot be averaged, such as Boolean buffers
    return weights, [step]


def _alone(config: RunConfig, folder: RunFolder, tested: Collection[int]) -> bool:
    """Whether the one step that was tested is the only one that was left of those to be averaged."""
    kept = {step for step, _ in checkpoints.weights(folder.checkpoints)}
    return {*tested} <= averaged_steps(config) & kept


def load_network(path: Path) -> tuple[nn.Module, Any]:
    """The network of a run with its tested weights, in evaluation mode, and the run's configuration.

    Raises:
        UserError: There is no such run, or its checkpoint or other files of its network are missing.
    """
    folder = RunFolder.open(path)
    config = load(folder.path / "config.yaml")
    if changed := own_code.changed_code(folder):
        raise UserError(f"cannot use the weights of {folder.path}: {' '.join(changed)}")
    network: nn.Module = named(config.task).network(config, folder)
    weights, _ = final_weights(config, folder, _tested(folder))
    network.load_state_dict(weights)
    return network.eval(), config
