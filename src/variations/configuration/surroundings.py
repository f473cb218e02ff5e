"""What a configuration needs on this machine: folders and devices.

`faults.py` finds faults that do not depend on the machine; these are checked where the run starts, before its folder
is made.
"""

import os
from itertools import islice
from pathlib import Path

from variations.configuration.extras import EXTRAS, lacking
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.system.processes import cores


def faults(config: RunConfig) -> list[str]:
    """What is missing here, one sentence each; empty if the run can start."""
    return [*named(config.task).missing(config), *_devices(config), *_logger(config), *_records(config)]


def _records(config: RunConfig) -> list[str]:
    """A store of records, whose runs have no checkpoints; the first folders are looked at."""
    folders = islice(Path(config.runs).expanduser().glob("*/*/seed*"), 20)
    if not any((folder / "metrics.jsonl.gz").is_file() for folder in folders):
        return []
    return [
        f"runs={config.runs} contains records of runs, in which nothing can be trained: leave it out, or name another "
        "folder. `record.py` adds finished runs to the records."
    ]


WANDB_MODES = ("online", "offline", "shared", "disabled", "run", "dryrun")


def _logger(config: RunConfig) -> list[str]:
    """A logger that was named but is not installed, or a mode that W&B does not have."""
    mode = os.environ.get("WANDB_MODE")
    if config.logger.kind in ("auto", "wandb") and config.logger.mode is None and mode and mode not in WANDB_MODES:
        return [f"WANDB_MODE={mode}: must be one of {', '.join(WANDB_MODES)}. Or set logger.mode, or logger=none."]
    kind = "wandb" if config.logger.kind == "auto" and config.logger.mode == "online" else config.logger.kind
    return lacking(kind, f"logger={kind}") if kind in EXTRAS and config.logger.mode != "disabled" else []


FEW = 4
"""Processes that may share one CPU core, as in a trial of data-parallel training on a small machine."""


def _devices(config: RunConfig) -> list[str]:
    trainer = config.trainer
    count = 0
    if trainer.accelerator == "gpu" or (trainer.accelerator != "cpu" and trainer.devices > 1):
        import torch  # which takes seconds

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if trainer.accelerator == "gpu" and count == 0:
        return [
            "trainer.accelerator=gpu: torch finds no GPU on this machine. Type the command on one that has it; or use "
            "trainer=cpu, or with trainer=ddp add trainer.accelerator=cpu."
        ]
    if count:
        few = f"torch finds only {count} on this machine"
    else:
        count = max(FEW, cores())
        few = f"without a GPU, each device is a process, and this machine has {cores()} CPU cores"
    return [f"trainer.devices={trainer.devices}: {few}; use at most {count}."] if trainer.devices > count else []
