"""What a large run store costs: 10,000 runs, of which one sweep holds 2,000 (four rows, 500 seeds each).

`python benchmarks/scale.py --output docs/results/scale.md` fabricates the store in a temporary folder and measures each
part in a fresh process, in CPU seconds, so that other work on the machine does not count. Some minutes.
"""

import argparse
import http.client
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

FIRST = "first view (index and the sweep's page), first start on this store"
NEXT = "first view, start after the first"
DRAWN = "these curves, sent"
WHOLE = "all measures of these runs, if they were sent"
GOALS: dict[str, tuple[float | None, str]] = {
    FIRST: (2.0, "s"),
    NEXT: (2.0, "s"),
    "an idle viewer, of one core": (2.0, "%"),
    "skip-check of the sweep": (5.0, "s"),
    "significance, nothing counted before": (20.0, "s"),
    DRAWN: (None, "MB"),
    WHOLE: (None, "MB"),
}
"""Goal, if there is one, and unit; others are in seconds."""
WHY = (
    "Why the first start misses its goal: the index reads the status of every run, and the page status, configuration, "
    "result and measurements of the sweep's runs; most of the time goes into decoding JSON. Tried and kept: common "
    "blocks of configurations are parsed once, only the ends of long measurements are read, stored numbers are checked "
    "in one pass. What was read is cached for later starts. Not tried: a cache that a run writes itself when it ends."
)
WATCHED_SECONDS = 60.0
OTHERS = 40
"""Sweeps beside the large one."""
VARIANTS = 8
"""Hypotheses of a sentence, of which each run has one."""


def jobs(store: Path, seeds: int) -> list[Any]:
    """The jobs of the sweep, as its command line names them."""
    from variations.sweeping.jobs import expand

    return expand(["sweep=quickstart", f"seeds=[{','.join(map(str, range(1, seeds + 1)))}]", f"runs={store}"])


def write(folder: Path, files: dict[str, str]) -> None:
    """Write a run's files: none of the flushes of a real run, which would take an hour."""
    (folder / "hypotheses").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def status(state: str = "finished") -> str:
    """A status.json."""
    facts = {"state": state, "reason": None, "attempt": 1, "failures": 0, "step": 1200, "epoch": 3, "host": "a-host"}
    times = {"started": "2026-01-01T00:00:00+00:00", "updated": "2026-01-01T00:10:00+00:00"}
    return json.dumps({**facts, **times, "pid": 4711, "process": "4711@a-host/0123456789ab/1"}, indent=2)


def result(bleu: float) -> str:
    """A result.json with the usual scores."""
    text = "sacreBLEU on detokenised text with its own 13a tokenisation, case-sensitive."
    details = {"bp": 1.0, "precisions": [90.0, 80.0, 70.0, 60.0], "hypothesis_tokens": 5000, "reference_tokens": 5010}
    names = ("bleu", "bleu_lc", "bleu_tok", "bleu_tok_lc", "bleu_split", "chrf", "gleu", "exact_match")
    scores = {name: {"value": bleu, "convention": text, "signature": "nrefs:1", "details": details} for name in names}
    costs = {
        "source_tokens": 500_000,
        "target_tokens": 550_000,
        "padded_tokens": 600_000,
        "flops": 1e13,
        "seconds": 60.0,
    }
    facts = {"schema": 1, "parameters": 1_500_000, "steps": 2400, "dropped_pairs": 0, "debug": None}
    hardware = {"accelerator": "cpu", "device": "a processor", "devices": 1, "threads": 1}
    loss = {"dev_nll": 0.5, "dev_ppl": 1.65}
    return json.dumps({"scores": {"test": scores}, "loss": loss, "hardware": hardware, **facts, **costs}, indent=2)


def metrics(points: int = 60) -> str:
    """A metrics.jsonl."""
    lines = []
    for point in range(1, points + 1):
        costs = {"source_tokens": 210 * point, "target_tokens": 230 * point, "seconds": point, "flops": 1e11 * point}
        nll = 1 + 5 * math.exp(-point / 6)  # trained to its end
        values = {"lr": 1e-3, "train/loss": nll, "train/nll": nll, "dev/nll": nll, "dev/ppl": math.exp(nll)}
        branch = {
            f"branch/encoder.{layer}.self.{name}": [0.25] * 4 for layer in range(2) for name in ("kappa", "alpha")
        }
        lines.append(json.dumps({"step": 40 * point, "epoch": 0, **costs, **values, **branch}))
    return "\n".join(lines) + "\n"


