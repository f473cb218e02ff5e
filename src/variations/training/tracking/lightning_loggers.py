"""Lightning loggers in addition to ours: CSV, MLflow, Comet and those of other packages, by `logger.further`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl

from variations.configuration.compose import to_dict
from variations.configuration.hydra_door import instantiate
from variations.configuration.schema import RunConfig
from variations.system.errors import ConfigError
from variations.training.tracking.final import Final, numbers


class LightningLogger:
    """Sends the lines of metrics.jsonl to a Lightning logger.

    Args:
        name: Its name in the configuration.
        settings: Its class as `_target_`, and its arguments.
        config: The run's configuration, which is logged as hyper-parameters.

    Raises:
        ConfigError: The class cannot be imported or created, or is not a logger.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], config: RunConfig) -> None:
        self.logger = instantiate(settings, f"logger.further.{name}")
        if not isinstance(self.logger, pl.loggers.Logger):
            raise ConfigError([f"logger.further.{name}: {settings.get('_target_')} is not a Lightning Logger."])
        self.name = f"{name} ({type(self.logger).__name__})"
        self.config = config

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Send the configuration and the run's lines so far; a logger that keeps its own steps receives them again."""
        self.logger.log_hyperparams(to_dict(self.config))
        for line in lines:
            self.line(line)

    def line(self, line: Mapping[str, Any]) -> None:
        """Send a line of metrics."""
        self.logger.log_metrics(numbers(line), step=int(line["step"]))

    def end(self, final: Final) -> None:
        """Send the scores of a tested run."""
        scores = {f"final/{key}": value for key, value in final.scores().items()}
        self.logger.log_metrics(numbers(scores), step=int(final.result["steps"]))

    def close(self, exit_code: int) -> None:
        """Close the logger."""
        self.logger.save()
        self.logger.finalize("success" if exit_code == 0 else "failed")

    def abandon(self) -> None:
        """Nothing is left."""
