"""`--multirun` of a sweep file with `search:`, or with `hydra/sweeper=optuna`."""

from collections.abc import Sequence
from typing import Any

from variations.configuration.extras import need
from variations.searching.definition import define
from variations.system.errors import ConfigError, ExitCode


def search(arguments: Sequence[str], launcher: Any) -> None:
    """Search until the total is reached, and print what was found.

    Args:
        arguments: Overrides as typed.
        launcher: Hydra's launcher, which provides the pool.

    Raises:
        ConfigError: The search is invalid; nothing was started.
        SystemExit: With code 1 if no trial of the study has a value.
        KeyboardInterrupt: The user stopped the search; the summary is printed first.
    """
    from hydra_plugins.variations_launcher.base import PoolLauncher

    if not isinstance(launcher, PoolLauncher):
        raise ConfigError(["hydra/launcher: trials are run by local, slurm or ray; leave it out for local."])
    need("search", "A search")
    definition = define(tuple(arguments))
    pool = launcher.pool([definition.base], definition.total * len(definition.seeds))
    from variations.searching.search import Search
    from variations.searching.show import summary
    from variations.training.interrupt import Interrupt

    work = Search(definition, pool)
    try:
        with Interrupt():
            work.run()
    finally:
        summary(work.study)
    if not any(trial.state.name == "COMPLETE" for trial in work.study.trials()):
        raise SystemExit(ExitCode.FAILED)
