"""Parallel text files: finding, reading and checking them; errors name file and line.

A line ends at a newline and nowhere else: Unicode's line separators, form feeds and lone carriage returns occur inside
sentences, and splitting there would shift every later pair. A carriage return before the newline and a byte order
mark at the start are removed.
"""

import gzip
import hashlib
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from variations.store.checksums import file_sha256
from variations.system.errors import DataError

BLOCK = 1 << 20
QUICK = 200 << 20
"""Largest file, in bytes, whose lines are counted before any work: it takes a fraction of a second."""
BOM = b"\xef\xbb\xbf"
NORMALISATION = "nmt_nfkc"
"""SentencePiece's rule: Unicode NFKC; white space, zero-width and control characters become one space or nothing."""
NAMED_LINES = 10
"""Number of blank lines that are listed by number."""


@dataclass
class Side:
    """One language's file: `sha256` of the file as it is, `text_sha256` of the text in it (.gz unpacked)."""

    sha256: str
    text_sha256: str
    words: dict[int, int] = field(default_factory=dict)
    """Number of lines by their number of words (separated by white space)."""


@dataclass
class Survey:
    """What is found when a pair of files is read once.

    Attributes:
        pairs: lines of each file.
        blank: pairs with a side that has no text; blank_lines: the line numbers of the first ten, from 1.
        duplicates: pairs that repeat an earlier pair of the same files (see `pair_keys`).
        overlap: for each other set, how many of its pairs occur in these files (see `pair_keys`).
        source, target: the two sides.
    """

    pairs: int
    blank: int
    blank_lines: list[int]
    duplicates: int
    overlap: dict[str, int]
    source: Side
    target: Side

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Survey":
        """The inverse of `asdict`, also after JSON has turned numbers of words into strings."""
        sides = {}
        for name in ("source", "target"):
            side = values[name]
            words = {int(length): int(lines) for length, lines in side["words"].items()}
            sides[name] = Side(str(side["sha256"]), str(side["text_sha256"]), words)
        return cls(**{**values, **sides})


def unequal_files(root: Path, stems: Sequence[str], source: str, target: str) -> list[str]:
    """Messages about files of different lengths, for a first check before any work.

    Only newlines are counted, in uncompressed files up to QUICK bytes; all else is checked when the files are read.
    """
    found = []
    for stem in dict.fromkeys(stems):
        paths = root / f"{stem}.{source}", root / f"{stem}.{target}"
        if all(path.is_file() and path.stat().st_size <= QUICK for path in paths):
            counts = [_count(path) for path in paths]
            if counts[0] != counts[1]:
                found.append(str(_unequal(paths[0], counts[0], paths[1], counts[1])))
    return found


def _count(path: Path) -> int:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    return content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


def find(root: Path, stem: str, language: str) -> Path | None:
    """`<root>/<stem>.<language>`, else the same with `.gz`, else None.

    Raises:
        DataError: both exist, and their texts differ.
    """
    plain = root / f"{stem}.{language}"
    there = [path for path in (plain, plain.with_name(plain.name + ".gz")) if path.is_file()]
    if len(there) == 2 and len({_text_sha256(path) for path in there}) == 2:
        raise DataError(f"{there[0]} and {there[1]} contain different texts: remove one of them.")
    return there[0] if there else None


def _text_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for _ in _blocks(path, digest.update):
        pass
    return digest.hexdigest()


def read_lines(path: Path) -> list[str]:
    """All lines of a file, plain or .gz. Raises DataError: missing, empty, damaged, or not UTF-8 (with the line)."""
    lines = list(iterate(path))
    if not lines:
        raise DataError(f"{path} is empty: give a file with one sentence per line.")
    return lines


