"""`hydra/launcher=ray`: rows run on a Ray cluster, or on a Ray instance of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore

from hydra_plugins.variations_launcher.base import PoolLauncher
from variations.sweeping.settings import RaySettings

if TYPE_CHECKING:
    from variations.configuration.schema import RunConfig
    from variations.sweeping.ray import RayPool


@dataclass
class RayConf(RaySettings):
    """Configuration of `hydra/launcher=ray`."""

    _target_: str = "hydra_plugins.variations_launcher.ray.Ray"
    _convert_: str = "all"  # plain lists and dictionaries


ConfigStore.instance().store(group="hydra/launcher", name="ray", node=RayConf, provider="variations")


class Ray(PoolLauncher):
    """A pool in Ray."""

    def __init__(self, **settings: Any) -> None:
        self.settings = RaySettings(**settings)

    def pool(
        self, configs: "Sequence[RunConfig]", runs: int | None = None, base: "RunConfig | None" = None
    ) -> "RayPool":
        """See `PoolLauncher`."""
        from pathlib import Path

        from variations.configuration.extras import need
        from variations.sweeping.ray import RayPool
        from variations.system.errors import ConfigError

        need("ray", "hydra/launcher=ray")
        self.check_at_once(configs, runs)
        if any(config.trainer.nodes > 1 for config in configs):
            raise ConfigError(
                [
                    "trainer.nodes: under hydra/launcher=ray a run takes devices of one machine; use trainer.nodes=1 "
                    "with trainer.devices, or hydra/launcher=slurm."
                ]
            )
        most = max(config.trainer.devices for config in configs)
        if most > 1 and 0 < (self.settings.gpus or 0) < 1:
            raise ConfigError(
                [
                    f"hydra.launcher.gpus={self.settings.gpus}: a run with trainer.devices={most} takes whole GPUs: "
                    "write 1, or use trainer.devices=1."
                ]
            )
        return RayPool(self.settings, Path(configs[0].runs))
