"""What an update costs with one restart and with ten side by side, in CPU seconds of one thread, on invented stories.

`python benchmarks/restarts.py` prints a table; `--root FOLDER` takes bAbI's tasks 1, 2 and 15 instead.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

ROUNDS = 3
CASES = {
    "bow": ("model.code=bow",),
    "pe": (),
    "pe_rn": ("recipe.noise=0.1",),
    "layer_wise": ("model.tying=layer_wise",),
}


def seconds(overrides: list[str], restarts: int, updates: int) -> float:
    """CPU seconds of an update, drawing its batch included; the best of some rounds."""
    from variations.configuration.compose import compose_run
    from variations.tasks.question_answering.data import QuestionAnsweringData
    from variations.tasks.question_answering.experiment import QuestionAnsweringExperiment
    from variations.training.schedule import optimizer

    config: Any = compose_run(["task=question_answering", f"model.restarts={restarts}", *overrides])
    data = QuestionAnsweringData(config)
    data.setup()
    experiment = QuestionAnsweringExperiment(config, data)
    learner, _ = optimizer(experiment.parameter_groups(), config)
    best = float("inf")
    for _ in range(ROUNDS):
        done, began = 0, time.process_time()
        while done < updates:
            for batch in data.train_dataloader():
                learner.zero_grad()
                (experiment.losses(batch)[0] / len(batch)).backward()
                experiment.before_update()
                learner.step()
                done += 1
                experiment.after_update(done)
        best = min(best, (time.process_time() - began) / done)
    return best


def main() -> None:
    """Print the table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="folder of bAbI 1.2")
    parser.add_argument("--updates", type=int, default=56)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = ["data=babi", f"data.root={options.root}"] if options.root else []
    print("| task | networks | one, ms | ten, ms | ten / one | ten, one after another / side by side |")
    print("|---|---|---|---|---|---|")
    for task in (1, 2, 15):
        for name, words in CASES.items():
            overrides = [*data, f"data.tasks=[{task}]", *words]
            one, ten = (1000 * seconds(overrides, restarts, options.updates) for restarts in (1, 10))
            print(f"| {task} | {name} | {one:.2f} | {ten:.2f} | {ten / one:.2f} | {10 * one / ten:.1f} |", flush=True)


if __name__ == "__main__":
    main()
