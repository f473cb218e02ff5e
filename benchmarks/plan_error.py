"""How accurate is `plan.py`? Each configuration is planned, then run, and both results are compared.

The goal is an error of at most 20 % of the training time on an idle machine. Only the report is kept.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, deliver, header, load
from rich.console import Console
from rich.progress import track

GOAL = 0.20
RUNS = {
    "tiny Transformer": ["model=transformer", "size=tiny"],
    "tiny Weighted Transformer": ["model=weighted", "size=tiny"],
    "small Transformer, larger batches": ["model=transformer", "size=small", "recipe.batch_tokens=2048"],
    "tiny, two batches per update": ["model=weighted", "branch=split", "size=tiny", "trainer.tokens_per_batch=512"],
}


def parser() -> argparse.ArgumentParser:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--steps", type=int, default=150, help="updates of each real run")
    p.add_argument("--limit", type=float, default=10.0, help="plan.py's limit: seconds of updates it measures")
    p.add_argument(
        "--runs", nargs="+", type=int, choices=range(1, len(RUNS) + 1), help="which of the runs; default all"
    )
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    return p


def planned(words: list[str], limit: float) -> dict[str, Any]:
    """The plan of one run."""
    line = [sys.executable, str(ROOT / "src" / "plan.py"), *words, "format=json", "fresh=true", f"limit={limit}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    (row,) = json.loads(done.stdout)["rows"]
    if row["fault"]:
        sys.exit(f"{' '.join(words)}: {row['fault']}")
    found: dict[str, Any] = row
    return found


def run(words: list[str]) -> dict[str, float]:
    """The same run, executed: its result, the seconds of its process, and its memory."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "src" / "train.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.stdout, process.stderr
    text = out.read() if out else ""
    told = err.read() if err else ""
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(told)
    result = json.loads((Path(text.strip().splitlines()[-1]) / "result.json").read_text(encoding="utf-8"))
    return {"training": result["seconds"], "whole": time.monotonic() - began, "memory": used.ru_maxrss * 1024}


def error(predicted: float, measured: float) -> str:
    """`+12 %`: the prediction was 12 % above the measurement."""
    return f"{100 * (predicted / measured - 1):+.0f} %"


def main() -> None:
    """Plan, run, compare."""
    args = parser().parse_args()
    before, console = load(), Console(stderr=True)
    chosen = [list(RUNS)[i - 1] for i in args.runs or range(1, len(RUNS) + 1)]
    rows, errors = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in track(chosen, "Planning and running", console=console, disable=not console.is_terminal):
            common = ["data=toy", "recipe=quick", "logger=none", "trainer.progress=false", f"runs={folder}"]
            words = [*RUNS[name], *common, f"trainer.max_steps={args.steps}"]
            said, was = planned(words, args.limit), run(words)
            errors.append(abs(said["training_seconds"] / was["training"] - 1))
            rows.append(
                f"| {name} | {said['training_seconds']:.1f} | {was['training']:.1f} | "
                f"{error(said['training_seconds'], was['training'])} | {said['seconds']:.1f} | {was['whole']:.1f} | "
                f"{error(said['seconds'], was['whole'])} | "
                f"{said['memory_bytes'] / 1e6:.0f} | {was['memory'] / 1e6:.0f} |"
            )
    settings: dict[str, object] = {
        "updates of each run": args.steps,
        "seconds of updates measured by plan.py": args.limit,
        "load average": f"{before} before, {load()} after",
    }
    met = sum(e <= GOAL for e in errors)
    lines = [
        *header("What plan.py predicts, and what then happens", settings),
        "Seconds of training are `seconds` of `result.json`: updates, validation, checkpoints. The whole is the "
        "process from start to end. Memory is the process's largest resident set, in MB.",
        "",
        "| run | training, predicted | measured | error | whole, predicted | measured | error "
        "| memory, predicted | measured |",
        "|:---|---:|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        f"Goal: the training time within {100 * GOAL:.0f} %. Met by {met} of {len(errors)} runs; "
        f"the largest error is {100 * max(errors):.0f} %.",
    ]
    deliver(lines, args.output)


if __name__ == "__main__":
    main()
