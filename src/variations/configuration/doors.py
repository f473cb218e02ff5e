"""Extension points for other packages: folders of configuration files in addition to our `conf/`.

An installed package with an entry point in one of GROUPS adds the groups, rows and sweeps of its folder `conf`, which
has the same layout as ours (`conf/model/`, `conf/variation/TABLE/`, `conf/sweep/`, …):

    [project.entry-points."variations.models"]
    mine = "my_package.model:MyModel"

Other folders are named on the command line: `hydra.searchpath=[file://DIR,pkg://PACKAGE.conf]`.
Ours come first, so that no file of ours is replaced. A file that another of its name would hide is refused: of a folder
that is named, always; of an installed package, where a command reads that name.
"""

import importlib.util
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from variations.configuration.places import CONF, IN_CHECKOUT, SWEEPS
from variations.system.errors import ConfigError

GROUPS = ("variations.models", "variations.tasks")
SEARCHPATH = "hydra.searchpath="

_given: list[Path] = []
"""The folder of `--config-dir`, if there is one."""
_typed: list[Path] = []


def folders() -> list[Path]:
    """Folders of configuration files; Hydra takes a file from the first that has it.

    First ours, then that of `--config-dir`, then those of the search path, then those installed.
    """
    return list(dict.fromkeys([CONF, *_given, *_typed, *installed()]))


def file_of(option: str) -> Path | None:
    """The file of an option such as `sweep/demo`; None if no folder has it."""
    files = (folder / f"{option}.yaml" for folder in folders())
    return next((path for path in files if path.is_file()), None)


def shown(path: Path) -> str:
    """A configuration file as the user would type it, in this project's own folders `conf/…` or `sweeps/…`."""
    if IN_CHECKOUT and path.parent == SWEEPS:
        return f"sweeps/{path.name}"
    if path.is_relative_to(CONF):
        return f"conf/{path.relative_to(CONF)}"
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def shown_option(option: str) -> str:
    """The file of an option such as `variation/heads/base`, as the user would type it."""
    return shown(file_of(option) or CONF / f"{option}.yaml")


def rows_folder(table: str, sweep: str) -> str:
    """The folder of a table's rows as the user would type it; where it belongs, beside the sweep's file, if missing."""
    group = f"variation/{table}"
    there = next((folder for folder in folders() if (folder / group).is_dir()), None)
    if there is None:
        file = file_of(f"sweep/{sweep}")
        there = CONF if file is None else file.parent.parent
    return shown(there / group)


@cache
def installed() -> tuple[Path, ...]:
    """The folders `conf` of installed packages with an entry point in one of GROUPS."""
    points = sorted(
        {point.module.partition(".")[0] for group in GROUPS for point in metadata.entry_points(group=group)}
    )
    found = (package_folder(name) for name in points)
    return tuple(folder / "conf" for folder in found if folder is not None and (folder / "conf").is_dir())


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, found without importing it; None if there is no such package."""
    parts = name.split(".")
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ValueError, ImportError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).joinpath(*parts[1:])


def open_given(folder: Path | str | None) -> None:
    """Register the folder of `--config-dir`; None: there is none.

    Raises:
        ConfigError: It has a file of the same name as one of ours, which would be used in its place.
    """
    _given[:] = [] if folder is None else [Path(folder)]
    if faults := [fault for place in _given for fault in _hidden("--config-dir", place, [CONF])]:
        raise ConfigError(faults)


def _hidden(named_by: str, folder: Path, earlier: Iterable[Path]) -> list[str]:
    """A fault for each file of a folder in whose place Hydra would use that of an earlier folder."""
    places = list(earlier)
    names = (str(theirs.relative_to(folder)) for theirs in sorted(folder.rglob("*.yaml")))
    return [fault for name in names if (fault := _fault(named_by, folder / name, name, places))]


def _fault(named_by: str, theirs: Path, name: str, earlier: Sequence[Path], remedy: str = "rename it") -> str | None:
    """Why a file would not be used, if an earlier folder has another of its name."""
    used = next((place / name for place in earlier if (place / name).is_file()), None)
    if used is None or used.read_bytes() == theirs.read_bytes():
        return None
    return f"{named_by}: {theirs} would not be used, because {shown(used)} has the same name: {remedy}."


def refuse_hidden(*options: str) -> None:
    """Refuse options such as `size/mine` of which an installed package has a file that would not be used.

    Other files of installed packages are not looked at: a command fails only by those whose names it reads. A file
    outside of a group is the primary configuration of some other program.

    Raises:
        ConfigError: An earlier folder has another file of one of these names.
    """
    if not installed():
        return
    places = folders()
    remedy = "rename one of them, or uninstall the package"
    found = [
        _fault(f"installed package {folder.parent.name}", folder / name, name, places[:at], remedy)
        for name in (f"{option}.yaml" for option in dict.fromkeys(options) if "/" in option)
        for at, folder in enumerate(places)
        if folder in installed() and (folder / name).is_file()
    ]
    if faults := [fault for fault in found if fault]:
        raise ConfigError(faults)


def given() -> Path | None:
    """The folder of `--config-dir`; None if there is none."""
    return next(iter(_given), None)


def open_typed(lines: Iterable[str]) -> list[str]:
    """Register the folders of `hydra.searchpath=[…]`, and return the other overrides.

    Raises:
        ConfigError: There is no such folder or package, or it has a file of the same name as another, which would be
            used in its place.
    """
    rest: list[str] = []
    problems: list[str] = []
    for line in lines:
        if not line.startswith(SEARCHPATH):
            rest.append(line)
            continue
        for word in line.removeprefix(SEARCHPATH).strip("[]").split(","):
            place = word.strip().strip("'\"")
            scheme, _, name = place.rpartition("://")
            folder = package_folder(name) if scheme == "pkg" else Path(name).expanduser().absolute()
            if folder is not None and folder.is_dir():
                earlier = [CONF, *_given, *_typed]
                problems += [] if folder in earlier else _hidden("hydra.searchpath", folder, earlier)
                _typed.append(folder)
            else:
                kind = "package with such a folder" if scheme == "pkg" else "folder"
                problems.append(f"hydra.searchpath: there is no {kind}: {place}.")
    if problems:
        raise ConfigError(problems)
    return rest


def typed_again() -> list[str]:
    """The words that name the same folders in another command; empty if none was typed."""
    named = ",".join(f"file://{folder}" for folder in dict.fromkeys(_typed))
    return [*([f"{SEARCHPATH}[{named}]"] if _typed else []), *(f"--config-dir={folder}" for folder in _given)]


def files(pattern: str, conf: Path = CONF) -> list[Path]:
    """Matching files in `conf`, or if `conf` is ours in all folders; the first of each name counts."""
    found: dict[str, Path] = {}
    for folder in folders() if conf == CONF else [conf]:
        for path in sorted(folder.glob(pattern)):
            found.setdefault(path.relative_to(folder).as_posix(), path)
    return list(found.values())
