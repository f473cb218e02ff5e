"""The duration of many runs on a few devices: base rows first, then the longest; a row waits for one it depends on."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """A run to execute."""

    name: str
    seconds: float
    first: bool = False
    """Whether it is the run of a base row, which starts before the others."""
    after: str | None = None
    """Name of the run whose checkpoint it needs; a name that is not among the pieces is finished."""


@dataclass(frozen=True)
class Path:
    """A schedule of all pieces."""

    seconds: float
    """From the first start to the last end."""
    critical: list[str]
    """The critical path: pieces in order, each started when the one before it ended."""


def longest_first(pieces: Sequence[Piece], places: int) -> Path:
    """Give each free place the longest piece that can start (Graham's LPT rule: at most a third above the optimum).

    Args:
        pieces: Runs; `after` must not be circular.
        places: Pieces that run at the same time, at least 1.
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
