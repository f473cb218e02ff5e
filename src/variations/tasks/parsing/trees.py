"""Constituency trees in the brackets of the Penn Treebank: a strict reader, and the cleaning the field agrees on.

Trees of other people's files may be very deep, so nothing here recurses.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from variations.system.errors import DataError

ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
"""Labels of the bracket around a whole sentence. It says nothing, and is taken off when it has a single child."""
TRACE = "-NONE-"
"""Tag of null elements, which stand for no word."""
SHOWN = 10
"""Faults named in one message; the rest are counted."""

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

        Words are counted from 0, those with a tag in `skip` left out.
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
    trees: list[Tree] = []
    faults: list[str] = []
    for path in paths:
        try:
            trees.extend(parse_trees(path.read_text(encoding="utf-8"), str(path)))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
            faults.append(f"{path}: cannot be read ({reason})")
        except DataError as error:
            faults.append(str(error))
    if faults:
        more = f"\n… and {len(faults) - SHOWN} more files" if len(faults) > SHOWN else ""
        raise DataError("\n".join(faults[:SHOWN]) + more)
    return trees


def parse_trees(text: str, source: str = "text") -> list[Tree]:
    """The trees of a bracketed text, on one line each or on many.

    Cleaned as EVALB and the field do: null elements go, and with them each constituent that holds no word; functions
    and indices are cut off labels (NP-SBJ-1 becomes NP, NP=2 too), never off tags; the root bracket is taken off. A
    chain of constituents over the same words stays. A tree without any word is left out.
    Raises DataError at the first fault, with file, line and column.
    """
    trees: list[Tree] = []
    open_brackets: list[_Open] = []

    def fault(what: str, at: int) -> DataError:
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        return DataError(f"{source}, line {line}, column {column}: {what}; a tree reads (S (NP (DT The) (NN cat)) …).")

    for match in _TOKEN.finditer(text):
        piece, at = match.group(), match.start()
        if piece == "(":
            if open_brackets and open_brackets[-1].word is not None:
                raise fault("a bracket beside a word", at)
            open_brackets.append(_Open(at))
        elif not open_brackets:
            raise fault(
                "a closing bracket that nothing opened" if piece == ")" else f"{piece} outside all brackets", at
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
        elif not open_brackets[-1].take(piece):
            raise fault(f"{piece} beside another element of its bracket", at)
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
        """Brackets inside, those of null elements too."""

    def take(self, token: str) -> bool:
        """A label, or a word after it; False where neither can stand."""
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
        """The constituent, cleaned; None when no word is left in it."""
        if self.word is not None:
            return None if self.label == TRACE else Tree(self.label, word=self.word)
        return Tree(plain_label(self.label), tuple(self.children)) if self.children else None


def plain_label(label: str) -> str:
    """A label without functions and indices: NP-SBJ-1 becomes NP; -LRB- stays."""
    return label if label.startswith("-") else re.sub(r"(?<=.)[-=].*", "", label)


def _unrooted(tree: Tree) -> Tree:
    if tree.word is None and tree.label in ROOTS:
        return tree.children[0] if len(tree.children) == 1 else Tree("TOP", tree.children)
    return tree
