"""The cost of a decoding step: the plain Transformer and the forms of the Weighted one, random weights.

All models decode the same sources for the same number of steps, one after another within a round; ratios are to the
plain model's time in the same round. FLOPs are those that torch counts in the matrix products of one step.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from common import FORMS, configuration, deliver, header, load, sizes
from rich.console import Console
from rich.progress import track
from torch.utils.flop_counter import FlopCounterMode

from variations import models
from variations.training import performance


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--size", choices=sizes(), default="base", help="shape, from conf/size")
    p.add_argument("--forms", nargs="+", choices=FORMS[1:], default=["composed", "naive"], help="beside the baseline")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--rows", nargs="+", type=int, default=[4, 64], help="hypotheses at once: sentences × beam")
    p.add_argument("--length", type=int, default=24, help="sub-words of the sources, and steps")
    p.add_argument("--rounds", type=int, default=9, help="at least 3")
    p.add_argument("--vocabulary", type=int, default=37_000)
    p.add_argument("--profile", choices=["auto", "reference"], default="auto")
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    return p


def decoder(form: str, rows: int, args: argparse.Namespace) -> Callable[[], tuple[float, int]]:
    """A function that decodes once; returns ms per step (without the encoder) and the FLOPs of the last step."""
    torch.manual_seed(1)
    model = models.build(configuration(form, args.size, args.profile), args.vocabulary, args.device)
    model = model.to(args.device).eval()
    source = torch.randint(4, args.vocabulary, (rows, args.length), generator=torch.Generator().manual_seed(2))
    tokens = source[:, 0].to(args.device)

    def run() -> tuple[float, int]:
        with torch.inference_mode():
            cache = model.start_cache(source.to(args.device))
            model.decode_step(tokens, cache)  # composes the matrices, once for all following calls
            began = _now(args.device)
            for _ in range(args.length - 2):
                model.decode_step(tokens, cache)
            ms = (_now(args.device) - began) * 1e3 / (args.length - 2)
            with FlopCounterMode(display=False) as counter:
                model.decode_step(tokens, cache)
        return ms, counter.get_total_flops()

    return run


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def table(rows: int, args: argparse.Namespace, console: Console) -> list[str]:
    """The table for one number of rows."""
    forms = ["baseline", *args.forms]
    runs = {form: decoder(form, rows, args) for form in forms}
    times: dict[str, list[float]] = {form: [] for form in forms}
    flops = dict.fromkeys(forms, 0)
    for r in track(range(args.rounds + 1), f"{rows} rows", console=console, disable=not console.is_terminal):
        for form in forms[r % len(forms) :] + forms[: r % len(forms)]:
            ms, flops[form] = runs[form]()
            if r:  # the first round warms up
                times[form].append(ms)
    lines = [
        f"## {rows} rows at once",
        "",
        "| form | step, ms | time ÷ baseline | lowest to highest round | FLOPs ÷ baseline |",
        "|---|---:|---:|---:|---:|",
    ]
    for form in forms:
        ratios = [ours / base for ours, base in zip(times[form], times["baseline"], strict=True)]
        lines.append(
            f"| {form} | {statistics.median(times[form]):.2f} | {statistics.median(ratios):.3f} "
            f"| {min(ratios):.3f} to {max(ratios):.3f} | {flops[form] / flops['baseline']:.3f} |"
        )
    return [*lines, ""]


def main() -> None:
    """Measure and report."""
    args = parser().parse_args()
    if args.rounds < 3 or args.length < 4:
        parser().error("--rounds must be at least 3, --length at least 4")
    before, console = load(), Console(stderr=True)
    chosen = performance.apply(args.profile, args.device, args.threads, {})
    tables = [line for rows in args.rows for line in table(rows, args, console)]
    settings: dict[str, object] = {
        "shape": f"{args.size}, V = {args.vocabulary}, random weights, float32",
        "decoding": f"{args.length} steps over sources of {args.length} sub-words",
        "rounds": f"{args.rounds} after one of warm-up, forms in turn within a round",
        "load average": f"{before} before, {load()} after",
        **{key.replace("_", " "): value for key, value in chosen.items()},
    }
    deliver([*header("Cost of a decoding step", settings), *tables], args.output)


if __name__ == "__main__":
    main()