class Texts:
    """A test set, VARIANTS hypotheses of each sentence, better and worse ones, and what each adds to BLEU's sums."""

    def __init__(self, sentences: int) -> None:
        import numpy as np

        from variations.tasks.translation.scoring.counts import bleu_counts

        rng, self.draw = random.Random(1), np.random.default_rng(1)
        words = [f"w{k}" for k in range(400)]
        lines = [[rng.choice(words) for _ in range(rng.randint(6, 16))] for _ in range(sentences)]
        self.variants = [
            [" ".join(w if rng.random() > 0.05 * k else rng.choice(words) for w in line) for k in range(VARIANTS)]
            for line in lines
        ]
        references = [" ".join(line) for line in lines]
        self.sides = {
            "hypotheses/test.src": "".join(f"{line.replace('w', 'v')}\n" for line in references),
            "hypotheses/test.ref": "".join(f"{line}\n" for line in references),
        }
        pairs = zip(self.variants, references, strict=True)
        self.counts = np.stack(
            [bleu_counts(several, [line] * VARIANTS) for several, line in pairs]
        )  # (S, VARIANTS, 10)

    def run(self) -> tuple[float, dict[str, str]]:
        """The BLEU of a run and its files: of each sentence, one of the better variants by chance."""
        from variations.tasks.translation.scoring.counts import bleu

        chosen = self.draw.integers(VARIANTS // 2, size=len(self.variants))
        score = float(bleu(self.counts[range(len(chosen)), chosen].sum(0)))
        lines = "".join(f"{several[k]}\n" for several, k in zip(self.variants, chosen, strict=True))
        return score, {"hypotheses/test.hyp": lines, **self.sides}


def fabricate(store: Path, runs: int, seeds: int, sentences: int) -> None:
    """Write the whole store."""
    import yaml

    from variations.configuration.compose import to_dict

    common = {
        "status.json": status(),
        "metrics.jsonl": metrics(),
        "environment.json": '{"schema": 1, "host": "a-host"}',
    }
    configs: dict[str, str] = {}
    texts, large = Texts(sentences), jobs(store, seeds)
    for job in large:
        if job.row not in configs:
            configs[job.row] = yaml.safe_dump(to_dict(job.config), sort_keys=False, allow_unicode=True, width=120)
        config = re.sub(r"^seed: \d+$", f"seed: {job.seed}", configs[job.row], count=1, flags=re.MULTILINE)
        score, sides = texts.run()
        write(job.folder, {"config.yaml": config, "result.json": result(score), **sides, **common})
    others = runs - len(large)
    for number in range(others):
        sweep, seed = divmod(number, -(-others // OTHERS))
        config = re.sub(r"^(  name: )quickstart$", rf"\g<1>other{sweep}", configs[large[0].row], flags=re.MULTILINE)
        folder = store / f"other{sweep}" / f"row{seed // 5}" / f"seed{seed % 5 + 1}"
        write(folder, {"config.yaml": config, "result.json": result(40.0), **common})


# What is measured: each in a process of its own -----------------------------------------------------------------------


def opened(store: Path) -> Any:
    """The API, with what an earlier part of this benchmark has kept, as the command `dashboard` has it."""
    from variations.configuration.schema import default_cache
    from variations.dashboard.api import Api
    from variations.dashboard.store import Store

    return Api(Store(store, Path(default_cache())))


def view(store: Path, seeds: int) -> dict[str, float]:
    """The first page of the dashboard on the sweep."""
    import variations.dashboard.sweeps  # noqa: F401 - imports do not count

    began = time.process_time()
    api = opened(store)
    found = json.loads(api.answer("index"))
    listed = time.process_time()
    page = json.loads(api.answer("sweep/quickstart"))
    done = time.process_time()
    assert len(page["runs"]) == 4 * seeds, len(page["runs"])
    assert page["fault"] is None, page["fault"]
    assert sum(entry["runs"] for entry in found["sweeps"]) >= 4 * seeds
    return {FIRST: done - began, "of these, the index": listed - began}


def curves(store: Path, seeds: int) -> dict[str, float]:
    """One measure of all rows of the sweep, as the page asks for it; and the size of all that these runs measured."""
    api = opened(store)
    names = [quote(run.id, safe="") for run in api.store.sweep("quickstart")]
    began = time.process_time()
    blocks = (",".join(names[at : at + 50]) for at in range(0, len(names), 50))
    drawn = [api.answer("curves", {"ids": block, "metrics": "dev%2Fnll", "x": "step"}) for block in blocks]
    done = time.process_time()
    assert sum(len(json.loads(part)["runs"]) for part in drawn) == 4 * seeds
    whole = sum(len(api.answer(f"curves/{name}".replace("%2F", "/"))) for name in names)
    return {
        "curves of the sweep's runs, one measure": done - began,
        DRAWN: sum(map(len, drawn)) / 1e6,
        WHOLE: whole / 1e6,
    }


def idle(store: Path, seeds: int) -> dict[str, float]:
    """A page that follows the store, in which nothing happens."""
    from variations.dashboard.server import Server

    server = Server(opened(store))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = http.client.HTTPConnection(*server.server_address[:2])
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.readline().startswith(b"event: revision")  # the first walk is over
    time.sleep(1)
    cpu, wall = time.process_time(), time.monotonic()
    time.sleep(WATCHED_SECONDS)
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    server.shutdown()
    return {"an idle viewer, of one core": 100 * share}


def skip(store: Path, seeds: int) -> dict[str, float]:
    """What `train.py --multirun` does before it says that all rows are finished."""
    began = time.process_time()
    jobs(store, 1)
    once = time.process_time()
    made = jobs(store, seeds)
    composed = time.process_time()
    from variations.sweeping.outcomes import Outcome

    outcomes = [Outcome.of(job) for job in made]
    done = time.process_time()
    assert {outcome.state for outcome in outcomes} == {"skipped"}, {outcome.reason for outcome in outcomes}
    return {
        "compose of the four rows, one seed each": once - began,
        "compose of the same rows, all seeds": composed - once,
        "skip-check of the sweep": done - composed,
    }


def significance(store: Path, seeds: int) -> dict[str, float]:
    """Every row against its base row, over all seeds."""
    from variations.store.rows import define
    from variations.tables.chance import SignificanceConfig
    from variations.tables.table import build

    sweep = define(jobs(store, seeds)[0].config.sweep, seeds=list(range(1, seeds + 1)), store=store)
    began = time.process_time()
    table = build(sweep, store, SignificanceConfig())
    tested = [line.test for line in table.lines if line.test]
    assert [len(test.seeds) for test in tested] == [seeds] * 3, [line.untested for line in table.lines]
    return {"significance, nothing counted before": time.process_time() - began}


PARTS: dict[str, Callable[[Path, int], dict[str, float]]] = {
    "view": view,
    "idle": idle,
    "curves": curves,
    "skip": skip,
    "significance": significance,
}


def measured(part: str, store: Path, seeds: int) -> dict[str, float]:
    """A part in a fresh process."""
    line = [sys.executable, __file__, "--part", part, "--folder", str(store), "--seeds", str(seeds)]
    done = subprocess.run(
        line, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )  # its cache folder is that of this process: see main
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=500, help="of each of the four rows of the large sweep")
    parser.add_argument("--sentences", type=int, default=500, help="of the test set")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--folder", type=Path, help="keep the store here, or use the one that is here")
    parser.add_argument("--output", type=Path, help="write the report to this Markdown file too")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](options.folder, options.seeds)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        store = options.folder or Path(temporary) / "runs"
        os.environ["VARIATIONS_CACHE"] = str(Path(temporary) / "cache")  # empty: the first start is one
        if not store.exists():
            fabricate(store, options.runs, options.seeds, options.sentences)
        found: dict[str, float] = {}
        for part in options.parts:
            found |= measured(part, store, options.seeds)
            if part == "view":
                found[NEXT] = measured(part, store, options.seeds)[FIRST]
            if part == "significance":
                (again,) = measured(part, store, options.seeds).values()
                found["significance again, in another process"] = again
    report(found, options)


def commit() -> str:
    """The commit that is measured, and whether files differ from it."""
    from variations.store.environment import git_state

    state = git_state()
    return f"{state['commit'][:7]}{' with changes' if state['dirty'] else ''}" if state else "unknown"


def report(found: dict[str, float], options: argparse.Namespace) -> None:
    """Print the figures beside their goals, and write them if that is asked for."""
    import common

    settings: dict[str, object] = {"commit": commit(), "load average at the end": common.load()}
    lines = common.header("What a large run store costs", settings)
    lines += [
        f"A fabricated store of {options.runs:,} runs; one sweep holds {4 * options.seeds:,} of them: four rows, "
        f"{options.seeds} seeds each, {options.sentences} test sentences. Each line of a run's metrics has all "
        "measures, more than that of a real run. CPU seconds of the part alone, in a fresh process whose imports do "
        "not count; one thread. Other work on the machine makes CPU seconds longer, too.",
        "",
        "| what | measured | goal | |",
        "|:---|---:|---:|:---|",
    ]
    for name, value in found.items():
        goal, unit = GOALS.get(name, (None, "s"))
        told = ("", "") if goal is None else (f"{goal:g} {unit}", "held" if value <= goal else "**missed**")
        lines.append(f"| {name} | {value:.2f} {unit} | {told[0]} | {told[1]} |")
    if FIRST in found and found[FIRST] > 2.0:
        lines += ["", WHY]
    common.deliver(lines, options.output)


if __name__ == "__main__":
    main()
