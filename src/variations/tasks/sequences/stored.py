"""Stored texts of a tested set, `<set>.src`, `.ref` and `.hyp`, and their replacements in records."""

import gzip
import hashlib
import io
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from variations.store.atomic import read_stored, stored_path
from variations.system.errors import DataError, read_fault


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
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=4096)
def _digest(path: Path, *_: int) -> str:
    """SHA-256 of a file, read once for all rows that are compared with its run while the file stays as it is."""
    return hashlib.sha256(read_stored(path)).hexdigest()


def read_counts(path: Path, columns: int) -> NDArray[np.int64] | None:
    """Counts of each sentence, (S, columns), which replace text in a record; None if there are none.

    Raises DataError if the file is damaged.
    """
    file = stored_path(path)
    if file is None:
        return None
    try:
        found = _counts(read_stored(path))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} is damaged ({read_fault(error, file)}): restore it") from error
    if found.ndim != 2 or found.shape[1] != columns:
        raise DataError(f"{file} does not contain {columns} counts of each sentence: restore it")
    return found


def _counts(data: bytes) -> NDArray[np.int64]:
    """Whole numbers in numpy's format; ValueError for anything else, before memory is reserved for what it claims."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another version of numpy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "iu" or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError("not as many whole numbers as it claims")
    return cast(NDArray[Any], np.load(io.BytesIO(data), allow_pickle=False)).astype(np.int64)


def packed_counts(counts: NDArray[Any]) -> bytes:
    """The same counts in the format of a record, with two bytes each unless one of them needs more."""
    counts = counts.astype(np.int64)
    types = (kind for kind in (np.int16, np.int32) if np.array_equal(counts.astype(kind), counts))
    file = io.BytesIO()
    np.save(file, counts.astype(next(types, np.int64)), allow_pickle=False)
    return packed(file.getvalue())


def packed_texts(folder: Path, name: str, *sides: str) -> dict[str, bytes]:
    """Texts of a set in the format of a record, by file name."""
    return {f"hypotheses/{name}.{side}.gz": packed(read_stored(folder / f"{name}.{side}")) for side in sides}


def packed(data: bytes) -> bytes:
    """Compress with gzip, without a time stamp, so that equal text gives equal files."""
    return gzip.compress(data, 9, mtime=0)
