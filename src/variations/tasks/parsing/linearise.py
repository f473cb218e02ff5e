"""Linearisation of trees and its inverse: the two forms of the literature, and the repair of malformed lines."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from variations.system.errors import DataError
from variations.tasks.parsing.trees import Tree

NO_TAG = "XX"
"""Symbol for a part-of-speech tag that is not known."""


class Form(Protocol):
    """How opening brackets, closing brackets and words are written."""

    name: str
    has_tags: bool
    """Whether words are written as their part-of-speech tags."""

    def opening(self, label: str) -> str:
        """Symbol that opens a constituent."""

    def closing(self, label: str) -> str:
        """Symbol that closes a constituent."""

    def terminal(self, tag: str) -> str:
        """Symbol for a word with this tag."""

    def read(self, symbol: str) -> tuple[str, str]:
        """Kind of a symbol, `open`, `close` or `word`, and its label or tag."""


class Bracketed:
    """Vinyals et al. (2015), section 3.2: `(S (NP XX XX )NP … )S`. Every tag is written XX."""

    name = "vinyals"
    has_tags = False

    def opening(self, label: str) -> str:
        """See Form."""
        return f"({label}"

    def closing(self, label: str) -> str:
        """See Form."""
        return f"){label}"

    def terminal(self, tag: str) -> str:
        """See Form."""
        return NO_TAG

    def read(self, symbol: str) -> tuple[str, str]:
        """See Form."""
        if symbol[:1] == "(":
            return "open", symbol[1:]
        return ("close", symbol[1:]) if symbol[:1] == ")" else ("word", NO_TAG)


class Tagged:
    """tensor2tensor, with which the paper's parser was trained: `S NP DT NN /NP … /S`. Words are written as their tags.

    A tag cannot be distinguished from an opening bracket by its form, so the labels of constituents must be known.
    """

    name = "tensor2tensor"
    has_tags = True

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels = frozenset(labels)

    @classmethod
    def of(cls, trees: Iterable[Tree]) -> "Tagged":
        """The form with the labels of these trees. Raises DataError for labels that it cannot distinguish."""
        labels: set[str] = set()
        tags: set[str] = set()
        for tree in trees:
            for node in tree.nodes():
                (labels if node.word is None else tags).add(node.label)
        if clash := sorted(labels & tags | {label for label in labels | tags if label.startswith("/")}):
            raise DataError(
                f"The form tensor2tensor cannot write {', '.join(clash)}: a label must not also be a tag, nor "
                "begin with a slash. Use the form vinyals."
            )
        return cls(labels)

    def opening(self, label: str) -> str:
        """See Form."""
        return label

    def closing(self, label: str) -> str:
        """See Form."""
        return f"/{label}"

    def terminal(self, tag: str) -> str:
        """See Form."""
        return tag

    def read(self, symbol: str) -> tuple[str, str]:
        """See Form."""
        if symbol[:1] == "/" and symbol[1:]:
            return "close", symbol[1:]
        return ("open", symbol) if symbol in self.labels else ("word", symbol)


@dataclass(frozen=True, slots=True)
class Repairs:
    """Repairs needed to turn a line of symbols into a tree over the sentence."""

    brackets_added: int = 0
    """Closing brackets added for constituents left open."""
    brackets_dropped: int = 0
    """Closing brackets without an open constituent, and constituents without a word."""
    words_added: int = 0
    """Words of the sentence without a symbol in the line."""
    words_dropped: int = 0
    """Word symbols beyond the end of the sentence."""
    roots_joined: int = 0
    """Trees after the first one, joined under one root."""

    def __bool__(self) -> bool:
        return self != Repairs()


def linearise(tree: Tree, form: Form) -> list[str]:
    """The symbols of a tree, depth first: opening bracket, children, closing bracket; words are dropped."""
    symbols: list[str] = []
    pending: list[Tree | str] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            symbols.append(node)
        elif node.word is not None:
            symbols.append(form.terminal(node.label))
        else:
            symbols.append(form.opening(node.label))
            pending.append(form.closing(node.label))
            pending.extend(reversed(node.children))
    return symbols


def delinearise(
    symbols: Sequence[str], words: Sequence[str], form: Form, *, tags: Sequence[str] | None = None, root: str = "S"
) -> tuple[Tree, Repairs]:
    """The tree over `words` that `symbols` describe, and its repairs.

    `tags` replace the tags that the symbols name; `root` is the label over joined trees. Constituents still open are
    closed at the end, as in Vinyals et al. (2015, section 4). Words without a symbol are added to the innermost open
    constituent, or to the last tree if all are closed. Raises ValueError without words.
    """
    if not words:
        raise ValueError("a tree needs at least one word")
    builder = _Builder(words, tags)
    for symbol in symbols:
        part, label = form.read(symbol)
        if part == "open":
            builder.pending.append((label, []))
        elif part == "word":
            builder.word(label)
        else:
            builder.close(label)
    return builder.finish(root)


class _Builder:
    """Grows a tree from left to right and counts what does not fit."""

    def __init__(self, words: Sequence[str], tags: Sequence[str] | None) -> None:
        self.words, self.tags = words, tags
        self.pending: list[tuple[str, list[Tree]]] = []
        """Open constituents, the innermost last."""
        self.roots: list[Tree] = []
        self.used = 0
        self.count: Counter[str] = Counter()

    def attach(self, node: Tree) -> None:
        (self.pending[-1][1] if self.pending else self.roots).append(node)

    def word(self, tag: str) -> None:
        if self.used == len(self.words):
            self.count["words_dropped"] += 1
            return
        self.attach(Tree(tag if self.tags is None else self.tags[self.used], word=self.words[self.used]))
        self.used += 1

    def close(self, label: str) -> None:
        if all(label != other for other, _ in self.pending):
            self.count["brackets_dropped"] += 1
            return
        while self.close_innermost() != label:
            self.count["brackets_added"] += 1

    def close_innermost(self) -> str:
        label, children = self.pending.pop()
        if children:
            self.attach(Tree(label, tuple(children)))
        else:
            self.count["brackets_dropped"] += 1
        return label

    def finish(self, root: str) -> tuple[Tree, Repairs]:
        if self.used < len(self.words) and not self.pending and self.roots and self.roots[-1].word is None:
            last = self.roots.pop()
            self.pending.append((last.label, list(last.children)))
            self.count["brackets_added"] -= 1  # it was closed already
        while self.used < len(self.words):
            self.word(NO_TAG)
            self.count["words_added"] += 1
        while self.pending:
            self.close_innermost()
            self.count["brackets_added"] += 1
        self.count["roots_joined"] = len(self.roots) - 1
        tree = self.roots[0] if len(self.roots) == 1 else Tree(root, tuple(self.roots))
        return tree, Repairs(**self.count)
