"""Unpacking archives from the web without trusting them."""

import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from variations.data.transfer import SPARE, require_space
from variations.system.errors import UserError

Member = tuple[str, int, Callable[[], IO[bytes] | None]]
"""Name, size in bytes, and how to open it."""


def extract(archive: Path, folder: Path, members: Collection[str] | None = None) -> Path:
    """Unpack a .tar (.gz, .bz2, .xz, .tgz) or .zip file into `folder`, which appears complete or not at all.

    Nothing is done where `folder` exists. Every member's name is checked before anything is written: absolute paths,
    `..`, links and devices are refused (corpora need none), and files get plain permissions.

    Args:
        archive: the file.
        folder: the folder to make; one process at a time makes it.
        members: names to unpack; None: all. A name that is missing is a fault.

    Raises:
        UserError: an unsafe, damaged or unknown archive, a missing member, or too little space.
    """
    from filelock import FileLock

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            if not folder.is_dir():
                _extract(archive, folder, members)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile adds what it tried, line by line
        raise UserError(f"The archive {archive} is damaged ({reason}): delete it and start again.") from error
    except OSError as error:
        raise UserError(f"Cannot unpack {archive} into {folder}: {error.strerror or error}.") from error
    return folder


def _extract(archive: Path, folder: Path, members: Collection[str] | None) -> None:
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    found: set[str] = set()
    try:
        made.chmod(0o755)
        reader = _zip_members if zipfile.is_zipfile(archive) else _tar_members
        for name, size, opened in reader(archive):
            if members is not None and name not in members:
                continue
            found.add(name)
            require_space(made, size + SPARE, f"{name} of {archive}")
            _write(made / name, opened)
            if members is not None and found == set(members):
                break
        if missing := sorted(set(members or ()) - found):
            raise UserError(f"The archive {archive} lacks {', '.join(missing)}: delete it and start again.")
        made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(target: Path, opened: Callable[[], IO[bytes] | None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    stream = opened()
    if stream is None:
        raise tarfile.ReadError(f"{target.name} has no content")
    with stream, target.open("xb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)


def _tar_members(archive: Path) -> Iterator[Member]:
    """Regular files, in the order they are stored; the archive is read once, as a stream."""
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            name = _safe(member.name, archive)
            if member.isdir():
                continue
            if not member.isreg():
                kind = "a link" if member.issym() or member.islnk() else "no regular file"
                raise UserError(f"The archive {archive} is unsafe: {member.name} is {kind}; nothing was unpacked.")
            yield name, member.size, lambda member=member: tar.extractfile(member)  # type: ignore[misc]


def _zip_members(archive: Path) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as pack:
        for member in pack.infolist():
            name = _safe(member.filename, archive)
            if member.is_dir():
                continue
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
                raise UserError(f"The archive {archive} is unsafe: {name} is {kind}; nothing was unpacked.")
            if member.flag_bits & 1:
                raise UserError(f"The archive {archive} is encrypted ({name}): unpack it by hand.")
            yield name, member.file_size, lambda member=member: pack.open(member)  # type: ignore[misc]


def _safe(name: str, archive: Path) -> str:
    """The member's name without `./`; raises where it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise UserError(
            f"The archive {archive} is unsafe: {name!r} would be written outside its folder; nothing was unpacked."
        )
    return str(path)
