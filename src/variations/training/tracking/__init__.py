"""Loggers besides the run folder: Weights & Biases (offline unless logged in) and TensorBoard.

Both are mirrors of `metrics.jsonl`. When a run starts or is continued, its lines so far are sent again, from the first
one that the logger does not have; so nothing is missing and nothing is duplicated, however the run was interrupted. A
library is imported only when a run uses it.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from variations.configuration.extras import lacking
from variations.configuration.schema import RunConfig
from variations.store.ledger import RunFolder
from variations.system import processes
from variations.system.errors import UserError
from variations.training.tracking.final import Final
from variations.training.tracking.mode import without_key

log = logging.getLogger(__name__)

Line = Mapping[str, Any]
"""A line of metrics.jsonl."""


class Tracker(Protocol):
    """A logger."""

    name: str
    """What messages call it."""

    def start(self, lines: Sequence[Line]) -> None:
        """Receive the run's lines so far; called before the first `line`."""

    def line(self, line: Line) -> None:
        """Receive a line of metrics."""

    def end(self, final: Final) -> None:
        """Receive the result of a tested run."""

    def close(self, exit_code: int) -> None:
        """Flush, and end. `exit_code` is not 0 if the run failed or was interrupted."""

    def abandon(self) -> None:
        """Free what is left after one of the others has failed; never raises."""


class Trackers:
    """The loggers of a run; usually one, none on ranks other than 0. `start` and `close` may be called again.

    They are opened by the first `start`, which a run calls after its first update, so that a slow import or a slow
    service does not delay the first update. A logger that fails afterwards, because its helper process was killed, say,
    is dropped with a warning: the run's folder has every measurement, and no mirror changes how a run ends.
    """

    def __init__(self, opening: Callable[[], Sequence[Tracker]] = tuple) -> None:
        self._opening: Callable[[], Sequence[Tracker]] | None = opening
        self._trackers: list[Tracker] = []

    @property
    def any(self) -> bool:
        """Whether there are loggers; known after they have started."""
        return bool(self._trackers)

    def start(self, folder: RunFolder) -> None:
        """Open the loggers and send them the run's lines so far.

        Raises:
            UserError: logger.mode=online, and W&B accepts no login.
        """
        if self._opening is None:
            return
        opening, self._opening = self._opening, None
        self._trackers.extend(opening())
        if self._trackers:
            lines = folder.measurements.read()
            self._each(lambda tracker: tracker.start(lines))

    def line(self, line: Line) -> None:
        """Send a line of metrics."""
        self._each(lambda tracker: tracker.line(line))

    def end(self, final: Final) -> None:
        """Send the result of the run."""
        self._each(lambda tracker: tracker.end(final))

    def close(self, exit_code: int) -> None:
        """Close all loggers, so that the next row of a sweep gets its own."""
        self._each(lambda tracker: tracker.close(exit_code))
        self._trackers.clear()

    def _each(self, send: Callable[[Tracker], None]) -> None:
        for tracker in [*self._trackers]:
            try:
                send(tracker)
            except UserError:
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a service or its library does
                self._trackers.remove(tracker)
                tracker.abandon()
                reason = " ".join(str(error).split()) or type(error).__name__
                log.warning(
                    "The logger %s failed (%s) and receives nothing more. The run's folder has every "
                    "measurement, and a continued run sends them again.",
                    tracker.name,
                    without_key(reason),
                )


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
                print(f"Metrics are stored only in the run's folder: {missing[0]}", file=sys.stderr)
                return []
            from variations.training.tracking.weights_and_biases import WeightsAndBiases

            return [WeightsAndBiases(config, folder, mode)]
    return []


def close(exit_code: int) -> None:
    """End the loggers of this process's run."""
    while _open:
        _open.pop().close(exit_code)
