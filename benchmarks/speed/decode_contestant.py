"""Shared by all decoding contestants: W3, 200 sentences in batches of 32, beam 4, 35 tokens out."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from workloads import PAD, load

SENTENCES, ROWS, BEAM, ALPHA, LENGTH = 200, 32, 4, 0.6, 35
LARGEST = 8
"""Number of operators that a profile names."""


def batches(path: Path) -> list[np.ndarray]:
    """Sources of W2, sorted by length, padded, each row ending in EOS."""
    rows = [row[row != PAD] for step in load(path) for row in step.source][:SENTENCES]
    rows.sort(key=len, reverse=True)
    found = []
    for start in range(0, len(rows), ROWS):
        chunk = rows[start : start + ROWS]
        ids = np.full((len(chunk), max(map(len, chunk))), PAD)
        for i, row in enumerate(chunk):
            ids[i, : len(row)] = row
        found.append(ids)
    return found


def shares(work: Callable[[], object]) -> dict[str, float]:
    """The shares of the operators' own time, by torch's profiler: matrix products, the largest others, the rest."""
    import torch
    from contestant import PRODUCTS

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work()
    seconds: dict[str, float] = {}
    for event in profile.key_averages():
        name = "matrix products" if event.key in PRODUCTS else event.key.removeprefix("aten::")
        seconds[name] = seconds.get(name, 0.0) + event.self_cpu_time_total
    whole = sum(seconds.values())
    largest = sorted(seconds, key=lambda name: -seconds[name])[:LARGEST]
    found = {name: seconds[name] / whole for name in largest}
    return found | {"all others": 1 - sum(found.values())}


def main(make: Callable[[], Callable[[np.ndarray], list[int]]]) -> None:
    """Translate and report: `make()` gives a function from a batch of sources to the lengths of the best outputs."""
    p = argparse.ArgumentParser()
    p.add_argument("batches", type=Path)
    p.add_argument("--profile", action="store_true", help="print where the time goes instead of the rate")
    args = p.parse_args()
    translate, sources = make(), batches(args.batches)
    translate(sources[-1])
    if args.profile:
        for name, share in shares(lambda: [translate(batch) for batch in sources]).items():
            print(f"{100 * share:5.1f} % {name}")
        return
    start = time.perf_counter()
    lengths = [length for batch in sources for length in translate(batch)]
    seconds = time.perf_counter() - start
    wrong = [length for length in lengths if length != LENGTH]
    if wrong:
        raise SystemExit(f"{len(wrong)} outputs do not have {LENGTH} tokens, the first has {wrong[0]}")
    print(json.dumps({"sentences_per_second": len(lengths) / seconds}))
