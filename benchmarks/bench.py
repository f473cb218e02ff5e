"""`make bench`: our training and decoding compared with the peers', in turn, in one run.

Each round starts every contestant once, in its own process, on the same batches, so that a busy or throttled machine
slows all of them; what counts is the ratio within a round. Ours is the real `train.py`: its times are read from the
run's own `metrics.jsonl`, and it is stopped after the last timed step. It is timed some updates later than the others,
since W&B's service starts during the first ones and takes some seconds of the same cores.
"""

import argparse
import ctypes.util
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "speed"))

from common import ROOT, deliver, header, load
from prepare import overrides
from rich.console import Console
from workloads import WORKLOADS, Workload
from workloads import load as load_batches

SPEED = ROOT / "benchmarks" / "speed"
VALIDATING = ("trainer.val_every=4", "trainer.val_bleu=0", "trainer.checkpoint_every=4")
"""Far more often than usual, to show the cost of one validation of 500 pairs and one checkpoint."""
METRICS = Path("single", "bench", "seed1", "metrics.jsonl")
"""Below the run store of `training`."""
SETTLING = 8
"""Further updates of `train.py` before the timed ones."""
PATIENCE = 900.0
"""Seconds after which a contestant is stopped."""


@dataclass
class Outcome:
    """The result of one process of a training contestant."""

    seconds: list[float]
    target_tokens: list[int]
    flops: float
    first_step: float
    """Seconds from the process's start to the end of its first step."""
    peak_bytes: int
    product_rate: float | None = None
    """FLOP/s while matrix products run; None: not profiled."""

    @property
    def rate(self) -> float:
        """Target tokens per second."""
        return sum(self.target_tokens) / sum(self.seconds)


@dataclass
class Contestant:
    """Something that trains a workload."""

    name: str
    precision: str
    run: Callable[[Workload, Path], Outcome]
    unmodified: bool = False
    """A peer without our changes: ours is compared with it."""
    only: tuple[str, ...] = ()
    """Its workloads; empty: all."""
    found: dict[str, list[Outcome]] = field(default_factory=dict)


def environment(cache: Path) -> dict[str, str]:
    """For our own processes."""
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "WANDB_MODE": "offline", "WANDB_SILENT": "true"}


def script(python: Path, name: str, *arguments: str) -> Callable[[Workload, Path], Outcome]:
    """A contestant that is one of the scripts in `speed/`."""

    def run(w: Workload, folder: Path) -> Outcome:
        command = [str(python), str(SPEED / name), w.name, str(folder / f"{w.name}.npz"), *arguments]
        start = time.time()
        told, _ = finished(command, environment(folder))
        batches = load_batches(folder / f"{w.name}.npz")[w.warmup :]
        flops = sum(b.flops(w) for b in batches)
        first = told["first_step_at"] - start
        return Outcome(told["seconds"], told["target_tokens"], flops, first, told["peak_bytes"], told["product_rate"])

    return run


