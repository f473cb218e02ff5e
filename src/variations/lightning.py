"""All that is used of Lightning."""

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.seed import pl_worker_init_function
from pytorch_lightning.plugins.io import CheckpointIO

__all__ = ["CheckpointIO", "LightningEnvironment", "pl", "pl_worker_init_function"]
