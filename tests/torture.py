"""Kill a run (SIGKILL) at random moments, resume it until it ends, and compare it with an uninterrupted run.

    python tests/torture.py --kills 50        # part of make torture

A run writes a checkpoint after every update. A kill comes a random number of updates and a random time after the start;
every other kill then waits until a write has begun, and comes up to 10 ms later. A run that ends before enough kills
were made is compared, and another one is started. Every process is forked from this one, which has already imported
everything that a run needs, so kills hit training, writing and testing instead of five seconds of imports.
"""

import argparse
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from variations.commands import run
from variations.configuration.compose import compose_run, to_dict
from variations.store import naming
from variations.store.ledger import RunFolder
from variations.tasks.translation.config import TranslationConfig
from variations.training import checkpoints, outcome  # noqa: F401 - `run` imports it when it needs it

STEPS = 60
STEPS_DONE = list(range(1, STEPS + 1))
MOST_UPDATES, SECONDS, WRITE_SECONDS = 6, 0.5, 0.01
"""Maximum delay between the start of a process or a write and the kill."""
TIMED = ("seconds", "decoding_seconds", "flops_paper_rule", "sha256", "metrics_sha256")


@dataclass
class Report:
    """Results of the harness."""

    kills: int = 0
    where: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    lines: int = 0
    """Lines of metrics that were compared."""
    repeated: int = 0
    """Updates that were repeated because their checkpoint had not been written."""
    differences: list[str] = field(default_factory=list)


def corpus(folder: Path) -> Path:
    """Write a few hundred short pairs; return their folder."""
    folder.mkdir(parents=True)
    rng = random.Random(5)
    for name, size in {"train": 203, "valid": 21, "test": 11}.items():
        lines = [[f"w{rng.randrange(40)}" for _ in range(rng.randint(3, 9))] for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))} .\n" for line in lines))
    return folder


def configuration(place: Path, name: str) -> TranslationConfig:
    """A tiny Weighted Transformer with all state to preserve on resume: dropout, accumulation, averages, best state."""
    return compose_run(
        [
            "data=files",
            f"data.root={place / 'corpus'}",
            f"data.cache={place / 'cache'}",
            "data.vocabulary=48",
            "data.max_length=64",
            "model=weighted",
            "model.d_model=128",
            "model.d_ff=512",
            "model.h=4",
            "model.N=2",
            "recipe.batch_tokens=512",
            "recipe.warmup=20",
            "recipe.average=3",
            "recipe.average_every=2",
            "trainer.tokens_per_batch=256",
            f"trainer.max_steps={STEPS}",
            "trainer.val_every=5",
            "trainer.val_bleu=3",
            "trainer.checkpoint_every=1",
            "trainer.log_every=1",
            "trainer.progress=false",
            "trainer.threads=1",
            "decode.beam=2",
            "logger=none",
            f"name={name}",
            f"runs={place / 'runs'}",
        ]
    )


