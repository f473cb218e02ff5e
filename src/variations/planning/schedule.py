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
    known = {piece.name for piece in pieces}
    waiting = sorted(pieces, key=lambda piece: (not piece.first, -piece.seconds))
    free: list[tuple[float, int]] = [(0.0, place) for place in range(min(places, max(1, len(pieces))))]
    ended: dict[str, float] = {}
    before: dict[str, str | None] = {}
    last_on: dict[int, str] = {}
    while waiting:
        now, place = heapq.heappop(free)
        ready = [p for p in waiting if p.after not in known or ended.get(p.after or "", float("inf")) <= now]
        if not ready:  # wait for the next leader to end
            later = min(ended[p.after] for p in waiting if p.after in ended)
            heapq.heappush(free, (later, place))
            last_on[place] = next(name for name, end in ended.items() if end == later)
            continue
        piece = ready[0]
        waiting.remove(piece)
        followed = piece.after in known and ended.get(piece.after or "") == now
        before[piece.name] = piece.after if followed else last_on.get(place)
        ended[piece.name] = now + piece.seconds
        last_on[place] = piece.name
        heapq.heappush(free, (ended[piece.name], place))
    if not ended:
        return Path(0.0, [])
    chain: list[str] = []
    at: str | None = max(ended, key=lambda name: ended[name])
    total = ended[at or ""]
    while at is not None:
        chain.append(at)
        at = before.get(at)
    return Path(total, chain[::-1])
