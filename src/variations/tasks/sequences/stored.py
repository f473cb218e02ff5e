"""Stored texts of a tested set, `<set>.src`, `.ref` and `.hyp`, and their replacements in records."""

import gzip
import hashlib
import io
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.store.atomic import read_stored, stored_path
from variations.system.errors import DataError


def side_by_side(folder: Path, name: str, *sides: str) -> list[tuple[str, ...]]:
    """Parallel lines of a set's texts; empty if one of the sides is not stored.

    Raises DataError if their numbers differ.
    """
    files = [folder / f"{name}.{side}" for side in sides]
    if not all(map(stored_path, files)):
        return []
    columns = [read_stored(file).decode("utf-8").removesuffix("\n").split("\n") for file in files]
    if len(set(map(len, columns))) > 1:
        told = " and ".join(f"{file.name} {len(lines)}" for file, lines in zip(files, columns, strict=True))
        raise DataError(f"The texts in {folder} are not parallel: {told}.")
    return list(zip(*columns, strict=True))


def given_digest(folder: Path, name: str) -> str | None:
    """The hash that replaces references in a record that may not contain them."""
    given = folder / f"{name}.ref.sha256"
    if stored_path(folder / f"{name}.ref") is not None or not given.is_file():
        return None
    return given.read_text(encoding="utf-8").strip()


def reference_digest(folder: Path, name: str) -> str | None:
    """SHA-256 of a set's references; None where there are none."""
    path = folder / f"{name}.ref"
    try:
        if (found := stored_path(path)) is None:
            return given_digest(folder, name)
        facts = found.stat()
        return _digest(path, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _digest(path: Path, *_: int) -> str:
    """SHA-256 of a file, read once for all rows that are compared with its run while the file stays as it is."""
    return hashlib.sha256(read_stored(path)).hexdigest()


def read_counts(path: Path) -> NDArray[np.int64] | None:
    """Counts of each sentence, which replace text in a record; None if there are none or the file is damaged."""
    try:
        found: NDArray[np.int64] = np.load(io.BytesIO(read_stored(path)), allow_pickle=False).astype(np.int64)
    except (OSError, ValueError, EOFError):
        return None
    return found


def packed_counts(counts: NDArray[Any]) -> bytes:
    """The same counts in the format of a record."""
    file = io.BytesIO()
    np.save(file, counts.astype(np.int16), allow_pickle=False)
    return packed(file.getvalue())


def packed_texts(folder: Path, name: str, *sides: str) -> dict[str, bytes]:
    """Texts of a set in the format of a record, by file name."""
    return {f"hypotheses/{name}.{side}.gz": packed(read_stored(folder / f"{name}.{side}")) for side in sides}


def packed(data: bytes) -> bytes:
    """Compress with gzip, without a time stamp, so that equal text gives equal files."""
    return gzip.compress(data, 9, mtime=0)
