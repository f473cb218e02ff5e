"""The cost of an update with one restart and with ten side by side, in CPU seconds of one thread, on generated stories.

`python benchmarks/restarts.py` prints a table; `--root FOLDER` takes bAbI's tasks 1, 2 and 15 instead. The candidates
take turns, so that other work on the machine affects all of them equally; CPU seconds exclude the time of other
processes.

`--rows` adds the nine MemN2N rows of `sweep=babi_memn2n_1k`: the CPU time of an update of all their networks, and an
estimate for the whole training.

`--peer FOLDER` adds an epoch of a public PyTorch implementation, FOLDER being a checkout of
https://github.com/nmhkahn/MemN2N-pytorch. Both sides have d = 20, three hops, adjacent tying, position weights, SGD
with gradients clipped at 40, and take 31 full batches of 32 from the 1,000 training questions of the same task (ours
holds one out, because there must be a validation), with the same memory of at most 50 sentences; the time to draw
batches is included. The peer trains one network with its own code for data and training. It differs in some points: a
time word at the end of each sentence instead of time vectors, noise on its gradients, no reset of the empty word. This
is therefore a comparison of times, not of results. For today's torch and Python, `peer_trainer` replaces four small
parts at run time.
"""

import argparse
import contextlib
import functools
import importlib
import io
import os
import re
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

ROUNDS = 5
TASKS = (1, 2, 15)
CASES = {
    "BoW": ("model.code=bow",),
    "PE": (),
    "PE RN": ("recipe.noise=0.1",),
    "PE, layer-wise": ("model.tying=layer_wise",),
}
ROWS = ("pe", "bow", "pe_ls", "pe_ls_rn", *(f"joint_{of}" for of in ("1hop", "2hop", "3hop", "3hop_rn", "3hop_lw")))
BATCH = 32


def trainer(overrides: list[str], restarts: int) -> tuple[Callable[[], float], int]:
    """A function that trains an epoch, drawing its batches included: CPU seconds of an update; and a run's updates."""
    from variations.configuration.compose import compose_run
    from variations.tasks.question_answering.data import QuestionAnsweringData
    from variations.tasks.question_answering.experiment import QuestionAnsweringExperiment
    from variations.training.schedule import optimizer

    config: Any = compose_run(["task=question_answering", f"model.restarts={restarts}", *overrides])
    data = QuestionAnsweringData(config)
    data.setup()
    experiment = QuestionAnsweringExperiment(config, data)
    learner, _ = optimizer(experiment.parameter_groups(), config)

    def epoch() -> float:
        began = time.process_time()
        for done, batch in enumerate(data.train_dataloader(), 1):
            learner.zero_grad()
            (experiment.losses(batch)[0] / len(batch)).backward()
            experiment.before_update(len(batch))
            learner.step()
            experiment.after_update(done)
        return (time.process_time() - began) / data.batches()

    return epoch, config.trainer.max_steps


def peer_trainer(folder: Path, root: Path, task: int) -> tuple[Callable[[], float], int]:
    """The same of the peer: CPU seconds of an update; and the updates of an epoch.

    Replaced at run time: `six.moves`, which need not be installed; the splitting of a line into words, which does not
    work with Python 3.7 and newer; the shape of the loss, from which the trainer takes element 0; and the loader, which
    now works in this process, so that its time is counted, and omits incomplete batches.
    """
    from torch.utils.data import DataLoader

    moves = types.ModuleType("six.moves")
    vars(moves).update(range=range, reduce=functools.reduce)
    with (
        patch.dict(sys.modules, {"six.moves": moves}),
        patch.object(sys, "path", [str(folder / "memn2n"), *sys.path]),
        warnings.catch_warnings(action="ignore"),
    ):
        code, reading = (importlib.import_module(name) for name in ("trainer", "data_utils"))
    vars(reading).update(tokenize=lambda line: [word.strip() for word in re.split(r"(\W+)", line) if word.strip()])
    settings = {"cuda": False, "dataset_dir": str(root / "en"), "task": task, "max_hops": 3, "batch_size": BATCH}
    learning = {"max_epochs": 1, "lr": 0.01, "decay_interval": 25, "decay_ratio": 0.5, "max_clip": 40.0}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        peer: Any = code.Trainer(types.SimpleNamespace(**settings, **learning))
    summed = peer.ce_fn
    peer.ce_fn = lambda scores, answers: summed(scores, answers).view(1)
    peer.train_loader = DataLoader(peer.train_data, batch_size=BATCH, shuffle=True, drop_last=True)
    updates = len(peer.train_loader)

    def epoch() -> float:
        with warnings.catch_warnings(action="ignore"):
            began = time.process_time()
            peer._train_single_epoch(0)
            return (time.process_time() - began) / updates

    return epoch, updates


