"""Shared by all training contestants: run the steps of a workload, and print one line of JSON.

Needs only torch and NumPy. The contestant provides `build(workload)`, which returns a function from (source, target)
ids to the mean label-smoothed loss of the batch, and the parameters.
"""

import argparse
import contextlib
import ctypes
import json
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor
from workloads import WORKLOADS, Step, Workload, load

Loss = Callable[[Tensor, Tensor], Tensor]
PRODUCTS = {
    "aten::mm",
    "aten::addmm",
    "aten::addmm_",
    "aten::bmm",
    "aten::baddbmm",
    "aten::addmv",
    "mkldnn::_linear_pointwise",
    "aten::mkldnn_linear",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
}
"""Operations that are matrix products, or in which a fused attention makes its own."""
FP32_TOLERANCE = 1e-5
"""Relative error of a product that is still one of float32, as in our performance profile."""
Build = Callable[[Workload], tuple[Loss, Iterable[torch.nn.Parameter]]]


def tune() -> None:
    """The allocator and the precision that our own performance profile chooses on a CPU, for a peer.

    `medium` is kept only where it is exact: with AMX, it computes float32 products in bfloat16.
    """
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    torch.set_float32_matmul_precision("medium")
    if float(((a @ b) - exact).norm() / exact.norm()) > FP32_TOLERANCE:
        torch.set_float32_matmul_precision("highest")
    libc = ctypes.CDLL(None)
    libc.mallopt(-3, 1 << 30)
    libc.mallopt(-1, (1 << 31) - 1)


def product_seconds(step: Callable[[], None]) -> float:
    """The seconds that the matrix products of one step take, attention's among them, by torch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    return sum(event.self_cpu_time_total for event in profile.key_averages() if event.key in PRODUCTS) / 1e6


def main(build: Build) -> None:
    """Train and report: seconds of each timed step, its target tokens, the clock after the first step.

    Then the last batch is trained on once more, under the profiler: the seconds of its products.
    """
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

    def take(step: Step) -> None:
        source, target = torch.from_numpy(step.source), torch.from_numpy(step.target)
        autocast = torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()
        with autocast:
            loss = loss_of(source, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())

    batches = load(args.batches)[: workload.warmup + workload.steps]
    for i, step in enumerate(batches):
        start = time.perf_counter()
        take(step)
        first = first or time.time()
        if i >= workload.warmup:
            seconds.append(time.perf_counter() - start)
            tokens.append(step.target_tokens)
    told = {
        "seconds": seconds,
        "target_tokens": tokens,
        "first_step_at": first,
        "losses": list(losses),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # before the profiler takes its own
    }
    products = product_seconds(lambda: take(batches[-1]))
    print(json.dumps(told | {"product_rate": batches[-1].flops(workload) / products}))
