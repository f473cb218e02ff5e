"""Unpacking archives from the web without trusting them."""

import lzma
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import IO

from variations.data.entry import cache_fault
from variations.data.transfer import SPARE, require_space
from variations.system.errors import UserError


def extract(archive: Path, folder: Path, members: Collection[str] | None = None) -> Path:
    """Unpack a .tar file (.gz, .bz2, .xz, .tgz) into `folder`, which appears complete or not at all.

    Nothing is done if `folder` exists. Every member's name is checked before anything is written: absolute paths, `..`,
    links and devices are refused (corpora need none), and files get default permissions.

    Args:
        archive: the file.
        folder: the folder to make, by one process at a time.
        members: names to unpack; None: all. A missing one is an error.

    Raises:
        UserError: an unsafe, damaged or unknown archive, a missing member, or too little space.
    """
    from filelock import FileLock

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            if not folder.is_dir():
                _extract(archive, folder, members)
    except (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError) as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno is None:  # gzip's and bz2's own, not the system's
            raise _damaged(archive, error) from error
        raise cache_fault(f"Cannot unpack {archive} into {folder}", error) from error
    return folder


def _damaged(archive: Path, error: Exception) -> UserError:
    reason = str(error).partition("\n")[0].rstrip(":")  # tarfile appends its attempts, line by line
    return UserError(f"The archive {archive} is damaged ({reason}): delete it and start again.")


def _extract(archive: Path, folder: Path, members: Collection[str] | None) -> None:
    """Read the archive once, as a stream, to its end: there is the checksum of what was unpacked."""
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    found: set[str] = set()
    try:
        made.chmod(0o755)
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = _safe(member, archive)
                if member.isdir() or (members is not None and name not in members):
                    continue
                found.add(name)
                require_space(made, member.size + SPARE, f"{name} of {archive}")
                _write(made / name, tar.extractfile(member))
                if members is not None and found == set(members):
                    break
            while tar.fileobj is not None and tar.fileobj.read(1 << 20):
                pass
        if missing := sorted(set(members or ()) - found):
            raise UserError(f"The archive {archive} lacks {', '.join(missing)}: delete it and start again.")
        made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(target: Path, stream: IO[bytes] | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if stream is None:
        raise tarfile.ReadError(f"{target.name} has no content")
    with stream, target.open("xb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)


def _safe(member: tarfile.TarInfo, archive: Path) -> str:
    """The member's name without `./`. Raises UserError if it leads out of the folder, or is not a file or folder."""
    path, reason = PurePosixPath(member.name), None
    if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name:
        reason = f"{member.name!r} would be written outside its folder"
    elif not (member.isdir() or member.isreg()):
        reason = f"{member.name} is {'a link' if member.issym() or member.islnk() else 'not a regular file'}"
    if reason:
        raise UserError(f"The archive {archive} is unsafe: {reason}; nothing was unpacked.")
    return str(path)
