"""Repeated scans of a store for its runs, which do not reread what has not changed since the last scan.

A folder in which nothing was created, replaced or removed keeps its modification time. A quick scan therefore checks
the times of folders that contain folders, and the files of unfinished runs: a finished run no longer changes. A
thorough scan also checks each file of the finished runs, and so finds what was added or edited by hand. The first scan
is thorough; it may start from what an earlier walk has found.
"""

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from variations.configuration.places import SEED_FOLDER
from variations.store.ledger import RunFolder
from variations.store.measurements import LARGEST
from variations.system.errors import UserError
from variations.system.file_times import is_settled

METRICS = ("metrics.jsonl", "metrics.jsonl.gz")
"""The name in a run, and in a record."""
WATCHED = ("config.yaml", "status.json", "result.json", "environment.json", "inputs.json", *METRICS, "attention.json")
"""Files of a run that are watched for changes."""
DEPTH = 6
"""Depth of folders below the root that are searched for runs."""
ENDED = ("finished", "pruned", "failed")
"""States that only a new status.json can change; a running state also changes when the process dies."""


@dataclass(frozen=True)
class Found:
    """A run's folder."""

    id: str
    path: str
    stamp: str
    """Changes when a watched file changes, or when a running process has died."""
    state: str
    fault: str | None = None
    files: tuple[str, ...] = ()
    """Names of the watched files that may be read."""
    changed: float = 0.0
    """Time at which status.json was written, in seconds."""
    settled: bool = False
    """Whether any further change of a watched file will change its times: none was changed just now."""

    @cached_property
    def folder(self) -> RunFolder:
        """Its files."""
        return RunFolder(self.path)

    @property
    def measured(self) -> bool:
        """Whether it has measurements that may be read."""
        return any(name in self.files for name in METRICS)

    @property
    def ended(self) -> bool:
        """Whether only a change of its files can change its state."""
        return self.state in ENDED

    @property
    def sweep(self) -> str:
        """The sweep that it belongs to."""
        return sweep_of(self.id)

    @property
    def row(self) -> str:
        """The part of the path between sweep and seed."""
        parts = self.id.split("/")
        return "/".join(parts[1:-1]) if len(parts) > 2 else parts[0]


def sweep_of(run: str) -> str:
    """First part of a run's identifier; `.` for a folder directly below the root."""
    return run.split("/", 1)[0] if run.count("/") > 1 else "."


Times = tuple[Any, ...]
"""For each watched file of a run: name, mtime and ctime in nanoseconds, size, inode."""
EACH = 5
"""Entries of Times for a file."""


@dataclass(frozen=True)
class Seen:
    """A folder as found by a scan."""

    modified: int
    """Its modification time in nanoseconds; 0: too recent to be reliable."""
    folders: tuple[str, ...] = ()
    """Names of its sub-folders, unless it is a run."""
    run: Found | None = None
    times: Times = ()
    broken: tuple[tuple[str, str], ...] = ()
    """Folders that look like runs but are not: path below the root, and the reason."""


class Walk:
    """The runs below a root. No link is followed."""

    def __init__(self, root: Path, kept: Mapping[str, Any] | None = None) -> None:
        """Start with what `keep` returned after an earlier walk, by run; each is checked in the first scan."""
        self.root = root
        self._seen: dict[str, Seen] = {}
        for name, (modified, state, *times) in (kept or {}).items():
            path = os.path.join(root, name)  # noqa: PTH118
            self._seen[name] = _seen(
                _found(name, path, tuple(times), state, None, settled=True), modified, tuple(times)
            )

    def keep(self) -> dict[str, Any]:
        """What was seen of each run whose state follows from its files alone, as plain data."""
        return {
            name: [seen.modified, seen.run.state, *seen.times]
            for name, seen in self._seen.items()
            if seen.run is not None and seen.run.ended and seen.run.settled and seen.modified
        }

    def look(self, *, thorough: bool) -> tuple[dict[str, Found], list[tuple[str, str]]]:
        """Runs by identifier, and folders that look like runs but are not, each with the reason."""
        before, self._seen = self._seen, {}
        runs: dict[str, Found] = {}
        broken: list[tuple[str, str]] = []
        waiting = [("", 0)]
        while waiting:
            name, depth = waiting.pop()
            known = before.get(name)
            if known is None or known.run is None or known.run.state != "finished" or thorough:
                known = self._folder(name, depth, known)
            self._seen[name] = known
            broken += known.broken
            if known.run is not None:
                runs[name] = known.run
            elif depth < DEPTH:
                prefix = f"{name}/" if name else ""
                waiting += [(prefix + child, depth + 1) for child in reversed(known.folders)]  # the first comes next
        return runs, broken

    def _folder(self, name: str, depth: int, known: Seen | None) -> Seen:
        """The folder as it is now, or `known` if nothing has changed."""
        path = os.path.join(self.root, name) if name else str(self.root)  # noqa: PTH118 - thousands of them
        try:
            found = os.stat(path, follow_symlinks=not name)  # noqa: PTH116
            if not stat.S_ISDIR(found.st_mode):
                return Seen(0)
            if known is None or known.modified != found.st_mtime_ns:
                return self._read(name, path, found.st_mtime_ns if is_settled(found.st_mtime_ns) else 0, known)
        except FileNotFoundError:
            return Seen(0)
        except OSError as error:
            return Seen(0, broken=((name or ".", f"cannot be read ({error.strerror})"),))
        if known.run is None:
            return known
        times = _times(path, known.times[::EACH])
        if times == known.times and known.run.ended and known.run.settled:
            return known
        return _run(name, path, known.modified, times, known)

    def _read(self, name: str, path: str, modified: int, known: Seen | None) -> Seen:
        with os.scandir(path) as listing:
            entries = {entry.name: entry for entry in sorted(listing, key=lambda entry: entry.name)}
        seeded = SEED_FOLDER.fullmatch(os.path.basename(path)) is not None  # noqa: PTH119
        if name and "config.yaml" in entries and ("status.json" in entries or seeded):
            return _run_of_entries(name, path, modified, entries, known)
        if seeded and entries and name:
            return Seen(modified, broken=((name, "contains no config.yaml, so it is not read as a run"),))
        shown = [entry for entry in entries.values() if not entry.name.startswith(".")]
        folders = [entry.name for entry in shown if entry.is_dir(follow_symlinks=False)]
        strange = [folder for folder in folders if _text(folder) != folder]
        links = [entry.name for entry in shown if entry.is_symlink() and _leads_to_a_folder(entry)]
        broken = [(link, "is a link to another folder: links are not followed") for link in links]
        broken += [(folder, "has a name that is not UTF-8: rename it") for folder in strange]
        return Seen(
            modified,
            tuple(folder for folder in folders if folder not in strange),
            broken=tuple((_text(f"{name}/{found}".lstrip("/")), reason) for found, reason in broken),
        )


