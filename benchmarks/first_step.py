"""Where the seconds between the start of `train.py` and the end of its first update go, on workload W2 of `bench.py`.

`python benchmarks/first_step.py` starts `train.py` and the bare loop in turn, each to the end of its first update, and
`train.py` once more under `python -X importtime`. Each imported module counts for the nearest
package of the list through which it was imported: SciPy for itself, not for Lightning, which imports it.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "speed"))

from bench import METRICS, SPEED, environment, finished, training, watched
from common import deliver, header, load

OWNERS = {
    "scipy": "SciPy, imported by Lightning's torchmetrics",
    "matplotlib": "Matplotlib, imported by Lightning's torchmetrics",
    "torch._dynamo": "torch._dynamo, imported by Lightning",
    "lightning_fabric": "Lightning, the rest",
    "pytorch_lightning": "Lightning, the rest",
    "torch": "torch",
    "hydra": "Hydra and OmegaConf",
    "omegaconf": "Hydra and OmegaConf",
    "variations": "this package",
}
REST = "other modules"
LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|( +)(\S+)$")


def first_line(folder: Path, *options: str) -> tuple[float, str]:
    """Run `train.py` to its first line of metrics: the seconds, and what it wrote to standard error."""
    with tempfile.TemporaryDirectory(dir=folder) as place, tempfile.TemporaryFile("w+") as told:
        command = [sys.executable, *options, *training("W2", folder, Path(place)), "logger=wandb"]
        process = subprocess.Popen(command, stdout=told, stderr=told, env=environment(folder), cwd=place)
        seconds, _ = watched(process, Path(place) / METRICS, 1, time.monotonic())
        process.kill()
        process.wait()
        told.seek(0)
        text = told.read()
    if not seconds:
        raise SystemExit(f"train.py failed:\n{text[-2000:]}")
    return seconds, text


def by_owner(text: str) -> Counter[str]:
    """Seconds of importing by package, from the lines of `-X importtime`: a module follows those that it imports."""
    found: Counter[str] = Counter()
    above: list[tuple[int, str]] = []
    """Indentation and owner of the modules through which the present one was imported."""
    lines = [match for line in text.splitlines() if (match := LINE.match(line))]
    for microseconds, indentation, module in (match.groups() for match in reversed(lines)):
        depth = len(indentation)
        while above and above[-1][0] >= depth:
            above.pop()
        own = next((OWNERS[name] for name in OWNERS if module == name or module.startswith(f"{name}.")), None)
        through = above[-1][1] if above else REST
        owner = through if own is None or (own, through) == (OWNERS["torch"], OWNERS["torch._dynamo"]) else own
        above.append((depth, owner))
        found[owner] += int(microseconds) / 1e6
    return found


def main() -> None:
    """Command line."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--folder", type=Path, default=Path("build/bench"), help="corpus and batches, as of bench.py")
    p.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    args = p.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    finished([sys.executable, str(SPEED / "prepare.py"), str(folder)], environment(folder))
    whole, bare = [], []
    bare_loop = [sys.executable, str(SPEED / "train_bare.py"), "W2", str(folder / "W2.npz"), "--tuned"]
    first_line(folder)  # reads the files from the disk
    for _ in range(args.rounds):
        whole.append(first_line(folder)[0])
        start = time.time()
        bare.append(finished(bare_loop, environment(folder))[0]["first_step_at"] - start)
    imports = by_owner(first_line(folder, "-X", "importtime")[1])
    lines = header("The first step of W2", {"rounds": args.rounds, "load average at the end": load()})
    lines += [
        "| from the start of the process to the end of the first update | seconds |",
        "|:---|---:|",
        f"| `train.py` | {statistics.median(whole):.2f} ({min(whole):.2f}–{max(whole):.2f}) |",
        f"| the bare loop: imports torch, builds the model, makes one update | {statistics.median(bare):.2f} "
        f"({min(bare):.2f}–{max(bare):.2f}) |",
        "",
        "| imports of `train.py`, by `python -X importtime`, which itself costs time | seconds |",
        "|:---|---:|",
        *(f"| {owner} | {seconds:.2f} |" for owner, seconds in imports.most_common()),
        f"| all imports | {sum(imports.values()):.2f} |",
    ]
    deliver(lines, args.output)


if __name__ == "__main__":
    main()
