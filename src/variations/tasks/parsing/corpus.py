"""A treebank as ids of words and of the symbols of linearised trees."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.data.entry import key_of, text_sha256
from variations.store import inputs
from variations.system.errors import DataError
from variations.tasks.parsing.config import DEV_TREES, DataConfig
from variations.tasks.parsing.linearise import Bracketed, Form, Tagged, linearise
from variations.tasks.parsing.treebank import FURTHER, extra_files, find
from variations.tasks.parsing.trees import Tree, trees_by_file, trees_in_turn
from variations.tasks.parsing.trees_toy import generate
from variations.tasks.parsing.words import Vocabulary

TOY_TRAIN, TOY_HELD_OUT = 2000, 100
"""Trees of the built-in treebank: for training, and for each of the other two sets."""


@dataclass(frozen=True)
class Corpus:
    """Training, development and test trees, with a description for results."""

    described: str
    train: Sequence[Tree]
    dev: Sequence[Tree]
    test: Sequence[Tree]
    files: tuple[Path, ...] = ()
    """Files that were read, for the fingerprint; empty for a generated corpus."""
    extra: tuple[Path, ...] = ()
    """Files of further training trees, read one at a time."""

    def training(self) -> Iterator[Tree]:
        """All training trees; further files are read lazily. Raises DataError after the last, with all faults."""
        yield from self.train
        yield from trees_in_turn(self.extra)

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of each file by its name, with as many of its folders as tell it from others of the same name."""
        files = _told_apart((*self.files, *self.extra))
        return {inputs.of_text(name): text_sha256(path) for name, path in files.items()}

    def composition(self, files: Mapping[str, str]) -> dict[str, str]:
        """Fingerprints of the list of files and of each held-out set, which an added or removed file changes.

        `files` is what `fingerprint` returned, for which all files are read.
        """
        listed = {"the files of the treebank": key_of(files)} if files else {}
        sets = {DEV_TREES: self.dev, "the test trees": self.test}
        return listed | {name: key_of({"trees": [str(tree) for tree in trees]}) for name, trees in sets.items()}


@dataclass(frozen=True)
class Encoding:
    """How trees become ids: the form of linearisation and the two vocabularies."""

    form: Form
    words: Vocabulary
    symbols: Vocabulary

    @classmethod
    def of(cls, corpus: Corpus, form: str, words: int, symbols: int) -> "Encoding":
        """Built from the training trees, with at most `words` and `symbols` rows, see `Vocabulary.of_words`.

        Raises DataError if there are more symbols, or if the form cannot express a label.
        """
        chosen: Form = Bracketed() if form == "vinyals" else Tagged.of(corpus.training())
        lines = Vocabulary.of_symbols(linearise(tree, chosen) for tree in corpus.training())
        if lines.size > symbols:
            raise DataError(
                f"The training trees have {lines.size} symbols, special ones included, "
                f"more than model.target_vocabulary={symbols}: raise it."
            )
        return cls(chosen, Vocabulary.of_words((tree.words() for tree in corpus.training()), words), lines)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of sentences whose words are separated by blanks; each ends in EOS."""
        return [self.words.encode_words(line.split()) for line in lines]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Lines of symbols, separated by blanks."""
        return [" ".join(self.symbols.decode(row)) for row in ids]


class TreePairs:
    """Sentences and lines of symbols; a map-style dataset of `(index, source ids, target ids)`.

    Attributes:
        source_lengths, target_lengths: ids of each, EOS included, shape (pairs,).
        kept_index: index of each pair's tree among those given, shape (pairs,).
        too_long: trees left out because one side is longer than `longest`.
    """

    def __init__(self, trees: Iterable[Tree], encoding: Encoding, longest: int | None = None) -> None:
        sides: tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]] = [], []
        kept = []
        number = -1
        for number, tree in enumerate(trees):
            source = encoding.words.encode_words(tree.words())
            target = encoding.symbols.encode_symbols(linearise(tree, encoding.form))
            if longest is None or max(len(source), len(target)) <= longest:
                kept.append(number)
                for side, ids in zip(sides, (source, target), strict=True):
                    side.append(np.array(ids, dtype=np.int32))
        self.kept_index = np.array(kept, dtype=np.int64)
        self.too_long = self.dropped = number + 1 - len(kept)
        self.source_lengths, self.target_lengths = (
            np.fromiter(map(len, side), dtype=np.int32, count=len(side)) for side in sides
        )
        # One array per side: loader processes share it, and Python objects would take several times the memory.
        self._ids = [np.concatenate([*side, np.zeros(0, np.int32)]) for side in sides]
        self._starts = [np.concatenate([[0], np.cumsum(n)]) for n in (self.source_lengths, self.target_lengths)]

    def __len__(self) -> int:
        return len(self.kept_index)

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Source and target ids of one pair, each ending in EOS; shapes (S,) and (T,)."""
        (source, target), (s, t) = self._ids, self._starts
        return source[s[index] : s[index + 1]], target[t[index] : t[index + 1]]

    def __getitem__(self, index: int) -> tuple[int, NDArray[Any], NDArray[Any]]:
        return (int(index), *self.pair(index))


def _told_apart(paths: Iterable[Path]) -> dict[str, Path]:
    """The paths by their shortest ends that no other one has."""
    left, found, length = [*dict.fromkeys(path.absolute() for path in paths)], dict[str, Path](), 0
    while left:
        length += 1
        ends = Counter(path.parts[-length:] for path in left)
        alone = [path for path in left if ends[path.parts[-length:]] == 1 or len(path.parts) <= length]
        found |= {"/".join(path.parts[-length:]): path for path in alone}
        left = [path for path in left if path not in {*alone}]
    return found


def load(data: DataConfig) -> Corpus:
    """The treebank of a configuration. Raises DataError for a folder or file that cannot be used."""
    if data.kind == "toy":
        number = data.train_trees or TOY_TRAIN
        trees = generate(max(number, TOY_TRAIN) + 2 * TOY_HELD_OUT, data.seed)
        # The held-out trees are the same ones, however many there are for training.
        dev, test = (trees[start : start + TOY_HELD_OUT] for start in (TOY_TRAIN, TOY_TRAIN + TOY_HELD_OUT))
        train = [*trees[:TOY_TRAIN], *trees[TOY_TRAIN + 2 * TOY_HELD_OUT :]][:number]
        described = f"built-in trees, generated from data.seed={data.seed}"
        corpus = Corpus(described, train, dev, test, extra=tuple(extra_files(data.extra or ())))
    else:
        split = find(Path(data.root or "").expanduser(), data.kind)
        files = (*split.train, *split.dev, *split.test)
        by_file = trees_by_file(files)
        train, dev, test = (
            [tree for file in part for tree in by_file[file]] for part in (split.train, split.dev, split.test)
        )
        if (data.train_trees or 0) > len(train):
            raise DataError(
                f"data.train_trees={data.train_trees}, but the treebank has only {len(train):,} training trees: leave "
                "the key out, or set it to fewer."
            )
        corpus = Corpus(
            split.described,
            train[: data.train_trees],
            dev,
            test,
            files=files,
            extra=tuple(extra_files(data.extra or (), split)),
        )
    if corpus.extra:
        corpus = replace(corpus, described=f"{corpus.described}; {FURTHER}")
    return corpus
