"""What a configuration asks of this machine: folders that must be there, devices it must have.

Faults of the configuration alone are found in `faults.py`, on any machine; these are looked for where the run starts,
before its folder is made.
"""

from pathlib import Path

from variations.config import Config
from variations.configuration.extras import EXTRAS, lacking


def faults(config: Config) -> list[str]:
    """Sentences on what is missing here; empty if the run can start."""
    return [*_data(config), *_devices(config), *_logger(config)]


def _data(config: Config) -> list[str]:
    root = config.data.root
    if root is None or Path(root).expanduser().is_dir():
        return []
    return [f"data.root={root}: there is no such folder ({Path(root).expanduser().absolute()})."]


def _logger(config: Config) -> list[str]:
    """A logger that was asked for by name and is not installed."""
    kind = "wandb" if config.logger.kind == "auto" and config.logger.mode == "online" else config.logger.kind
    return lacking(kind, f"logger={kind}") if kind in EXTRAS and config.logger.mode != "disabled" else []


def _devices(config: Config) -> list[str]:
    if config.trainer.accelerator != "gpu":
        return []
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        return [
            "trainer.accelerator=gpu: torch finds no GPU on this machine. Use trainer=cpu, or with trainer=ddp "
            "trainer.accelerator=cpu."
        ]
    if config.trainer.devices > count:
        return [f"trainer.devices={config.trainer.devices}: torch finds {count} on this machine."]
    return []
