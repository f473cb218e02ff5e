"""The interface of `score.py` to a task: keys that select what is scored, and the scores."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.store.atomic import stored_path
from variations.store.identity import flatten
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError


@dataclass
class ToScore:
    """Either `run` (and `set`), or `hyp` and `ref`; a task uses the keys that apply to it."""

    kind: str | None = None
    """The task of the files, also typed as task=NAME; null: the run's task, else translation."""
    run: str | None = None
    """Folder of a run or of its record."""
    set: str = "test"
    """Which of the run's stored sets: test, dev, …"""
    hyp: str | None = None
    """File of detokenised hypotheses, one per line (plain or .gz)."""
    ref: str | None = None
    """File of references, one per line."""
    src: str | None = None
    """File of source sentences, to count lines copied from the source."""
    lang: str | None = None
    """Target language, for tokenisation; null: the run's, or the reference file's ending, or de."""
    prm: str | None = None
    """`task=parsing`: a parameter file of EVALB; null: COLLINS.prm."""


@dataclass(frozen=True)
class Scored:
    """Scores of files."""

    document: Mapping[str, Any]
    """The one JSON document of `format=json`."""
    show: Callable[[], None]
    """Prints them in readable form."""


def files(asked: ToScore) -> dict[str, Path]:
    """The paths of hypothesis, reference and, if there is one, source."""
    plain = {"hyp": asked.hyp, "ref": asked.ref, "src": asked.src}
    if asked.run is None:
        if asked.hyp is None or asked.ref is None:
            missing = " and ".join(f"{key}=FILE" for key in ("hyp", "ref") if plain[key] is None)
            raise UserError(f"Nothing to score: give run=FOLDER, or hyp=FILE ref=FILE (missing: {missing}).")
        if asked.set != "test":
            raise UserError(
                f"set={asked.set} is a set of a run: leave it out with hyp=FILE ref=FILE, or give run=FOLDER."
            )
        every = plain | {"prm": asked.prm}
        if special := [f"{key}={name}" for key, name in every.items() if name is not None and _is_special(name)]:
            wrong = "is not a regular file" if len(special) == 1 else "are not regular files"
            text = f"{' and '.join(special)} {wrong}"
            raise UserError(f"{text}: give a file of text, or what a command prints as <(COMMAND).")
        if absent := [f"{key}={name}" for key, name in every.items() if name is not None and _is_absent(name)]:
            do = "does" if len(absent) == 1 else "do"
            raise UserError(f"{' and '.join(absent)} {do} not exist: check the path{'s' if len(absent) > 1 else ''}.")
        named = {"hypothesis": asked.hyp, "reference": asked.ref, "source": asked.src}
        return {what: Path(name).expanduser() for what, name in named.items() if name is not None}
    if given := [key for key, value in plain.items() if value is not None]:
        raise UserError(f"Give either run=FOLDER or files, not both: leave out {', '.join(given)} or run.")
    folder = Path(asked.run).expanduser() / "hypotheses"
    paths = {"hypothesis": ".hyp", "reference": ".ref", "source": ".src"}
    found = {what: stored_path(folder / f"{asked.set}{ending}") for what, ending in paths.items()}
    if found["hypothesis"] is None or found["reference"] is None:
        raise DataError(_nothing_stored(asked, folder))
    return {what: path for what, path in found.items() if path is not None}


def _is_absent(name: str) -> bool:
    try:
        return not Path(name).expanduser().exists()
    except OSError:  # reading it tells why
        return False


def _is_special(name: str) -> bool:
    """Whether it is a pipe or a device, which may have no end; what the shell has opened for this command is not."""
    if re.fullmatch(r"/dev/(stdin|fd/\d+)|/proc/\w+/fd/\d+", name):
        return False
    path = Path(name).expanduser()
    return path.exists() and not (path.is_file() or path.is_dir())


def _nothing_stored(asked: ToScore, folder: Path) -> str:
    if not folder.parent.is_dir():
        return f"The run folder {asked.run} does not exist: give the folder that is the last line printed by training."
    if (folder / f"{asked.set}.ref.sha256").is_file():
        return (
            f"The record {asked.run} lacks the references, which may not be published; its scores are in result.json. "
            "If they are yours, record.py texts=true keeps them."
        )
    sets = sorted({path.name.partition(".hyp")[0] for path in folder.glob("*.hyp*")})
    if asked.set in sets:
        lost = folder / f"{asked.set}.ref"
        return f"The run {asked.run} has lost the references of set={asked.set}: restore {lost}."
    if sets:
        return f"The run {asked.run} has no hypotheses of set={asked.set}; valid choices: {', '.join(sets)}."
    if RunFolder(folder.parent).state() == "pruned":
        return f"The run {asked.run} was pruned by its search before it translated anything: score another trial."
    return f"The run {asked.run} has no hypotheses yet: let it finish, or give the folder that includes the seed."


def of_run(asked: ToScore, key: str) -> str | None:
    """The value of a key in the run's frozen configuration; None if there is none."""
    folder = RunFolder(Path(asked.run or "").expanduser())
    found = flatten(folder.config()).get(key) if asked.run is not None and folder.exists() else None
    return str(found) if found else None
