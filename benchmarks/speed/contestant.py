"""What every training contestant shares: take the steps of a workload, and print one line of JSON.

Needs torch and NumPy only. The contestant gives `build(workload)`, which returns a function from (source, target) ids
to the mean label-smoothed loss of the batch, and the parameters.
"""

import argparse
import contextlib
import ctypes
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor
from workloads import WORKLOADS, Workload, load

Loss = Callable[[Tensor, Tensor], Tensor]
Build = Callable[[Workload], tuple[Loss, Iterable[torch.nn.Parameter]]]


def tune() -> None:
    """The allocator and the precision that our own performance profile chooses on a CPU, for a peer."""
    torch.set_float32_matmul_precision("medium")
    libc = ctypes.CDLL(None)
    libc.mallopt(-3, 1 << 30)
    libc.mallopt(-1, (1 << 31) - 1)


def main(build: Build) -> None:
    """Train and report: seconds of each timed step, its target tokens, the clock after the first step."""
    p = argparse.ArgumentParser()
    p.add_argument("workload", choices=WORKLOADS)
    p.add_argument("batches", type=Path)
    p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--tuned", action="store_true")
    args = p.parse_args()
    if args.tuned:
        tune()
    workload = WORKLOADS[args.workload]
    torch.manual_seed(1)
    loss_of, parameters = build(workload)
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=args.tuned or None)
    seconds, tokens, losses, first = [], [], [], 0.0
    for i, step in enumerate(load(args.batches)[: workload.warmup + workload.steps]):
        start = time.perf_counter()
        source, target = torch.from_numpy(step.source), torch.from_numpy(step.target)
        autocast = torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()
        with autocast:
            loss = loss_of(source, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        first = first or time.time()
        if i >= workload.warmup:
            seconds.append(time.perf_counter() - start)
            tokens.append(step.target_tokens)
    print(json.dumps({"seconds": seconds, "target_tokens": tokens, "first_step_at": first, "losses": losses}))
