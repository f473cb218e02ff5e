"""What this machine's matrix products reach at a workload's shapes: the limit that a training step is compared with."""

import json
import sys
import time

import torch
from workloads import VOCABULARY, WORKLOADS

from variations.training.performance import matmul_precision


def gflops(rows: int, w: object, dtype: torch.dtype, seconds: float = 1.5) -> float:
    """Products of a feed-forward layer and of a chunk of the output layer, repeated in turn, 2 per MAC."""
    d, f = w.d_model, w.d_ff  # type: ignore[attr-defined]
    shapes = [(rows, d, f), (rows, f, d), (rows, d, d), (rows // 4, d, VOCABULARY)]
    pairs = [(torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)) for m, k, n in shapes]
    outs = [a @ b for a, b in pairs]
    work, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for (a, b), out in zip(pairs, outs, strict=True):
            torch.mm(a, b, out=out)
            work += 2 * a.size(0) * a.size(1) * b.size(1)
    return work / (time.perf_counter() - start) / 1e9


def main() -> None:
    """Prints JSON: GFLOP/s of float32 by torch's default, float32 as training multiplies, bfloat16."""
    w = WORKLOADS[sys.argv[1]]
    rows = w.batch_tokens
    found = {"fp32_default": gflops(rows, w, torch.float32)}
    matmul_precision()  # through oneDNN, unless that is bfloat16 in disguise
    found["fp32"] = gflops(rows, w, torch.float32)
    found["bf16"] = gflops(rows, w, torch.bfloat16)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
