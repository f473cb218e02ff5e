"""What launchers here have in common: they make the pool in which the sweeper has its runs done."""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from variations.configuration.schema import RunConfig
    from variations.sweeping.pool import Pool


class PoolLauncher(Launcher):
    """A launcher that hands its pool to `hydra/sweeper=variations`, and launches nothing itself."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Needs nothing of these: a run is a process that reads its folder."""

    @abstractmethod
    def pool(self, configs: "Sequence[RunConfig]", runs: int | None = None, base: "RunConfig | None" = None) -> "Pool":
        """Return the pool for runs with these configurations (one at least), of which none has been started.

        Args:
            configs: Those of the runs that are left.
            runs: How many runs there are in all; None: one for each configuration.
            base: The configuration that `sweep.at_once=auto` measures, finished or not; None: the first one.

        Raises:
            UserError: The pool cannot be had, or cannot take these runs.
        """

    def check_at_once(self, configs: "Sequence[RunConfig]", runs: int | None) -> None:
        """Turn `sweep.at_once=auto` down where rows run on other machines than this; say if a number is a limit there.

        Raises:
            ConfigError: It is asked for.
        """
        from variations.configuration.schema import AUTO
        from variations.system.errors import ConfigError

        if configs[0].sweep.at_once == AUTO:
            name = type(self).__name__.lower()
            text = f"sweep.at_once=auto measures this machine: with hydra/launcher={name} write a number, or null."
            raise ConfigError([text])
        most, count = configs[0].sweep.at_once, len(configs) if runs is None else runs
        if isinstance(most, int) and most < count:
            sys.stderr.write(
                f"sweep.at_once={most}: no more than {most} of the {count} runs are submitted at a time; "
                "sweep.at_once=null submits all.\n"
            )

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Any:
        """Hydra's own sweepers call this; the runs here need ours.

        Raises:
            UserError: Always.
        """
        from variations.system.errors import UserError

        name = type(self).__name__.lower()
        raise UserError(f"hydra/launcher={name} works with hydra/sweeper=variations only: leave hydra/sweeper out.")
