"""The split of a treebank's files into training, development and test sets."""

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from variations.system.errors import DataError

FILE = re.compile(r"wsj_(\d\d)(?:(\d\d)|-(\d\d))?\.mrg(?:\.gz)?", re.IGNORECASE)
"""File name in the Penn Treebank: section and number, a section alone, or the first and the last of several."""
STANDARD = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}
"""Sections of the Wall Street Journal in the standard split."""
TEST_FILES = range(2300, 2400)
"""Section 23, which has all hundred numbers."""
SAMPLE = {"train": range(1, 160), "dev": range(160, 180), "test": range(180, 200)}
"""File numbers of the free sample (sections 00 and 01, 199 files): our own split, in the order of the files."""
DESCRIBED = {
    "wsj": "WSJ sections 02-21 (train), 22 (dev), 23 (test)",
    "part": "WSJ sections 02-21 (train), 22 (dev) and a part of 23 (test), not comparable with the whole section",
    "sample": "free sample of the Penn Treebank, not comparable with section 23: files wsj_0001-0159 (train), "
    "0160-0179 (dev), 0180-0199 (test)",
}
"""Description of the data in every result, by the name of the split."""

FURTHER = "further training trees from data.extra"


@dataclass(frozen=True)
class Split:
    """The files of each set, in the order of their numbers."""

    name: str
    """`wsj`, `part` (files of section 23 are missing) or `sample`."""
    train: tuple[Path, ...]
    dev: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def described(self) -> str:
        """Description of the data in every result."""
        return DESCRIBED[self.name]


def find(root: Path, kind: str = "treebank") -> Split:
    """The split of the treebank below `root`: the standard one, or ours if only the free sample is there.

    Files are found by name (see FILE) in any subfolder. Raises DataError for an empty or incomplete folder, for
    duplicate trees, and with the kind `sample` for a folder that contains other sections than the sample.
    """
    if not root.is_dir():
        raise DataError(
            f"{root} is not a folder: data.root names the one with the files wsj_*.mrg of the Penn Treebank."
        )
    found = _numbered(root)
    if not found:
        raise DataError(
            f"{root} contains no file wsj_*.mrg: wsj_0203.mrg for a story, wsj_02.mrg for a section, wsj_02-21.mrg for "
            "several, or the same with .gz. The Penn Treebank (LDC99T42) is licensed; its free sample of 199 files "
            "comes with NLTK: python -m nltk.downloader treebank"
        )
    sections = {number // 100 for numbers, _ in found for number in (*numbers[::100], numbers[-1])}
    if sections <= {0, 1}:
        return _sample(root, found)
    if kind == "sample":
        raise DataError(f"{root} contains more than sections 00 and 01, so it is not the free sample: choose data=ptb.")
    missing = sorted({each for wanted in STANDARD.values() for each in wanted} - sections)
    if missing:
        names = f"section{'s' if len(missing) > 1 else ''} {', '.join(f'{each:02d}' for each in missing)}"
        raise DataError(f"{root} lacks WSJ {names}: 02-21 are for training, 22 for development, 23 for the test.")
    parts = {name: range(wanted[0] * 100, wanted[-1] * 100 + 100) for name, wanted in STANDARD.items()}
    complete = set(TEST_FILES) <= {number for numbers, _ in found for number in numbers}
    return Split("wsj" if complete else "part", **{name: _files(found, wanted) for name, wanted in parts.items()})


def _numbered(root: Path) -> list[tuple[range, Path]]:
    """The treebank's files below `root` with the numbers of their stories, in order."""
    found = []
    for path in files_below(root):
        if match := FILE.fullmatch(path.name):
            first = int(match[1] + (match[2] or "00"))
            last = first if match[2] else int((match[3] or match[1]) + "99")
            if last < first:
                raise DataError(f"{path}: the sections in the name must ascend.")
            found.append((range(first, last + 1), path))
    found.sort(key=lambda each: (each[0].start, each[0].stop, each[1]))
    twice = [
        f"{path} and {later}"
        for (numbers, path), (after, later) in itertools.pairwise(found)
        if after.start < numbers.stop
    ]
    if twice:
        more = f" and {len(twice) - 1} more pairs" if len(twice) > 1 else ""
        raise DataError(
            f"The treebank contains the same trees twice: {twice[0]}{more}. Name a folder that has each tree once."
        )
    return found


def _sample(root: Path, found: list[tuple[range, Path]]) -> Split:
    there = {numbers[0] for numbers, _ in found if len(numbers) == 1}
    missing = sorted({each for wanted in SAMPLE.values() for each in wanted} - there)
    if missing:
        shown = ", ".join(f"wsj_{each:04d}.mrg" for each in missing[:3])
        raise DataError(
            f"{root} contains only sections 00 and 01, and {len(missing)} of the 199 files of the free sample are "
            f"missing: {shown}{', …' if len(missing) > 3 else ''}."
        )
    return Split("sample", **{name: _files(found, wanted) for name, wanted in SAMPLE.items()})


def _files(found: list[tuple[range, Path]], wanted: range) -> tuple[Path, ...]:
    """The files of one set. Raises DataError for a file that reaches beyond it."""
    chosen = []
    for numbers, path in found:
        inside = numbers[0] in wanted, numbers[-1] in wanted
        if any(inside) or numbers.start < wanted.start < numbers.stop:
            if not all(inside):
                raise DataError(f"{path} mixes sections of training, development and test: write a file for each.")
            chosen.append(path)
    return tuple(chosen)


def files_below(folder: Path) -> list[Path]:
    """Every file below `folder`, sorted; linked folders are entered, each folder once."""
    found: list[Path] = []
    entered: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        found += [path for name in names if (path := Path(place, name)).is_file()]
    return sorted(found)


def extra_files(paths: Sequence[str], split: Split | None = None) -> list[Path]:
    """Files of further training trees, such as automatically parsed ones: each path is a file, or a folder of files.

    Raises DataError for a path that does not exist or contains no file, for a file that is given twice, and for one of
    the development or test set of `split`.
    """
    held_out = {path.resolve() for path in (*split.dev, *split.test)} if split else set()
    files: list[Path] = []
    for name in paths:
        path = Path(name).expanduser()
        found = files_below(path) if path.is_dir() else [path]
        if not found or not found[0].is_file():
            raise DataError(f"{path} contains no trees: name a file of trees, or a folder of such files.")
        files.extend(found)
    if tested := [path for path in files if path.resolve() in held_out]:
        more = f" and {len(tested) - 1} more are files" if len(tested) > 1 else " is a file"
        raise DataError(f"{tested[0]}{more} of the development or test set: nothing may be trained on them.")
    seen: dict[Path, Path] = {}
    for path in files:
        if (first := seen.setdefault(path.resolve(), path)) is not path:
            raise DataError(f"data.extra has one file twice, as {first} and as {path}: leave one of them out.")
    return files
