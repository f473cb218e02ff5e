"""What a run ends with: the tested weights, translations of the test set, scores and costs."""

import math
import time
from typing import Any

import torch
from torch import Tensor

from variations import tracking
from variations.config import Config
from variations.data.corpora import TextPair
from variations.errors import UserError
from variations.experiments.atomic import write_text
from variations.experiments.ledger import RunFolder
from variations.models import count_parameters
from variations.scoring.ladder import as_dict, score_all
from variations.training import checkpoints
from variations.training.fit import Trained, translator
from variations.training.loop import averaged_steps
from variations.training.validation import Validation


def final_weights(config: Config, folder: RunFolder) -> tuple[dict[str, Tensor], list[int]]:
    """Weights that are tested, and the steps they come from: an average of the last ones, or the last.

    Raises:
        UserError: The run has no sound checkpoint.
    """
    planned = averaged_steps(config)
    kept = [(step, path) for step, path in checkpoints.weights(folder.checkpoints) if step in planned]
    if config.recipe.average > 1 and kept:
        return checkpoints.average(path for _, path in kept), [step for step, _ in kept]
    newest = checkpoints.newest(folder.checkpoints)
    if newest is None:
        raise UserError(f"{folder.path} holds no checkpoint that can be read: train the run first.")
    state = checkpoints.load(newest)
    weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
    return weights, [int(state["global_step"])]


def outcome(config: Config, folder: RunFolder, trained: Trained) -> dict[str, Any]:
    """Test the trained weights: `hypotheses/`, scores, losses and totals, as `result.json` holds them."""
    task, data = trained.task, trained.data
    weights, steps = final_weights(config, folder)
    task.model.load_state_dict(weights)
    task.to(trained.device).eval()
    began = time.monotonic()
    scores = {"test": translate_and_score(config, folder, trained, "test", data.corpus.test)}
    decoding = time.monotonic() - began
    dev = Validation(config, data)(task)
    total_nll, tokens, words = _test_loss(trained)
    result: dict[str, Any] = {
        "schema": 1,
        "scores": scores,
        "loss": {
            "dev_nll": dev["dev/nll"],
            "dev_ppl": dev["dev/ppl"],
            "test_nll": total_nll / max(1, tokens),
            "test_ppl": math.exp(min(700.0, total_nll / max(1, tokens))),
            "test_ppl_per_word": math.exp(min(700.0, total_nll / max(1, words))),
        },
        "averaged_steps": steps,
        "parameters": count_parameters(task.model),
        "vocabulary": data.subwords.size,
        "steps": trained.step,
        "stopped": trained.stopped,
        "dropped_pairs": data.train_tokens.dropped,
        "decoding_seconds": decoding,
        "hardware": {"accelerator": config.trainer.accelerator, "devices": config.trainer.devices},
        "deterministic": determinism(config),
        "debug": config.debug.name,
    } | task.budget.state()
    tracking.log_summary(trained.loggers, result)
    return result


def translate_and_score(
    config: Config, folder: RunFolder, trained: Trained, name: str, pair: TextPair
) -> dict[str, dict[str, Any]]:
    """Translate one test set, keep the text, and score it by every convention."""
    sources, references = (lines[: config.trainer.limit_test] for lines in pair.read())
    with trained.task.trainer.precision_plugin.forward_context(), torch.inference_mode():
        found = translator(config, trained.task, trained.data, nbest=1).translate(
            sources, progress=config.trainer.progress
        )
    hypotheses = [line.outputs[0].text for line in found]
    folder.hypotheses.mkdir(exist_ok=True)
    for suffix, lines in (("hyp", hypotheses), ("ref", references), ("src", sources)):
        write_text(folder.hypotheses / f"{name}.{suffix}", "".join(f"{line}\n" for line in lines))
    return as_dict(score_all(hypotheses, references, config.data.target))


def _test_loss(trained: Trained) -> tuple[float, int, int]:
    """Total negative log-likelihood of the test references in nats, their sub-words and their words."""
    task, data, limit = trained.task, trained.data, trained.task.config.trainer.limit_test
    total, tokens = 0.0, 0
    for batch in data.decoding_batches(data.test_tokens, limit=limit):
        nll, count = task.evaluate(batch.to(task.device))
        total, tokens = total + nll, tokens + count
    _, references = data.corpus.test.read()
    return total, tokens, sum(len(line.split()) for line in references[:limit])


def determinism(config: Config) -> dict[str, Any]:
    """What repeats exactly when the run is repeated on the same machine, and what does not."""
    cpu = config.trainer.accelerator == "cpu"
    return {
        "requested": config.deterministic,
        "seeded": ["python", "numpy", "torch", "loader workers", "data order", "dropout of each batch"],
        "kernels": "deterministic" if config.deterministic or cpu else "may differ in the last bits",
        "not_covered": ["seconds", "another number of threads or devices", "another version of torch"],
    }
