"""How long many runs take on a few devices: the longest first, base rows before all, followers after their leaders."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """A run to be done."""

    name: str
    seconds: float
    first: bool = False
    """A base row's run: it is started before the others."""
    after: str | None = None
    """Name of the run whose checkpoint it needs; a name that is not among the pieces is done already."""


@dataclass(frozen=True)
class Path:
    """A way to do all pieces."""

    seconds: float
    """From the first start to the last end."""
    critical: list[str]
    """The pieces, first to last, that the end waited for without a pause."""


def longest_first(pieces: Sequence[Piece], places: int) -> Path:
    """Give each free place the longest piece that can start (Graham's LPT rule: at most a third over the optimum).

    Args:
        pieces: What there is to do; `after` must not go in circles.
        places: Pieces at the same time, at least 1.
    """
    undone = {piece.name for piece in pieces}
    waiting = sorted(pieces, key=lambda piece: (not piece.first, -piece.seconds))
    running: list[tuple[float, str]] = []  # when it ends, and its name
    before: dict[str, str | None] = {}  # the piece at whose end it started
    now, last = 0.0, None
    while undone:
        for piece in [p for p in waiting if p.after not in undone][: places - len(running)]:
            waiting.remove(piece)
            heapq.heappush(running, (now + piece.seconds, piece.name))
            before[piece.name] = last
        now, last = heapq.heappop(running)
        undone.remove(last)
    chain: list[str] = []
    while last is not None:
        chain.append(last)
        last = before[last]
    return Path(now, chain[::-1])
