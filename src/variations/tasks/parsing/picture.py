"""A predicted tree above its words and the gold tree below them, as SVG; brackets that differ are marked."""

from collections import Counter
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from variations.store.ledger import RunFolder
from variations.system.errors import DataError
from variations.tasks.base import Drawing
from variations.tasks.parsing import stored
from variations.tasks.parsing.parameters import COLLINS
from variations.tasks.parsing.trees import Tree, parse_trees

WRONG, MISSED = "#D55E00", "#0072B2"
"""Vermilion and blue of Okabe and Ito's palette, which colour-blind readers can distinguish."""
LETTER, CAPITAL, LEVEL, MARGIN = 7.5, 9.5, 34, 12
"""Width of a letter and of a bold capital, height of a level of the tree, margin, in pixels."""
MOST, LONGEST = 20, 25
"""Most drawings of a set, and words of the longest sentence drawn by default."""


def drawings(folder: RunFolder, part: str, line: int | None = None) -> list[Drawing]:
    """The parse of a given line of a set, or of the first short sentences that were parsed incorrectly."""
    pairs = stored.lines(folder, part)
    if pairs and line is not None and line > len(pairs):
        raise DataError(f"line={line}: set={part} has {len(pairs)} sentences.")
    drawn: list[Drawing] = []
    for number, sides in enumerate(pairs, 1):
        if line not in (None, number) or (line is None and sides[0] == sides[1]):
            continue
        ours, gold = (
            _one(text, f"{part}.{side}, tree {number}") for text, side in zip(sides, ("hyp", "ref"), strict=True)
        )
        words = gold.words()
        if ours.words() != words:
            raise DataError(f"tree {number} of set={part} and its gold tree are over different words.")
        if line is not None or len(words) <= LONGEST:
            drawn.append(Drawing(number, " ".join(words), picture(ours, gold)))
        if len(drawn) == MOST:
            break
    return drawn


def _one(text: str, source: str) -> Tree:
    trees = parse_trees(text, source)
    if len(trees) != 1:
        raise DataError(f"{source}: expected one tree, found {len(trees)}.")
    return trees[0]


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the drawing; levels are counted from the words, whose tags are at level 1."""

    label: str
    x: float
    level: int
    children: tuple[int, ...]
    differs: bool


def picture(predicted: Tree, gold: Tree) -> str:
    """Both trees as one SVG, in the page's own text colour.

    A bracket is marked if EVALB with COLLINS.prm does not match it: punctuation does not count, ADVP equals PRT.
    Raises ValueError if the trees are over different words.
    """
    words = gold.words()
    if predicted.words() != words:
        raise ValueError("both trees must be over the same words")
    sides = list(zip(predicted.leaves(), gold.leaves(), strict=True))
    widths = [
        max(LETTER * len(word), CAPITAL * max(len(p.label), len(g.label))) + 14
        for word, (p, g) in zip(words, sides, strict=True)
    ]
    centres = [MARGIN + right - width / 2 for right, width in zip(accumulate(widths), widths, strict=True)]
    above, below = _layout(predicted, gold, centres), _layout(gold, predicted, centres)
    base = MARGIN + 22 + LEVEL * max(node.level for node in above)
    width = max(sum(widths) + 2 * MARGIN, 460)
    height = base + LEVEL * max(node.level for node in below) + 40
    wrong, missed = (sum(node.differs for node in nodes) for nodes in (above, below))
    title = f"Above: predicted (wrong brackets: {wrong}). Below: gold (missed brackets: {missed})."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" font-family="sans-serif" font-size="12" fill="currentColor" '
        f'text-anchor="middle"><title>{title}</title>',
        f'<text x="{MARGIN}" y="{MARGIN + 4}" text-anchor="start">{title}</text>',
        *_draw(above, base, -1, WRONG),
        *(_text(x, base + 4, word, ' font-weight="bold"') for x, word in zip(centres, words, strict=True)),
        *_draw(below, base, 1, MISSED),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _layout(tree: Tree, other: Tree, centres: list[float]) -> list[_Node]:
    """The nodes in post-order, so that children come before their parent."""
    free = Counter(_bracket(span) for span in other.spans(skip=COLLINS.deleted))
    spans = iter(tree.spans(skip=COLLINS.deleted))
    differs: dict[int, bool] = {}
    order = list(tree.nodes())  # a parent before its children
    for place, node in enumerate(order):
        if node.word is None:
            label, start, end = _bracket(next(spans))
            free[label, start, end] -= 1
            differs[place] = start < end and label not in COLLINS.deleted and free[label, start, end] < 0
    nodes: list[_Node] = []
    waiting: list[int] = []  # finished nodes without a parent yet, the leftmost last
    word = len(centres)
    for place in reversed(range(len(order))):
        tree_node = order[place]
        if tree_node.word is not None:
            word -= 1
            nodes.append(_Node(tree_node.label, centres[word], 1, (), False))
        else:
            children = tuple(waiting.pop() for _ in tree_node.children)
            x = (nodes[children[0]].x + nodes[children[-1]].x) / 2
            level = 1 + max(nodes[child].level for child in children)
            nodes.append(_Node(tree_node.label, x, level, children, differs[place]))
        waiting.append(len(nodes) - 1)
    return nodes


def _bracket(span: tuple[str, int, int]) -> tuple[str, int, int]:
    label, start, end = span
    return ("ADVP" if label == "PRT" else label), start, end


def _draw(nodes: list[_Node], base: float, way: int, colour: str) -> list[str]:
    """Lines first, labels over them; `way` is -1 for a tree above its words and 1 below.

    A line to a child further down goes straight down below the level of its siblings, where it would cross their nodes.
    """
    lines, labels = [], []
    for node in nodes:
        y = base + way * LEVEL * node.level
        for child in (nodes[number] for number in node.children):
            end = base + way * (LEVEL * child.level + 8)
            bend = base + way * LEVEL * (node.level - 1) if child.level < node.level - 1 else end
            lines.append(_line(node.x, y - way * 8, child.x, bend))
            if bend != end:
                lines.append(_line(child.x, bend, child.x, end))
        if node.differs:
            width = CAPITAL * len(node.label) + 8
            box = f'x="{node.x - width / 2:.1f}" y="{y - 9:.1f}" width="{width:.1f}" height="18" rx="3"'
            labels.append(f'<rect {box} fill="none" stroke="{colour}" stroke-width="1.5"/>')
        style = f' fill="{colour}" font-weight="bold"' if node.differs else ""
        labels.append(_text(node.x, y + 4, node.label, style))
    return lines + labels


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="0.4"/>'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{escape(words)}</text>'
