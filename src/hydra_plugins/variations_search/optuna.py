"""`hydra/sweeper=optuna`: a search over what the command line or a sweep file's `search:` leaves open.

A sweep file with `search:` needs no such word: the usual sweeper sees it and searches.
"""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore

from hydra_plugins.variations_sweeper.sweeper import VariationsSweeper


@dataclass
class OptunaConf:
    """Configuration of `hydra/sweeper=optuna`. `sweep.search` says what is searched, and how."""

    _target_: str = "hydra_plugins.variations_search.optuna.OptunaSweeper"


ConfigStore.instance().store(group="hydra/sweeper", name="optuna", node=OptunaConf, provider="variations")


class OptunaSweeper(VariationsSweeper):
    """Searches, whether or not the sweep file says so."""

    def sweep(self, arguments: list[str]) -> Any:
        """Search; see `variations.searching.verb.search`."""
        from variations.searching.verb import search

        return search(arguments, self.launcher)
