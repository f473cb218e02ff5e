"""What this machine's matrix products reach at a workload's own shapes: the limit of a training step.

Each linear layer makes three products in a step: the output, the gradient of its input and the gradient of its weight.
Every product is timed alone, many times, and its best time counts. The rate of a whole step follows from how often
each layer occurs. Attention's own products, some 1 % of the FLOPs at these lengths, are left out.
"""

import json
import sys
import time

import torch
from torch import Tensor
from workloads import VOCABULARY, WORKLOADS, Workload

from variations.training.performance import matmul_precision


def layers(w: Workload) -> list[tuple[int, int, int, int]]:
    """The linear layers of a step as (how many, rows m, inputs k, outputs n)."""
    rows, d, f = w.batch_tokens, w.d_model, w.d_ff
    projections = w.N * (4 + 8)  # queries, keys, values and outputs of N encoder and 2 N decoder attentions
    return [(projections, rows, d, d), (2 * w.N, rows, d, f), (2 * w.N, rows, f, d), (1, rows, d, VOCABULARY)]


def best_seconds(a: Tensor, b: Tensor, seconds: float) -> float:
    """The shortest time of a (m, k) times b (k, n) within `seconds` of trying; at least five times."""
    out = a @ b
    best, tries, until = float("inf"), 0, time.perf_counter() + seconds
    while tries < 5 or time.perf_counter() < until:
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        best, tries = min(best, time.perf_counter() - start), tries + 1
    return best


def gflops(w: Workload, dtype: torch.dtype, seconds: float = 0.4) -> float:
    """The rate of all products of a step if each takes its best time, 2 FLOPs per multiply-add."""
    work = total = 0.0
    for count, m, k, n in layers(w):
        x, weight, gradient = (torch.randn(shape).to(dtype) for shape in ((m, k), (n, k), (m, n)))
        products = ((x, weight.t()), (gradient, weight), (gradient.t(), x))
        total += count * sum(best_seconds(a, b, seconds) for a, b in products)
        work += count * len(products) * 2 * m * k * n
    return work / total / 1e9


def main() -> None:
    """Prints JSON: GFLOP/s of float32 by torch's default, float32 as training multiplies, bfloat16."""
    w = WORKLOADS[sys.argv[1]]
    found = {"fp32_default": gflops(w, torch.float32)}
    matmul_precision()  # through oneDNN, unless that is bfloat16 in disguise
    found["fp32"] = gflops(w, torch.float32)
    found["bf16"] = gflops(w, torch.bfloat16)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
