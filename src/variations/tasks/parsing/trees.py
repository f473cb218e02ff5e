"""Constituency trees in Penn Treebank brackets: a strict reader, and the usual cleaning.

Trees in user files may be very deep, so nothing here is recursive.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

from variations.data.text import read_text
from variations.system.errors import DataError

ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
"""Labels of the bracket around a whole sentence, which carries no information; with a single child it is removed."""
TRACE = "-NONE-"
"""Tag of null elements, which are not words."""
SHOWN = 10
"""Number of faults listed in one message; the rest are counted."""
LONGEST_SHOWN = 40
"""Largest number of characters of a misplaced word in a message."""

_TOKEN = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent with its children, or a word under its part-of-speech tag (then `label` is the tag)."""

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def nodes(self) -> Iterator["Tree"]:
        """This node and all below it: a parent before its children, children from left to right."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def leaves(self) -> list["Tree"]:
        """The tagged words from left to right."""
        return [node for node in self.nodes() if node.word is not None]

    def words(self) -> list[str]:
        """The sentence."""
        return [leaf.word for leaf in self.leaves() if leaf.word is not None]

    def spans(self, skip: Collection[str] = ()) -> list[tuple[str, int, int]]:
        """(label, start, end) of each constituent, a parent before its children.

        Words are numbered from 0, without those whose tag is in `skip`.
        """
        found: list[tuple[str, int, int]] = []
        position = 0
        pending: list[Tree | int] = [self]
        while pending:
            node = pending.pop()
            if isinstance(node, int):  # the constituent opened as number `node` ends here
                label, start, _ = found[node]
                found[node] = (label, start, position)
            elif node.word is not None:
                position += node.label not in skip
            else:
                pending.append(len(found))
                found.append((node.label, position, position))
                pending.extend(reversed(node.children))
        return found

    def __str__(self) -> str:
        """One line of brackets, as EVALB reads them."""
        parts: list[str] = []
        pending: list[Tree | str] = [self]
        while pending:
            node = pending.pop()
            if isinstance(node, str):
                parts.append(node)
            elif node.word is not None:
                parts.append(f" ({node.label} {node.word})")
            else:
                parts.append(f" ({node.label}")
                pending.append(")")
                pending.extend(reversed(node.children))
        return "".join(parts).lstrip()


def read_trees(paths: Iterable[Path]) -> list[Tree]:
    """Every tree of the files, cleaned (see `parse_trees`).

    Raises DataError, which names the first fault of each file by line and column.
    """
    return [*trees_in_turn(paths)]


def trees_in_turn(paths: Iterable[Path]) -> Iterator[Tree]:
    """As `read_trees`, with the trees of one file at a time in memory; the faults of all are raised after the last."""
    faults: list[str] = []
    for path in paths:
        yield from _read(path, faults)
    _refuse(faults)


def trees_by_file(paths: Iterable[Path]) -> dict[Path, list[Tree]]:
    """The trees of each file, as `read_trees`."""
    faults: list[str] = []
    trees = {path: _read(path, faults) for path in paths}
    _refuse(faults)
    return trees


def _read(path: Path, faults: list[str]) -> list[Tree]:
    """The trees of a file; empty if it has a fault, which is added to `faults`. A file without any tree is one."""
    try:
        trees = parse_trees(read_text(path), str(path))
    except DataError as error:
        faults.append(str(error))
        return []
    if not trees:
        faults.append(f"{path} contains no tree")
    return trees


def _refuse(faults: list[str]) -> None:
    if faults:
        more = f"\n… and {len(faults) - SHOWN} more files" if len(faults) > SHOWN else ""
        raise DataError("\n".join(faults[:SHOWN]) + more)


def parse_trees(text: str, source: str = "text") -> list[Tree]:
    """The trees of a bracketed text, on one line each or on many.

    They are cleaned as usual: null elements are removed, with all constituents that have no word left; function tags
    and indices are removed from labels (NP-SBJ-1 and NP=2 become NP) but not from part-of-speech tags; the root bracket
    is removed. Unary chains are kept. A tree without any word is left out. Raises DataError at the first fault, with
    file, line and column.
    """
    trees: list[Tree] = []
    open_brackets: list[_Open] = []

    def fault(what: str, at: int) -> DataError:
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        return DataError(
            f"{source}, line {line}, column {column}: {what}; a tree is written as (S (NP (DT The) (NN cat)) …)."
        )

    for match in _TOKEN.finditer(text):
        piece, at = match.group(), match.start()
        shown = piece if len(piece) <= LONGEST_SHOWN else f"{piece[:LONGEST_SHOWN]}…"
        if piece == "(":
            if open_brackets and open_brackets[-1].word is not None:
                raise fault("a bracket beside a word", at)
            open_brackets.append(_Open(at))
        elif not open_brackets:
            raise fault(
                "a closing bracket without an opening one" if piece == ")" else f"{shown} outside all brackets", at
            )
        elif piece == ")":
            done = open_brackets.pop()
            if done.word is None and not done.inner:
                raise fault("a bracket without a word or a constituent", done.at)
            if not done.label and open_brackets:
                raise fault("a bracket without a label", done.at)
            tree = done.tree()
            if open_brackets:
                open_brackets[-1].add(tree)
            elif tree is not None:
                trees.append(_unrooted(tree))
        elif not piece.isprintable() and any(category(character) == "Cc" for character in piece):
            raise fault(f"the control character {piece!a} in a word or label", at)
        elif not open_brackets[-1].take(piece):
            raise fault(f"{shown} beside another element of its bracket", at)
    if open_brackets:
        raise fault("a bracket that is never closed", open_brackets[0].at)
    return trees


class _Open:
    """A bracket that has been opened and not yet closed."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.label = ""
        self.word: str | None = None
        self.children: list[Tree] = []
        self.inner = 0
        """Number of brackets inside, including those of null elements."""

    def take(self, token: str) -> bool:
        """Take a label, or the word after it; False if neither is possible."""
        if self.inner or self.word is not None:
            return False
        if not self.label:
            self.label = token
        else:
            self.word = token
        return True

    def add(self, child: Tree | None) -> None:
        self.inner += 1
        if child is not None:
            self.children.append(child)

    def tree(self) -> Tree | None:
        """The cleaned constituent; None if it has no words left."""
        if self.word is not None:
            return None if self.label == TRACE else Tree(self.label, word=self.word)
        return Tree(plain_label(self.label), tuple(self.children)) if self.children else None


def plain_label(label: str) -> str:
    """A label without function tags and indices: NP-SBJ-1 becomes NP; -LRB- is kept."""
    return label if label.startswith("-") else re.sub(r"(?<=.)[-=].*", "", label)


def _unrooted(tree: Tree) -> Tree:
    if tree.word is None and tree.label in ROOTS:
        return tree.children[0] if len(tree.children) == 1 else Tree("TOP", tree.children)
    return tree