def finished(command: Sequence[str], env: dict[str, str]) -> tuple[dict[str, Any], int]:
    """Run a process to its end: returns the JSON of its last line, and its peak resident bytes.

    Raises:
        SystemExit: It failed; its last lines are shown.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(list(command), stdout=out, stderr=err, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if process.returncode:
            raise SystemExit(f"{Path(command[1]).name} failed:\n{err.read()[-2000:]}")
        return json.loads(out.read().strip().splitlines()[-1]), usage.ru_maxrss * 1024


def training(workload: str, folder: Path, runs: Path) -> list[str]:
    """The command that trains a workload, without the interpreter, until it is stopped; its metrics are in METRICS."""
    words = [str(ROOT / "src" / "train.py"), *overrides(workload, folder / "text", folder / "cache")]
    return [*words, f"runs={runs}", "name=bench", "trainer.log_every=1", "trainer.max_steps=100000"]


def trained(precision: str, logger: str, *more: str, preload: str = "") -> Callable[[Workload, Path], Outcome]:
    """Ours, by the command that users type, with the library `preload` before all others."""

    def run(w: Workload, folder: Path) -> Outcome:
        runs = Path(tempfile.mkdtemp(dir=folder))
        first_timed = w.warmup + SETTLING
        last = first_timed + w.steps
        own = [f"trainer.precision={precision}", f"logger={logger}"]
        command = [sys.executable, *training(w.name, folder, runs), *own, *more]
        env = environment(folder) | ({"LD_PRELOAD": preload} if preload else {})
        with (runs / "log.txt").open("w") as log:
            start = time.monotonic()
            process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=runs)
            first, lines = watched(process, runs / METRICS, last, start)
            if not lines:
                process.kill()
                raise SystemExit(f"train.py failed:\n{(runs / 'log.txt').read_text()[-2000:]}")
            process.kill()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = -9
        timed = [line for line in lines if first_timed <= line["step"] <= last]
        spans = list(itertools.pairwise(timed))
        seconds = [b["seconds"] - a["seconds"] for a, b in spans]
        tokens = [b["target_tokens"] - a["target_tokens"] for a, b in spans]
        flops = timed[-1]["flops"] - timed[0]["flops"]
        shutil.rmtree(runs)
        return Outcome(seconds, tokens, flops, first, usage.ru_maxrss * 1024)

    return run


def watched(process: "subprocess.Popen[bytes]", path: Path, last: int, start: float) -> tuple[float, list[Any]]:
    """Wait for the line of step `last`: returns seconds to the first step's end, and all lines; none if it died."""
    first = 0.0
    while process.poll() is None and time.monotonic() - start < PATIENCE:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        first = first or (time.monotonic() - start if lines else 0.0)
        if lines and lines[-1]["step"] >= last:
            return first, lines
        time.sleep(0.01)
    return first, []


