"""Counts and times of each layer over a grid of n and d."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from variations.planning.complexity.layers import LAYERS, Sizes

SAMPLE = 0.003
"""Seconds that one timing takes at least; a quick layer is called so often in a row."""


@dataclass
class Point:
    """One layer at one n and d."""

    layer: str
    n: int
    d: int
    flops: int
    """Counted; a multiply-accumulate is two."""
    samples: list[float] = field(default_factory=list)
    """Seconds of one forward pass, one for each round."""
    calls: int = 1
    """Forward passes of one sample."""

    @property
    def seconds(self) -> float:
        """Median over rounds."""
        return median(self.samples)


def count(layer: str, n: int, d: int, sizes: Sizes) -> int:
    """FLOPs of matrix products and convolutions in one forward pass; nothing is computed, only shapes are followed."""
    with torch.device("meta"), torch.no_grad(), FlopCounterMode(display=False) as counter:
        LAYERS[layer](d, sizes)(torch.empty(1, n, d))
    return int(counter.get_total_flops())


def measure(
    layers: Sequence[str],
    grid: Sequence[tuple[int, int]],
    sizes: Sizes,
    *,
    rounds: int,
    limit: float,
    device: str = "cpu",
    advance: Callable[[], None] = lambda: None,
) -> list[Point]:
    """Time every layer at every (n, d), in rounds that each go through all of them.

    Rounds are interleaved so that a slow minute of the machine falls on all layers alike. After the first, no round is
    begun that would probably not end within `limit` seconds.

    Args:
        layers: Keys of `LAYERS`.
        grid: Pairs (n, d).
        sizes: Heads, kernel width, neighbourhood.
        rounds: Rounds at most.
        limit: Seconds for everything; one round is always made.
        device: `cpu` or `cuda`.
        advance: Called after each sample.
    """
    began = time.perf_counter()
    points = [Point(layer, n, d, count(layer, n, d, sizes)) for n, d in grid for layer in layers]
    modules = {(layer, d): LAYERS[layer](d, sizes).to(device).eval() for layer in layers for d in {d for _, d in grid}}
    inputs = {(n, d): torch.randn(1, n, d, device=device) for n, d in grid}
    longest = 0.0
    for number in range(rounds):
        start = time.perf_counter()
        if number and start - began + longest > limit:
            break
        for point in points:
            _sample(point, modules[point.layer, point.d], inputs[point.n, point.d], device, first=number == 0)
            advance()
        longest = max(longest, time.perf_counter() - start)
    return points


@torch.inference_mode()
def _sample(point: Point, module: nn.Module, x: Tensor, device: str, *, first: bool) -> None:
    if first:  # warms up, and finds how many calls fill a sample
        once = min(_timed(module, x, 1, device) for _ in range(2))
        point.calls = max(1, min(1000, round(SAMPLE / max(once, 1e-7))))
    point.samples.append(_timed(module, x, point.calls, device) / point.calls)


def _timed(module: nn.Module, x: Tensor, calls: int, device: str) -> float:
    _wait(device)
    began = time.perf_counter()
    for _ in range(calls):
        module(x)
    _wait(device)
    return time.perf_counter() - began


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
