"""The usual answers of a task, for a small one to inherit: it says only what is its own (docs/adding-a-variation.md).

`Usual` leaves `name`, `schema`, `data`, `experiment`, `network` and `measure` to be said, `UsualExperiment` leaves
`network`, `parameter_groups`, `losses`, `count`, `validate` and `test`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from variations.configuration.rules import Fault, Rules
from variations.store.ledger import RunFolder
from variations.tasks.base import Experiment, Place, Samples
from variations.tasks.measured import Measured
from variations.tasks.planned import Planned


class Usual(Measured, Planned):
    """Nothing of its own in the configuration, no files, no pictures (see `tasks/base.py` for each member)."""

    rules: Rules = Rules()
    other_names: Mapping[str, str] = {}
    incidental: Sequence[str] = ("data.root", "data.cache")
    test_only: Sequence[str] = ()
    symbols: Mapping[str, str] = {}
    silent: Sequence[str] = ()
    shown: Mapping[str, str] = {}

    def effective(self, flat: dict[str, Any]) -> dict[str, Any]:
        """As it stands."""
        return flat

    def without_effect(self, flat: Mapping[str, Any]) -> Sequence[str]:
        """None."""
        return ()

    def label(self, config: Any) -> list[str]:
        """The task's name."""
        return [config.task]

    def own_text(self, config: Mapping[str, Any]) -> bool:
        """Not the user's own."""
        return False

    def idle(self, typed: Sequence[str], configs: Sequence[Any]) -> list[Fault]:
        """None."""
        return []

    def unusable_files(self, configs: Sequence[Any]) -> list[Fault]:
        """None."""
        return []

    def missing(self, config: Any) -> list[str]:
        """Nothing."""
        return []

    def profile(self, config: Any, device: str) -> Mapping[str, str]:
        """Nothing is chosen by device."""
        return {}

    def changed_inputs(self, config: Any, folder: RunFolder) -> list[str]:
        """Nothing."""
        return []

    def totals(self, counted: Mapping[str, float]) -> dict[str, Any]:
        """Nothing besides."""
        return {}

    def samples(self, folder: RunFolder) -> Mapping[str, Samples]:
        """None."""
        return {}

    def pictures(self, folder: RunFolder, experiment: Experiment) -> Mapping[str, Path]:
        """None."""
        return {}


class UsualExperiment:
    """Nothing happens around updates (see `tasks/base.py` for each member)."""

    def start(self, place: Place) -> None:
        """There is nothing to see."""

    def size(self, batch: Any) -> str:
        """One item is as long as another."""
        return "one"

    def halves(self, batch: Any) -> tuple[Any, Any]:
        """A batch that is a sequence, cut in two."""
        half = len(batch) // 2
        return batch[:half], batch[half:]

    def before_update(self) -> None:
        """Gradients stay as they are."""

    def after_update(self, step: int) -> None:
        """Parameters have no constraints."""

    def metrics(self) -> dict[str, Any]:
        """Nothing is recorded of the weights."""
        return {}

    def dev_scores(self) -> list[float]:
        """No scores of single items."""
        return []
