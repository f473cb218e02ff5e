"""One layer of each kind of Table 1 (Vaswani et al. 2017, section 4), (B, n, d) to (B, n, d), counted and timed.

Table 1 counts attention itself: scores and weighted sum. It leaves out the projections W_Q, W_K, W_V and W_O, which
add O(n·d²); they are included here only with `projections`.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True)
class Sizes:
    """Sizes other than n and d."""

    heads: int = 8
    kernel: int = 3
    """Width k of both convolutions."""
    neighbourhood: int = 16
    """r: position i sees i - r to i + r."""
    recurrent: str = "gru"
    """`gru` or `lstm`."""
    projections: bool = False


class SelfAttention(nn.Module):
    """Every position attends to every other: O(n²·d)."""

    def __init__(self, d: int, sizes: Sizes) -> None:
        super().__init__()
        self.h = sizes.heads
        self.inputs = nn.Linear(d, 3 * d) if sizes.projections else None
        self.output = nn.Linear(d, d) if sizes.projections else None

    def forward(self, x: Tensor) -> Tensor:
        """See the module; without projections x is query, key and value."""
        B, n, d = x.shape
        parts = self.inputs(x).chunk(3, dim=-1) if self.inputs is not None else (x, x, x)
        q, k, v = (part.view(B, n, self.h, d // self.h).transpose(1, 2) for part in parts)  # (B, h, n, d/h)
        heads = self.attend(q, k, v).transpose(1, 2).reshape(B, n, d)
        out: Tensor = heads if self.output is None else self.output(heads)
        return out

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """softmax(q kᵀ / √d_k) v, all (B, h, n, d/h)."""
        return F.scaled_dot_product_attention(q, k, v)


class RestrictedSelfAttention(SelfAttention):
    """Every position attends to r neighbours on either side: O(r·n·d).

    Queries are cut into blocks of r; a block's neighbours lie within 3r keys, so no n × n matrix is ever made. Within
    a block, keys farther than r are masked: 3r products a query where 2r + 1 are needed.
    """

    def __init__(self, d: int, sizes: Sizes) -> None:
        super().__init__(d, sizes)
        self.r = sizes.neighbourhood

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """As `SelfAttention.attend`, confined to the neighbourhood."""
        n, r = q.size(2), self.r
        blocks = -(-n // r)
        short = blocks * r - n
        queries = F.pad(q, (0, 0, 0, short)).unflatten(2, (blocks, r))  # (B, h, n/r, r, d/h)
        keys, values = (F.pad(x, (0, 0, r, r + short)).unfold(2, 3 * r, r) for x in (k, v))  # (B, h, n/r, d/h, 3r)
        scores = queries @ keys / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.seen(n, blocks, q.device), float("-inf"))
        out = scores.softmax(dim=-1) @ values.transpose(-2, -1)
        joined: Tensor = out.flatten(2, 3)[:, :, :n]
        return joined

    def seen(self, n: int, blocks: int, device: torch.device) -> Tensor:
        """(n/r, r, 3r): True where a key exists and is within r; a padded query sees itself, to avoid 0/0."""
        r = self.r
        query = torch.arange(blocks * r, device=device).view(blocks, r, 1)
        key = (torch.arange(blocks, device=device) * r - r).view(blocks, 1, 1) + torch.arange(3 * r, device=device)
        return ((query - key).abs() <= r) & (((key >= 0) & (key < n)) | (query == key))


class Recurrent(nn.Module):
    """A GRU or LSTM layer, one position after the other: O(n·d²)."""

    def __init__(self, d: int, sizes: Sizes) -> None:
        super().__init__()
        self.cell = {"gru": nn.GRU, "lstm": nn.LSTM}[sizes.recurrent](d, d, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """See the module."""
        out: Tensor = self.cell(x)[0]
        return out


class Convolution(nn.Module):
    """A convolution of width k over positions: O(k·n·d²)."""

    def __init__(self, d: int, sizes: Sizes) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d, d, sizes.kernel, padding=sizes.kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        """See the module."""
        out: Tensor = self.convolution(x.transpose(1, 2)).transpose(1, 2)
        return out


class SeparableConvolution(nn.Module):
    """A convolution of each channel alone, then one over channels: O(k·n·d + n·d²)."""

    def __init__(self, d: int, sizes: Sizes) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(d, d, sizes.kernel, padding=sizes.kernel // 2, groups=d)
        self.pointwise = nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        """See the module."""
        out: Tensor = self.pointwise(self.depthwise(x.transpose(1, 2)).transpose(1, 2))
        return out


LAYERS: dict[str, type[nn.Module]] = {
    "self_attention": SelfAttention,
    "recurrent": Recurrent,
    "convolution": Convolution,
    "separable": SeparableConvolution,
    "restricted": RestrictedSelfAttention,
}


SAMPLE = 0.003
"""The least time of a sample, in seconds; quick layers are called repeatedly to fill it."""


@dataclass
class Point:
    """One layer at one n and d."""

    layer: str
    n: int
    d: int
    flops: int
    """Counted; a multiply-accumulate is two."""
    samples: list[float] = field(default_factory=list)
    """Seconds of one forward pass, in each round."""
    calls: int = 1
    """Number of forward passes in a sample."""

    @property
    def seconds(self) -> float:
        """Median over rounds."""
        return median(self.samples)


def count(layer: str, n: int, d: int, sizes: Sizes) -> int:
    """FLOPs of matrix products and convolutions in one forward pass, counted from shapes without computing anything."""
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

    Rounds are interleaved so that a slow phase of the machine affects all layers alike. After the first, no round is
    started that would probably exceed `limit` seconds.

    Args:
        layers: Keys of `LAYERS`.
        grid: Pairs (n, d).
        sizes: Heads, kernel width, neighbourhood.
        rounds: Largest number of rounds.
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
    if first:  # warm up, and find how many calls fill a sample
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
