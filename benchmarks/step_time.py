"""Training steps of the plain and the Weighted Transformer, timed in turn; and the memory of the branched sub-layer.

One round takes one step (forward, loss, backward, Adam, projection) of every form, so that a busy or throttled machine
slows all of them. What counts is the ratio to the baseline's step of the same round: its median and its range.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from common import FORMS, configuration, deliver, header, load, resident, sizes, timed, training_step
from rich.console import Console
from rich.progress import track

from variations.models.kernels import choose
from variations.models.transformer.attention import Concatenate
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.branched import build as build_branched
from variations.models.transformer.feed_forward import FeedForward
from variations.training import performance

MEMORY_TOKENS, MEMORY_D, MEMORY_FF = 4096, 512, 2048


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--size", choices=sizes(), default="base", help="shape, from conf/size")
    p.add_argument("--forms", nargs="+", choices=FORMS[1:], default=list(FORMS[1:]), help="compared with the baseline")
    precisions = ["32-true", "bf16-mixed"]
    p.add_argument("--precision", nargs="+", choices=precisions, default=precisions)
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--rounds", type=int, default=7, help="steps of every form, at least 3")
    p.add_argument("--warmup", type=int, default=2, help="warm-up rounds, not counted")
    p.add_argument("--sentences", type=int, default=64, help="per batch")
    p.add_argument("--length", type=int, default=32, help="sub-words per sentence, on both sides")
    p.add_argument("--vocabulary", type=int, default=37_000)
    p.add_argument("--profile", choices=["auto", "reference"], default="auto")
    p.add_argument(
        "--branches", nargs="*", type=int, default=[1, 2, 4, 8, 16], help="M of the memory table; none: no table"
    )
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    p.add_argument("--measure-memory", nargs=2, metavar=("FORM", "M"), help=argparse.SUPPRESS)
    return p


def rounds(args: argparse.Namespace, precision: str, console: Console) -> list[str]:
    """The table of one precision."""
    forms = ["baseline", *args.forms]
    built = {}
    for form in forms:
        config, batch = configuration(form, args.size, args.profile), (args.sentences, args.length)
        built[form] = training_step(config, args.vocabulary, *batch, device=args.device, precision=precision)
    times: dict[str, list[float]] = {form: [] for form in forms}
    total = args.warmup + args.rounds
    for r in track(range(total), f"{args.size}, {precision}", console=console, disable=not console.is_terminal):
        # Each round starts with another form, so that the order varies.
        for form in forms[r % len(forms) :] + forms[: r % len(forms)]:
            ms = timed(built[form][0], args.device)
            if r >= args.warmup:
                times[form].append(ms)
    lines = [
        f"## {precision}",
        "",
        "| form | step, ms | time ÷ baseline | lowest to highest round | FLOPs ÷ baseline | parameters |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for form in forms:
        ratios = [ours / base for ours, base in zip(times[form], times["baseline"], strict=True)]
        _, parameters, flops = built[form]
        lines.append(
            f"| {form} | {statistics.median(times[form]):.0f} | {statistics.median(ratios):.3f} "
            f"| {min(ratios):.3f} to {max(ratios):.3f} | {flops / built['baseline'][2]:.3f} | {parameters:,} |"
        )
    return [*lines, ""]


def sublayer(form: str, M: int) -> Callable[[int], None]:
    """A forward and backward pass over n tokens of W_O and FFN, or of what replaces them."""
    config = configuration(form, "base", "auto")
    config.model.d_model, config.model.d_ff, config.model.h, config.model.dropout = MEMORY_D, MEMORY_FF, M, 0.0
    kernels = choose("auto", "cpu")
    if form == "baseline":
        layers: torch.nn.Module = torch.nn.Sequential(Concatenate(config.model), FeedForward(config.model, kernels))
    else:
        layers = build_branched(config.model, config.branch, kernels, BranchWeights(config.branch, M))

    def call(heads: torch.Tensor) -> torch.Tensor:
        x = heads.new_zeros(1, heads.size(2), 1).expand(-1, -1, MEMORY_D)  # read by gates and inner residuals only
        out: torch.Tensor = layers(heads) if form == "baseline" else layers(heads, x)
        return out

    def run(n: int) -> None:
        heads = torch.randn(1, M, n, MEMORY_D // M, requires_grad=True)
        call(heads).sum().backward()

    return run


def measure_memory(form: str, M: int) -> None:
    """Print the bytes by which one pass over `MEMORY_TOKENS` tokens raises the peak of this (fresh) process."""
    torch.set_num_threads(1)
    run = sublayer(form, M)
    run(32)  # loads the libraries and allocates the parameters' gradients
    before = resident("VmRSS")
    run(MEMORY_TOKENS)
    sys.stdout.write(f"{resident('VmHWM') - before}\n")


def memory(args: argparse.Namespace, console: Console) -> list[str]:
    """The table of the sub-layer's peak memory by M."""
    forms = ["baseline", *args.forms]
    lines = [
        "## Memory of the sub-layer",
        "",
        f"Peak of one forward and backward pass of W_O and FFN, or of what replaces them, over {MEMORY_TOKENS:,} "
        f"tokens (d_model {MEMORY_D}, d_ff {MEMORY_FF}, heads of width {MEMORY_D}/M, float32), above the memory of "
        "the process before it, in units of one activation of width d_ff "
        f"({MEMORY_TOKENS * MEMORY_FF * 4 / 2**20:.0f} MiB). All branches' activations together are M units.",
        "",
        "| form | " + " | ".join(f"M = {M}" for M in args.branches) + " |",
        "|---|" + "---:|" * len(args.branches),
    ]
    # Freed blocks are returned to the system at once, so that the peak does not include memory kept for later.
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    cells: dict[str, list[str]] = {form: [] for form in forms}
    jobs = [(form, M) for form in forms for M in args.branches]
    for form, M in track(jobs, "memory", console=console, disable=not console.is_terminal):
        command = [sys.executable, __file__, "--measure-memory", form, str(M)]
        done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True)
        cells[form].append(f"{int(done.stdout) / (MEMORY_TOKENS * MEMORY_FF * 4):.1f}")
    return [*lines, *(f"| {form} | " + " | ".join(cells[form]) + " |" for form in forms), ""]


def main() -> None:
    """Measure and report."""
    args = parser().parse_args()
    if args.measure_memory:
        measure_memory(args.measure_memory[0], int(args.measure_memory[1]))
        return
    if args.rounds < 3:
        parser().error("--rounds must be at least 3: a ratio without a spread is meaningless")
    before, console = load(), Console(stderr=True)
    chosen = performance.apply(args.profile, args.device, args.threads, {})
    tables = [line for precision in args.precision for line in rounds(args, precision, console)]
    if args.branches:
        tables += memory(args, console)
    settings: dict[str, object] = {
        "shape": f"{args.size}, V = {args.vocabulary}",
        "batch": f"{args.sentences} sentences of {args.length} + {args.length} sub-words",
        "rounds": f"{args.rounds} after {args.warmup} of warm-up, forms in turn within a round",
        "load average": f"{before} before, {load()} after",
        **{key.replace("_", " "): value for key, value in chosen.items()},
    }
    deliver([*header("Step time by form of the branched sub-layer", settings), *tables], args.output)


if __name__ == "__main__":
    main()