def _text(name: str) -> str:
    """A file's name, which may be any bytes, as text that can be shown."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _leads_to_a_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a circle of links
        return True


def _run_of_entries(
    name: str, path: str, modified: int, entries: dict[str, os.DirEntry[str]], known: Seen | None
) -> Seen:
    """A run, unless its contents could lead out of the store or block a reader."""
    watched = [entries[item] for item in WATCHED if item in entries]
    places = [*watched, *(entries[item] for item in ("hypotheses",) if item in entries)]
    reason = None
    if links := [entry.name for entry in places if entry.is_symlink()]:
        reason = f"{', '.join(links)} is a link: links are not followed"
    elif strange := [entry.name for entry in watched if not entry.is_file(follow_symlinks=False)]:
        reason = f"{', '.join(strange)} is not a regular file, and is not read"
    if reason:
        return _seen(Found(name, path, "link" if links else "strange", "broken", reason), 0, ())
    return _run(name, path, modified, _times(path, [entry.name for entry in watched]), known)


def _run(name: str, path: str, modified: int, times: Times, known: Seen | None) -> Seen:
    """A run whose watched files have these times."""
    run = known.run.folder if known is not None and known.run is not None else RunFolder(path)
    fault: str | None = None
    settled = is_settled(max(*times[1::EACH], *times[2::EACH], 0, 0))
    try:
        if large := _too_large(times):
            raise UserError(f"{', '.join(large)} is larger than {LARGEST >> 20} MiB, and is not read")
        state = run.shown_state()
    except UserError as error:
        state, fault = "broken", str(error)
    except OSError as error:  # a file was just replaced: the next scan finds the new one
        state, fault = "broken", f"cannot be read ({error.strerror})"
    found = _found(name, path, times, state, fault, settled=settled)
    if known is not None and known.run == found:
        return Seen(modified, run=known.run, times=times, broken=known.broken)
    return _seen(found, modified, times)


def _too_large(times: Times) -> list[str]:
    """Names of measurements that are too large to be read."""
    sizes = zip(times[::EACH], times[3::EACH], strict=True)
    return [name for name, size in sizes if name in METRICS and size > LARGEST]


def _found(name: str, path: str, times: Times, state: str, fault: str | None, *, settled: bool) -> Found:
    stamp = hashlib.sha256(f"{times} {state} {fault}".encode()).hexdigest()[:16]
    changed = times[times.index("status.json") + 1] / 1e9 if "status.json" in times else 0.0
    large = _too_large(times)
    files = tuple(file for file in times[::EACH] if file not in large)
    return Found(name, path, stamp, state, fault, files, changed, settled)


def _seen(run: Found, modified: int, times: Times) -> Seen:
    return Seen(modified, run=run, times=times, broken=((run.id, run.fault),) if run.fault else ())


def _times(path: str, names: Sequence[str]) -> Times:
    """The times of each existing regular file."""
    found: list[Any] = []
    for name in names:
        try:
            file = os.stat(f"{path}/{name}", follow_symlinks=False)  # noqa: PTH116
        except OSError:
            continue
        if stat.S_ISREG(file.st_mode):
            found += (name, file.st_mtime_ns, file.st_ctime_ns, file.st_size, file.st_ino)
    return tuple(found)
