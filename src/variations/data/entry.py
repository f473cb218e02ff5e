"""Cache entries: folders that are built once, appear complete or not at all, and survive concurrent runs.

If two sweeps need the same sub-words at the same time, the first takes the lock and builds; the second waits and reads.
A builder writes to a temporary folder beside the entry and renames it, so that a killed process leaves no incomplete
entry. Lock files are never deleted: otherwise a third process could lock a new file of the same name while the second
still waits for the old one.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from variations.store.atomic import BROKEN, FULL, read_json
from variations.store.checksums import file_sha256
from variations.system.errors import DataError, RunFailedError, UserError

META = "meta.json"


@contextmanager
def told_if_cache_unwritable(path: Path) -> Iterator[None]:
    """Raise `cache_fault` if a file or folder of the cache cannot be written."""
    try:
        yield
    except OSError as error:
        raise cache_fault(f"Cannot write {path}", error) from error


def cache_fault(what: str, error: OSError) -> UserError:
    """An error for the user: RunFailedError if a full, broken or read-only disk stopped the work."""
    kind = RunFailedError if error.errno in (*FULL, *BROKEN) else UserError
    remedy = "Repair the disk" if error.errno in BROKEN else "Free some space"
    return kind(f"{what}: {error.strerror or error}. {remedy} or name another folder with data.cache=DIR.")


def text_sha256(path: Path) -> str:
    """SHA-256 of a text file that is not being written: read once per process unless its size or times change."""
    found = path.stat()
    return _remembered_sha256(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def text_hashes(paths: Iterable[Path]) -> dict[Path, str]:
    """`text_sha256` of files that are to be read, for `refuse_edited`."""
    return {path: text_sha256(path) for path in paths}


def refuse_edited(before: Mapping[Path, str]) -> None:
    """Check, after files were read, that they are still those of `before`. Raises DataError, which names the others."""
    if edited := [str(path) for path, known in before.items() if text_sha256(path) != known]:
        raise DataError(f"{', '.join(edited)} changed while this run read it: run the command again.")


@lru_cache(maxsize=64)
def _remembered_sha256(path: Path, size: int, mtime_ns: int, ctime_ns: int) -> str:
    return file_sha256(path)


def key_of(parts: Mapping[str, Any]) -> str:
    """The name of the entry for `parts` (hashes of contents, settings, versions): 20 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def write_meta(folder: Path, meta: dict[str, Any]) -> None:
    """Write `meta` and the SHA-256 of each file in `folder`; the last step of a builder."""
    hashes = {path.name: file_sha256(path) for path in sorted(folder.iterdir()) if path.name != META}
    (folder / META).write_text(json.dumps({**meta, "sha256": hashes}, indent=1, sort_keys=True), encoding="utf-8")


def read_meta(folder: Path) -> dict[str, Any] | None:
    """The entry's `meta`; None if the entry is missing or any of its files has changed."""
    try:
        meta: dict[str, Any] = read_json(folder / META)
        sound = all(file_sha256(folder / name) == sha256 for name, sha256 in meta["sha256"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return meta if sound else None


def entry(folder: Path, build: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Build `folder`, unless it exists and is intact, and return its meta.

    Args:
        folder: the entry, `<data.cache>/<kind>/<key>`.
        build: fills an empty temporary folder and returns the contents of `meta.json`. It runs in one process at a
        time.

    Raises:
        UserError: the cache cannot be written.
    """
    meta = read_meta(folder)
    if meta is not None:
        return meta
    from filelock import FileLock

    with told_if_cache_unwritable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            meta = read_meta(folder) or _build(folder, build)
    return meta


def _build(folder: Path, build: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Build and publish. The caller holds the lock, so leftover files are those of a dead process."""
    for remnant in folder.parent.glob(f"{folder.name}.tmp-*"):
        shutil.rmtree(remnant, ignore_errors=True)
    made = folder.parent / f"{folder.name}.tmp-{os.getpid()}"
    made.mkdir()
    try:
        write_meta(made, build(made))
        if folder.exists():
            # Damaged. A reader with open files keeps them; the name is freed for the new entry.
            damaged = folder.parent / f"{folder.name}.tmp-damaged-{os.getpid()}"
            folder.replace(damaged)
            shutil.rmtree(damaged, ignore_errors=True)
        made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    meta = read_meta(folder)
    if meta is None:
        raise UserError(f"The cache entry {folder} was damaged while it was written: check the disk, then try again.")
    return meta
