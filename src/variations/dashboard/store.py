"""The dashboard's view of the run store: found by walking, known by identifier, reread only if a file has changed.

A page asks for runs by identifier, and an identifier is looked up among those that the walk has found. No path is ever
built from what a page sent, and the walk follows no links, so nothing outside the store can be reached.

What was read from a run that has ended is cached until the times of its files change, also for later starts
(`memory.py`). Whether a run is alive is always checked.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from variations.configuration.tasks import task_of
from variations.dashboard.memory import Memory
from variations.dashboard.metrics import Glance, Metrics, glance
from variations.dashboard.walk import Found, Walk, sweep_of
from variations.store.contents import EXCHANGED
from variations.store.inputs import made_from
from variations.system.errors import UserError
from variations.tables.collect import NO_RESULT, Stored, absent_task, has_measurements, misfit

FRESH = 0.5
"""Seconds for which a scan is reused."""
SEEN = "seen"
"""Name under which `memory` stores what the walk saw."""
SHARE = 0.005
"""The share of a core for thorough scans, and again for quick ones. In a large store they become less frequent."""


@dataclass
class Summary:
    """What is read of a run at a glance."""

    config: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None
    """Why the run cannot be read."""


@dataclass
class Facts:
    """What has been read of a run, kept until one of its files changes."""

    summary: Summary | None = None
    glance: Glance | None = None
    curves: dict[str, list[list[float]]] = field(default_factory=dict)
    """By metric: the steps at which it was measured, and its values."""
    inputs: dict[str, str] | None = None
    """As `inputs.made_from` gives them."""
    measured: bool | None = None
    """Whether its measurements are those of its result."""
    new: bool = True
    """Whether there is more than `memory` has."""

    @classmethod
    def of(cls, kept: Any) -> "Facts":
        """What `plain` gave."""
        summary, seen, curves, inputs, measured = kept
        return cls(summary and Summary(**summary), seen and Glance(**seen), curves, inputs, measured, new=False)

    def plain(self) -> Any:
        """As plain data."""
        seen = self.summary and vars(self.summary), self.glance and vars(self.glance)
        return [*seen, self.curves, self.inputs, self.measured]


@dataclass(frozen=True)
class Snapshot:
    """All runs at one time."""

    runs: dict[str, Found]
    broken: tuple[tuple[str, str], ...]
    """Folders that look like runs but are not, each as path below the root and reason."""
    revision: str

    @cached_property
    def sweeps(self) -> dict[str, list[Found]]:
        """Runs by sweep, sorted by identifier."""
        found: dict[str, list[Found]] = {}
        for run in self.runs.values():
            found.setdefault(run.sweep, []).append(run)
        return found


class Store:
    """Reads a run store; safe to use from several threads.

    Args:
        root: The run store.
        cache_folder: Folder of the cache for later starts; None: no cache.
    """

    def __init__(self, root: Path | str, cache_folder: Path | None = None) -> None:
        self.root = Path(root).expanduser().resolve()
        self.memory = Memory.of(self.root, cache_folder) if cache_folder else Memory(None)
        self._lock = threading.RLock()
        self._kept = self.memory.load(SEEN).get("", {})
        self._walk = Walk(self.root, self._kept)
        self._snapshot: Snapshot | None = None
        self._quick = self._thorough = Pace()
        self._facts: dict[str, tuple[Found, Facts]] = {}
        self._recalled: dict[str, dict[str, Any]] = {}
        """By sweep: what `memory` has of its runs, until it is asked for."""
        self._metrics: dict[str, Metrics] = {}

    def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """All runs: from the last scan, from a new one if it is due, or from a thorough one if `fresh`."""
        with self._lock:
            thorough = fresh or self._snapshot is None or self._thorough.due()
            if self._snapshot is None or thorough or self._quick.due():
                began = time.thread_time()
                self._snapshot = self._looked(thorough=thorough)
                pace = Pace.after(time.thread_time() - began)
                self._quick, self._thorough = (self._quick, pace) if thorough else (pace, self._thorough)
            return self._snapshot

    def find(self, identifier: str) -> Found:
        """A run by its identifier. Raises KeyError if there is none."""
        known = self.snapshot().runs
        return known[identifier] if identifier in known else self.snapshot(fresh=True).runs[identifier]

    def sweep(self, name: str) -> list[Found]:
        """The runs of a sweep. Raises KeyError if there are none."""
        known = self.snapshot().sweeps
        return known[name] if name in known else self.snapshot(fresh=True).sweeps[name]

    def summary(self, run: Found) -> Summary:
        """Configuration, status and result of a run; never raises for a damaged one."""
        with self._lock:
            facts = self._of(run)
            if facts.summary is None:
                facts.summary, facts.new = _summary(run), True
            return facts.summary

    def glance(self, run: Found) -> Glance:
        """What a run has measured, from the ends of its measurements."""
        with self._lock:
            facts = self._of(run)
            if facts.glance is None:
                facts.glance, facts.new = self._glance(run), True
            return facts.glance

    def _glance(self, run: Found) -> Glance:
        if not run.measured:
            return Glance()
        if run.state == "finished":  # its last line is a validation
            self._metrics.pop(run.id, None)
            return glance(run.folder.measurements.path)
        try:
            with self.metrics(run) as metrics:
                return Glance.of(metrics)
        except UserError:
            return Glance()

    def curve(self, run: Found, key: str) -> list[tuple[float, float]]:
        """As `Measurements.curve`."""
        with self._lock:
            facts = self._of(run)
            if key not in facts.curves:
                points = run.folder.measurements.curve(key) if run.measured else []
                facts.curves[key], facts.new = [[x for x, _ in points], [y for _, y in points]], True
            steps, values = facts.curves[key]
            return list(zip(steps, values, strict=True))

    def keep(self) -> None:
        """Store in `memory` what was read from runs that have ended."""
        with self._lock:
            new = [(run, facts) for run, facts in self._facts.values() if facts.new and run.ended and run.settled]
            if new and self.memory.save({_name(run.id): [run.stamp, facts.plain()] for run, facts in new}):
                for _, facts in new:
                    facts.new = False

    def _of(self, run: Found) -> Facts:
        """The facts of a run, read again if one of its files has changed."""
        known = self._facts.get(run.id)
        if known is None or (known[0] is not run and known[0] != run):  # to compare all fields takes time
            if run.sweep not in self._recalled:
                self._recalled[run.sweep] = self.memory.load(_name(run.id).removesuffix(run.id))
            stamp, kept = self._recalled[run.sweep].pop(run.id, ("", None))
            known = (run, Facts.of(kept) if stamp == run.stamp and run.ended and run.settled else Facts())
            self._facts[run.id] = known
        return known[1]

    def stored(self, run: Found) -> Stored:
        """What a table needs from a run, taken from its summary. Raises UserError if it cannot be read."""
        known = self.summary(run)
        if known.fault and known.fault != NO_RESULT:
            raise UserError(known.fault)
        if absent := absent_task(known.config):
            raise UserError(absent)
        reason, step = known.status.get("reason"), known.status.get("step")
        curve, inputs = partial(self.curve, run), self.inputs(run)
        return Stored(run.state, known.config, known.result, reason, step, curve, inputs, self.intact(run))

    def intact(self, run: Found) -> bool:
        """Whether a run has measurements, and if it has a result, those that belong to it."""
        with self._lock:
            facts = self._of(run)
            if facts.measured is None:
                facts.measured = run.measured and has_measurements(run.folder, self.summary(run).result)
                facts.new = True
            return facts.measured

    def inputs(self, run: Found) -> dict[str, str]:
        """What a run was made from, as `inputs.made_from`."""
        with self._lock:
            facts = self._of(run)
            if facts.inputs is None:
                facts.inputs, facts.new = made_from(run.folder), True
            return facts.inputs

    @contextmanager
    def metrics(self, run: Found) -> Iterator[Metrics]:
        """A run's measurements; only lines appended since the last call are read. The store is locked until the end.

        Raises:
            UserError: They cannot be read, or are not those that the run's result was stored with; or the run is broken
                and may be another one's copy.
        """
        with self._lock:
            if fault := self.summary(run).fault:
                raise UserError(f"{run.id}: {fault}")
            if run.id not in self._metrics:
                self._metrics[run.id] = Metrics(run.folder.measurements.path)
            if run.measured:
                self._metrics[run.id].update()
                if run.state == "finished" and not self.intact(run):
                    raise UserError(f"{run.id}: metrics.jsonl {EXCHANGED}")
            yield self._metrics[run.id]

    def outputs(self, run: Found, name: str) -> Sequence[tuple[str, ...]]:
        """Source, reference and output of each item of a set; empty unless all are stored and match."""
        if not all(self.inside(path) for path in run.folder.hypotheses.glob(f"{name}.*")):
            return ()
        try:
            return cast(Sequence[tuple[str, ...]], task_of(self.summary(run).config).outputs(run.folder, name))
        except (OSError, ValueError, UserError):
            return ()

    def inside(self, path: Path) -> bool:
        """Whether a file is inside the store after links are resolved."""
        return path.resolve().is_relative_to(self.root)

    def _looked(self, *, thorough: bool) -> Snapshot:
        runs, broken = self._walk.look(thorough=thorough)
        known = self._snapshot
        if known is not None and (runs, tuple(broken)) == (known.runs, known.broken):
            return known
        digest = hashlib.sha256("\n".join([*(f"{run.id} {run.stamp}" for run in runs.values()), str(broken)]).encode())
        for gone in self._facts.keys() - runs.keys():
            del self._facts[gone]
        for gone in self._metrics.keys() - runs.keys():
            del self._metrics[gone]
        kept = self._walk.keep()
        gone_names = [_name(name) for name in self._kept.keys() - kept.keys()]
        if kept != self._kept and self.memory.save({SEEN: kept}, gone_names):
            self._kept = kept
        return Snapshot(runs, tuple(broken), digest.hexdigest()[:16])


@dataclass(frozen=True)
class Pace:
    """When the next scan is due."""

    at: float = 0.0
    """Time of the monotonic clock."""

    @classmethod
    def after(cls, cost: float) -> "Pace":
        """The pace after a scan that took `cost` CPU seconds."""
        return cls(time.monotonic() + max(FRESH, cost / SHARE))

    def due(self) -> bool:
        """Whether the next scan is due."""
        return time.monotonic() >= self.at


def _name(run: str) -> str:
    """Name of a run's facts in `memory`; those of a sweep begin alike."""
    return f"run/{sweep_of(run)}/{run}"


def revision(runs: list[Found]) -> str:
    """A short text that changes when one of `runs` does."""
    return hashlib.sha256("\n".join(f"{run.id} {run.stamp}" for run in runs).encode()).hexdigest()[:16]


def texts_stamp(runs: list[Found]) -> str:
    """A short text that changes when a tested text of one of `runs`, from which its table is tested, is edited."""
    times = []
    for run in runs:
        try:
            with os.scandir(f"{run.path}/hypotheses") as entries:
                texts = [entry for entry in entries if not entry.name.endswith(".npy")]  # those are counts of the texts
                times += [(entry.name, entry.stat(follow_symlinks=False).st_mtime_ns) for entry in texts]
        except OSError:  # it has none yet
            continue
    return hashlib.sha256(str(sorted(times)).encode()).hexdigest()[:16]


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
