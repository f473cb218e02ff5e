"""The SHA-256 of a checkpoint, in a file beside it: `<file>.sha256`."""

from pathlib import Path

from variations.store import fence
from variations.store.inputs import file_sha256


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
