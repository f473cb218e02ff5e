"""The inputs of a run: the fingerprint of each is stored in the run's folder and compared before the run continues.

A task names its inputs (texts, a vocabulary, prepared files) with their SHA-256. This module stores and compares the
fingerprints, whatever the inputs are.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from variations.configuration.tasks import task_of
from variations.store.atomic import read_json, read_object, replaced, write_json
from variations.store.checksums import file_sha256
from variations.store.identity import flatten, is_incidental
from variations.store.run_folder import RunFolder
from variations.system.errors import NotContinuedError, UserError, read_fault

FILE = "inputs.json"
LOST = "environment.json"
"""In place of the inputs of a run that has lost the files with their names."""


def remembered(folder: RunFolder) -> dict[str, str]:
    """Name and SHA-256 of each input of the run; empty if none was stored.

    Without inputs.json, those in environment.json, or else those of its unpacked texts in its data card.

    Raises:
        UserError: the file is damaged.
    """
    path = folder.path / FILE
    try:
        stored = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return recorded(folder) or _by_card(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"Cannot read {path}: {read_fault(error, path)}.") from error
    if not isinstance(stored, dict):
        raise UserError(f"Cannot read {path}: it does not contain a JSON object.")
    return {str(name): str(value) for name, value in stored.items()}


def recorded(folder: RunFolder) -> dict[str, str]:
    """Name and SHA-256 of each input by environment.json, which records have too; empty if it cannot be read."""
    return _named(read_object(folder.path / "environment.json"))


def made_from(folder: RunFolder) -> dict[str, str]:
    """As `recorded`, or by inputs.json if environment.json is lost or damaged; only LOST if both are."""
    if (environment := read_object(folder.path / "environment.json")) is not None:
        return _named(environment)
    kept = read_object(folder.path / FILE)
    return {LOST: "lost"} if kept is None else {str(name): str(value) for name, value in kept.items()}


def _named(environment: Mapping[str, Any] | None) -> dict[str, str]:
    found = (environment or {}).get("data")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def of_text(name: str) -> str:
    """The name under which a text is an input: names that end in .py are those of modules (`own_code`)."""
    return f"{name} (text)" if name.endswith(".py") else name


def _by_card(folder: RunFolder) -> dict[str, str]:
    try:
        sets = read_json(folder.path / "data_card.json")["sets"]
        sides = [side for found in sets.values() for side in found["files"].values()]
        return {of_text(side["name"]): side["sha256"] for side in sides if not side["name"].endswith(".gz")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def changed(folder: RunFolder, now: Mapping[str, str]) -> list[str]:
    """Return the names of inputs that have changed since the run; names known on one side only do not count."""
    before = remembered(folder)
    return sorted(name for name in before.keys() & now.keys() if before[name] != now[name])


def other_texts(
    here: Mapping[str, str], there: Mapping[str, str], config: Mapping[str, Any], other: Mapping[str, Any]
) -> list[str]:
    """Names of the texts, vocabularies and ids that differ between two runs and that their configurations make equal.

    With other keys of `data`, these are the texts, if the keys are those of `Task.same_texts`, otherwise none. Names
    that only one run has do not count. If one of the runs has lost its names, the answer is LOST.
    """
    names = {name for name in here.keys() & there.keys() if here[name] != there[name] and not name.endswith(".py")}
    lost = LOST in (*here, *there)
    if not names and not lost:
        return []
    ours, theirs = _data(config), _data(other)
    changed = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    if changed:
        task = task_of(config)
        if not changed <= {*task.same_texts(config), *task.same_texts(other)}:
            return []
        names -= {*task.made_inputs}
    return [LOST] if lost else sorted(names)


def other_modules(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Names of the modules of own classes of which two runs used different versions."""
    return sorted(name for name in here.keys() & there.keys() if here[name] != there[name] and name.endswith(".py"))


def _data(config: Mapping[str, Any]) -> dict[str, Any]:
    flat = flatten({"data": config.get("data") or {}})
    return {key: value for key, value in flat.items() if not is_incidental(key, config)}


def refuse_changed(folder: RunFolder, now: Mapping[str, str]) -> None:
    """Check that a run continues with the same inputs; one that has nothing to continue may use any.

    Raises:
        NotContinuedError: some have changed; the message names them.
    """
    if not folder.has_trained():
        return
    if found := changed(folder, now):
        raise NotContinuedError(
            f"{folder.path} was started with other inputs: {', '.join(found)} {'have' if len(found) > 1 else 'has'} "
            "changed since. Restore the former inputs to continue the run, or start again with the present ones "
            "under another name (name=…, a sweep: sweep.name=…) or as a new attempt beside it (force=true)."
        )


def remember(folder: RunFolder, now: Mapping[str, str]) -> None:
    """Store the fingerprints of a run's inputs, all at once; a run that has trained keeps its earlier ones as well."""
    before = remembered(folder) if folder.has_trained() else {}
    if before != {**before, **now}:
        write_json(folder.path / FILE, {**before, **now})


def keep(folder: RunFolder, source: Path, name: str | None = None) -> dict[str, str]:
    """Copy a file that the run will need again into its folder, where it must not change.

    Args:
        folder: The run.
        source: The file.
        name: Of the copy; the file's own by default.

    Returns:
        Its name and SHA-256, to be remembered.

    Raises:
        NotContinuedError: the run was trained with another file of that name.
    """
    own, sha256 = folder.path / (name or source.name), file_sha256(source)
    if own.exists() and folder.has_trained():
        if file_sha256(own) != sha256:
            raise NotContinuedError(
                f"{own} does not match the present inputs: the run was started with others, or the file is damaged. "
                "Restore the former inputs, or start again under another name (name=…) or as a new attempt "
                "(force=true)."
            )
    elif not own.exists() or file_sha256(own) != sha256:
        with replaced(own) as temporary:
            shutil.copyfile(source, temporary)
    return {own.name: sha256}


def missing(folder: RunFolder, name: str) -> UserError:
    """The error for a file that a run writes when it starts to train, and that is not there."""
    if folder.exists() and folder.result():
        why = "it was deleted, or this is a record, which has neither vocabulary nor weights: train the run to get them"
    else:
        why = "the run has not started training"
    return UserError(f"{folder.path} has no {name}: {why}.")


def kept(folder: RunFolder, name: str) -> Path:
    """Return the path of a file that `keep` copied into the run's folder.

    Raises:
        UserError: it is missing or has changed.
    """
    path = folder.path / name
    if not path.exists():
        raise missing(folder, name)
    known = remembered(folder).get(name)
    if known is not None and file_sha256(path) != known:
        raise UserError(
            f"{path} is not the file that the run was trained with (its SHA-256 differs): restore that one, or train "
            "the run again as a new attempt (force=true)."
        )
    return path
