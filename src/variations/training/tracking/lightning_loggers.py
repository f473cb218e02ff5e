"""Any logger of Lightning's beside ours: CSV, MLflow, Comet and those of other packages, by `logger.further`."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl

from variations.configuration.compose import to_dict
from variations.configuration.hydra_door import instantiate
from variations.configuration.schema import RunConfig
from variations.system.errors import ConfigError
from variations.training.tracking.final import Final, numbers


class LightningLogger:
    """Tells a logger of Lightning's what metrics.jsonl holds.

    Args:
        name: What the configuration calls it.
        settings: Its class as `_target_`, and its arguments.
        config: The run's configuration, which it is told as hyper-parameters.

    Raises:
        ConfigError: The class cannot be imported or made, or is no logger.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], config: RunConfig) -> None:
        self.logger = instantiate(settings, f"logger.further.{name}")
        if not isinstance(self.logger, pl.loggers.Logger):
            raise ConfigError([f"logger.further.{name}: {settings.get('_target_')} is not a Lightning Logger."])
        self.logger.log_hyperparams(to_dict(config))

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Tell what the run has measured so far; a logger that keeps its steps hears them again."""
        for line in lines:
            self.line(line)

    def line(self, line: Mapping[str, Any]) -> None:
        """A measurement."""
        self.logger.log_metrics(numbers(line), step=int(line["step"]))

    def end(self, final: Final) -> None:
        """The scores of a tested run."""
        scores = {f"final/{key}": value for key, value in final.scores().items()}
        self.logger.log_metrics(numbers(scores), step=int(final.result["steps"]))

    def close(self, exit_code: int) -> None:
        """Write out what is left."""
        self.logger.save()
        self.logger.finalize("success" if exit_code == 0 else "failed")
