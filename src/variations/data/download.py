"""Downloads that survive bad networks: resumed, verified, and made only once for any number of processes.

A file appears under its name only when it is complete and its checksum is correct. Until then it is `NAME.part`, with
the data to resume it in `NAME.part.json`. `NAME.json` beside the finished file records its address, its SHA-256, and
how that was checked: against a checksum from the publisher or a well-known project, or, if none is known, by trust on
first use: the SHA-256 of the first download is recorded, and a later change is an error.
"""

import glob
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from variations.data.entry import told_if_cache_unwritable
from variations.data.transfer import Broken, Remote, beside, discard, receive, record, size_of
from variations.store.atomic import write_json
from variations.system.errors import UserError


@contextmanager
def download_bar(name: str, progress: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar for `name`, updated with (bytes so far, total or None); none if stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task(f"Downloading {name}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


MOST_ATTEMPTS = 100
"""Attempts at one file, also if each of them brings new data."""


@dataclass(frozen=True)
class Patience:
    """Timeouts and number of retries."""

    timeout: float = 30.0
    """Seconds without a connection, or without a byte, until a connection counts as dead."""
    retries: int = 5
    """Largest number of consecutive retries without new data."""
    backoff: float = 1.0
    """Seconds before the first retry; doubles with each, up to 30."""
    offline_retries: int = 2
    """The same if no connection is possible: shorter, so that a machine without a network reports it soon."""


PATIENCE = Patience()


def fetch(
    url: str,
    path: Path,
    sha256: str | None = None,
    size: int | None = None,
    *,
    md5: str | None = None,
    manual: str = "",
    progress: bool = True,
    patience: Patience = PATIENCE,
) -> Path:
    """Download `url` to the file `path`, unless an intact copy exists; returns `path`.

    Any number of processes may call this at once: one downloads, the others wait. A file that was put at `path` by hand
    is checked like a download.

    Args:
        url: http or https.
        path: the file to make; its folder is created.
        sha256, md5: published checksums in hexadecimal; with neither, trust on first use (see the module).
        size: published size in bytes.
        manual: what a user without a network can do, added to the message.
        progress: show a bar when stderr is a terminal.
        patience: timeouts and retries.

    Raises:
        UserError: no network, a refusal by the server, a wrong checksum or size, too little space, or an unwritable
            folder.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"Cannot download {url}: only http and https addresses are allowed.")
    remote = Remote(url, sha256, size, md5)
    from filelock import FileLock

    with told_if_cache_unwritable(path):
        if _recorded(path, remote):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(beside(path, ".lock")):
            if not _sound(path, remote):
                _download(remote, path, manual, progress, patience)
    return path


def origin(path: Path) -> dict[str, Any]:
    """The record of a downloaded file without fields for this cache only; empty if there is none."""
    return {name: value for name, value in (record(path) or {}).items() if name != "mtime_ns" and value is not None}


def _recorded(path: Path, remote: Remote) -> bool:
    """Whether `path` exists and is unchanged since it was verified."""
    if not path.is_file():
        return False
    status, known = path.stat(), record(path) or {}
    same = (known.get("size"), known.get("mtime_ns")) == (status.st_size, status.st_mtime_ns)
    return same and remote.sha256 in (None, known.get("sha256")) and remote.md5 in (None, known.get("md5"))


def _sound(path: Path, remote: Remote) -> bool:
    """Whether `path` exists and is correct; hashed only if it has changed. The caller holds its lock."""
    if _recorded(path, remote):
        return True
    if not path.is_file():
        return False
    known = record(path) or {}
    expected = remote if remote.sha256 or remote.md5 else Remote(remote.url, known.get("sha256"), remote.size)
    if fault := _wrong(path, expected):
        raise UserError(f"{path} is not the file at {remote.url}: {fault}. Delete it and start again to download it.")
    _write_record(path, remote)
    return True


def _wrong(path: Path, remote: Remote) -> str | None:
    """What differs from the published size and checksums, or None."""
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"expected {remote.size:,} bytes, received {size:,}"
    for name, expected in (("sha256", remote.sha256), ("md5", remote.md5)):
        received = _digest(path, name) if expected else expected
        if received != expected:
            return f"expected {name} {expected}, received {received}"
    return None


def _digest(path: Path, name: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.new(name, usedforsecurity=False)).hexdigest()


def _write_record(path: Path, remote: Remote) -> None:
    """The last step of a download; if a process was killed before it, the next process does it."""
    discard(beside(path, ".part"))
    for remnant in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):  # of interrupted writes
        remnant.unlink(missing_ok=True)
    checked = next((f"published {name}" for name in ("sha256", "md5") if getattr(remote, name)), "first use")
    status = path.stat()
    write_json(
        beside(path, ".json"),
        {
            "url": remote.url,
            "sha256": _digest(path, "sha256"),
            "md5": remote.md5,
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "checked": checked,
        },
    )


def _download(remote: Remote, path: Path, manual: str, progress: bool, patience: Patience) -> None:
    """Download to `path`; the caller holds its lock."""
    part = beside(path, ".part")
    resumed = part.exists()
    _receive_all(remote, path, manual, progress, patience)
    fault = _wrong(part, remote)
    if fault and resumed:  # the first part may be of another version: start again
        discard(part)
        _receive_all(remote, path, manual, progress, patience)
        fault = _wrong(part, remote)
    if fault:
        discard(part)
        raise UserError(
            f"The download of {remote.url} is not the published file ({fault}); it was removed. "
            f"Try again later; if that does not help, the publisher has changed the file. {manual}".rstrip()
        )
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)
    _write_record(path, remote)


def _receive_all(remote: Remote, path: Path, manual: str, progress: bool, patience: Patience) -> None:
    """Repeat attempts until `path.part` is complete, MOST_ATTEMPTS at most. Attempts with new data have not failed."""
    import requests

    part, failures = beside(path, ".part"), 0
    with requests.Session() as session, download_bar(path.name, progress) as show:
        for _ in range(MOST_ATTEMPTS):
            before = size_of(part)
            try:
                receive(session, remote, part, patience.timeout, manual, show)
                return
            except Broken as error:
                reason, wait = str(error), error.wait
                retries = patience.offline_retries if error.offline else patience.retries
            failures = 1 if size_of(part) > before else failures + 1
            if failures > retries:
                break
            time.sleep(max(wait, min(30.0, patience.backoff * 2 ** (failures - 1))))
    raise UserError(
        f"Cannot download {remote.url}: {reason}. Check the network and start again (data received so far is kept), "
        f"or get the file elsewhere and save it as {path}. {manual}".rstrip()
    )
