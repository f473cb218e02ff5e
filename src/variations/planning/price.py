"""The cost of every row of a plan, the total of what is left, and its duration on a number of devices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from variations.configuration.schema import AUTO
from variations.planning.cost import Cost, preparation, run_cost
from variations.planning.measuring import Measured, measured
from variations.planning.packing import packed
from variations.planning.rows import Planned
from variations.planning.schedule import Path, Piece, longest_first
from variations.planning.shape import Shape, machine_bytes


@dataclass(frozen=True)
class Price:
    """A row's cost, or why it has none."""

    cost: Cost | None = None
    fault: str | None = None
    exhausted: bool = False
    """Whether memory ran out."""


@dataclass(frozen=True)
class Bill:
    """What a launch costs."""

    prices: list[Price]
    """In the order of the rows."""
    seconds: float
    """Of all runs left, one after the other."""
    hours: float
    """Device-hours of the same."""
    disk: int
    """Bytes of checkpoints that they add."""
    preparation: float
    """Seconds to prepare corpora of which only a part was read."""
    places: int
    path: Path
    """With `places` runs at a time."""
    unknown: list[str]
    """Rows that are to be run and have no cost."""


def bill(rows: Sequence[Planned], places: int | None, limit: float, *, fresh: bool) -> Bill:
    """Measure what is not known yet, and add up.

    Args:
        rows: The plan.
        places: Runs at the same time; None: `sweep.at_once`, or one for each GPU of this machine.
        limit: Seconds of updates for each shape.
        fresh: Whether to repeat known measurements.
    """
    rows = _packed(rows, limit, fresh=fresh)
    shapes = {row.name: Shape(row.config, row.at_once) for row in rows if row.config is not None and row.trainable}
    found = measured(shapes, limit, fresh=fresh)
    answers = [found[shapes[row.name].key()] if row.name in shapes else None for row in rows]
    prices = [_price(row, answer) for row, answer in zip(rows, answers, strict=True)]
    places = places or _places(rows)
    bases = {row.config.variation.base for row in rows if row.config is not None}
    pieces, hours, disk = [], 0.0, 0
    for row, price in zip(rows, prices, strict=True):
        if (cost := price.cost) is None:
            continue
        for run in row.left:
            share = 0.0 if row.reuses else 1 - run.done
            after = f"{row.table}/{row.reuses} seed {run.seed}" if row.reuses else None
            first = row.definition.row in bases
            pieces.append(Piece(f"{row.name} seed {run.seed}", cost.seconds(share), first, after))
            hours += cost.hours(share)
            disk += cost.disk if run.state == "absent" and not row.reuses else 0
    return Bill(
        prices=prices,
        seconds=sum(piece.seconds for piece in pieces),
        hours=hours,
        disk=disk,
        preparation=max((preparation(answer.values or {}) for answer in answers if answer), default=0.0),
        places=places,
        path=longest_first(pieces, places),
        unknown=[row.name for row, price in zip(rows, prices, strict=True) if row.trainable and price.cost is None],
    )


def _packed(rows: Sequence[Planned], limit: float, *, fresh: bool) -> Sequence[Planned]:
    """The rows with `at_once` as the launch would choose it, if that is by measuring."""
    base = next((row.config for row in rows if row.trainable), None)
    if base is None or base.sweep.at_once != AUTO or base.trainer.accelerator != "cpu":
        return rows
    chosen = packed(base, sum(len(row.launches) for row in rows), limit=limit, fresh=fresh)
    return [replace(row, at_once=chosen) for row in rows]


def _price(row: Planned, answer: Measured | None) -> Price:
    if row.config is None or answer is None or answer.values is None:
        return Price(fault=answer.fault, exhausted=answer.exhausted) if answer else Price()
    total = machine_bytes()
    return Price(run_cost(row.config, answer.values, None if total is None else total // row.at_once))


def _places(rows: Sequence[Planned]) -> int:
    trainers = [row.config.trainer for row in rows if row.config is not None]
    if all(trainer.accelerator == "cpu" for trainer in trainers):
        return max((row.at_once for row in rows), default=1)
    import torch

    return max(1, torch.cuda.device_count() // max(trainer.devices for trainer in trainers))
