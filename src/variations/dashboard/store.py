"""The run store as the dashboard sees it: found by walking, known by identifier, read again only where a file changed.

A page asks for runs by identifier, and an identifier is looked up among those that the walk has found. No path is ever
made of what a page sent, and the walk follows no links, so nothing outside the store can be reached.
"""

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from variations.configuration.tasks import task_of
from variations.dashboard.metrics import Metrics
from variations.dashboard.walk import METRICS, Found, Walk
from variations.system.errors import UserError
from variations.tables.collect import NO_RESULT, Stored, misfit

FRESH = 0.5
"""Seconds for which a look is reused."""
SHARE = 0.005
"""Of a core, that thorough looks may take; quick looks may take as much again. In a large store they become rarer."""


@dataclass
class Summary:
    """What is read of a run at a glance, kept until one of its files changes."""

    config: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None
    """Why the run cannot be read."""


@dataclass(frozen=True)
class Snapshot:
    """All runs at one moment."""

    runs: dict[str, Found]
    broken: tuple[tuple[str, str], ...]
    """Folders that look like runs but are not: path below the root, and the reason."""
    revision: str

    def sweeps(self) -> dict[str, list[Found]]:
        """Runs by sweep, sorted by identifier."""
        found: dict[str, list[Found]] = {}
        for run in self.runs.values():
            found.setdefault(run.sweep, []).append(run)
        return found


class Store:
    """Reads a run store; safe to use from several threads."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).expanduser().resolve()
        self._lock = threading.RLock()
        self._walk = Walk(self.root)
        self._snapshot: Snapshot | None = None
        self._quick = self._thorough = Pace()
        self._summaries: dict[str, tuple[str, Summary]] = {}
        self._metrics: dict[str, Metrics] = {}

    def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """All runs: as they were found lately, by a new look where it is time for one, by a thorough one if `fresh`."""
        with self._lock:
            thorough = fresh or self._snapshot is None or self._thorough.due()
            if self._snapshot is None or thorough or self._quick.due():
                began = time.thread_time()
                self._snapshot = self._looked(thorough=thorough)
                pace = Pace.after(time.thread_time() - began)
                self._quick, self._thorough = (self._quick, pace) if thorough else (pace, self._thorough)
            return self._snapshot

    def find(self, identifier: str) -> Found:
        """A run by its identifier. Raises KeyError where there is none."""
        known = self.snapshot().runs
        return known[identifier] if identifier in known else self.snapshot(fresh=True).runs[identifier]

    def sweep(self, name: str) -> list[Found]:
        """The runs of a sweep. Raises KeyError where there are none."""
        known = self.snapshot().sweeps()
        return known[name] if name in known else self.snapshot(fresh=True).sweeps()[name]

    def summary(self, run: Found) -> Summary:
        """Configuration, status and result of a run; never raises for a damaged one."""
        with self._lock:
            known = self._summaries.get(run.id)
            if known is None or known[0] != run.stamp:
                known = (run.stamp, _summary(run))
                self._summaries[run.id] = known
            return known[1]

    def stored(self, run: Found) -> Stored:
        """What a table needs of a run, from its summary. Raises UserError for one that cannot be read."""
        known = self.summary(run)
        if known.fault and known.fault != NO_RESULT:
            raise UserError(known.fault)
        return Stored(run.state, known.config, known.result, known.status.get("reason"), known.status.get("step"))

    def metrics(self, run: Found) -> Metrics:
        """What a run measured; only what was appended since the last call is read."""
        with self._lock:
            if run.id not in self._metrics:
                self._metrics[run.id] = Metrics(run.folder.metrics)
            if not run.files.isdisjoint(METRICS):
                self._metrics[run.id].update()
            return self._metrics[run.id]

    def outputs(self, run: Found, name: str) -> Sequence[tuple[str, ...]]:
        """Source, reference and output of each item of a set; none unless all are stored and fit together."""
        if not all(self.inside(path) for path in run.folder.hypotheses.glob(f"{name}.*")):
            return ()
        try:
            return cast(Sequence[tuple[str, ...]], task_of(self.summary(run).config).outputs(run.folder, name))
        except (OSError, ValueError, UserError):
            return ()

    def inside(self, path: Path) -> bool:
        """Whether a file lies in the store, links resolved."""
        return path.resolve().is_relative_to(self.root)

    def _looked(self, *, thorough: bool) -> Snapshot:
        runs, broken = self._walk.look(thorough=thorough)
        known = self._snapshot
        if known is not None and (runs, tuple(broken)) == (known.runs, known.broken):
            return known
        digest = hashlib.sha256("\n".join([*(f"{run.id} {run.stamp}" for run in runs.values()), str(broken)]).encode())
        for gone in self._summaries.keys() - runs.keys():
            del self._summaries[gone]
        for gone in self._metrics.keys() - runs.keys():
            del self._metrics[gone]
        return Snapshot(runs, tuple(broken), digest.hexdigest()[:16])


@dataclass(frozen=True)
class Pace:
    """When the next look is due."""

    at: float = 0.0
    """By the monotonic clock."""

    @classmethod
    def after(cls, cost: float) -> "Pace":
        """After a look that took `cost` CPU seconds."""
        return cls(time.monotonic() + max(FRESH, cost / SHARE))

    def due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() >= self.at


def revision(runs: list[Found]) -> str:
    """A short text that changes when one of `runs` does."""
    return hashlib.sha256("\n".join(f"{run.id} {run.stamp}" for run in runs).encode()).hexdigest()[:16]


def _summary(run: Found) -> Summary:
    if run.fault:
        return Summary(fault=run.fault)
    found = Summary()
    try:
        found.config = run.folder.config()
        status = run.folder.status()
        found.status = {**asdict(status), **status.extra} if status else {}
        found.status.pop("extra", None)
        found.result = run.folder.result() or {}
    except UserError as error:
        found.fault = str(error)
    if found.fault is None and (fault := misfit(run.folder, found.config, found.result)):
        return Summary(fault=fault)
    if found.fault is None and run.state == "finished" and not found.result:
        found.fault = NO_RESULT
    return found
