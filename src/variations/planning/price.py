"""The cost of every row of a plan, the total of what is left, and its duration on a number of devices."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from variations.configuration.schema import AUTO
from variations.planning.at_once import fastest
from variations.planning.cost import Cost, preparation, run_cost
from variations.planning.measuring import Measured, Shape, measured
from variations.planning.rows import Planned
from variations.sweeping.local import on_gpus, visible_gpus
from variations.system.processes import machine_bytes


@dataclass(frozen=True)
class Piece:
    """A run to be executed."""

    name: str
    seconds: float
    first: bool = False
    """Whether it is a base row's run, which starts before the others."""
    after: str | None = None
    """Name of the run whose checkpoint it needs; a run that is not among the pieces is finished already."""


@dataclass(frozen=True)
class Path:
    """A schedule of all pieces."""

    seconds: float
    """From the first start to the last end."""
    critical: list[str]
    """The critical path: the sequence of pieces, without pauses, that determines the end."""


def longest_first(pieces: Sequence[Piece], places: int) -> Path:
    """Give each free place the longest piece that can start (Graham's LPT rule).

    It is at most a third above the optimum if no piece has `after` or `first`.

    Args:
        pieces: The runs; `after` must not form a cycle.
        places: Number of pieces at the same time, at least 1.
    """
    undone = {piece.name for piece in pieces}
    waiting = sorted(pieces, key=lambda piece: (not piece.first, -piece.seconds))
    running: list[tuple[float, str]] = []  # when it ends, and its name
    before: dict[str, str | None] = {}  # the piece whose end it waited for
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


@dataclass(frozen=True)
class Price:
    """A row's cost, or why it is unknown."""

    cost: Cost | None = None
    fault: str | None = None
    exhausted: bool = False
    """Whether memory ran out."""


@dataclass(frozen=True)
class Bill:
    """The cost of a launch."""

    prices: list[Price]
    """In the order of the rows."""
    seconds: float
    """Seconds for all runs left, one after the other."""
    hours: float
    """Device-hours for the same."""
    cores: float | None
    """CPU cores that are reserved for each process; None: none are."""
    disk: int
    """Bytes of checkpoints that they add."""
    preparation: float
    """Seconds to prepare corpora of which only a part was read."""
    places: int
    path: Path
    """The schedule with `places` runs at a time."""
    unknown: list[str]
    """Rows that are to be run but have no known cost."""


def bill(
    rows: Sequence[Planned],
    places: int | None,
    limit: float,
    job: tuple[float, bool] | None = None,
    *,
    fresh: bool,
) -> Bill:
    """Measure what is not known yet, and add up.

    Args:
        rows: The plan.
        places: Runs at the same time; None: `sweep.at_once`, and at most as many as fit the GPUs of this machine.
        limit: Seconds of updates for each shape.
        job: CPU cores that are reserved for each process, and whether it is executed on another machine, so that no
            other run is measured beside it; None: the runs share this one.
        fresh: Whether to repeat known measurements.
    """
    cores, elsewhere = job or (None, False)
    rows = rows if elsewhere else _at_once(rows, limit, fresh=fresh)
    places = places or _places(rows)
    rows = [replace(row, at_once=1) for row in rows] if elsewhere else rows
    threads = None if cores is None else max(1, int(cores))
    shapes = {row.name: Shape(row.config, row.at_once, given=threads) for row in rows if row.config is not None}
    found = measured(shapes, limit, fresh=fresh, told=True)
    answers = [found[shapes[row.name].key()] if row.name in shapes else None for row in rows]
    prices = [_price(row, answer) for row, answer in zip(rows, answers, strict=True)]
    bases = {row.config.variation.base for row in rows if row.config is not None}
    pieces, hours, disk = [], 0.0, 0
    for row, price in zip(rows, prices, strict=True):
        if (cost := price.cost) is None:
            continue
        for run in row.left:
            share = 0.0 if row.reuses else max(0.0, 1 - run.done / cost.part)
            after = f"{row.table}/{row.reuses} seed {run.seed}" if row.reuses else None
            first = row.definition.row in bases
            pieces.append(Piece(f"{row.name} seed {run.seed}", cost.seconds(share), first, after))
            hours += cost.hours(share)
            disk += cost.disk if run.state == "absent" and not row.reuses else 0
    return Bill(
        prices=prices,
        seconds=sum(piece.seconds for piece in pieces),
        hours=hours,
        cores=cores,
        disk=disk,
        preparation=max((preparation(answer.values or {}) for answer in answers if answer), default=0.0),
        places=places,
        path=longest_first(pieces, places),
        unknown=[
            row.name for row, price in zip(rows, prices, strict=True) if row.config is not None and price.cost is None
        ],
    )


def _at_once(rows: Sequence[Planned], limit: float, *, fresh: bool) -> Sequence[Planned]:
    """The rows with `at_once` as the launch would choose it by measuring, if it would."""
    base = next((row.config for row in rows if row.config is not None), None)
    if base is None or base.sweep.at_once != AUTO or on_gpus(base.trainer.accelerator):
        return rows
    chosen = fastest(base, sum(len(row.launches) for row in rows), limit=limit, fresh=fresh)
    return [replace(row, at_once=chosen) for row in rows]


def _price(row: Planned, answer: Measured | None) -> Price:
    if row.config is None or answer is None or answer.values is None:
        return Price(fault=answer.fault, exhausted=answer.exhausted) if answer else Price()
    total = machine_bytes()
    return Price(run_cost(row.config, answer.values, None if total is None else total // row.at_once))


def _places(rows: Sequence[Planned]) -> int:
    configs = [row.config for row in rows if row.config is not None]
    gpus = max((len(visible_gpus(config.trainer.accelerator)) for config in configs), default=0)
    if not gpus:
        return max((row.at_once for row in rows), default=1)
    fit = max(1, gpus // max(config.trainer.devices for config in configs))
    return min(configs[0].sweep.most or fit, fit)
