"""Fencing: a process that has lost its lease can no longer write in the run's folder.

A process that was paused while its lease expired does not notice it when it resumes, and checking the lease before
each write would leave a race. So every file is first written into a folder that belongs to the lease,
`.lease-<n>-<token>` beside its destination, and renamed from there. A process that takes the lease over renames those
folders away before it reads anything; from then on the file system refuses the former holder's renames and new
temporary files. Files are deleted by renaming them into that folder first. Lines of metrics go to a file that was
opened in this way (`Measurements.truncate`) and that the next holder replaces by another one. The token, which is
random, tells a lease from one of the same number in a folder that was deleted and made again.
"""

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from variations.system.errors import RunFailedError, TakenOverError

PLACES = ("", "hypotheses", "checkpoints")
"""Folders of a run in which files are replaced."""
PREFIX = ".lease-"
FENCE = re.compile(r"\.lease-(\d+)(?:-[0-9a-f]+)?")
_own: dict[str, Path] = {}
"""Real path of a folder, and this process's fence in it."""


def build(folder: Path, lease: str) -> None:
    """Remove the fences of earlier leases of a run, so that their holders can no longer write, and make our own.

    Args:
        folder: The run's folder.
        lease: Number and token of our lease, as in `7-1f0e`.

    Raises:
        OSError: the folder cannot be written; our own fence is removed, if the disk still allows it.
    """
    try:
        _build(folder, lease)
    except OSError:
        leave(folder, lease)
        raise
    join(folder, lease)


def _build(folder: Path, lease: str) -> None:
    number = int(lease.partition("-")[0])
    if (folder / "config.yaml").is_file():  # a run; other folders have leases too
        for name in PLACES:
            (folder / name).mkdir(exist_ok=True)
    for place in _places(folder):
        for former in place.glob(f"{PREFIX}*"):
            # One with our own number belongs to a lease whose file was lost in a power cut: numbers are given once.
            given = FENCE.fullmatch(former.name)
            if given is None or int(given[1]) > number:  # otherwise a lease's unfinished file, `.lease-3.json.…`
                continue
            # From here on its holder cannot write.
            former.replace(place / f".former{former.name}-{secrets.token_hex(4)}")
        for former in place.glob(f".former{PREFIX}*"):
            shutil.rmtree(former, ignore_errors=True)
        (place / f"{PREFIX}{lease}").mkdir()


def join(folder: Path, lease: str) -> None:
    """Write in a run's folder under a lease held by the parent process."""
    for place in _places(folder):
        _own[os.path.realpath(place)] = place / f"{PREFIX}{lease}"


def leave(folder: Path, lease: str) -> None:
    """Remove our own fences when the lease is released, also those of a folder that was deleted meanwhile."""
    fences = [folder / name / f"{PREFIX}{lease}" for name in PLACES]
    for place in [place for place, fence in _own.items() if fence in fences]:
        del _own[place]
    for fence in fences:
        shutil.rmtree(fence, ignore_errors=True)


def scratch(path: Path) -> Path:
    """Return a new name for a file that will be renamed to `path`: inside the fence if there is one, else beside it."""
    name = f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    fence = _own.get(os.path.realpath(path.parent))
    return path.with_name(name) if fence is None else fence / name


def remove(path: Path) -> None:
    """Delete a file if it exists and this process may write here."""
    with refused(path):
        if os.path.realpath(path.parent) not in _own:
            path.unlink(missing_ok=True)
        elif path.exists():
            path.replace(aside := scratch(path))
            aside.unlink()


def check(folder: Path) -> bool:
    """Return whether this process writes in `folder` under a lease.

    Raises:
        TakenOverError: it did, and another process has taken the lease over.
        RunFailedError: the folder was deleted meanwhile.
    """
    fence = _own.get(os.path.realpath(folder))
    if fence is None or fence.is_dir():
        return fence is not None
    if not folder.is_dir():
        raise RunFailedError(f"{folder} was deleted while the run was writing to it.")
    raise TakenOverError(
        f"{folder} was taken over by another process, because this one did not renew its lease in time. This process "
        "has written nothing since."
    )


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Explain why a file behind the fence of `path` cannot be made or renamed.

    Raises:
        TakenOverError: another process has taken the lease.
        RunFailedError: the run's folder was deleted.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR):
            check(path.parent)
        raise


def _places(folder: Path) -> list[Path]:
    return [place for place in (folder / name for name in PLACES) if place.is_dir()]
