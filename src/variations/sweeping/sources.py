"""Runs that need not be trained: rows that test another row's weights, and runs that another sweep has finished."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.store.lease import hold
from variations.store.ledger import RunFolder, workplace
from variations.store.reuse import hindrances
from variations.sweeping import copies
from variations.sweeping.outcomes import Outcome
from variations.system.errors import InUseError


class Sources:
    """Finds for each row of a sweep the run whose weights it can test.

    Args:
        outcomes: The sweep's runs.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = outcomes

    def ready(self, outcome: Outcome) -> bool:
        """Return whether the row can start: its source, if in the sweep, is finished or has failed for good."""
        source = self._awaited(outcome)
        return source is None or (source.ended and source.state != "interrupted")

    def stopped(self, outcome: Outcome) -> str | None:
        """Return why the row cannot start in this sweep: its source was interrupted; None if it can, or waits."""
        source = self._awaited(outcome)
        if source is None or source.state != "interrupted":
            return None
        return f"{source.name}, whose weights it tests, was interrupted"

    def trains_itself(self, outcome: Outcome) -> bool:
        """Return whether a row will train a network although it names one to test, if all rows before it finish."""
        if not self._wanted(outcome):
            return _names_one(outcome)
        source = self._in_sweep(outcome)
        if source is not None:
            return bool(_differing(outcome, to_dict(source.job.config)))
        return self.refusal(outcome) is not None

    def configuration(self, outcome: Outcome) -> dict[str, Any]:
        """Return the configuration to freeze, with the source's folder; without a source, the row trains a network."""
        config = to_dict(outcome.job.config)
        source = self._folder(outcome)
        if source is not None:
            config["variation"]["source"] = os.path.relpath(source.path.resolve(), outcome.folder.path.resolve())
        return config

    def copy(self, outcome: Outcome, say: Callable[[str], object]) -> str | None:
        """Copy the same run from a sweep that `sweep.shares` names, if it is finished there.

        `say` is told why a damaged one is not copied. The copy holds the lease as a run does: it is renewed meanwhile,
        and who loses it can write no more.

        Returns:
            Its name; None if there is no such run, or this one has begun by itself.

        Raises:
            InUseError: Another process has taken the run over while the files were compared.
            TakenOverError: The same while they were copied.
            UserError: The run was found and cannot be copied.
            OSError: As above.
        """
        found = None if copies.begun(outcome.folder) else copies.same_run(outcome.job.config, say)
        if found is None:
            return None
        if outcome.lease is not None and not outcome.lease.held():
            raise InUseError(f"{outcome.folder.path} was taken over by another process.")
        folder = outcome.folder.create(to_dict(outcome.job.config))
        with hold(folder.path, seconds=outcome.job.config.sweep.lease_seconds, over=outcome.lease):
            copies.copy(found, folder)
        return copies.name_of(found)

    def _wanted(self, outcome: Outcome) -> bool:
        return _names_one(outcome) and not outcome.folder.has_checkpoint()  # with one, it continues its own network

    def _in_sweep(self, outcome: Outcome) -> Outcome | None:
        """The run of the sweep that the row names, if the row wants one."""
        if not self._wanted(outcome):
            return None
        row, seed = outcome.job.config.variation.reuse, outcome.job.seed
        return next((other for other in self.outcomes if (other.job.row, other.job.seed) == (row, seed)), None)

    def _awaited(self, outcome: Outcome) -> Outcome | None:
        """The run of the sweep whose weights the row can test."""
        source = self._in_sweep(outcome)
        return None if source is None or _differing(outcome, to_dict(source.job.config)) else source

    def _folder(self, outcome: Outcome) -> RunFolder | None:
        found = self._found(outcome)
        return found if isinstance(found, RunFolder) else None

    def refusal(self, outcome: Outcome) -> str | None:
        """Return why a row trains a network although it names one to test; None if it does not, or names none."""
        found = self._found(outcome)
        if not isinstance(found, str):
            return None
        name = f"{outcome.job.config.variation.reuse}, seed {outcome.job.seed}"
        return f"trains a network of its own, because it cannot test that of {name} (variation.reuse): {found}"

    def _found(self, outcome: Outcome) -> RunFolder | str | None:
        """The run whose weights the row can test, or the reason why it cannot; None if it names none."""
        if not self._wanted(outcome):
            return None
        in_sweep = self._in_sweep(outcome)
        if in_sweep is not None and (fault := _differing(outcome, to_dict(in_sweep.job.config))):
            return fault
        home = Path(outcome.job.folder).parents[1] / str(outcome.job.config.variation.reuse) / f"seed{outcome.job.seed}"
        folder = RunFolder(workplace(home)) if in_sweep is None else in_sweep.folder
        if not folder.exists() or folder.state() != "finished":
            return "that run is missing or not finished."
        if trained := (folder.result() or {}).get("reused"):  # the source tests another row's weights itself
            folder = RunFolder(Path(folder.path, trained).resolve())
            if not folder.exists() or folder.state() != "finished":
                return f"the run that trained its weights ({folder.path}) is missing or not finished."
        return _differing(outcome, folder.config()) or folder


def _names_one(outcome: Outcome) -> bool:
    config = outcome.job.config
    return config.sweep.reuse and config.variation.reuse is not None


def _differing(outcome: Outcome, source: dict[str, Any]) -> str | None:
    """Say in which keys the trainings of a row and of its source differ; None if they do not."""
    found = hindrances(to_dict(outcome.job.config), source)
    return f"their trainings differ ({', '.join(found)})." if found else None
