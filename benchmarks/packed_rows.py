"""Do rows finish sooner if they share a machine? The same sweep of short, equal rows, one at a time and packed.

Each sweep is the real `train.py --multirun`. One at a time, a row has all threads; packed, there are as many rows at
once as cores, each with one thread (or, on a GPU, --at-once rows). Sweeps take turns within a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common import ROOT, deliver, header, load
from rich.console import Console

STEPS = {"tiny": 200, "small": 40}
"""Updates of a row, so that the benchmark takes some minutes on two cores."""
SHORT = ["logger=none", "trainer.progress=false", "trainer.val_bleu=0", "trainer.limit_test=100"]
GOALS = {"cpu": 1.3, "gpu": 3.0}


@dataclass(frozen=True)
class Sweep:
    """The result of one sweep of equal rows."""

    hours: float
    """From the start of its process to its end."""
    rows: int
    at_once: int
    steps: int
    """Of all rows."""
    seconds: float
    """Of training, summed over rows."""
    threads: int
    """CPU threads of each row."""

    @property
    def rate(self) -> float:
        """Rows per hour."""
        return self.rows / self.hours

    @property
    def step_rate(self) -> float:
        """Updates per minute of all concurrent rows: the rate that long rows approach."""
        return 60 * self.at_once * self.steps / self.seconds


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--sizes", nargs="+", default=list(STEPS), help="of conf/size/")
    p.add_argument("--device", choices=list(GOALS), default="cpu")
    p.add_argument("--at-once", type=int, help="rows packed; default: the cores")
    p.add_argument("--rows", type=int, help="rows of a sweep; default: as many as are packed")
    p.add_argument("--steps", type=int, help=f"updates of a row; default: by size, {STEPS}, else 60")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    p.add_argument("--overrides", nargs="+", default=[], metavar="KEY=VALUE", help="of all rows")
    return p


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sweep(words: list[str], place: Path, rows: int, at_once: int, device: str) -> Sweep:
    """Run a sweep in an empty store.

    Raises:
        SystemExit: A row failed; the sweep's output is shown.
    """
    with tempfile.TemporaryDirectory(dir=place) as store:
        packing = f"sweep.at_once={at_once}" if device == "cpu" else f"hydra.launcher.per_gpu={at_once}"
        seeds = ",".join(str(seed) for seed in range(1, rows + 1))
        command = [sys.executable, str(ROOT / "src" / "train.py"), "--multirun", *words]
        command += [f"seed={seeds}", packing, f"runs={store}"]
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        environment["VARIATIONS_CACHE"] = str(place / "cache")
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        hours = (time.monotonic() - began) / 3600
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        results = [json.loads(path.read_text(encoding="utf-8")) for path in Path(store).rglob("result.json")]
    (threads,) = {result["hardware"]["threads"] for result in results}
    steps, seconds = (sum(result[key] for result in results) for key in ("steps", "seconds"))
    return Sweep(hours, len(results), at_once, steps, seconds, threads)


def spread(values: list[float], digits: int) -> str:
    """`2.31 (2.25–2.40)`: median, lowest and highest."""
    low, middle, high = (f"{f(values):.{digits}f}" for f in (min, statistics.median, max))
    return f"{middle} ({low}–{high})" if len(values) > 1 else middle


def table(size: str, steps: int, found: dict[int, list[Sweep]]) -> list[str]:
    """One size: the rates of both ways, and packed ÷ one at a time within each round."""
    single, packed = found.values()
    ratios = [b.rate / a.rate for a, b in zip(single, packed, strict=True)]
    step_ratios = [b.step_rate / a.step_rate for a, b in zip(single, packed, strict=True)]
    lines = [
        f"## {size}: rows of {steps} updates",
        "",
        "| rows at once | threads each | rows/h | updates/min, all together |",
        "|---:|---:|---:|---:|",
    ]
    for at_once, sweeps in found.items():
        rates, speeds = [s.rate for s in sweeps], [s.step_rate for s in sweeps]
        lines.append(f"| {at_once} | {sweeps[0].threads} | {spread(rates, 1)} | {spread(speeds, 0)} |")
    told = f"Packed ÷ one at a time: **{spread(ratios, 2)}** in rows/h, {spread(step_ratios, 2)} in updates/min."
    return [*lines, "", told, ""]


def main() -> None:
    """Sweep by sweep, in turn."""
    args = parser().parse_args()
    at_once = args.at_once or cores()
    if at_once < 2:
        sys.exit("There is one core, so nothing can be packed: name --at-once.")
    rows, before, console = args.rows or at_once, load(), Console(stderr=True, highlight=False)
    lines = []
    with tempfile.TemporaryDirectory(prefix="variations-packed-") as name:
        for size in args.sizes:
            steps = args.steps or STEPS.get(size, 60)
            words = [f"size={size}", "data=toy", "recipe=quick", f"trainer={args.device}", *SHORT, *args.overrides]
            console.print(f"{size}: preparing")
            sweep([*words, "trainer.max_steps=2", "trainer.limit_test=1"], Path(name), 1, 1, args.device)  # the corpus
            words += [f"trainer.max_steps={steps}", f"trainer.val_every={steps}"]
            found: dict[int, list[Sweep]] = {1: [], at_once: []}
            for r in range(args.rounds):
                for k in found if r % 2 == 0 else reversed(found):
                    console.print(f"{size}, round {r + 1} of {args.rounds}: {k} at once")
                    found[k].append(sweep(words, Path(name), rows, k, args.device))
            lines += table(size, steps, found)
    settings: dict[str, object] = {
        "rows of a sweep": rows,
        "rounds": args.rounds,
        "device": "cuda" if args.device == "gpu" else "cpu",
        "load average": f"{before} before, {load()} after",
    }
    head = header("Rows per hour, one at a time and packed", settings)
    about = (
        "A sweep of equal rows that differ in their seeds, from the start of its process to its end: rows/h counts "
        "imports, training, one validation, the test of 100 sentences and scores. Updates/min counts training alone, "
        f"which is the rate that long rows approach. Goal: {GOALS[args.device]} times the rows/h of one at a time."
    )
    deliver([*head, about, "", *lines], args.output)


if __name__ == "__main__":
    main()
