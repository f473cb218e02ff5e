"""How large the blocks of `branch_sum` should be: time of W_O and FFN, plain and composed, by block size.

Block sizes take turns within a round; ratios are to the plain layer's time in the same round.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from common import configuration, deliver, header, load, sizes
from rich.console import Console
from rich.progress import track

from variations.models.kernels import branch_sum, choose
from variations.models.transformer.attention import Concatenate
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.branched import build as build_branched
from variations.models.transformer.feed_forward import FeedForward
from variations.training import performance

KIB = 1 << 10


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--size", choices=sizes(), default="base", help="shape, from conf/size")
    blocks = [64 << i for i in range(9)]
    p.add_argument("--blocks", nargs="+", type=int, default=blocks, help="block sizes, KiB")
    p.add_argument("--tokens", type=int, default=2048)
    p.add_argument("--dtype", nargs="+", choices=["float32", "bfloat16"], default=["float32", "bfloat16"])
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--rounds", type=int, default=9, help="at least 3")
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    return p


def passes(args: argparse.Namespace, dtype: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """One forward and backward pass of the plain layer, and of the composed one."""
    plain, weighted = (configuration(form, args.size, "auto") for form in ("baseline", "composed"))
    kernels, model = choose("auto", "cpu"), plain.model
    M, d = model.h, model.d_model
    layers = torch.nn.Sequential(Concatenate(model), FeedForward(model, kernels))
    branched = build_branched(weighted.model, weighted.branch, kernels, BranchWeights(weighted.branch, M))
    values, x = torch.randn(1, M, args.tokens, d // M), torch.zeros(1, args.tokens, d)

    def run(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            out = call(values.requires_grad_())
        out.backward(torch.ones_like(out))

    return lambda: run(layers), lambda: run(lambda heads: branched(heads, x))


def measure(args: argparse.Namespace, dtype: str, console: Console) -> list[str]:
    """The table of one data type."""
    plain, composed = passes(args, dtype)
    times: dict[int, list[float]] = {block: [] for block in [0, *args.blocks]}  # 0: the plain layer
    total = args.rounds + 1
    for r in track(range(total), dtype, console=console, disable=not console.is_terminal):
        for block in times:
            branch_sum.BLOCK_BYTES = block * KIB
            start = time.perf_counter()
            (composed if block else plain)()
            if r:  # the first round warms up
                times[block].append((time.perf_counter() - start) * 1e3)
    lines = [
        f"## {dtype}",
        "",
        "| block, KiB | pass, ms | time ÷ plain | lowest to highest round |",
        "|---:|---:|---:|---:|",
    ]
    for block, ms in times.items():
        ratios = [ours / base for ours, base in zip(ms, times[0], strict=True)]
        lines.append(
            f"| {block or 'plain layer'} | {statistics.median(ms):.1f} | {statistics.median(ratios):.3f} "
            f"| {min(ratios):.3f} to {max(ratios):.3f} |"
        )
    return [*lines, ""]


def main() -> None:
    """Measure and report."""
    args = parser().parse_args()
    if args.rounds < 3:
        parser().error("--rounds must be at least 3: a ratio without a spread is meaningless")
    before, default, console = load(), branch_sum.BLOCK_BYTES // KIB, Console(stderr=True)
    chosen = performance.apply("auto", "cpu", args.threads, {})
    tables = [line for dtype in args.dtype for line in measure(args, dtype, console)]
    settings: dict[str, object] = {
        "layer": f"W_O and FFN of {args.size}, {args.tokens} tokens, forward and backward",
        "block in use": f"{default} KiB",
        "rounds": f"{args.rounds} after one of warm-up, blocks in turn within a round",
        "load average": f"{before} before, {load()} after",
        **{key.replace("_", " "): value for key, value in chosen.items()},
    }
    deliver([*header("Block size of the composed branched sub-layer", settings), *tables], args.output)


if __name__ == "__main__":
    main()
