"""The run store: the folders below one root, found, read and named."""

import os
import re
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import TypeVar

from variations.configuration.compose import to_dict
from variations.configuration.foreign import filled
from variations.configuration.places import SINGLE
from variations.configuration.schema import RunConfig
from variations.store import lease
from variations.store.checksums import is_sound
from variations.store.identity import config_hash
from variations.store.inputs import kept, remembered
from variations.store.own_code import refuse_to_continue
from variations.store.run_folder import RunFolder
from variations.store.status import Status
from variations.system.errors import UserError

__all__ = [
    "RunFolder",
    "Status",
    "attempts",
    "config_hash",
    "latest",
    "next_attempt",
    "run_home",
    "to_read",
    "workplace",
]


T = TypeVar("T")


def run_home(
    root: Path | str, *, seed: int, sweep: str | None = None, row: str | None = None, name: str | None = None
) -> Path:
    """`<root>/<sweep>/<row>/seed<k>` of a row of a sweep, `<root>/single/<name>/seed<k>` of a single run.

    Raises:
        UserError: a part is missing or could leave the run store (a slash, a leading dot).
    """
    parts = (sweep, row) if sweep else (SINGLE, name)
    for part in parts:
        if not part or part.startswith(".") or re.search(r"[/\\\0]", part):
            raise UserError(f"{part!r} cannot name a run: give a name without slashes that does not start with a dot.")
    return Path(root, *(str(part) for part in parts), f"seed{seed}")


MOST_ATTEMPTS = 100
"""Attempts that are looked for in a folder that may not be listed."""


def attempts(path: Path | str) -> list[RunFolder]:
    """The run at `path` (seed<k>) and its further attempts, oldest first.

    If the folder of the row may not be entered, the run is assumed to exist, and a reader of it hears the reason. If
    it may be entered but not listed, the first MOST_ATTEMPTS are looked for by their names.
    """
    path = Path(path)
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - a row may have hundreds of seeds, and each is looked for
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError:
        if not os.access(path.parent, os.X_OK):
            return [RunFolder(path)]
        names = [path.name, *(f"{path.name}-attempt{number}" for number in range(2, MOST_ATTEMPTS + 1))]
    own = path.name
    family = re.compile(re.escape(own) + r"(-attempt\d+)?")
    found = [RunFolder(path.with_name(name)) for name in names if name.startswith(own) and family.fullmatch(name)]
    return sorted((folder for folder in found if folder.exists()), key=lambda folder: folder.attempt)


def next_attempt(path: Path | str) -> Path:
    """Home of a new attempt: `path` if it is free, else seed<k>-attempt2, and so on. Makes no folder."""
    path = Path(path)
    done = attempts(path)
    return path.with_name(f"{path.name}-attempt{done[-1].attempt + 1}") if done else path


def workplace(path: Path | str, config: RunConfig | None = None) -> Path:
    """Where the run of `path` (seed<k>) is to be executed: in the latest attempt, or if `config.force`, in a new one.

    With `force`, the newest unfinished attempt that `config` can continue is taken, if no newer one is finished, which
    would be read in its place. Makes no folder.

    Raises:
        UserError: With `force`, a quick check (`debug`) would hide a run that is finished, or keep it from continuing.
    """
    if config is None or not config.force:
        found = latest(path)
        return found.path if found is not None else Path(path)
    family = attempts(path)
    if config.debug.name and any(
        (other.finished() or other.has_checkpoint()) and not _is_trial(other) for other in family
    ):
        raise UserError(
            f"{path} has a run that is finished or can be continued, and tables would show the quick check "
            f"(debug={config.debug.name}) in its place: give that another name (name=…, a sweep: sweep.name=…)."
        )
    for folder in reversed(family):
        if _continues(folder, config):
            return folder.path
        if _finished(folder):
            break
    return next_attempt(path)


def _is_trial(folder: RunFolder) -> bool:
    return bool((folder.config().get("debug") or {}).get("name"))


def _continues(folder: RunFolder, config: RunConfig) -> bool:
    """Whether an attempt is unfinished and `config` can continue it: with its keys, inputs, checkpoints and files.

    Not if it was found only after its start that it cannot: inputs of tasks of other packages are known then.
    """
    try:
        status = folder.status()
        folder.refuse_change(filled(to_dict(config)), certain=lease.read(folder.path) is None)
        refuse_to_continue(config, folder)
        folder.measurements.read()
        for name in remembered(folder):
            if (folder.path / name).is_file():
                kept(folder, name)
    except UserError:  # each says that force=true starts a new attempt
        return False
    checkpoints = [*folder.checkpoints.glob("step*.ckpt")]
    if status is not None and status.extra.get("refused"):
        return False
    return not folder.finished() and (not checkpoints or any(map(is_sound, checkpoints)))


def latest(path: Path | str) -> RunFolder | None:
    """The attempt to read: the last finished one, else the last one; None if the run never started.

    A finished attempt whose files are damaged does not give way to an older one.
    """
    family = attempts(path)
    return to_read(family, list(map(_finished, family)))


def to_read(family: Sequence[T], finished: Sequence[bool]) -> T | None:
    """The attempt to read of all, oldest first; `finished`: whether each is."""
    newest = list(compress(family, finished)) or family
    return newest[-1] if newest else None


def _finished(folder: RunFolder) -> bool:
    """Whether an attempt has ever been finished, even if its result or its status is lost: it is tested again."""
    try:
        status = folder.status()
    except UserError:
        return True
    if status is None:
        return (folder.path / "result.json").is_file()
    return status.state == "finished" or bool(status.extra.get("ended"))