def contestants(peers: Path | None) -> list[Contestant]:
    """The contestants: ours, and the peers if their environment exists."""
    ours = Path(sys.executable)
    found = [
        Contestant("ours: train.py", "fp32", trained("32-true", "wandb")),
        Contestant("ours: train.py", "bf16", trained("bf16-mixed", "wandb")),
        Contestant("ours: without W&B", "fp32", trained("32-true", "none"), only=("W2",)),
        Contestant("ours: validation every 4 steps", "fp32", trained("32-true", "wandb", *VALIDATING), only=("W2",)),
        Contestant("ours: bare loop", "fp32", script(ours, "train_bare.py", "--tuned")),
        Contestant("ours: bare loop", "bf16", script(ours, "train_bare.py", "--tuned", "--precision=bf16")),
    ]
    if tcmalloc := ctypes.util.find_library("tcmalloc_minimal"):
        found.append(Contestant("ours: train.py, tcmalloc", "fp32", trained("32-true", "wandb", preload=tcmalloc)))
    if peers is None:
        return found
    tuned, bf16 = "--tuned", "--precision=bf16"
    return [
        *found,
        Contestant("Hugging Face Marian loop", "fp32", script(peers, "train_marian.py"), True),
        Contestant("Hugging Face loop, tuned", "fp32", script(peers, "train_marian.py", tuned)),
        Contestant("Hugging Face loop, tuned", "bf16", script(peers, "train_marian.py", tuned, bf16)),
        Contestant("torch.nn.Transformer loop", "fp32", script(peers, "train_torch.py"), True),
    ]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """`2.31 (2.25–2.40)`: median, lowest and highest."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def training_table(w: Workload, players: Sequence[Contestant], ceiling: dict[str, float]) -> list[str]:
    """One workload."""
    rounds = len(players[0].found[w.name])
    bests = [
        max((c.found[w.name][r].rate for c in players if c.unmodified), default=float("nan")) for r in range(rounds)
    ]
    lines = [
        f"## {w.name}: N={w.N}, d_model={w.d_model}, d_ff={w.d_ff}, h={w.h}",
        "",
        "The ceiling: matrix products of this workload's shapes, each in its best time, reach "
        f"{ceiling['fp32_default']:.0f} GFLOP/s in fp32 by torch's default, {ceiling['fp32']:.0f} in fp32 through "
        f"oneDNN where that is exact, and {ceiling['bf16']:.0f} in bf16. FLOPs of padding do not count. `train.py` is "
        f"timed from its {w.warmup + SETTLING + 1}th update on, when W&B's service has started.",
        "",
        "| contestant | precision | target tokens/s | ÷ best unmodified peer | whole step, of ceiling "
        "| its products, of ceiling | first step, s | peak, GB |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for c in (c for c in players if w.name in c.found):
        found = c.found[w.name]
        rates = [o.rate for o in found]
        share = statistics.median(o.flops / sum(o.seconds) / 1e9 / ceiling[c.precision] for o in found)
        profiled = [o.product_rate / 1e9 / ceiling[c.precision] for o in found if o.product_rate is not None]
        products = f"{100 * statistics.median(profiled):.0f} %" if profiled else ""
        first = statistics.median(o.first_step for o in found)
        peak = statistics.median(o.peak_bytes for o in found) / 1e9
        ratio = spread([rate / best for rate, best in zip(rates, bests, strict=True)])
        shares = [f"{100 * share:.0f} %", products]
        cells = [c.name, c.precision, spread(rates, 0), ratio, *shares, f"{first:.1f}", f"{peak:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def decoders(peers: Path | None) -> dict[str, list[str]]:
    """The contestants of W3."""
    found = {
        "ours": [sys.executable, str(SPEED / "decode_ours.py")],
        "CTranslate2, fp32": [sys.executable, str(SPEED / "decode_ctranslate2.py")],
    }
    if peers is None:
        return found
    return found | {"Hugging Face generate": [str(peers), str(SPEED / "decode_marian.py")]}


def decoding_table(args: argparse.Namespace, folder: Path, console: Console) -> list[str]:
    """W3."""
    players = decoders(args.peers)
    rates: dict[str, list[float]] = {name: [] for name in players}
    peaks: dict[str, list[int]] = {name: [] for name in players}
    for r in range(args.rounds):
        for name, command in players.items():
            console.print(f"W3, round {r + 1} of {args.rounds}: {name}")
            told, peak = finished([*command, str(folder / "W2.npz")], environment(folder))
            rates[name].append(told["sentences_per_second"])
            peaks[name].append(peak)
    lines = [
        "## W3: W2's model, beam 4, 200 sentences in batches of 32, 35 tokens out",
        "",
        "| contestant | sentences/s | ours ÷ it | peak memory, GB |",
        "|---|---:|---:|---:|",
    ]
    for name, found in rates.items():
        ratio = spread([a / b for a, b in zip(rates["ours"], found, strict=True)])
        lines.append(f"| {name} | {spread(found, 1)} | {ratio} | {statistics.median(peaks[name]) / 1e9:.1f} |")
    return [*lines, ""]


def measure(args: argparse.Namespace, console: Console) -> list[str]:
    """All workloads, all rounds."""
    folder = args.folder.resolve()
    finished([sys.executable, str(SPEED / "prepare.py"), str(folder)], environment(folder))
    players = contestants(args.peers)
    lines: list[str] = []
    for name in args.workloads:
        w = WORKLOADS[name]
        ceilings = []
        for r in range(args.rounds):
            ceilings.append(finished([sys.executable, str(SPEED / "ceiling.py"), name], environment(folder))[0])
            rotated = players[r % len(players) :] + players[: r % len(players)]
            for c in (c for c in rotated if not c.only or name in c.only):
                console.print(f"{name}, round {r + 1} of {args.rounds}: {c.name}, {c.precision}")
                c.found.setdefault(name, []).append(c.run(w, folder))
        ceiling = {key: max(c[key] for c in ceilings) for key in ceilings[0]}
        lines += training_table(w, players, ceiling)
    return lines + decoding_table(args, folder, console)


def main() -> None:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    p.add_argument("--peers", type=Path, help="Python of an environment with speed/requirements.txt; none: ours alone")
    p.add_argument("--folder", type=Path, default=Path("build/bench"), help="corpus and batches")
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    args = p.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    before = load()
    lines = measure(args, Console(stderr=True, highlight=False))
    head = header(
        "Training and decoding beside the peers",
        {"rounds": args.rounds, "load before and after": f"{before}, {load()}"},
    )
    deliver([*head, *lines], args.output)


if __name__ == "__main__":
    main()
