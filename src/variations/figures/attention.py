"""Attention weights as heat maps, and as lines between words (Vaswani et al. 2017, Figures 3 to 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from variations.figures.canvas import COLOURS, INK, legend, linestyle, new, plain
from variations.system.errors import UserError

WEAKEST = 0.03
"""Lines of smaller weight, which are many and invisible, are left out."""
HEAD_COLOURS = (*COLOURS, INK)
"""A colour for each of eight heads; further heads repeat the colours with dashed lines."""
PARTS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights of one sub-layer for one sentence."""

    part: str
    """`encoder`, `decoder` (self-attention) or `cross`."""
    layer: int
    """From 1."""
    weights: NDArray[np.float32]
    """(h, T, S): each query's weights over the keys, 0 where they are masked."""
    queries: tuple[str, ...]
    """T sub-words; in the decoder, those to be predicted."""
    keys: tuple[str, ...]
    """S sub-words; in the decoder's self-attention, those already read, beginning with the start symbol."""

    @property
    def title(self) -> str:
        """Such as `encoder self-attention, layer 5`."""
        return f"{PARTS[self.part]}, layer {self.layer}"


def readable(pieces: Sequence[str]) -> tuple[str, ...]:
    """Sub-words for display: a word's first piece plain, later pieces after a dot, special symbols in brackets."""
    special = {"</s>": "⟨end⟩", "<s>": "⟨start⟩", "<pad>": "⟨start⟩", "<unk>": "⟨unknown⟩"}
    shown = []
    for piece in pieces:
        if piece in special:
            shown.append(special[piece])
        else:
            shown.append(piece[1:] or "␣" if piece.startswith("▁") else f"·{piece}")
    return tuple(shown)


def chosen_heads(found: AttentionMap, heads: Sequence[int] | None) -> list[int]:
    """Indices, from 0, of the chosen heads, by default all. Raises UserError for a head that does not exist."""
    count = len(found.weights)
    if wrong := [head for head in heads or () if not 1 <= head <= count]:
        raise UserError(f"heads={wrong}: {found.title} has heads 1 to {count}.")
    return [head - 1 for head in heads] if heads else list(range(count))


def positions_of(found: AttentionMap, words: Sequence[str]) -> list[int]:
    """Positions of queries that belong to one of `words`, ignoring case; a word may have several pieces."""
    wanted = {word.casefold() for word in words}
    return [i for group, text in _whole_words(found.queries) if text.casefold() in wanted for i in group]


def query_words(found: AttentionMap) -> list[str]:
    """The whole words among the queries."""
    return [text for _, text in _whole_words(found.queries)]


def _whole_words(pieces: Sequence[str]) -> list[tuple[list[int], str]]:
    groups: list[tuple[list[int], str]] = []
    for i, piece in enumerate(pieces):
        later = piece.startswith("·") and len(piece) > 1
        if later and not any(map(str.isalnum, piece)):  # a full stop after a word is not part of it
            groups.append(([i], piece[1:]))
        elif later and groups:
            groups[-1] = ([*groups[-1][0], i], groups[-1][1] + piece[1:])
        else:
            groups.append(([i], piece))
    return groups


def heat_maps(found: AttentionMap, heads: Sequence[int]) -> Any:
    """A panel for each head (indices from 0), with the sub-words on both axes."""
    columns = min(4, len(heads))
    rows = -(-len(heads) // columns)
    T, S = found.weights.shape[1:]
    side = min(0.12 * max(T, S) + 0.9, 5.0) if len(heads) > 1 else min(0.2 * max(T, S) + 1.5, 9.0)
    side = max(side, 1.7)
    size = max(3.5, min(8.0, 72 * side / (1.5 * max(T, S))))
    ratio = min(2.0, max(0.5, T / S))
    options = {"sharex": True, "sharey": True}
    figure, panels = new(1.6 + columns * side, 1.6 + rows * side * ratio, rows, columns, **options)
    image = None
    for panel, head in zip(panels, heads, strict=False):
        image = _shaded(panel, found.weights[head], found.queries, found.keys, size)
        panel.set_title(f"head {head + 1}")
    for panel in panels[len(heads) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(heads) - columns) : len(heads)]:
        panel.tick_params(labelbottom=True)  # also above an empty panel
    figure.colorbar(image, ax=panels, label="attention weight", shrink=min(1.0, 2.5 / (rows * side * ratio)), pad=0.02)
    _words_around(figure, found.title, found.part)
    return figure


def alignment_map(weights: NDArray[np.float32], target: Sequence[str], source: Sequence[str], where: str) -> Any:
    """A mean of cross-attention (T, S) as a heat map; `where` says over what the mean was taken."""
    side = 0.22 * max(len(target), len(source)) + 1.2
    figure, panels = new(side + 1.2, 0.22 * len(target) + 2.2)
    image = _shaded(panels[0], weights, target, source, 8)
    figure.colorbar(image, ax=panels, label="attention weight", pad=0.02)
    _words_around(figure, f"{PARTS['cross']}, {where}", "cross")
    return figure


