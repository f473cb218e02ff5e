"""Finished runs of other sweeps that a sweep copies instead of training them again (`sweep.shares`)."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig
from variations.store import checksums, conflicts
from variations.store.atomic import make_folder, replaced
from variations.store.checksums import file_sha256, is_sound
from variations.store.contents import exchanged, result_fault
from variations.store.identity import changed_keys
from variations.store.inputs import FILE, remembered
from variations.store.ledger import RunFolder, latest
from variations.store.own_code import changed_inputs
from variations.store.status import Status
from variations.system.errors import UserError
from variations.tasks.base import TestedRun
from variations.tasks.intact import damage

_OWN = ("config*.yaml", "status.json", "result.json", "lease-*.json", "log.txt", ".*")
"""Files of the source that are not copied as they are, or not at all."""


def same_run(config: RunConfig, say: Callable[[str], object] = str) -> RunFolder | None:
    """Return the finished run of a sweep in `sweep.shares` that can be copied instead of training `config`, or None.

    It has the same configuration, seed and inputs. A run that has trained no network, whose configuration was changed
    during training, whose inputs are not known (as those of a record), or that is damaged does not count; `say` is
    told of damaged ones.
    """
    if not config.sweep.shares or config.force or config.variation.reuse:
        return None
    store, values = Path(config.runs).expanduser(), to_dict(config)
    for sweep in config.sweep.shares:
        for home in sorted((store / sweep).glob(f"*/seed{config.seed}")):
            folder = latest(home)
            try:
                if folder is None or not _alike(folder, values) or changed_inputs(config, folder):
                    continue
            except (OSError, UserError):  # nobody knows whether it is the same run
                continue
            if (fault := _fault(folder)) is None:
                return folder
            say(f"{name_of(folder)}, the same run, is not copied, because it is damaged: {fault}.")
    return None


def _alike(folder: RunFolder, config: Mapping[str, Any]) -> bool:
    """Whether a run is finished, has trained the network of `config` as a whole, and its inputs are known."""
    stored = folder.config()
    if changed_keys(stored, config) or conflicts.history(stored) or not folder.finished():
        return False
    if not (folder.path / FILE).is_file():  # a record: the names in its environment.json are no files beside it
        return False
    return not (folder.result() or {}).get("reused") and bool(remembered(folder))


def _fault(folder: RunFolder) -> str | None:
    """What is damaged in a finished run; None if it is whole."""
    try:
        stored, result = folder.config(), folder.result() or {}
        found = result_fault(result, stored.get("task")) or exchanged(stored, result)
        if found := found or damage(TestedRun(folder, stored, result)):
            return found
        own = ((folder.path / name, sha256) for name, sha256 in remembered(folder).items())
        changed = [path.name for path, sha256 in own if path.is_file() and file_sha256(path) != sha256]
        checkpoints = (path.with_suffix("") for path in folder.checkpoints.glob("*.sha256"))
        changed += [path.name for path in checkpoints if not is_sound(path)]
    except (OSError, UserError) as error:
        return str(error).rstrip(".")
    return f"{', '.join(changed)} changed" if changed else None


def name_of(folder: RunFolder) -> str:
    """Return `sweep/row/seed<k>` of a run's folder."""
    return "/".join(folder.path.parts[-3:])


def copy(source: RunFolder, folder: RunFolder) -> None:
    """Copy a finished run into the folder of another one, which has its own config.yaml and lease.

    Checkpoints are linked, so they take no further room. Measurements come first, then all that is tested, then the
    checkpoints of training, and the final status last: at any time, what a kill leaves behind can be copied again, or
    continued as a run, which then counts as a copy if training continues from such a checkpoint.

    Raises:
        UserError: The source is damaged.
        OSError: A file cannot be read or written.
    """
    status, result = source.status() or Status("finished"), source.result() or {}
    copied = result.get("copied") or name_of(source)
    folder.set_status("interrupted", f"while {copied}, the same run, was copied", copied=copied)
    files = [path for path in sorted(source.path.rglob("*")) if path.is_file() and not _is_own(path, source.path)]
    places = {path: folder.path / path.relative_to(source.path) for path in files}
    for parent in {folder.path, *(place.parent for place in places.values())}:
        make_folder(parent)
        checksums.sweep(parent)  # what a copy that was killed has left
    for path in sorted(files, key=lambda path: _order(path, source)):
        place = places[path]
        if place.exists() and place.samefile(path):  # by a copy that was killed; such a file is not renamed
            continue
        with replaced(place) as temporary:
            if source.checkpoints in path.parents:
                _link(path, temporary)
            else:
                shutil.copyfile(path, temporary)
    folder.write_result(
        {**result, "copied": copied, "row_file": (folder.config().get("variation") or {}).get("sha256")}
    )
    facts = {key: getattr(status, key) for key in ("started", "step", "epoch", "checkpoint")}
    folder.set_status("finished", **facts)


def begun(folder: RunFolder) -> bool:
    """Whether a run has begun by itself, so that it is not copied; a copy that was cut off has not.

    Raises:
        UserError: Its status.json is damaged.
    """
    status = folder.status()
    cut_off = status is not None and status.state == "interrupted" and status.copied and status.step is None
    return status is not None and not cut_off


def _order(path: Path, run: RunFolder) -> tuple[bool, bool, bool]:
    """Measurements first, checkpoints of training last, each after its sum."""
    of_training = run.checkpoints in path.parents and path.name.startswith("step")
    return path != run.measurements.path, of_training, path.suffix != ".sha256"


def _is_own(path: Path, root: Path) -> bool:
    inside = path.relative_to(root)
    top = len(inside.parts) == 1 and any(path.match(pattern) for pattern in _OWN)
    return top or any(part.startswith(".") for part in inside.parts)


def _link(path: Path, place: Path) -> None:
    """Give a file, which is only ever replaced as a whole, a second name, or copy it where that is not possible."""
    try:
        os.link(path, place)
    except OSError:
        shutil.copyfile(path, place)
