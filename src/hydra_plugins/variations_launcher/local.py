"""`hydra/launcher=local`: rows run on this machine, each in a process of its own."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hydra.core.config_store import ConfigStore

from hydra_plugins.variations_launcher.base import PoolLauncher
from variations.configuration.schema import AUTO, number_or_auto

if TYPE_CHECKING:
    from variations.configuration.schema import RunConfig
    from variations.sweeping.local import LocalPool


@dataclass
class LocalConf:
    """Configuration of `hydra/launcher=local`. How many rows run at once is `sweep.at_once`, for every launcher."""

    _target_: str = "hydra_plugins.variations_launcher.local.Local"
    gpus: list[str] | None = None
    """GPUs to use, as CUDA_VISIBLE_DEVICES names them; null: all that this process sees."""
    # Untyped, as Hydra would refuse 1.5 in its own words.
    per_gpu: Any = number_or_auto(1, ge=1)  # noqa: RUF009 - makes a dataclass field
    """Rows that share a GPU; `auto`: the number that is fastest together, measured first."""


ConfigStore.instance().store(group="hydra/launcher", name="local", node=LocalConf, provider="variations")


class Local(PoolLauncher):
    """A pool of this machine's GPUs, or of its cores."""

    def __init__(self, gpus: Sequence[str] | None = None, per_gpu: int | str = 1) -> None:
        self.gpus, self.per_gpu = gpus, per_gpu

    def pool(
        self, configs: "Sequence[RunConfig]", runs: int | None = None, base: "RunConfig | None" = None
    ) -> "LocalPool":
        """See `PoolLauncher`."""
        from variations.configuration import surroundings
        from variations.configuration.rules import value_fault
        from variations.sweeping.local import LocalPool, visible_gpus
        from variations.system.errors import ConfigError

        found = list(dict.fromkeys(fault for config in configs for fault in surroundings.faults(config)))
        bounds = LocalConf.__dataclass_fields__["per_gpu"].metadata
        if fault := value_fault("hydra.launcher.per_gpu", self.per_gpu, bounds):
            found.append(fault)
        if found:
            raise ConfigError(found)
        accelerator = next((c.trainer.accelerator for c in configs if c.trainer.accelerator != "cpu"), "cpu")
        gpus = visible_gpus(accelerator)
        if self.gpus and not gpus:
            raise ConfigError([f"hydra.launcher.gpus={list(self.gpus)}: these runs see no GPU: leave it out."])
        if self.gpus is not None and gpus:
            if wrong := [gpu for gpu in self.gpus if str(gpu) not in gpus]:
                missing, here = ", ".join(map(str, wrong)), ", ".join(gpus)
                raise ConfigError([f"hydra.launcher.gpus: there is no GPU {missing} here; there are {here}."])
            gpus = [str(gpu) for gpu in self.gpus]
        devices = max(config.trainer.devices for config in configs) if gpus else 1
        pool = LocalPool(configs[0].sweep.most, gpus, self.per_gpu if isinstance(self.per_gpu, int) else 1, devices)
        if (self.per_gpu if gpus else configs[0].sweep.at_once) == AUTO:
            from variations.configuration.tasks import named
            from variations.planning.at_once import fastest
            from variations.system.errors import UserError

            measured = base or configs[0]
            task = named(measured.task)
            if task.needs_download(measured):
                with suppress(UserError):  # each run tells it
                    task.data(measured).prepare_data()
            chosen = fastest(cast(Any, measured), runs or len(configs), gpus)
            if gpus:
                pool.per_gpu = chosen
            else:
                pool.at_once = chosen
        return pool