def read_pairs(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """All lines of both files. Raises DataError as `read_lines` does, and when the files differ in length."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise _unequal(source, len(sources), target, len(targets))
    return sources, targets


def iterate_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The pairs one by one, in memory that does not grow with the files. Raises DataError as `read_pairs` does."""
    yield from zipped(source, target, iterate(source), iterate(target))


def iterate(path: Path, *, update: Callable[[bytes], object] | None = None, bad: str | None = None) -> Iterator[str]:
    """The lines of a file one by one; `update` is called with its bytes (.gz unpacked).

    A line that is not UTF-8 raises DataError, or is replaced by `bad` if that is given.
    """
    number = 0
    for block in _blocks(path, update):
        if not number:
            block = block.removeprefix(BOM)
        try:
            lines = block.decode("utf-8").split("\n")
        except UnicodeDecodeError:  # line by line only now: decoding whole blocks is several times faster
            lines = list(_decoded(block.split(b"\n"), path, number, bad))
        number += len(lines)
        yield from (line.removesuffix("\r") for line in lines) if b"\r" in block else lines


def survey(
    source: Path,
    target: Path,
    *,
    others: Mapping[str, Collection[int]] | None = None,
    used: int | None = None,
    lowercase: bool = False,
) -> Survey:
    """Read a pair of files once and check it: up to some 15 seconds per million pairs, 16 bytes of memory per pair.

    Args:
        source, target: the files.
        others: for each other set, the `pair_keys` whose occurrence here is counted.
        used: only among the first pairs, so many; None: among all.
        lowercase: as for `pair_keys`.

    Raises:
        DataError: a file is missing, empty, damaged or not UTF-8, or the files differ in length.
    """
    import numpy as np

    digests = hashlib.sha256(), hashlib.sha256()
    words: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    wanted = frozenset(key for keys in (others or {}).values() for key in keys)
    seen: set[int] = set()
    keys, blank_lines, blank, pairs = array("q"), [], 0, 0
    sides = (iterate(path, update=digest.update) for path, digest in zip((source, target), digests, strict=True))
    for pairs, pair in enumerate(zipped(source, target, *sides), start=1):
        lengths = len(pair[0].split()), len(pair[1].split())
        words[0][lengths[0]] += 1
        words[1][lengths[1]] += 1
        if not all(lengths):
            blank += 1
            blank_lines += [pairs] if blank <= NAMED_LINES else []
            continue
        keys.append(key := _key(pair, lowercase))
        if key in wanted and (used is None or pairs <= used):
            seen.add(key)
    if not pairs:
        raise DataError(f"{source} and {target} are empty: give files with one sentence per line.")
    overlap = {name: sum(key in seen for key in set_keys) for name, set_keys in (others or {}).items()}
    made = [
        Side(file_sha256(path), digest.hexdigest(), dict(sorted(counts.items())))
        for path, digest, counts in zip((source, target), digests, words, strict=True)
    ]
    distinct = len(np.unique(np.frombuffer(keys, dtype=np.int64))) if keys else 0
    return Survey(pairs, blank, blank_lines, len(keys) - distinct, overlap, *made)


def pair_keys(source: Path, target: Path, *, lowercase: bool = False) -> list[int]:
    """A 64-bit key for each pair that has text, valid within this process; equal pairs have equal keys.

    Pairs are equal if their sub-words are: white space, forms of Unicode and, with `lowercase`, case do not count.
    """
    pairs = iterate_pairs(source, target)
    return [_key(pair, lowercase) for pair in pairs if pair[0].strip() and pair[1].strip()]


def _key(pair: tuple[str, str], lowercase: bool) -> int:
    lines = tuple(line.lower() for line in pair) if lowercase else pair
    return hash(tuple(map(_normaliser().normalize, lines)))


@cache
def _normaliser() -> Any:
    """What SentencePiece does to text before it is split into sub-words."""
    from sentencepiece import SentencePieceNormalizer

    return SentencePieceNormalizer(rule_name=NORMALISATION)


def zipped(source: Path, target: Path, *sides: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Pairs of lines. Raises DataError with both lengths if they differ."""
    for number, (source_line, target_line) in enumerate(zip_longest(*sides)):
        if source_line is None or target_line is None:
            longer = number + 1 + sum(1 for side in sides for _ in side)  # the shorter side is exhausted
            lengths = (number, longer) if source_line is None else (longer, number)
            raise _unequal(source, lengths[0], target, lengths[1])
        yield source_line, target_line


def _unequal(source: Path, sources: int, target: Path, targets: int) -> DataError:
    if not sources or not targets:
        return DataError(f"{target if sources else source} is empty: give a file with one sentence per line.")
    return DataError(
        f"The files differ in length: {source} has {sources:,} lines, {target} has {targets:,}; "
        "each line needs its translation at the same line of the other file."
    )


def _blocks(path: Path, update: Callable[[bytes], object] | None) -> Iterator[bytes]:
    """The file's bytes in blocks of whole lines, without the newline at each block's end."""
    rest: list[bytes] = []
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            while chunk := stream.read(BLOCK):
                if update:
                    update(chunk)
                lines, newline, tail = chunk.rpartition(b"\n")
                if newline:
                    yield b"".join([*rest, lines])
                    rest = []
                if tail:
                    rest.append(tail)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: check the path.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a complete gzip file ({error}): replace it with an intact copy.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    if rest:
        yield b"".join(rest)


def looks_tokenised(lines: Sequence[str]) -> bool:
    """Whether more than a quarter of the lines end in a full stop that stands apart, as tokenisers leave it."""
    return sum(line.endswith(" .") for line in lines) > len(lines) / 4


def _decoded(lines: list[bytes], path: Path, number: int, bad: str | None) -> Iterator[str]:
    for line_number, line in enumerate(lines, start=number + 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            if bad is None:
                raise DataError(
                    f"{path}, line {line_number}: not valid UTF-8 (byte {error.start + 1} of the line is "
                    f"0x{line[error.start]:02x}); convert the file to UTF-8."
                ) from None
            yield bad
