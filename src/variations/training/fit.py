"""Training: data, experiment, trainer, fit."""

import logging
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.rank_zero import rank_zero_only

from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.store import inputs, own_code
from variations.store.environment import environment
from variations.store.ledger import RunFolder
from variations.store.reuse import trained_in
from variations.system import processes
from variations.system.errors import ConfigError, Interrupted, Pruned, RunFailedError, UserError
from variations.tasks.base import Experiment
from variations.training import checkpoints, memory, performance, tracking
from variations.training.callbacks import Saving, configured
from variations.training.interrupt import Interrupt
from variations.training.loaders import continuing
from variations.training.loop import PRUNED, Loop
from variations.training.progress import RunProgress
from variations.training.ranks import OwnRanks, Place
from variations.training.step import Step

Callbacks = Callable[[Loop, Experiment], Sequence[pl.Callback]]
"""Further callbacks of a run, which can query the loop and stop it."""

log = logging.getLogger(__name__)


@dataclass
class Trained:
    """The result of training."""

    step: Step
    place: Place
    """The ranks: only this process, because the others have ended."""
    steps: int
    stopped: str | None
    """Why training ended early, if it did."""
    trackers: tracking.Trackers


def fit(
    config: RunConfig, folder: RunFolder, interrupt: Interrupt, callbacks: Callbacks = lambda loop, experiment: ()
) -> Trained:
    """Train from the newest checkpoint of the folder, or from the start, up to `trainer.max_steps`."""
    # Lightning's loggers and callbacks look here. It takes the number of a task of `srun` for a rank.
    setattr(rank_zero_only, "rank", processes.global_rank())  # noqa: B010 - an attribute of a function
    device, task = device_type(config), named(config.task)
    chosen = performance.apply(
        config.profile, device, config.trainer.threads, task.profile(config, device), config.trainer.precision
    )
    if processes.global_rank() == 0 and config.trainer.progress:
        print(performance.told(chosen), file=sys.stderr, flush=True)
        if device == "cpu" and torch.cuda.is_available():
            print("This machine has a GPU, which trainer=gpu would use.", file=sys.stderr, flush=True)
    data = task.data(config)
    data.prepare_data()
    data.setup()
    if processes.global_rank() == 0:
        _keep_facts(config, folder, data, chosen)
        for text in task.foreseen(config):
            log.warning("%s: %s.", label(config, folder), text)
    # The initial weights depend only on the seed, not on what was imported or loaded before.
    pl.seed_everything(config.seed, workers=True, verbose=False)
    experiment = task.experiment(config, data, device)
    if config.trainer.compile:
        experiment.network.compile()
    step = Step(config, task, experiment, data.accumulate)
    progress = RunProgress(label(config, folder), task, enabled=config.trainer.progress)
    trackers = tracking.trackers(config, folder)
    loop = Loop(config, folder, interrupt, progress, trackers)
    further = *callbacks(loop, experiment), *configured(config.callbacks), Saving(loop)
    try:
        trainer = make_trainer(config, loop, *further)
    except (TypeError, ValueError, MisconfigurationException) as error:
        _refuse(config, error)
    setattr(data, "train_dataloader", continuing(data, trainer, config.seed))  # noqa: B010 – an attribute over a method
    try:
        trainer.fit(step, datamodule=data, ckpt_path=_resume_from(config, folder), weights_only=True)
    except SystemExit as error:
        if interrupt.received is None and not isinstance(error.__context__, KeyboardInterrupt):
            raise RunFailedError(f"a callback or a class of another package ended the process ({error!r}).") from error
        # Lightning turns KeyboardInterrupt into it.
        raise Interrupted(interrupt.received or signal.SIGINT) from error
    except MisconfigurationException as error:
        _refuse(config, error)
    except (RuntimeError, MemoryError) as error:
        if memory.is_exhausted(error):
            raise memory.failure("outside of the updates", task.smaller) from error
        if str(error).startswith("Early stopping conditioned on metric"):  # of a task of another package
            raise UserError(f"callbacks: {' '.join(str(error).split())}") from error
        if "Error(s) in loading state_dict" in str(error):
            raise UserError(
                "the checkpoint does not fit the network of the changed configuration: remove the network's keys from "
                "resume.allow, or train under another name."
            ) from error
        raise
    finally:
        interrupt.undefer()
        progress.close()
    if interrupt.received is not None:
        raise Interrupted(
            interrupt.received, f"Stopped at step {trainer.global_step}; the same command continues from there."
        )
    if trainer.global_step == 0:
        raise UserError("no update was made: there was no batch to train on, or a callback ended training at once.")
    _leave(data)
    if loop.stopped == PRUNED:
        raise Pruned(f"pruned by its search at step {trainer.global_step}")
    trackers.start(folder)  # if training was already complete, no update has started them
    return Trained(step, Place(trainer, alone=True), trainer.global_step, loop.stopped, trackers)


