"""What an update costs with one restart and with ten side by side, in CPU seconds of one thread, on invented stories.

`python benchmarks/restarts.py` prints a table; `--root FOLDER` takes bAbI's tasks 1, 2 and 15 instead. One and ten take
turns, so that other work on the machine meets both alike; CPU seconds leave out what other processes took.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

ROUNDS = 5
CASES = {
    "BoW": ("model.code=bow",),
    "PE": (),
    "PE RN": ("recipe.noise=0.1",),
    "PE, layer-wise": ("model.tying=layer_wise",),
}


def trainer(overrides: list[str], restarts: int) -> Callable[[], float]:
    """Train an epoch, drawing its batches included; CPU seconds of an update."""
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
            experiment.before_update()
            learner.step()
            experiment.after_update(done)
        return (time.process_time() - began) / data.batches()

    return epoch


def measured(overrides: list[str]) -> tuple[float, float, float]:
    """Least milliseconds of an update with one and with ten restarts, and the median ratio of neighbouring rounds."""
    one, ten = (trainer(overrides, restarts) for restarts in (1, 10))
    one(), ten()  # what the first calls set up does not count
    rounds = [(one(), ten()) for _ in range(ROUNDS)]
    ratio = median(b / a for a, b in rounds)
    return 1000 * min(a for a, _ in rounds), 1000 * min(b for _, b in rounds), ratio


def main() -> None:
    """Print the table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="folder of bAbI 1.2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = ["data=babi", f"data.root={options.root}"] if options.root else []
    name = "bAbI 1.2" if options.root else "invented stories"
    print(
        f"MemN2N on {name}, d = 20, 3 hops, batches of 32 questions for each restart, one thread; torch "
        f"{torch.__version__}; {ROUNDS} rounds; load of the machine {os.getloadavg()[0]:.0f} on {os.cpu_count()} "
        "cores.\n"
    )
    print("| task | networks | one, ms of CPU | ten, ms of CPU | ten / one, median | a loop over ten / side by side |")
    print("|---:|:---|---:|---:|---:|---:|")
    for task in (1, 2, 15):
        for label, words in CASES.items():
            one, ten, ratio = measured([*data, f"data.tasks=[{task}]", *words])
            print(f"| {task} | {label} | {one:.2f} | {ten:.2f} | {ratio:.2f} | {10 / ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
