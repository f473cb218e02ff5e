"""Loggers besides the run folder: Weights & Biases (offline unless logged in) and TensorBoard.

Both are mirrors: `metrics.jsonl` is the truth. When a run starts or is continued, its lines so far are told again, from
the first one that the logger does not have; so nothing is missing there and nothing is there twice, however the
run was interrupted. Nothing of a library is imported before a run uses it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from variations.configuration.extras import lacking
from variations.configuration.schema import RunConfig
from variations.store.ledger import RunFolder
from variations.system import processes
from variations.training.tracking.final import Final

Line = Mapping[str, Any]
"""A line of metrics.jsonl."""


class Tracker(Protocol):
    """A logger."""

    def start(self, lines: Sequence[Line]) -> None:
        """Take over what the run has measured so far; before the first `line`."""

    def line(self, line: Line) -> None:
        """A measurement."""

    def end(self, final: Final) -> None:
        """What a tested run ends with."""

    def close(self, exit_code: int) -> None:
        """Write out what is left. `exit_code` is not 0 for a run that failed or was interrupted."""


class Trackers:
    """The loggers of a run; usually one, none on ranks other than 0. `start` and `close` may be called again.

    They are opened by the first `start`, which a run calls after its first update: a library that takes seconds to
    load, or a service that takes seconds to answer, does not delay the first update.
    """

    def __init__(self, opening: Callable[[], Sequence[Tracker]] = tuple) -> None:
        self._opening: Callable[[], Sequence[Tracker]] | None = opening
        self._trackers: list[Tracker] = []

    @property
    def any(self) -> bool:
        """Whether there are loggers, once they have started."""
        return bool(self._trackers)

    def start(self, folder: RunFolder) -> None:
        """Open the loggers and tell them what the run has measured so far.

        Raises:
            UserError: logger.mode=online, and W&B accepts no login.
        """
        if self._opening is None:
            return
        opening, self._opening = self._opening, None
        self._trackers.extend(opening())
        if self._trackers:
            lines = folder.read_metrics()
            for tracker in self._trackers:
                tracker.start(lines)

    def line(self, line: Line) -> None:
        """Tell a measurement."""
        for tracker in self._trackers:
            tracker.line(line)

    def end(self, final: Final) -> None:
        """Tell what the run ends with."""
        for tracker in self._trackers:
            tracker.end(final)

    def close(self, exit_code: int) -> None:
        """Let go of all loggers, so that the next row of a sweep gets its own."""
        while self._trackers:
            self._trackers.pop().close(exit_code)


_open: list[Trackers] = []


def trackers(config: RunConfig, folder: RunFolder) -> Trackers:
    """The loggers that the configuration names; none on ranks other than 0."""
    found = Trackers(lambda: _opened(config, folder))
    _open.append(found)
    return found


def _opened(config: RunConfig, folder: RunFolder) -> Sequence[Tracker]:
    if processes.global_rank() != 0:
        return []
    own = _own(config, folder)
    if not config.logger.further:
        return own
    from variations.training.tracking.lightning_loggers import LightningLogger

    return [*own, *(LightningLogger(name, settings, config) for name, settings in config.logger.further.items())]


def _own(config: RunConfig, folder: RunFolder) -> Sequence[Tracker]:
    if config.logger.kind == "tensorboard":
        from variations.training.tracking.event_files import EventFiles

        return [EventFiles(config, folder)]
    if config.logger.kind in ("auto", "wandb"):
        from variations.training.tracking.mode import chosen_mode

        if (mode := chosen_mode(config.logger.mode)) != "disabled":
            if config.logger.kind == "auto" and (missing := lacking("wandb", "W&B")):
                print(f"Metrics are kept in the run's folder only: {missing[0]}", file=sys.stderr)
                return []
            from variations.training.tracking.weights_and_biases import WeightsAndBiases

            return [WeightsAndBiases(config, folder, mode)]
    return []


def close(exit_code: int) -> None:
    """End the loggers of this process's run."""
    while _open:
        _open.pop().close(exit_code)
