"""The PCFG baseline: a treebank grammar by relative frequency (Charniak 1996), markovised, with Viterbi CKY.

NLTK binarises the trees and estimates the rules. Its own Viterbi parser takes seconds for eight words with such a
grammar, so the chart is filled here, with whole vectors of rules at once.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.tasks.parsing.trees import Tree
from variations.tasks.parsing.words import signature

TOP = "TOP"
RARE = 1
"""The tags of words seen at most this often in training are used for unknown words."""
MARKS = {"childChar": "@", "parentChar": "^"}
"""NLTK's own marker of binarised labels, |, occurs in labels such as ADVP|PRT."""


class Pcfg:
    """The grammar of the training trees and its parser.

    `horizontal`: sisters recorded in a binarised label; `vertical`: parents recorded in any label. Unary chains become
    one symbol.
    """

    def __init__(self, trees: Iterable[Tree], horizontal: int = 1, vertical: int = 0) -> None:
        from nltk import Nonterminal, induce_pcfg

        trees = list(trees)
        self.counts = Counter(word for tree in trees for word in tree.words())
        productions: list[Any] = []
        for tree in trees:
            binary = _nltk(Tree(TOP, (tree,)), self.known)
            binary.collapse_unary(collapsePOS=True)
            binary.chomsky_normal_form(horzMarkov=horizontal, vertMarkov=vertical, **MARKS)
            productions += binary.productions()
        rules = induce_pcfg(Nonterminal(TOP), productions).productions()
        self.symbols = sorted({str(rule.lhs()) for rule in rules} - {TOP})
        number = {name: index for index, name in enumerate(self.symbols)}
        self.start: dict[int, float] = {}
        self.lexicon: dict[str, list[tuple[int, float]]] = defaultdict(list)
        """Word or signature: (tag, log P(word | tag))."""
        binary_rules = []
        for rule in rules:
            right, cost = rule.rhs(), math.log(rule.prob())
            if len(right) == 2:
                binary_rules.append((number[str(rule.lhs())], *(number[str(each)] for each in right), cost))
            elif rule.is_lexical():
                self.lexicon[right[0]].append((number[str(rule.lhs())], cost))
            else:
                self.start[number[str(right[0])]] = cost
        binary_rules.sort()
        self.parent, self.left, self.right = (np.array([r[k] for r in binary_rules], dtype=np.int64) for k in range(3))
        self.cost = np.array([rule[3] for rule in binary_rules], dtype=np.float32)
        self.parents, self.groups = np.unique(self.parent, return_index=True)
        self.unseen = self._any_unknown()

    def known(self, word: str) -> str:
        """The word itself, or its class if it is rare."""
        return word if self.counts[word] > RARE else signature(word)

    def _any_unknown(self) -> list[tuple[int, float]]:
        """Tags of a word whose class is unknown, too: those of all rare words."""
        mass: defaultdict[int, float] = defaultdict(float)
        for word, tags in self.lexicon.items():
            if word.startswith("UNKNOWN-"):
                for tag, cost in tags:
                    mass[tag] += math.exp(cost)
        return [(tag, math.log(each)) for tag, each in mass.items()]

    def parse(self, words: Sequence[str]) -> tuple[Tree | None, float]:
        """The most probable tree and its log-probability; (None, -inf) if the grammar has none."""
        n = len(words)
        # chart[i, j, X]: log-probability of the best X over words i to j - 1; K symbols
        chart = np.full((n, n + 1, len(self.symbols)), -np.inf, dtype=np.float32)
        for i, word in enumerate(words):
            for tag, cost in self.lexicon.get(self.known(word), self.unseen):
                chart[i, i + 1, tag] = cost
        for length in range(2, n + 1):
            for i in range(n - length + 1):
                j = i + length
                scores = self._splits(chart, i, j, slice(None)).max(0) + self.cost  # (R,)
                chart[i, j, self.parents] = np.maximum.reduceat(scores, self.groups)
        whole, best = max(((x, chart[0, n, x] + cost) for x, cost in self.start.items()), key=lambda pair: pair[1])
        if best == -np.inf:
            return None, -math.inf
        return _plain(self._trace(chart, words, 0, n, whole)), float(best)

    def _splits(self, chart: NDArray[np.float32], i: int, j: int, rules: slice) -> NDArray[np.float32]:
        """Both children's log-probabilities, (j - i - 1 splits, rules)."""
        left, right = chart[i, i + 1 : j][:, self.left[rules]], chart[i + 1 : j, j][:, self.right[rules]]
        scores: NDArray[np.float32] = left + right
        return scores

    def _trace(self, chart: NDArray[np.float32], words: Sequence[str], i: int, j: int, symbol: int) -> Any:
        """NLTK's tree of the best derivation; at most as deep as the sentence has words."""
        from nltk import Tree as NltkTree

        if j == i + 1:
            return NltkTree(self.symbols[symbol], [words[i]])
        group = slice(*np.searchsorted(self.parent, [symbol, symbol + 1]))
        scores = self._splits(chart, i, j, group) + self.cost[group]
        split, rule = np.unravel_index(scores.argmax(), scores.shape)
        k = i + 1 + int(split)
        left, right = int(self.left[group][rule]), int(self.right[group][rule])
        return NltkTree(
            self.symbols[symbol],
            [self._trace(chart, words, i, k, left), self._trace(chart, words, k, j, right)],
        )


def _nltk(tree: Tree, known: Any) -> Any:
    from nltk import Tree as NltkTree

    if tree.word is not None:
        return NltkTree(tree.label, [known(tree.word)])
    return NltkTree(tree.label, [_nltk(child, known) for child in tree.children])


def _plain(binary: Any) -> Tree:
    """NLTK's tree as ours: unary chains expanded, binarisation and parent annotation removed."""
    from nltk import Tree as NltkTree

    root = NltkTree(TOP, [binary])
    root.un_chomsky_normal_form(**MARKS)

    def convert(node: Any) -> Iterator[Tree]:
        if isinstance(node[0], str):
            yield Tree(node.label(), word=node[0])
        else:
            yield Tree(node.label(), tuple(tree for child in node for tree in convert(child)))

    return next(convert(root[0]))
