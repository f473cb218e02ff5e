"""The cost of every row of a plan, the total of what is left, and how long that takes on so many devices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from variations.config import AUTO
from variations.planning.cost import Cost, preparation, run_cost
from variations.planning.measuring import Measured, measured
from variations.planning.packing import packed
from variations.planning.rows import Planned
from variations.planning.schedule import Path, Piece, longest_first
from variations.planning.shape import Shape, machine_bytes
from variations.tasks.translation.config import TranslationConfig as Config


@dataclass(frozen=True)
class Price:
    """A row's cost, or why it has none."""

    cost: Cost | None = None
    fault: str | None = None
    exhausted: bool = False


@dataclass(frozen=True)
class Bill:
    """What a launch costs."""

    prices: list[Price]
    """In the order of the rows."""
    seconds: float
    """Of all runs that are left, one after the other."""
    hours: float
    """Device-hours of the same."""
    disk: int
    """Bytes that they will add."""
    preparation: float
    """Seconds to prepare corpora that only a part was read of."""
    places: int
    path: Path
    """With `places` runs at a time."""
    unknown: list[str]
    """Rows that are to be run and have no cost."""


def bill(rows: Sequence[Planned], places: int | None, limit: float, *, fresh: bool) -> Bill:
    """Measure what is not known yet and add up.

    Args:
        rows: The plan.
        places: Runs at the same time; None: `sweep.at_once`, or one for each GPU of this machine.
        limit: Seconds of updates for each shape.
        fresh: Measure again what is known.
    """
    rows = _packed(rows, limit, fresh=fresh)
    shapes = {_name(row): _shape(row) for row in rows if _counts(row)}
    found = measured(shapes, limit, fresh=fresh)
    prices = [_price(row, found[shapes[_name(row)].key()]) if _name(row) in shapes else Price() for row in rows]
    places = places or _places(rows)
    pieces = [piece for row, price in zip(rows, prices, strict=True) for piece in _pieces(row, price, rows)]
    left = [(row, price.cost, run) for row, price in zip(rows, prices, strict=True) for run in row.launches if run.left]
    known = {shape.key(): shape for shape in shapes.values()}
    part = {key: preparation(found[key].values or {}) for key in known}
    return Bill(
        prices=prices,
        seconds=sum(piece.seconds for piece in pieces),
        hours=sum(_hours(row, cost, run.done) for row, cost, run in left if cost is not None),
        disk=sum(0 if cost is None or reuses(row) else cost.disk for row, cost, run in left if run.state == "absent"),
        preparation=max(part.values(), default=0.0),
        places=places,
        path=longest_first(pieces, places),
        unknown=[_name(row) for row, price in zip(rows, prices, strict=True) if _counts(row) and price.cost is None],
    )


def reuses(row: Planned) -> bool:
    """Whether the row only tests another row's checkpoint."""
    return row.config is not None and row.config.variation.reuse is not None and row.config.sweep.reuse


def _packed(rows: Sequence[Planned], limit: float, *, fresh: bool) -> Sequence[Planned]:
    """The rows with as many at once as the launch would choose by measuring, where it is to."""
    base = next((row.config for row in rows if _counts(row)), None)
    if base is None or base.sweep.at_once != AUTO or base.trainer.accelerator != "cpu":
        return rows
    chosen = packed(base, sum(len(row.launches) for row in rows), limit=limit, fresh=fresh)
    return [replace(row, at_once=chosen) for row in rows]


def _name(row: Planned) -> str:
    return f"{row.table}/{row.definition.row}" if row.table else row.definition.row


def _counts(row: Planned) -> bool:
    return row.config is not None and row.config.variation.task == "translation"


def _config(row: Planned) -> Config:
    if row.config is None:
        raise ValueError(f"{_name(row)} is quoted")
    return row.config


def _shape(row: Planned) -> Shape:
    return Shape(_config(row), row.at_once)


def _price(row: Planned, answer: Measured) -> Price:
    if answer.values is None:
        return Price(fault=answer.fault, exhausted=answer.exhausted)
    total = machine_bytes()
    room = None if total is None else total // row.at_once
    return Price(run_cost(_config(row), answer.values, room))


def _seconds(row: Planned, cost: Cost, done: float) -> float:
    training = 0.0 if reuses(row) else (1 - done) * cost.training
    return cost.start + training + cost.test


def _hours(row: Planned, cost: Cost, done: float) -> float:
    return _seconds(row, cost, done) * cost.devices / 3600


def _pieces(row: Planned, price: Price, rows: Sequence[Planned]) -> list[Piece]:
    """The row's runs that are left."""
    if price.cost is None:
        return []
    variation = _config(row).variation
    bases = {other.config.variation.base for other in rows if other.config is not None}
    leader = f"{row.table}/{variation.reuse}" if reuses(row) else None
    return [
        Piece(
            f"{_name(row)} seed {run.seed}",
            _seconds(row, price.cost, run.done),
            first=row.definition.row in bases,
            after=f"{leader} seed {run.seed}" if leader else None,
        )
        for run in row.launches
        if run.left
    ]


def _places(rows: Sequence[Planned]) -> int:
    configs = [row.config for row in rows if row.config is not None]
    if not any(config.trainer.accelerator != "cpu" for config in configs):
        return max((row.at_once for row in rows), default=1)
    import torch

    each = max(config.trainer.devices for config in configs)
    return max(1, torch.cuda.device_count() // each)