def in_turns(epochs: list[Callable[[], float]], rounds: int = ROUNDS) -> list[tuple[float, ...]]:
    """The values of each, round by round, after a first round for warm-up, which is not counted."""
    for epoch in epochs:
        epoch()
    return [tuple(epoch() for epoch in epochs) for _ in range(rounds)]


def ratio(rounds: list[tuple[float, ...]], above: int, below: int) -> float:
    """The median ratio of two candidates that took turns."""
    return median(told[above] / told[below] for told in rounds)


def restarts_table(data: list[str]) -> None:
    """Print what ten restarts cost, compared with one."""
    print("| task | networks | one, ms of CPU | ten, ms of CPU | ten / one, median | a loop over ten / side by side |")
    print("|---:|:---|---:|---:|---:|---:|")
    for task in TASKS:
        for label, words in CASES.items():
            rounds = in_turns([trainer([*data, f"data.tasks=[{task}]", *words], count)[0] for count in (1, 10)])
            one, ten = (1000 * min(told) for told in zip(*rounds, strict=True))
            times = ratio(rounds, 1, 0)
            print(f"| {task} | {label} | {one:.2f} | {ten:.2f} | {times:.2f} | {10 / times:.1f} |", flush=True)


def peer_table(data: list[str], folder: Path, root: Path) -> None:
    """Print an epoch of the peer beside ours with PE."""
    print("\n| task | | ms of CPU for an update | s of CPU for an epoch | time / that of one of ours, median |")
    print("|---:|:---|---:|---:|---:|")
    for task in TASKS:
        theirs, updates = peer_trainer(folder, root, task)
        words = [*data, f"data.tasks=[{task}]", "data.valid=0.001", f"recipe.batch_size={BATCH}"]
        rounds = in_turns([trainer(words, 1)[0], trainer(words, 10)[0], theirs])
        least = [min(told) for told in zip(*rounds, strict=True)]
        for at, label in ((2, "peer, one network"), (0, "ours, one restart"), (1, "ours, ten restarts")):
            times = f"{1000 * least[at]:.2f} | {updates * least[at]:.3f} | {ratio(rounds, at, 0):.2f}"
            print(f"| {task} | {label} | {times} |")
        loop = 10 * ratio(rounds, 2, 1)
        print(f"| {task} | ten of the peer, one after another / ours, ten restarts | | | {loop:.1f} |", flush=True)


def rows_table(data: list[str]) -> None:
    """Print what the training of the nine rows costs in CPU time: of one update, times the updates of a run."""
    print("\n| row | updates | ms of CPU for an update | hours of CPU |")
    print("|:---|---:|---:|---:|")
    total = 0.0
    for row in ROWS:
        words = [*data, f"variation=babi_memn2n_1k/{row}", "recipe.linear_epochs=0"]
        epoch, updates = trainer(words, 10)
        least = min(epoch(), epoch())
        total += updates * least / 3600
        print(f"| {row} | {updates:,} | {1000 * least:.1f} | {updates * least / 3600:.2f} |", flush=True)
    print(f"| all nine | | | {total:.2f} |")
    print(f"| on two cores, two rows at a time | | | {total / 2:.2f} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="folder of bAbI 1.2")
    parser.add_argument("--peer", type=Path, help="checkout of nmhkahn/MemN2N-pytorch; needs --root")
    parser.add_argument("--rows", action="store_true", help="also estimate the nine MemN2N rows; needs --root")
    options = parser.parse_args()
    if (options.peer or options.rows) and options.root is None:
        sys.exit("--peer and --rows train on bAbI's own files: name their folder with --root.")
    if options.peer and not (options.peer / "memn2n" / "trainer.py").is_file():
        sys.exit(
            f"--peer={options.peer}: there is no memn2n/trainer.py in this folder; "
            "name a checkout of https://github.com/nmhkahn/MemN2N-pytorch."
        )
    import torch

    from variations.training import performance

    performance.apply("auto", "cpu", 1, {})  # as in a run, for all candidates
    data = ["data=babi", f"data.root={options.root}"] if options.root else []
    name = "bAbI 1.2" if options.root else "invented stories"
    print(
        f"MemN2N on {name}, d = 20, 3 hops, batches of {BATCH} questions for each restart, one thread; torch "
        f"{torch.__version__}; {ROUNDS} rounds; load of the machine {os.getloadavg()[0]:.0f} on {os.cpu_count()} "
        "cores.\n"
    )
    restarts_table(data)
    if options.peer:
        peer_table(data, options.peer, options.root)
    if options.rows:
        rows_table(data)


if __name__ == "__main__":
    main()
