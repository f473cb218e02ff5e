"""Hydra's door to whole tables: `--multirun sweep=NAME` and plain grids.

What the jobs are stands in `variations.jobs`; here they are launched one after the other through whichever launcher
Hydra was given, and told about at the end.
"""

import time
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


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
        self.extra_folder: str | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take the launcher that Hydra was given."""
        from hydra.core.plugins import Plugins

        sources = config.hydra.runtime.config_sources
        self.extra_folder = next((source.path for source in sources if source.provider == "command-line"), None)
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
        from variations.errors import ExitCode
        from variations.jobs import expand
        from variations.outcomes import Outcome, announce, summary
        from variations.together import run_together

        outcomes = [Outcome.of(job) for job in expand(arguments, self.extra_folder)]
        at_once = outcomes[0].job.config.sweep.at_once
        try:
            if at_once > 1:
                run_together(outcomes, at_once, self.extra_folder)
            else:
                for index, outcome in enumerate(outcomes):
                    if outcome.state != "skipped":
                        announce(index, len(outcomes), outcome.job)
                        self._launch(outcome, index)
        finally:
            summary(outcomes)
        if not all(outcome.ok for outcome in outcomes):
            raise SystemExit(ExitCode.FAILED)
        return outcomes

    def _launch(self, outcome: Any, index: int) -> None:
        if self.launcher is None:
            raise RuntimeError("setup() comes before sweep()")
        start = time.monotonic()
        state, error = "finished", None
        try:
            (ret,) = self.launcher.launch([list(outcome.job.overrides)], initial_job_idx=index)
            if ret.status == JobStatus.FAILED:
                state, error = "failed", ret._return_value
        except KeyboardInterrupt:
            outcome.end("interrupted", None, time.monotonic() - start)
            raise
        except Exception as fault:  # noqa: BLE001 - a launcher may raise anything; the other rows go on
            state, error = "failed", fault
        outcome.end(state, error, time.monotonic() - start)