def started(folder: RunFolder, log: Path) -> int:
    """Run a folder's configuration in a new process; return the process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with log.open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        run.run(folder.path)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever happened, the parent's code must not continue in this process
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def step_of(folder: RunFolder) -> int:
    """Return the step of the newest checkpoint, or 0."""
    found = checkpoints.full(folder.checkpoints)
    return found[-1][0] if found else 0


def moment(folder: RunFolder, child: int, began: float) -> str:
    """Infer from its files what a killed process was doing; names of unfinished files contain the process id."""
    if any(folder.checkpoints.glob(f".lease-*/.*.{child}-*.tmp")):
        return "writing a checkpoint"
    sums = [path for path in folder.checkpoints.glob("*.sha256") if path.stat().st_mtime > began]
    if any(not path.with_suffix("").exists() for path in sums):
        return "between a checkpoint's sum and its name, or deleting one"
    if any(folder.path.glob(f".lease-*/.*.{child}-*.tmp")):
        return "writing status, metrics or environment"
    if step_of(folder) == STEPS:
        return "testing"
    return "training or loading" if step_of(folder) else "before the first checkpoint"


def wait(child: int, until: Callable[[], bool]) -> None:
    """Wait until a condition holds or the process has ended."""
    while not until() and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.0005)


def kill(child: int, folder: RunFolder, rng: random.Random, *, writing: bool) -> None:
    """Kill a process at a random moment or during a write."""
    wanted = step_of(folder) + rng.randint(0, MOST_UPDATES)
    wait(child, lambda: step_of(folder) >= wanted)
    time.sleep(rng.uniform(0, SECONDS))
    if writing:
        wait(child, lambda: any(folder.checkpoints.glob(f".lease-*/.*.{child}-*.tmp")))
        time.sleep(rng.uniform(0, WRITE_SECONDS))
    os.kill(child, signal.SIGKILL)


def continued_until_it_ends(folder: RunFolder, log: Path, rng: random.Random, left: int) -> Iterator[str]:
    """Kill the run at most `left` times, then let it end; yield what each killed process was doing.

    Raises:
        RuntimeError: A process failed without being killed.
    """
    while True:
        began = time.time()
        child = started(folder, log)
        if left > 0:
            kill(child, folder, rng, writing=bool(left % 2))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        if status != -signal.SIGKILL:
            raise RuntimeError(f"the run failed by itself:\n{log.read_text()[-4000:]}")
        left -= 1
        yield moment(folder, child, began)


def contents(folder: RunFolder) -> dict[str, Any]:
    """Return everything that must be identical: the last checkpoint's arrays and numbers, weights, metrics, result."""
    place = folder.checkpoints
    files = [checkpoints.full(place)[-1], *checkpoints.weights(place), *checkpoints.best(place)[-1:]]
    found: dict[str, Any] = {path.name: checkpoints.load(path) for _, path in files}
    last = found[files[0][1].name]
    del last["loops"]  # Lightning's counters; some depend on the number of starts
    del last["variations"]["budget"]["seconds"]
    del last["callbacks"]["Loop"]["measured"]  # of lines that contain seconds
    lines = [{key: value for key, value in line.items() if key != "seconds"} for line in folder.measurements.read()]
    result = folder.result() or {}
    hypotheses = {path.name: path.read_text() for path in sorted(folder.hypotheses.glob("[!.]*"))}
    return found | {
        "metrics": lines,
        "result": {key: value for key, value in result.items() if key not in TIMED},
        "hypotheses": hypotheses,
    }


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Yield the paths at which two nested structures are not bit-identical."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or not torch.equal(one, other):
            yield where
    elif isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, f"{where}[{place}]")
    elif type(one) is not type(other) or one != other:
        yield f"{where}: {str(one)[:80]} and {str(other)[:80]}"


def torture(place: Path, kills: int, seed: int) -> tuple[Report, float]:
    """Make `kills` kills; return the report and the duration of the uninterrupted run in seconds."""
    corpus(place / "corpus")
    rng, report = random.Random(seed), Report()

    def made(name: str) -> RunFolder:
        config = configuration(place, name)
        return RunFolder(naming.run_folder(config)).create(to_dict(config))

    whole, began = made("whole"), time.monotonic()
    list(continued_until_it_ends(whole, place / "whole.log", rng, 0))
    undisturbed, expected = time.monotonic() - began, contents(whole)
    if steps_of(expected) != STEPS_DONE:
        report.differences.append(f"undisturbed run: lines of metrics for the steps {steps_of(expected)}")
    while report.kills < kills:
        report.runs += 1
        folder = made(f"killed{report.runs}")
        log, left = place / f"killed{report.runs}.log", kills - report.kills
        for where in continued_until_it_ends(folder, log, rng, left):
            report.kills += 1
            report.where[where] += 1
            step, lines = step_of(folder), folder.measurements.read()
            report.repeated += max(0, (lines[-1]["step"] if lines else 0) - step)
            print(f"kill {report.kills:3d}: run {report.runs}, after update {step:2d}, {where}", flush=True)
        found = contents(folder)
        report.lines += len(found["metrics"])
        report.differences += [f"run {report.runs}: {path}" for path in differences(expected, found)]
        if steps_of(found) != STEPS_DONE:
            report.differences.append(f"run {report.runs}: lines of metrics for the steps {steps_of(found)}")
    return report, undisturbed


def steps_of(found: dict[str, Any]) -> list[int]:
    """Return the steps of the metrics lines."""
    return [line["step"] for line in found["metrics"]]


def told(report: Report, undisturbed: float, seconds: float) -> Iterator[str]:
    """Yield the report as lines of text."""
    yield f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    yield f"undisturbed run: {STEPS} updates, each with a checkpoint, and the test, in {undisturbed:.1f} s"
    yield f"kills (SIGKILL): {report.kills}, over {report.runs} runs, in {seconds:.0f} s; of these"
    yield from (f"  {count:3d} {where}" for where, count in report.where.most_common())
    yield f"updates made again because their checkpoint was not yet written: {report.repeated}"
    yield f"lines of metrics compared: {report.lines}"
    yield from (f"DIFFERENT: {difference}" for difference in report.differences)
    if not report.differences:
        yield "metrics: no gaps, no doubles"
        yield "weights, optimiser state, averages, best state, metrics, translations, result: equal to the last bit"


def main() -> int:
    """Run the harness and print its report; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random kill times")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report, undisturbed = torture(Path(folder), options.kills, options.seed)
    print("", *told(report, undisturbed, time.monotonic() - began), sep="\n")
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
