"""The right-branching baseline: every suffix of the sentence is a constituent."""

from collections import Counter
from collections.abc import Iterable, Sequence

from variations.tasks.parsing.parameters import COLLINS
from variations.tasks.parsing.trees import Tree


class RightBranching:
    """Splits off one word after the other; final punctuation is attached to the root.

    It uses the most frequent labels of the training trees: one for the root, and one for shorter constituents of at
    least two words that end with the sentence.
    """

    def __init__(self, trees: Iterable[Tree]) -> None:
        roots: Counter[str] = Counter()
        inner: Counter[str] = Counter()
        for tree in trees:
            spans = tree.spans(skip=COLLINS.deleted)
            if not spans:
                continue
            roots[spans[0][0]] += 1
            last = spans[0][2]
            inner.update(label for label, start, end in spans if 0 < start < end - 1 and end == last)
        self.root = roots.most_common(1)[0][0] if roots else "S"
        self.inner = inner.most_common(1)[0][0] if inner else self.root

    def parse(self, words: Sequence[str], tags: Sequence[str]) -> Tree:
        """The tree over words with these tags; as in EVALB, tags identify punctuation."""
        leaves = [Tree(tag, word=word) for word, tag in zip(words, tags, strict=True)]
        after: list[Tree] = []
        while len(leaves) > 1 and leaves[-1].label in COLLINS.deleted:
            after.insert(0, leaves.pop())
        node = leaves.pop()
        while leaves:
            node = Tree(self.inner if len(leaves) > 1 else self.root, (leaves.pop(), node))
        if node.word is not None:
            return Tree(self.root, (node, *after))
        return Tree(node.label, (*node.children, *after))
