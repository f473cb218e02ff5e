"""Training: data, task, trainer, fit."""

import logging
import shutil
import signal
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from variations import processes, tracking
from variations.config import RunConfig
from variations.errors import Interrupted, Pruned, UserError
from variations.lightning import LightningEnvironment, pl
from variations.models.kernels import varlen
from variations.searching.pruning import PRUNED, Pruning, reports
from variations.store.atomic import write_json
from variations.store.environment import environment
from variations.store.ledger import RunFolder
from variations.store.reuse import trained_in
from variations.tasks.translation.data.card import data_card
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.decoding.translator import Translator
from variations.tasks.translation.task import Translation
from variations.training import checkpoints, memory, performance
from variations.training.interrupt import Interrupt
from variations.training.loop import Loop
from variations.training.progress import RunProgress
from variations.training.validation import Validation


@dataclass
class Trained:
    """What training leaves behind."""

    task: Translation
    data: TranslationData
    step: int
    stopped: str | None
    """Why it ended early, if it did."""
    trackers: tracking.Trackers = field(default_factory=tracking.Trackers)
    device: torch.device | str = "cpu"


def fit(config: RunConfig, folder: RunFolder, interrupt: Interrupt) -> Trained:
    """Train from the newest checkpoint of the folder, or from the start, up to `trainer.max_steps`."""
    device = device_type(config)
    chosen = performance.apply(config.profile, device, config.trainer.threads, varlen.described(config, device))
    if processes.global_rank() == 0 and config.trainer.progress:
        print(performance.told(chosen), file=sys.stderr, flush=True)
    data = TranslationData(config)
    data.prepare_data()
    data.setup()
    if processes.global_rank() == 0:
        _write_facts(config, folder, data, chosen)
    # The weights' first values depend on the seed alone, not on what was imported or loaded before.
    pl.seed_everything(config.seed, workers=True, verbose=False)
    task = Translation(config, data.subwords.size, device)
    if config.trainer.compile:
        task.model.compile()
    progress = RunProgress(label(config, folder), enabled=config.trainer.progress)
    trackers = tracking.trackers(config, folder)
    validation = Validation(config, data)
    loop = Loop(config, folder, validation, interrupt, progress, trackers)
    trial = [Pruning(config, loop, validation.sentences)] if reports(config) else []
    trainer = make_trainer(config, data, loop, *trial)
    try:
        trainer.fit(task, datamodule=data, ckpt_path=_resume_from(config, folder), weights_only=True)
    except SystemExit as error:  # what Lightning makes of KeyboardInterrupt
        raise Interrupted(interrupt.received or signal.SIGINT) from error
    except (RuntimeError, MemoryError) as error:
        if memory.is_exhausted(error):
            raise memory.failure("outside of the updates") from error
        if "Error(s) in loading state_dict" in str(error):
            raise UserError(
                "the checkpoint does not fit the network of the changed configuration: take the network's keys out of "
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
    _leave(data)
    if loop.stopped == PRUNED:
        raise Pruned(f"given up by its search at step {trainer.global_step}")
    trackers.start(folder)  # a run that had trained to its end before has not begun to train now
    return Trained(task, data, trainer.global_step, loop.stopped, trackers, trainer.strategy.root_device)


def _leave(data: TranslationData) -> None:
    """End the work of several ranks: what follows is done by one of them, on all data."""
    data.trainer = None
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def make_trainer(config: RunConfig, data: TranslationData, loop: Loop, *further: pl.Callback) -> pl.Trainer:
    """A Trainer that does nothing unasked: no progress bar, no checkpoints, no validation of its own."""
    # What Lightning tells at its start, and a notice of torch to Lightning, are not for our users.
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")
    warnings.filterwarnings("ignore", r"The `srun` command is available")  # we start processes ourselves
    trainer = config.trainer
    return pl.Trainer(
        accelerator=trainer.accelerator,
        devices=trainer.devices,
        num_nodes=trainer.nodes,
        strategy=trainer.strategy,
        precision=trainer.precision,  # type: ignore[arg-type]
        max_steps=trainer.max_steps,
        max_epochs=-1,
        accumulate_grad_batches=data.accumulate,
        callbacks=[loop, *further],
        # Processes are started by `processes.py`, also within a cluster's job.
        plugins=[checkpoints.SafeIO(), LightningEnvironment()],
        logger=False,  # `tracking` mirrors what the run measures
        deterministic=config.deterministic,  # False undoes what an earlier run of this process has set
        profiler=config.debug.profiler,
        use_distributed_sampler=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=trainer.log_every,
    )


def device_type(config: RunConfig) -> str:
    """`cpu` or `cuda`: where the run will be."""
    wanted = config.trainer.accelerator
    return "cuda" if wanted == "gpu" or (wanted == "auto" and torch.cuda.is_available()) else "cpu"


def label(config: RunConfig, folder: RunFolder) -> str:
    """What the run is called on the terminal."""
    return f"{config.variation.row or folder.path.parent.name} seed {config.seed}"


def _resume_from(config: RunConfig, folder: RunFolder) -> str | None:
    path = checkpoints.newest(trained_in(folder, config.variation.source).checkpoints)
    return None if path is None else str(path)


def _write_facts(config: RunConfig, folder: RunFolder, data: TranslationData, chosen: dict[str, Any]) -> None:
    """Keep with the run its vocabulary, its environment and a card of its data."""
    vocabulary = folder.path / "subwords.model"
    if not vocabulary.exists():
        temporary = vocabulary.with_suffix(".tmp")
        shutil.copyfile(data.subwords.path, temporary)
        temporary.replace(vocabulary)
    folder.write_environment(environment({"subwords": data.subwords.sha256}) | {"performance": chosen})
    stores = {"train": data.train_tokens, "dev": data.dev_tokens, "test": data.test_tokens}
    card = data_card(data.corpus, data.subwords, stores)
    write_json(folder.path / "data_card.json", card)


def translator(config: RunConfig, task: Translation, data: TranslationData, **changes: Any) -> Translator:
    """Beam search with the task's present weights."""
    import dataclasses

    learned = config.positions.kind == "learned"
    return Translator(
        task.model,
        data.subwords,
        dataclasses.replace(config.decode, **changes),
        device=task.device,
        max_target=config.positions.max_length if learned else None,
    )
