"""What `score.py` asks a task for: keys that say what is scored, and what comes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variations.store.identity import flatten
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError


@dataclass
class ToScore:
    """Either `run` (and `set`), or `hyp` and `ref`; a task heeds what it has."""

    kind: str | None = None
    """What the files hold, also typed as task=NAME; null: what the run says, else translation."""
    run: str | None = None
    """Folder of a run."""
    set: str = "test"
    """Which of the run's stored sets: test, dev, …"""
    hyp: str | None = None
    """File of detokenised hypotheses, one a line (plain or .gz)."""
    ref: str | None = None
    """File of references, one a line."""
    src: str | None = None
    """File of source sentences; with it, lines copied from the source are counted."""
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
    """Prints them for people."""


def files(asked: ToScore) -> dict[str, Path]:
    """Paths by what they hold: hypothesis, reference and, where there is one, source."""
    plain = {"hyp": asked.hyp, "ref": asked.ref, "src": asked.src}
    if asked.run is None:
        if asked.hyp is None or asked.ref is None:
            missing = " and ".join(f"{key}=FILE" for key in ("hyp", "ref") if plain[key] is None)
            raise UserError(f"Nothing to score: give run=FOLDER, or hyp=FILE ref=FILE (missing: {missing}).")
        if asked.set != "test":
            raise UserError(
                f"set={asked.set} is a set of a run: leave it out with hyp=FILE ref=FILE, or give run=FOLDER."
            )
        named = {"hypothesis": asked.hyp, "reference": asked.ref, "source": asked.src}
        return {what: Path(name).expanduser() for what, name in named.items() if name is not None}
    if given := [key for key, value in plain.items() if value is not None]:
        raise UserError(f"Give either run=FOLDER or files, not both: leave out {', '.join(given)} or run.")
    folder = Path(asked.run).expanduser() / "hypotheses"
    paths = {"hypothesis": ".hyp", "reference": ".ref", "source": ".src"}
    found = {what: folder / f"{asked.set}{ending}" for what, ending in paths.items()}
    if not found["hypothesis"].is_file():
        raise DataError(_nothing_stored(asked, folder))
    return {what: path for what, path in found.items() if what != "source" or path.is_file()}


def _nothing_stored(asked: ToScore, folder: Path) -> str:
    if not folder.parent.is_dir():
        return f"The run folder {asked.run} does not exist: give the folder that training printed last."
    sets = ", ".join(sorted(path.stem for path in folder.glob("*.hyp")))
    if sets:
        return f"The run {asked.run} has no hypotheses of set={asked.set}; valid choices: {sets}."
    return f"The run {asked.run} has no hypotheses yet: let it finish, or give its folder with its seed."


def of_run(asked: ToScore, key: str) -> str | None:
    """A key of the run's frozen configuration, where there is one."""
    folder = RunFolder(Path(asked.run or "").expanduser())
    found = flatten(folder.config()).get(key) if asked.run is not None and folder.exists() else None
    return str(found) if found else None