def overview(maps: Sequence[AttentionMap]) -> Any:
    """All layers (rows) and heads (columns) of one part, without words."""
    columns = max(len(item.weights) for item in maps)
    figure, panels = new(1.4 + 1.25 * columns, 1.3 + 1.3 * len(maps), len(maps), columns, sharex=True, sharey=True)
    image = None
    for i, item in enumerate(maps):
        for head in range(columns):
            panel = panels[i * columns + head]
            if head >= len(item.weights):
                panel.set_visible(False)
                continue
            image = _shaded(panel, item.weights[head], (), (), 8)
            if i == 0:
                panel.set_title(f"head {head + 1}", fontsize=8)
            if head == 0:
                panel.set_ylabel(f"layer {item.layer}", fontsize=8)
    figure.colorbar(image, ax=panels, label="attention weight", shrink=min(1.0, 3 / (1.3 * len(maps))), pad=0.02)
    _words_around(figure, f"{PARTS[maps[0].part]}, all layers and heads", maps[0].part)
    return figure


def _shaded(panel: Any, weights: NDArray[np.float32], queries: Sequence[str], keys: Sequence[str], size: float) -> Any:
    """Weights (T, S) as shades of blue, with the words on the axes, or without words."""
    image = panel.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    panel.set_xticks(range(len(keys)), keys, rotation=90, fontsize=size, parse_math=False)
    panel.set_yticks(range(len(queries)), queries, fontsize=size, parse_math=False)
    panel.tick_params(length=0)
    return image


def lines(found: AttentionMap, heads: Sequence[int], queries: Sequence[int] | None = None) -> Any:
    """Queries on the left, keys on the right, a line for each weight in the head's colour, stronger if it is larger.

    Args:
        found: The map.
        heads: Indices from 0.
        queries: Draw lines from these positions only; None: from all. Each key then has a box for each head that shows
            its mean weight from these positions.
    """
    T, S = found.weights.shape[1:]
    figure, panels = new(5.6, 1.1 + 0.2 * max(T, S))
    panel = panels[0]
    panel.set(xlim=(-1.0, 2.0), ylim=(max(T, S) - 0.4, -0.9))
    panel.axis("off")
    asked = list(range(T)) if queries is None else list(queries)
    for i, word in enumerate(found.queries):
        lit = queries is not None and i in asked
        panel.text(-0.03, i, word, ha="right", va="center", fontsize=9, parse_math=False, **_tone(lit, queries is None))
    boxes = 0.045 * len(heads) if queries is not None else 0.0
    for j, word in enumerate(found.keys):
        panel.text(1.03 + boxes, j, word, ha="left", va="center", fontsize=9, parse_math=False)
    apart = min(0.09, 0.6 / len(heads))  # lines of heads that agree would hide each other
    for order, head in enumerate(heads):
        _bundle(panel, found.weights[head], asked, head, apart * (order - (len(heads) - 1) / 2))
        if queries is not None and asked:
            _boxes(panel, found.weights[head][asked].mean(axis=0), 1.02 + 0.045 * order, head)
    panel.text(-0.03, -0.8, "query", ha="right", va="center", fontsize=8, color="#777777")
    panel.text(1.03 + boxes, -0.8, "key", ha="left", va="center", fontsize=8, color="#777777")
    looks = [(f"head {head + 1}", {"color": _colour(head), "ls": _dashes(head), "lw": 2.4}) for head in heads]
    note = f"{found.title}; lines of weight below {WEAKEST:g} are left out"
    legend(figure, looks, min(4, len(heads)), note, fontsize=8, handlelength=4.5)
    return figure


def _colour(head: int) -> str:
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def _dashes(head: int) -> Any:
    return linestyle(head // len(HEAD_COLOURS) * len(COLOURS))


def _tone(lit: bool, everything: bool) -> dict[str, Any]:
    if everything:
        return {}
    return {"weight": "bold"} if lit else {"color": "#999999"}


def _bundle(panel: Any, weights: NDArray[np.float32], queries: Sequence[int], head: int, shift: float) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    strong = [(i, int(j)) for i in queries for j in np.flatnonzero(weights[i] >= WEAKEST)]
    strength = [float(weights[i, j]) for i, j in strong]
    panel.add_collection(
        LineCollection(
            [[(0, i + shift), (1, j + shift)] for i, j in strong],
            colors=[to_rgba(_colour(head), min(1.0, value)) for value in strength],
            linewidths=[0.6 + 2.0 * value for value in strength],
            linestyles=[_dashes(head)],
            capstyle="round",
        )
    )


def _boxes(panel: Any, weights: NDArray[np.float32], x: float, head: int) -> None:
    from matplotlib.patches import Rectangle

    for j, value in enumerate(weights):
        panel.add_patch(Rectangle((x, j - 0.4), 0.04, 0.8, color=_colour(head), alpha=min(1.0, float(value)), lw=0))


def _words_around(figure: Any, title: str, part: str) -> None:
    queries = "query: sub-word" if part == "encoder" else "query: sub-word being predicted"
    keys = {"encoder": "key: sub-word", "decoder": "key: sub-word already read", "cross": "key: source sub-word"}
    figure.suptitle(plain(title), fontsize=10)
    figure.supxlabel(keys[part], fontsize=8)
    figure.supylabel(queries, fontsize=8)
