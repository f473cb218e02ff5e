"""Loggers besides the run folder: Weights & Biases (offline unless logged in) and TensorBoard."""

import hashlib
import netrc
import os
from typing import Any
from urllib.parse import urlparse

from variations.compose import flatten, to_dict
from variations.config import Config
from variations.experiments.ledger import RunFolder

RANKS = ("LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
"""Variables that are 0, or not there, in the process that logs."""


def loggers(config: Config, folder: RunFolder) -> list[Any]:
    """Lightning loggers that the configuration names; none on ranks other than 0."""
    if any(int(os.environ.get(name, 0)) for name in RANKS):
        return []
    if config.logger.kind == "wandb" and config.logger.mode != "disabled":
        return [_wandb(config, folder)]
    if config.logger.kind == "tensorboard":
        from pytorch_lightning.loggers import TensorBoardLogger

        return [TensorBoardLogger(folder.path, name=None, version="tensorboard")]
    return []


def logged_in() -> bool:
    """Whether W&B credentials are at hand: in the environment or in the user's netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _wandb(config: Config, folder: RunFolder) -> Any:
    import wandb
    from pytorch_lightning.loggers import WandbLogger

    mode: Any = config.logger.mode or os.environ.get("WANDB_MODE") or ("online" if logged_in() else "offline")
    row = config.variation.row or folder.path.parent.name
    tags = [config.model.kind, config.data.name, config.recipe.name, *config.logger.tags]
    run = wandb.init(
        name=f"{row}/seed{config.seed}",
        # The same run keeps its identifier when it is continued, so that it is one run there as well.
        id=hashlib.sha256(str(folder.path.resolve()).encode()).hexdigest()[:16],
        project=config.logger.project,
        entity=config.logger.entity,
        group=config.sweep.name,
        job_type=row,
        tags=sorted(set(tags)),
        dir=str(folder.path),
        config=flatten(to_dict(config)),
        mode=mode,
        resume="allow" if mode == "online" else None,
        settings=wandb.Settings(silent=True),
    )
    return WandbLogger(experiment=run)


def log_summary(active: list[Any], result: dict[str, Any]) -> None:
    """Write the final scores and totals where the logger keeps such."""
    scores = {
        f"{name}/{score}": entry["value"]
        for name, ladder in result["scores"].items()
        for score, entry in ladder.items()
    }
    totals = {key: value for key, value in result.items() if isinstance(value, int | float)}
    for logger in active:
        if hasattr(logger.experiment, "summary"):
            logger.experiment.summary.update(scores | totals)
        else:
            logger.log_metrics(scores, step=result["steps"])


def close_loggers() -> None:
    """End the W&B run of this process, so that the next row of a sweep gets its own."""
    import sys

    wandb = sys.modules.get("wandb")
    if wandb is not None and wandb.run is not None:
        wandb.finish()
