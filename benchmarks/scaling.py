"""How time and memory grow with n, d_model, N, V and M, and with a corpus; fitted exponents compared with theory.

A training step is our model, loss and optimiser as `train.py` uses them. The points of an axis take turns within a
round; memory is the peak of a fresh process for each point. Theory means counts without running anything: FLOPs
for time, bytes of weights, gradients, moments and kept activations for memory. Exponents are least-squares fits of
logarithms over the upper half of an axis.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "growth"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import networks
import preparation
import torch
from common import deliver, header, load
from rich.console import Console
from series import Axis, picture, summary, table

from variations.figures.canvas import save, style
from variations.training import performance

KINDS = ("training", "decoding", "data")


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="what is measured")
    p.add_argument("--rounds", type=int, default=7, help="of training steps and of decoding, at least 3")
    p.add_argument("--threads", type=int, default=torch.get_num_threads())
    p.add_argument("--profile", choices=["auto", "reference"], default="auto")
    p.add_argument(
        "--data", type=Path, help="folder with train, valid and test in two languages; the built-in grammar without it"
    )
    p.add_argument("--languages", nargs=2, default=["en", "de"], help="suffixes of the files in --data")
    p.add_argument("--pairs", type=int, default=217_135, help="of the training text, at most")
    p.add_argument("--vocabulary", type=int, default=37_000, help="sub-words trained on the text of --data")
    p.add_argument("--quick", action="store_true", help="a few tiny points, to check that everything works")
    p.add_argument("--output", type=Path, help="write the report to this Markdown file, with a figure as .svg")
    return p


def models(args: argparse.Namespace, console: Console) -> list[Axis]:
    """The axes of training and decoding."""
    how = (args.rounds, args.profile, args.threads, console)
    axes = []
    if "training" in args.only:
        axes += [networks.training(sweep, *how) for sweep in (networks.QUICK_SWEEPS if args.quick else networks.SWEEPS)]
    if "decoding" in args.only:
        lengths = networks.QUICK_LENGTHS if args.quick else networks.LENGTHS
        axes.append(networks.decoding(networks.DECODED, lengths, *how))
    return axes


def data(args: argparse.Namespace, console: Console) -> tuple[list[Axis], list[str]]:
    """The axes of data preparation, and the table for all of WMT."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if args.data is None or args.quick:
            pairs, vocabulary = (400, 200) if args.quick else (min(args.pairs, 50_000), 2000)
            text = preparation.invented(folder / "text", pairs)
        else:
            text, vocabulary = preparation.Text(args.data, *args.languages), args.vocabulary
            pairs = min(args.pairs, sum(1 for _ in text.pairs("train")))
        prepared, words = preparation.preparation(text, pairs, vocabulary, folder, console)
    most = 20_000 if args.quick else preparation.WMT_PAIRS
    planned = preparation.batches([most // 8, most // 4, most // 2, most])
    return [prepared, planned], preparation.outlook(prepared, planned, words)


def main() -> None:
    """Measure and report."""
    args = parser().parse_args()
    if args.rounds < 3:
        parser().error("--rounds must be at least 3: a median without a spread is meaningless")
    before, console = load(), Console(stderr=True)
    chosen = performance.apply(args.profile, "cpu", args.threads, {})
    axes, forecast = models(args, console), []
    if "data" in args.only:
        found, forecast = data(args, console)
        axes += found
    settings: dict[str, object] = {
        "rounds": f"{args.rounds} after two of warm-up (decoding: one), points in turn within a round",
        "load average": f"{before} before, {load()} after",
        **{key.replace("_", " "): value for key, value in chosen.items()},
    }
    lines = header("How time and memory grow", settings)
    lines += ["A few tiny points, to check that all works: **the numbers are meaningless**.", ""] if args.quick else []
    lines += summary(axes)
    if args.output is not None:
        plot = args.output.with_suffix(".svg")
        with style():
            save(picture(axes), plot)
        lines += [f"![Time and memory along each axis]({plot.name})", ""]
    lines += [line for axis in axes for line in table(axis)] + forecast
    deliver(lines, args.output)


if __name__ == "__main__":
    main()
