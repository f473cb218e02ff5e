"""Runs that need not be trained: rows that test another row's weights, and runs that another sweep has finished."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.store.ledger import RunFolder, workplace
from variations.store.reuse import hindrances
from variations.sweeping import copies
from variations.sweeping.outcomes import Outcome


class Sources:
    """Finds for each row of a sweep the run whose weights it can test.

    Args:
        outcomes: The sweep's runs.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = outcomes

    def ready(self, outcome: Outcome) -> bool:
        """Return whether the row can start: its source, if in the sweep, is finished or has failed for good."""
        source = self._in_sweep(outcome)
        return source is None or source.ended

    def configuration(self, outcome: Outcome) -> dict[str, Any]:
        """Return the configuration to freeze, with the source's folder; without a source, the row trains a network."""
        config = to_dict(outcome.job.config)
        source = self._folder(outcome)
        if source is not None:
            config["variation"]["source"] = os.path.relpath(source.path.resolve(), outcome.folder.path.resolve())
        return config

    def copy(self, outcome: Outcome) -> str | None:
        """Copy the same run from a sweep that `sweep.shares` names, if it is finished there.

        Returns:
            Its name; None if there is no such run, or this one has begun by itself.

        Raises:
            UserError: The run was found and cannot be copied.
            OSError: As above.
        """
        begun = Path(outcome.folder.path, "status.json").exists()
        found = None if begun else copies.same_run(outcome.job.config)
        if found is None:
            return None
        copies.copy(found, outcome.folder.create(to_dict(outcome.job.config)))
        return copies.name_of(found)

    def _wanted(self, outcome: Outcome) -> bool:
        config = outcome.job.config
        begun = outcome.folder.has_checkpoint()  # it continues its own network
        return config.sweep.reuse and config.variation.reuse is not None and not begun

    def _in_sweep(self, outcome: Outcome) -> Outcome | None:
        if not self._wanted(outcome):
            return None
        row, seed = outcome.job.config.variation.reuse, outcome.job.seed
        found = next((other for other in self.outcomes if (other.job.row, other.job.seed) == (row, seed)), None)
        if found is None or hindrances(to_dict(outcome.job.config), to_dict(found.job.config)):
            return None
        return found

    def _folder(self, outcome: Outcome) -> RunFolder | None:
        if not self._wanted(outcome):
            return None
        in_sweep = self._in_sweep(outcome)
        home = Path(outcome.job.folder).parents[1] / str(outcome.job.config.variation.reuse) / f"seed{outcome.job.seed}"
        folder = RunFolder(workplace(home)) if in_sweep is None else in_sweep.folder
        if not folder.exists() or folder.state() != "finished":
            return None
        if trained := (folder.result() or {}).get("reused"):  # the source tests another row's weights itself
            folder = RunFolder(Path(folder.path, trained).resolve())
            if not folder.exists() or folder.state() != "finished":
                return None
        return None if hindrances(to_dict(outcome.job.config), folder.config()) else folder
