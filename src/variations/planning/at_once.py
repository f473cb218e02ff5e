"""The number of simultaneous runs that finish most rows per hour, on the CPU or on one GPU: `sweep.at_once=auto`.

For 1, 2, 4 … runs, as many probes run updates at the same time, each with its share of the cores, until more of them
achieve less together or run out of memory. Measurements are stored in the cache that `plan.py` uses.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from variations.configuration.schema import RunConfig
from variations.planning.cost import Cost, run_cost
from variations.planning.measuring import Measured, Shape, measured
from variations.system.processes import cores, machine_bytes

LIMIT = 5.0
"""Seconds of updates for each number of runs, in addition to start and decoding."""
GPU_OVERHEAD = 600_000_000
"""Bytes of GPU memory per process in addition to what torch reserves: CUDA's context, libraries."""


@dataclass(frozen=True)
class Rate:
    """The throughput of simultaneous runs."""

    at_once: int
    steps: float
    """Steps per minute."""
    rows: float
    """Whole rows per hour, from start to scores."""

    def __str__(self) -> str:
        steps, rows = (f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in (self.steps, self.rows))
        return f"{self.at_once} at once {steps} steps/min, {rows} rows/h"


def fastest(
    config: RunConfig, runs: int, gpus: Sequence[str] = (), *, limit: float = LIMIT, fresh: bool = False
) -> int:
    """Measure which number of simultaneous runs is fastest, and report it on standard error.

    Args:
        config: The configuration of the base row, whose shape represents all rows.
        runs: How many there are.
        gpus: GPUs that the runs may use, as CUDA_VISIBLE_DEVICES names them; empty: they use the CPU.
        limit: Seconds of updates for each number of runs.
        fresh: Whether to repeat known measurements.

    Returns:
        The number of simultaneous runs on the machine, or on each of its GPUs.

    Raises:
        UserError: The cache cannot be written.
    """
    most = largest(config, runs, len(gpus))
    if most == 1:
        chosen, told = 1, f"of {runs} run{'s' * (runs != 1)}, on {cores()} core{'s' * (cores() != 1)}"
    else:
        rates, end = tried(config, most, gpus, lambda s: measured({"": s}, limit, fresh=fresh)[s.key()])
        chosen = best(rates) if rates else 1
        told = "; ".join([*map(str, rates), *([end] if end else [])])
        told = told if rates else f"more could not be measured; {end}"
    sys.stderr.write(f"{'per_gpu' if gpus else 'at_once'}: {chosen} ({told})\n")
    return chosen


def largest(config: RunConfig, runs: int, gpus: int = 0) -> int:
    """Return the largest number of simultaneous runs to try: a core for each process, and no more than the runs."""
    devices = config.trainer.devices
    places = max(1, gpus)
    return max(1, min(cores() // places // (1 if gpus else devices), -(-runs * (devices if gpus else 1) // places)))


def candidates(most: int) -> list[int]:
    """1, 2, 4 … and `most` itself."""
    return [*(k for k in (2**i for i in range(most.bit_length())) if k < most), most]


def best(rates: Sequence[Rate]) -> int:
    """Return the number of runs that finishes most rows per hour; of equal ones the smallest."""
    return max(rates, key=lambda rate: (rate.rows, -rate.at_once)).at_once


def tried(
    config: RunConfig, most: int, gpus: Sequence[str], measure: Callable[[Shape], Measured]
) -> tuple[list[Rate], str]:
    """Measure increasing numbers of runs until they achieve less together; also return why this ended early, if it did.

    Args:
        config: Of each run.
        most: Largest number of simultaneous runs.
        gpus: GPUs that share the cores; the first is measured.
        measure: Measures a shape.
    """
    whole = replace(config, trainer=replace(config.trainer, max_minutes=None))  # shorter training must not look faster
    found: list[Rate] = []
    total = machine_bytes()
    for k in candidates(most):
        gpu, busy = (gpus[0], max(1, k * len(gpus) // config.trainer.devices)) if gpus else (None, None)
        answer = measure(Shape(config, k, gpu, busy))
        if answer.values is None:
            return found, f"{k} at once: {'memory ran out' if answer.exhausted else answer.fault}"
        cost = run_cost(whole, answer.values, None if total is None else total // k)
        if not _fits(cost, k, on_gpu=bool(gpus)):
            return found, f"{k} at once need more memory than there is"
        found.append(Rate(k, 60 * k / answer.values["update_seconds"], 3600 * k / cost.seconds()))
        if best(found) != k:
            break
        if gpus and not _fits(cost, min(2 * k, most), on_gpu=True):
            return found, "no memory for more"
    return found, ""


def _fits(cost: Cost, at_once: int, *, on_gpu: bool) -> bool:
    """Whether there is enough memory for `at_once` runs of this cost; on a GPU, each needs what `cost` says."""
    if on_gpu and cost.room is not None:
        return at_once * (cost.memory + GPU_OVERHEAD) <= cost.room
    return cost.fits is not False
