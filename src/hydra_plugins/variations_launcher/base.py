"""What launchers here have in common: they make the pool in which the sweeper has its runs done."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from variations.config import Config
    from variations.sweeping.pool import Pool


class PoolLauncher(Launcher):
    """A launcher that hands its pool to `hydra/sweeper=variations`, and launches nothing itself."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Needs nothing of these: a run is a process that reads its folder."""

    @abstractmethod
    def pool(self, configs: "Sequence[Config]") -> "Pool":
        """Return the pool for runs with these configurations (one at least), of which none has been started.

        Raises:
            UserError: The pool cannot be had, or cannot take these runs.
        """

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Any:
        """Hydra's own sweepers call this; the runs here need ours.

        Raises:
            UserError: Always.
        """
        from variations.errors import UserError

        name = type(self).__name__.lower()
        raise UserError(f"hydra/launcher={name} works with hydra/sweeper=variations only: leave hydra/sweeper out.")
