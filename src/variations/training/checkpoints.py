"""Checkpoints that survive a kill at any moment (files of a run's `checkpoints/`).

    step<n>.ckpt      everything needed to continue, bit for bit; the two newest are kept
    weights<n>.pt     only weights, for averaging at test time
    best<n>.pt        weights with the lowest dev loss so far, also as of the kept checkpoints

Each file is written under a temporary name, flushed to the disk, and renamed; its SHA-256 is in `<file>.sha256`,
written first. A file whose sum does not match is skipped with a warning, and the one before it is used. A name is
written only once: a run that goes back to an older checkpoint first deletes newer files.
"""

import io
import logging
import pickle
import re
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import CheckpointIO
from torch import Tensor

from variations.store import fence
from variations.store.atomic import as_typed, flush, replaced, write_text
from variations.store.checksums import file_sha256, is_sound, sidecar, sweep
from variations.store.conflicts import history
from variations.store.identity import covered, identifying, respelled, with_effect
from variations.system.errors import NotContinuedError, RunFailedError, UserError

log = logging.getLogger(__name__)

KEEP = 2
FULL, WEIGHTS, BEST = "step", "weights", "best"


def save(path: Path, content: Any) -> None:
    """Write `content` so that either the complete file appears, with its sum, or nothing.

    Raises:
        RunFailedError: `content` could not be read again, or the disk is full or cannot be written to; existing files
            are untouched.
    """
    refuse_unreadable(content)
    try:
        with replaced(path) as temporary:
            with temporary.open("wb") as file:
                torch.save(content, file)
            flush(temporary)  # before its checksum says that it exists
            write_text(sidecar(path), f"{file_sha256(temporary)}  {path.name}\n")
    except (OSError, RuntimeError) as error:
        if not path.exists():
            sidecar(path).unlink(missing_ok=True)
        fault = error if isinstance(error, OSError) else error.__context__  # torch turns it into a RuntimeError
        if not isinstance(fault, OSError):
            raise
        raise RunFailedError(
            f"cannot write the checkpoint {path}: {fault}. Earlier checkpoints are untouched: free some space and "
            "run the same command again to continue."
        ) from error


def refuse_unreadable(content: Any) -> None:
    """Check that `load` would accept the content of a checkpoint: tensors, Python's numbers, texts and containers.

    Raises:
        RunFailedError: It would not, as for a state of NumPy's numbers. Names the callback or other part.
    """
    if (fault := _unreadable(content)) is None:
        return
    parts = content.items() if isinstance(content, Mapping) else ()
    inner = [(name, part) for name, part in parts if _unreadable(part)]
    if len(inner) == 1 and inner[0][0] == "callbacks":  # by the name of each callback's class
        inner = [(f"callback {name}", part) for name, part in inner[0][1].items() if _unreadable(part)]
    whose = ", ".join(str(name) for name, _ in inner) or "the checkpoint"
    raise RunFailedError(
        f"no checkpoint can be written: the state of {whose} contains {fault}, which could not be read again. "
        "A state may hold tensors, Python's numbers and texts, lists and dictionaries: convert it in `state_dict`, "
        "NumPy's numbers by float(…), its arrays by torch.from_numpy(…)."
    )