def _keep_facts(config: RunConfig, folder: RunFolder, data: Any, chosen: dict[str, Any]) -> None:
    """Store with the run what it is made from and where; `chosen` is what `performance.apply` has returned."""
    made_from = data.keep_facts(folder) | own_code.keep(config, folder)
    inputs.refuse_changed(folder, made_from)
    inputs.remember(folder, made_from)
    status = folder.status()
    # Training may have ended before its last step; with resume.allow it may go on.
    ended = status is not None and status.extra.get("ended") and not config.resume.allow
    trains = not ended and (folder.newest_checkpoint() or 0) < config.trainer.max_steps
    chosen = chosen | performance.threads_of(folder, chosen["threads"], trains=trains)
    if folder.write_environment(environment(made_from) | {"performance": chosen}, trains=trains):
        former, now = folder.trained_by()[-2:]
        log.warning(
            "%s continues with other code of this project (%s) than that of its checkpoints (%s), so its result "
            "will belong to neither. Another name (name=…, a sweep: sweep.name=…) starts from the beginning.",
            *(folder.path, now, former),
        )


def _refuse(config: RunConfig, error: Exception) -> NoReturn:
    """Raise the error of a Trainer; as a fault of the configuration if arguments of the user's may be its reason."""
    if not (config.trainer.extra or config.callbacks):
        raise error
    text = f"trainer.extra or callbacks: Lightning refuses them: {' '.join(str(error).split())}"
    raise ConfigError([text]) from error


def _leave(data: Any) -> None:
    """End the distributed part: one rank does the rest, on all data."""
    data.trainer = None
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def make_trainer(config: RunConfig, loop: Loop, *further: pl.Callback) -> pl.Trainer:
    """A Trainer without Lightning's own progress bar, checkpoints and validation."""
    # Lightning's start-up messages and a warning from torch to Lightning are not for our users.
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")
    warnings.filterwarnings("ignore", r"The `srun` command is available")  # we start processes ourselves
    # `data.workers` is a choice: on a CPU the cores train, and a batch is only a slice of the token store.
    warnings.filterwarnings("ignore", r"The '\w+' does not have many workers")
    trainer = config.trainer
    return pl.Trainer(
        accelerator=trainer.accelerator,
        devices=trainer.devices,
        num_nodes=trainer.nodes,
        strategy=trainer.strategy,
        precision=trainer.precision,  # type: ignore[arg-type]
        max_steps=trainer.max_steps,
        max_epochs=-1,
        callbacks=[loop, *further],
        # Processes are started by `system/processes.py`, also within a cluster's job.
        plugins=[checkpoints.SafeIO(), OwnRanks()],
        logger=False,  # `tracking` mirrors what the run measures
        deterministic=config.deterministic,  # False resets the setting of an earlier run of this process
        profiler=config.debug.profiler,
        use_distributed_sampler=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        enable_checkpointing=any(isinstance(callback, pl.callbacks.Checkpoint) for callback in further),
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=trainer.log_every,
        **trainer.extra,
    )


def device_type(config: RunConfig) -> str:
    """`cpu` or `cuda`, where the run computes."""
    wanted = config.trainer.accelerator
    return "cuda" if wanted == "gpu" or (wanted == "auto" and torch.cuda.is_available()) else "cpu"


def label(config: RunConfig, folder: RunFolder) -> str:
    """The run's name on the terminal."""
    return f"{config.variation.row or folder.path.parent.name} seed {config.seed}"


def _resume_from(config: RunConfig, folder: RunFolder) -> str | None:
    source = trained_in(folder, config.variation.source)
    path = checkpoints.newest(source.checkpoints)
    last = (source.result() or {}).get("steps") if config.variation.source is not None else None
    if last is not None and (path is None or path.name != f"step{last}.ckpt"):  # nothing is left to train
        raise UserError(
            f"{folder.path} tests the weights of the run in {source.path}, whose last checkpoint (step{last}.ckpt) is "
            "missing or damaged: restore it, or start a new attempt of that run (force=true)."
        )
    if path is None and processes.global_rank() == 0 and (lines := folder.measurements.read()):
        log.warning(
            "%s has measurements up to step %s but no checkpoint, so it is trained from the start.",
            folder.path,
            lines[-1].get("step"),
        )
    if path is None:
        return None
    step = int(path.stem.removeprefix("step"))
    if config.trainer.progress and processes.global_rank() == 0 and step < config.trainer.max_steps:
        print(f"{label(config, folder)} continues from step {step}", file=sys.stderr, flush=True)
    return str(path)
