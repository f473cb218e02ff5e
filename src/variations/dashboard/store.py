"""The run store as the dashboard sees it: found by walking, known by identifier, read again only where a file changed.

A page asks for runs by identifier, and an identifier is looked up among those that the walk has found. No path is ever
made of what a page sent, and the walk follows no links, so nothing outside the store can be reached.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from variations.configuration.tasks import task_of
from variations.dashboard.metrics import Metrics
from variations.store.ledger import RunFolder
from variations.store.run_folder import SEED_FOLDER
from variations.system.errors import UserError
from variations.tables.collect import NO_RESULT, Stored, misfit

METRICS = ("metrics.jsonl", "metrics.jsonl.gz")
"""As a run appends to it, and as a record keeps it."""
WATCHED = ("config.yaml", "status.json", "result.json", "environment.json", *METRICS, "attention.json")
"""Files of a run that are watched for changes."""
DEPTH = 6
"""Folders below the root in which runs are looked for."""
FRESH = 0.5
"""Seconds for which a walk is reused."""


@dataclass
class Summary:
    """What is read of a run at a glance, kept until one of its files changes."""

    config: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    fault: str | None = None
    """Why the run cannot be read."""


@dataclass(frozen=True)
class Found:
    """A run's folder."""

    id: str
    folder: RunFolder
    stamp: str
    """Changes when a watched file changes, or when a running process has died."""
    state: str
    fault: str | None = None
    files: frozenset[str] = frozenset()

    @property
    def sweep(self) -> str:
        """First part of its identifier; `.` for a folder directly below the root."""
        return self.id.split("/")[0] if self.id.count("/") > 1 else "."

    @property
    def row(self) -> str:
        """The part of the path between sweep and seed."""
        parts = self.id.split("/")
        return "/".join(parts[1:-1]) if len(parts) > 2 else parts[0]


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
        self._snapshot: Snapshot | None = None
        self._read_at = 0.0
        self._summaries: dict[str, tuple[str, Summary]] = {}
        self._metrics: dict[str, Metrics] = {}

    def snapshot(self, *, fresh: bool = False) -> Snapshot:
        """All runs; walked again where the last walk is older than FRESH seconds, or if `fresh`."""
        with self._lock:
            if fresh or self._snapshot is None or time.monotonic() - self._read_at > FRESH:
                self._snapshot = self._walked()
                self._read_at = time.monotonic()
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

    def _walked(self) -> Snapshot:
        runs: dict[str, Found] = {}
        broken: list[tuple[str, str]] = []
        for item in _walk(self.root, self.root, DEPTH):
            if isinstance(item, Found):
                runs[item.id] = item
                if item.fault:
                    broken.append((item.id, item.fault))
            else:
                broken.append(item)
        digest = hashlib.sha256("\n".join([*(f"{run.id} {run.stamp}" for run in runs.values()), str(broken)]).encode())
        for gone in self._summaries.keys() - runs.keys():
            del self._summaries[gone]
        for gone in self._metrics.keys() - runs.keys():
            del self._metrics[gone]
        return Snapshot(runs, tuple(broken), digest.hexdigest()[:16])


def revision(runs: list[Found]) -> str:
    """A short text that changes when one of `runs` does."""
    return hashlib.sha256("\n".join(f"{run.id} {run.stamp}" for run in runs).encode()).hexdigest()[:16]


def _walk(folder: Path, root: Path, depth: int) -> Iterator[Found | tuple[str, str]]:
    name = folder.relative_to(root).as_posix()
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield name, f"cannot be read ({error.strerror})"
        return
    files = {entry.name: entry for entry in entries}
    seeded = SEED_FOLDER.fullmatch(folder.name) is not None
    if folder != root and "config.yaml" in files and ("status.json" in files or seeded):
        yield _found(name, folder, files)
        return
    if seeded and entries and folder != root:
        yield name, "holds no config.yaml, so it is not read as a run"
        return
    for entry in entries if depth else ():
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, root, depth - 1)
        elif entry.is_symlink() and entry.is_dir():
            yield (
                (folder / entry.name).relative_to(root).as_posix(),
                "is a link to another folder: links are not followed",
            )


def _found(name: str, folder: Path, files: dict[str, os.DirEntry[str]]) -> Found:
    run = RunFolder(folder)
    watched = [files[item] for item in WATCHED if item in files]
    links = [
        entry.name for entry in [*watched, *(files[n] for n in ("hypotheses",) if n in files)] if entry.is_symlink()
    ]
    if links:
        return Found(name, run, "link", "broken", f"{', '.join(links)} is a link: links are not followed")
    if strange := [entry.name for entry in watched if not entry.is_file(follow_symlinks=False)]:
        return Found(name, run, "strange", "broken", f"{', '.join(strange)} is no regular file: it is not read")
    parts: list[str] = []
    fault: str | None = None
    try:
        for entry in watched:
            stat = entry.stat(follow_symlinks=False)
            parts.append(f"{entry.name}:{stat.st_mtime_ns}:{stat.st_size}")
        state = run.state()
    except UserError as error:
        state, fault = "broken", str(error)
    except OSError as error:  # a file was replaced just now: the next look sees the new one
        state, fault = "broken", f"cannot be read ({error.strerror})"
    stamp = hashlib.sha256("\n".join([*parts, state, str(fault)]).encode()).hexdigest()[:16]
    return Found(name, run, stamp, state, fault, frozenset(entry.name for entry in watched))


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
    if found.fault is None and (fault := misfit(found.config, found.result)):
        return Summary(fault=fault)
    if found.fault is None and run.state == "finished" and not found.result:
        found.fault = NO_RESULT
    return found
