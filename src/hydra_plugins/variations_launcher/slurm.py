"""`hydra/launcher=slurm`: rows run as jobs of a Slurm cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore

from hydra_plugins.variations_launcher.base import PoolLauncher
from variations.sweeping.settings import SlurmSettings

if TYPE_CHECKING:
    from variations.configuration.schema import RunConfig
    from variations.sweeping.slurm import SlurmPool


@dataclass
class SlurmConf(SlurmSettings):
    """Configuration of `hydra/launcher=slurm`."""

    _target_: str = "hydra_plugins.variations_launcher.slurm.Slurm"
    _convert_: str = "all"  # plain lists and dictionaries


ConfigStore.instance().store(group="hydra/launcher", name="slurm", node=SlurmConf, provider="variations")


class Slurm(PoolLauncher):
    """A pool in Slurm's queue."""

    def __init__(self, **settings: Any) -> None:
        self.settings = SlurmSettings(**settings)

    def pool(
        self, configs: "Sequence[RunConfig]", runs: int | None = None, base: "RunConfig | None" = None
    ) -> "SlurmPool":
        """See `PoolLauncher`."""
        from pathlib import Path

        from variations.configuration.extras import need
        from variations.sweeping.slurm import SlurmPool

        need("slurm", "hydra/launcher=slurm")
        self.check_at_once(configs, runs)
        return SlurmPool(self.settings, Path(configs[0].runs))
