"""Hydra's door to whole tables: `--multirun sweep=NAME` and plain grids.

`variations.sweeping.jobs` says what the runs are, `variations.sweeping.control` how they are driven; where they
are done is for the launcher to say.
"""

import sys
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from variations.configuration.doors import open_given


@dataclass
class VariationsSweeperConf:
    """Configuration of `hydra/sweeper=variations`."""

    _target_: str = "hydra_plugins.variations_sweeper.sweeper.VariationsSweeper"


ConfigStore.instance().store(
    group="hydra/sweeper", name="variations", node=VariationsSweeperConf, provider="variations"
)


class VariationsSweeper(Sweeper):
    """Runs what is not finished, base rows first, and goes on after a failure."""

    def __init__(self) -> None:
        self.launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take the launcher that Hydra was given."""
        from hydra.core.plugins import Plugins

        sources = config.hydra.runtime.config_sources
        open_given(next((source.path for source in sources if source.provider == "command-line"), None))
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run all jobs.

        Raises:
            ConfigError: Some job's configuration is at fault; nothing was started.
            SystemExit: With code 1 if a job failed.
            KeyboardInterrupt: The user stopped the sweep; the summary is printed first.
        """
        from hydra_plugins.variations_launcher.base import PoolLauncher
        from variations.searching.definition import is_search
        from variations.searching.verb import search
        from variations.sweeping.control import Control
        from variations.sweeping.jobs import expand
        from variations.sweeping.outcomes import Outcome, idle_rows, other_inputs, refuse_changed
        from variations.sweeping.overview import Overview, summary
        from variations.system.errors import ConfigError, ExitCode, UserError
        from variations.training.interrupt import Interrupt

        if not isinstance(self.launcher, PoolLauncher):
            raise ConfigError(["hydra/launcher: rows are run by local, slurm or ray; leave it out for local."])
        if is_search(arguments):
            return search(arguments, self.launcher)
        outcomes = [Outcome.of(job) for job in expand(arguments)]
        refuse_changed(outcomes)
        for warning in [*idle_rows(outcomes), *other_inputs(outcomes)]:
            print(f"warning: {warning}", file=sys.stderr)
        left = [outcome.job.config for outcome in outcomes if not outcome.ended]
        # Number and base row of all runs, so that `at_once=auto` gives those that go on as many threads as before.
        pool = self.launcher.pool(left, len(outcomes), outcomes[0].job.config) if left else None
        repeat = True
        try:
            if pool is not None:
                with Interrupt():
                    Control(pool, outcomes, Overview(waiting="queued" if pool.outlives else "starting")).run()
        except UserError:  # first, what it says must be changed
            repeat = False
            raise
        finally:
            summary(outcomes, repeat=repeat, typed=arguments)
        if not all(outcome.ok for outcome in outcomes):
            raise SystemExit(ExitCode.FAILED)
        return outcomes
