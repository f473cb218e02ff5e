"""The text that a run stored, and its counts for BLEU, cached beside it so that a table is fast the second time."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from variations.store.atomic import read_stored, replaced
from variations.system.errors import DataError
from variations.tasks.sequences.stored import given_digest, read_counts
from variations.tasks.translation.scoring.counts import Counts, bleu_counts
from variations.tasks.translation.scoring.ladder import EXACT_MATCH, equal, preparation

_COUNTS_VERSION = "1"
"""Raise it when the counting of n-grams changes, so that old files are ignored."""


@dataclass(frozen=True)
class StoredText:
    """One set of one run: <set>.hyp and <set>.ref."""

    folder: Path
    set: str

    def counts(self, score: str, language: str, *, cache: bool = True) -> Counts:
        """BLEU's counts for each sentence, (S, 10), with the convention of `score` (one of the ladder's BLEUS).

        With `cache`, they are read from and written to `<set>.<score>-<hash>.npy` beside the text; if it cannot be
        written, as on a read-only file system, they are counted each time. Nothing is written to a record. A record
        whose references may not be published contains the counts instead, in `<set>.<score>.counts.npy.gz`.

        Raises:
            DataError: The text is missing, is not UTF-8, or its sides differ in length.
        """
        if given_digest(self.folder, self.set):
            path = self.folder / f"{self.set}.{score}.counts.npy"
            if (counts := read_counts(path, columns=10)) is None:
                raise DataError(f"the record contains neither references nor counts for {score} ({path.name}.gz)")
            return counts
        hypotheses, references = self._bytes("hyp"), self._bytes("ref")
        path = self.folder / f"{self.set}.{score}-{_key(hypotheses, references, score, language)}.npy"
        if cache and (found := _read(path)) is not None:
            return found
        ours, theirs, tokenisation = preparation(score, language)
        lines = [self._lines(hypotheses, "hyp"), self._lines(references, "ref")]
        counts = bleu_counts([ours(x) for x in lines[0]], [theirs(x) for x in lines[1]], tokenize=tokenisation)
        if cache and (self.folder / f"{self.set}.hyp").is_file():
            _write(path, counts)
        return counts

    def matches(self) -> Counts:
        """Whether each sentence equals its reference, and 1: (S, 2), whose sums are hits and sentences.

        A record whose references may not be published contains them in `<set>.exact_match.counts.npy.gz`; those made
        before this file existed do not.

        Raises:
            DataError: As for `counts`.
        """
        if given_digest(self.folder, self.set):
            found = read_counts(self.folder / f"{self.set}.{EXACT_MATCH}.counts.npy", columns=2)
            if found is None:
                raise DataError(f"the record of {self.set} contains neither references nor which sentences equal them")
            return found
        hypotheses, references = (self._lines(self._bytes(side), side) for side in ("hyp", "ref"))
        if len(hypotheses) != len(references):
            raise DataError(f"{self.set}: {len(hypotheses)} hypotheses, but {len(references)} references")
        hits = [equal(ours, theirs) for ours, theirs in zip(hypotheses, references, strict=True)]
        return np.stack([np.array(hits, np.int64), np.ones(len(hits), np.int64)], axis=1)

    def _bytes(self, side: str) -> bytes:
        path = self.folder / f"{self.set}.{side}"
        try:
            return read_stored(path)
        except FileNotFoundError:
            raise DataError(f"no stored {'hypotheses' if side == 'hyp' else 'references'} ({path.name})") from None
        except OSError as error:
            raise DataError(str(error)) from error

    def _lines(self, data: bytes, side: str) -> list[str]:
        try:
            return data.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise DataError(f"{self.set}.{side} is not UTF-8") from None


def _key(hypotheses: bytes, references: bytes, score: str, language: str) -> str:
    """16 hexadecimal digits of everything the counts depend on."""
    parts = [_COUNTS_VERSION, _version("sacrebleu"), _version("sacremoses"), score, language]
    digests = [hashlib.sha256(side).hexdigest() for side in (hypotheses, references)]
    return hashlib.sha256("\n".join([*parts, *digests]).encode()).hexdigest()[:16]


@cache
def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _read(path: Path) -> Counts | None:
    """Cached counts; None if there are none or the file is damaged."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.ndim == 2 and found.shape[1] == 10 and found.dtype == np.int64 else None


def _write(path: Path, counts: Counts) -> None:
    """Write counts if the folder allows it: they can always be counted again."""
    with suppress(OSError), replaced(path) as temporary, temporary.open("xb") as file:
        np.save(file, counts, allow_pickle=False)
