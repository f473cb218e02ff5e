"""The usual answers of a task to planning, for a task to inherit: see `tasks/base.py: Task`."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from variations.store.ledger import RunFolder
from variations.tasks.base import Experiment, Place, Rehearsal, Size


class Planned:
    """Runs are counted and measured on their own data."""

    sizes: Mapping[str, str] = {}
    untimed: Sequence[str] = ()
    switches: Sequence[str] = ()
    smaller = "lower the batch size, or the model's"

    def settings(self, config: Any) -> str:
        """What names a run outside a sweep."""
        words: list[str] = self.label(config)  # type: ignore[attr-defined]  # a task has one
        return " ".join(words)

    def size(self, config: Any, *, memory: bool, vocabulary: int | None = None) -> Size:
        """Count the network, and the run's first batch."""
        from variations.tasks.counting import counted

        return counted(self, config, memory=memory)

    def size_remarks(self, tables: Mapping[str, Sequence[Size]]) -> list[str]:
        """Where the FLOPs come from."""
        return ["FLOPs: of the whole training, reckoned from the first batch."] if any(tables.values()) else []

    def one_of(self, config: Any, devices: int) -> Any:
        """Each device does the same."""
        return config

    def rehearsal(self, config: Any) -> Rehearsal:
        """The data themselves."""
        return Rehearsal(self.data(config))  # type: ignore[attr-defined]  # a task has some

    def testing(self, experiment: Experiment, folder: RunFolder, place: Place, limit: float) -> tuple[float, float]:
        """Validate and test once, however long it takes."""
        began = time.perf_counter()
        experiment.validate(place)
        validated = time.perf_counter()
        experiment.test(folder, place)
        return validated - began, time.perf_counter() - validated
