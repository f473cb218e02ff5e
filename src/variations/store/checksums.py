"""The SHA-256 of a file; that of a checkpoint is in a file beside it: `<file>.sha256`."""

import hashlib
from pathlib import Path

from variations.store import fence


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sidecar(path: Path) -> Path:
    """The file with the sum of another one."""
    return path.with_name(f"{path.name}.sha256")


def is_sound(path: Path) -> bool:
    """Whether the file exists and matches its recorded sum."""
    recorded = sidecar(path)
    return path.is_file() and recorded.is_file() and recorded.read_text().split()[:1] == [file_sha256(path)]


def sweep(folder: Path) -> None:
    """Delete remnants of interrupted writes. Only for the one process that may write in `folder`."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)
    for recorded in folder.glob("*.sha256"):
        if not recorded.with_suffix("").exists():
            fence.remove(recorded)