def _unreadable(content: Any) -> str | None:
    """The type for which torch refuses to read `content`, stored without its tensors; None if it does not."""
    file = io.BytesIO()
    try:
        torch.save(_without_tensors(content), file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except (pickle.PicklingError, pickle.UnpicklingError, AttributeError, TypeError, RuntimeError) as error:
        named = re.search(r"(?:GLOBAL|class|Can't pickle|cannot pickle) ['<]?([\w. <>]+?)[>']? ", f"{error} ")
        return named[1] if named else type(error).__name__
    return None


def _without_tensors(value: Any) -> Any:
    if isinstance(value, Tensor):
        return None
    if type(value) in (dict, OrderedDict, defaultdict):
        return {key: _without_tensors(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return [_without_tensors(part) for part in value]
    return value


class SafeIO(CheckpointIO):
    """Lightning's interface for writing and reading checkpoints."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """See `save`."""
        save(Path(path), checkpoint)

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        """See `load`. The number of updates is stored elsewhere, since we apply them ourselves."""
        content: dict[str, Any] = load(Path(path))
        loop = content["loops"]["fit_loop"]
        ours = loop["epoch_loop.manual_optimization.optim_step_progress"]
        theirs = loop["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]
        if ours["total"]["completed"] == 0:
            loop["epoch_loop.manual_optimization.optim_step_progress"] = theirs
        return content

    def remove_checkpoint(self, path: Any) -> None:
        """Delete a checkpoint and its sum."""
        _remove(Path(path))


def load(path: Path) -> Any:
    """The contents of a checkpoint, on the CPU; only tensors and plain containers are accepted.

    Raises:
        UserError: the file is missing, damaged, or holds something else.
    """
    if not is_sound(path):
        raise UserError(
            f"the checkpoint {path} is missing or damaged (its SHA-256 does not match {sidecar(path).name})."
        )
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"the checkpoint {path} cannot be used: it holds more than tensors, numbers, texts and containers of these."
        ) from error


def refuse_foreign(path: Path, written: Mapping[str, Any] | None, config: Mapping[str, Any]) -> None:
    """Check that a checkpoint was written by a run of this configuration.

    Args:
        path: The file, for the message.
        written: `identifying` keys of the run that wrote it; None: not known, as in files of older versions.
        config: The configuration of the run, whose `resume.changed` names the keys that were changed on the way.

    Raises:
        NotContinuedError: It was written by another run.
    """
    if written is None:
        return
    written = respelled(dict(written))
    now, allowed = identifying(config), [entry.split(" ")[0] for entry in history(config)]
    allowed += (config.get("resume") or {}).get("allow") or []
    differing = {
        key: f"{key} {as_typed(written[key])} there, {as_typed(now[key])} here"
        for key in written.keys() & now.keys()
        if written[key] != now[key] and not covered(key, allowed)
    }
    if differing := with_effect(differing, written, now):
        raise NotContinuedError(
            f"{path} is the checkpoint of another run ({'; '.join(sorted(differing.values()))}): restore this run's "
            "own, or train it again as a new attempt (force=true)."
        )


def full(folder: Path) -> list[tuple[int, Path]]:
    """Full checkpoints, by step, oldest first."""
    return _numbered(folder, FULL, ".ckpt")


def weights(folder: Path) -> list[tuple[int, Path]]:
    """Weights for averaging, by step, oldest first."""
    return _numbered(folder, WEIGHTS, ".pt")


def best(folder: Path) -> list[tuple[int, Path]]:
    """Weights with the lowest dev loss so far, by step; the last one is the best."""
    return _numbered(folder, BEST, ".pt")


def newest(folder: Path) -> Path | None:
    """The newest intact full checkpoint; None if there is none yet. Damaged ones are reported in a warning.

    Raises:
        RunFailedError: there are checkpoints, but all of them are damaged.
    """
    found, damaged = full(folder), list[Path]()
    for _, path in reversed(found):
        if is_sound(path):
            for other in damaged:
                log.warning(
                    "The checkpoint %s is damaged (its checksum does not match or is missing); %s is used instead.",
                    other,
                    path.name,
                )
            return path
        damaged.append(path)
    if found:
        raise RunFailedError(
            f"all checkpoints in {folder} are damaged (their checksums do not match or are missing), so the run cannot "
            "be continued: restore one of them, or train it again as a new attempt (force=true)."
        )
    return None


def prune(folder: Path, *, planned: Collection[int]) -> None:
    """Delete what no continuation needs: older full checkpoints and best weights, weights not `planned` for averaging.

    If a full checkpoint turns out to be damaged, the run goes back to the one before, so the best weights as of that
    checkpoint are kept too.
    """
    checkpoints = full(folder)
    oldest = checkpoints[-KEEP:][0][0] if checkpoints else 0
    bests = best(folder)
    former = [path for step, path in bests if step <= oldest]
    unplanned = [path for step, path in weights(folder) if step not in planned]
    for path in [*(path for _, path in checkpoints[:-KEEP]), *unplanned, *former[:-1]]:
        _remove(path)
    sweep(folder)


def drop_after(folder: Path, step: int) -> None:
    """Delete checkpoints after `step`: a run that continues from there writes its own."""
    for number, path in [*full(folder), *weights(folder), *best(folder)]:
        if number > step:
            _remove(path)


def average(paths: Iterable[Path], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Arithmetic mean of the weights in several files, computed in float64 (Vaswani et al. 2017, section 6.1).

    Raises:
        UserError: A file is missing or damaged, or was written by a run of another configuration than `config`.
    """
    total: dict[str, Tensor] = {}
    count, first = 0, dict[str, Tensor]()
    for path in paths:
        content = load(path)
        refuse_foreign(path, content.get("config"), config)
        state: dict[str, Tensor] = content["model"]
        first = first or state
        count += 1
        for name, value in state.items():
            wide = value.double() if value.is_floating_point() else value
            total[name] = total[name] + wide if name in total and value.is_floating_point() else wide
    return {
        name: (value / count).to(first[name].dtype) if first[name].is_floating_point() else value
        for name, value in total.items()
    }


def _numbered(folder: Path, stem: str, suffix: str) -> list[tuple[int, Path]]:
    pattern = re.compile(rf"{stem}(\d+){re.escape(suffix)}")
    found = [(pattern.fullmatch(path.name), path) for path in folder.glob(f"{stem}*{suffix}")]
    return sorted((int(match[1]), path) for match, path in found if match)


def _remove(path: Path) -> None:
    fence.remove(path)
    fence.remove(sidecar(path))
