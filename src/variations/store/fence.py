"""What a process may write in a run's folder ends with its lease, at once and for good.

A process that was paused past its lease knows nothing of it when it goes on: looking whether the lease is still its own
before each write leaves a moment in between. So every file is first written into a folder that belongs to the lease,
`.lease-<n>` beside the file's place, and renamed from there. Whoever takes the lease over renames those folders away
before it reads anything; from then on the system itself refuses the former holder's renames, and files in the making
have no place. Files are deleted by renaming them into that folder first. Lines of metrics go to a file that was opened
in this way (`RunFolder.truncate_metrics`), and that the next holder replaces by another one.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from variations.system.errors import RunFailedError, TakenOverError

PLACES = ("", "hypotheses", "checkpoints")
"""Folders of a run in which files are replaced."""
PREFIX = ".lease-"
_own: dict[str, Path] = {}
"""Real path of a folder, and this process's fence in it."""


def build(folder: Path, number: int) -> None:
    """Take away the fences of earlier leases of a run, and with them their holders' right to write; make our own.

    Raises:
        OSError: the folder cannot be written.
    """
    if (folder / "config.yaml").is_file():  # a run; others have leases too
        for name in PLACES:
            (folder / name).mkdir(exist_ok=True)
    for place in _places(folder):
        for former in place.glob(f"{PREFIX}*"):
            # One of our own number is of a lease whose file a power cut has taken: numbers are given once.
            given = former.name.removeprefix(PREFIX)
            if not given.isdigit() or int(given) > number:  # else a lease's file in the making: `.lease-3.json.…`
                continue
            former.replace(place / f".former{former.name}-{secrets.token_hex(4)}")  # this is what ends the right
        for former in place.glob(f".former{PREFIX}*"):
            shutil.rmtree(former, ignore_errors=True)
        (place / f"{PREFIX}{number}").mkdir()
    join(folder, number)


def join(folder: Path, number: int) -> None:
    """Write in a run's folder under a lease that the process holds which has started this one."""
    for place in _places(folder):
        _own[os.path.realpath(place)] = place / f"{PREFIX}{number}"


def leave(folder: Path, number: int) -> None:
    """Take our own fences away: the lease is given back."""
    for place in _places(folder):
        fence = place / f"{PREFIX}{number}"
        if _own.get(os.path.realpath(place)) == fence:
            del _own[os.path.realpath(place)]
        shutil.rmtree(fence, ignore_errors=True)


def scratch(path: Path) -> Path:
    """Return a new name for a file that will be renamed to `path`: within the fence if there is one, else beside it."""
    name = f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    fence = _own.get(os.path.realpath(path.parent))
    return path.with_name(name) if fence is None else fence / name


def remove(path: Path) -> None:
    """Delete a file, if it is there and this process may."""
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
        RunFailedError: the folder was deleted under it.
    """
    fence = _own.get(os.path.realpath(folder))
    if fence is None or fence.is_dir():
        return fence is not None
    if not folder.is_dir():
        raise RunFailedError(f"{folder} was deleted while the run was at it.")
    raise TakenOverError(
        f"{folder} was taken over by another process, as this one had been silent too long. It has written no more."
    )


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Say what it means when a file of the fence `path` lies behind cannot be made or renamed.

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
