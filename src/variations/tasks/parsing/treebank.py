"""The split of a treebank's files into training, development and test sets."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from variations.system.errors import DataError

FILE = re.compile(r"wsj_(\d\d)(\d\d)\.mrg", re.IGNORECASE)
"""File name in the Penn Treebank: section, number."""
STANDARD = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}
"""Sections of the Wall Street Journal in the standard split."""
SAMPLE = {"train": range(1, 160), "dev": range(160, 180), "test": range(180, 200)}
"""File numbers of the free sample (sections 00 and 01, 199 files): our own split, in the order of the files."""
DESCRIBED = {
    "wsj": "WSJ sections 02-21 (train), 22 (dev), 23 (test)",
    "sample": "free sample of the Penn Treebank, not comparable with section 23: files wsj_0001-0159 (train), "
    "0160-0179 (dev), 0180-0199 (test)",
}
"""Description of the data in every result, by the name of the split."""


@dataclass(frozen=True)
class Split:
    """The files of each set, in the order of their numbers."""

    name: str
    """`wsj` or `sample`."""
    train: tuple[Path, ...]
    dev: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def described(self) -> str:
        """Description of the data in every result."""
        return DESCRIBED[self.name]


def find(root: Path, kind: str = "treebank") -> Split:
    """The split of the treebank below `root`: the standard one, or ours if only the free sample is there.

    Files are found by name (wsj_2300.mrg) in any subfolder. Raises DataError for an empty or incomplete folder, for
    duplicate files, and under the kind `sample` for a folder that contains other sections than the sample.
    """
    if not root.is_dir():
        raise DataError(
            f"{root} is not a folder: data.root names the one with the files wsj_*.mrg of the Penn Treebank."
        )
    found: dict[int, Path] = {}
    twice = []
    for path in sorted(root.rglob("*")):
        match = FILE.fullmatch(path.name)
        if match and path.is_file():
            number = int(match[1] + match[2])
            if number in found:
                twice.append(f"{found[number]} and {path}")
            found[number] = path
    if twice:
        more = f" and {len(twice) - 1} more pairs" if len(twice) > 1 else ""
        raise DataError(
            f"The treebank contains the same file twice: {twice[0]}{more}. Name a folder that has each once."
        )
    if not found:
        raise DataError(
            f"{root} holds no file wsj_*.mrg. The Penn Treebank (LDC99T42) is licensed; its free sample of 199 files "
            "comes with NLTK: python -m nltk.downloader treebank"
        )
    sections = {number // 100 for number in found}
    if sections <= {0, 1}:
        return _sample(root, found)
    if kind == "sample":
        raise DataError(f"{root} holds more than sections 00 and 01, so it is not the free sample: choose data=ptb.")
    missing = sorted({each for wanted in STANDARD.values() for each in wanted} - sections)
    if missing:
        raise DataError(f"{root} lacks WSJ sections {', '.join(f'{each:02d}' for each in missing)}.")
    return Split("wsj", **{name: _files(found, _of(wanted)) for name, wanted in STANDARD.items()})


def _sample(root: Path, found: dict[int, Path]) -> Split:
    missing = sorted({each for wanted in SAMPLE.values() for each in wanted} - set(found))
    if missing:
        shown = ", ".join(f"wsj_{each:04d}.mrg" for each in missing[:3])
        raise DataError(
            f"{root} holds only sections 00 and 01, and {len(missing)} of the 199 files of the free sample are "
            f"missing: {shown}{', …' if len(missing) > 3 else ''}."
        )
    return Split("sample", **{name: _files(found, wanted) for name, wanted in SAMPLE.items()})


def _of(sections: Iterable[int]) -> range:
    wanted = list(sections)
    return range(wanted[0] * 100, wanted[-1] * 100 + 100)


def _files(found: dict[int, Path], numbers: range) -> tuple[Path, ...]:
    return tuple(found[number] for number in sorted(found) if number in numbers)


def extra_files(paths: Sequence[str]) -> list[Path]:
    """Files of further training trees, such as automatically parsed ones: each path is a file, or a folder of files.

    Raises DataError for a path that does not exist or contains no file.
    """
    files: list[Path] = []
    for name in paths:
        path = Path(name).expanduser()
        found = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        if not found or not found[0].is_file():
            raise DataError(f"{path} holds no trees: name a file of trees, or a folder of such files.")
        files.extend(found)
    return files
