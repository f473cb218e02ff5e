"""What a run ends with: the tested weights, translations of the test set, scores and costs."""

import logging
import math
import time
from typing import Any

import torch
from torch import Tensor

from variations.config import RunConfig
from variations.errors import UserError
from variations.models import count_parameters
from variations.store.atomic import write_text
from variations.store.environment import cpu_model
from variations.store.ledger import RunFolder
from variations.store.reuse import trained_in
from variations.tasks.translation.data.corpora import TextPair
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.scoring.ladder import as_dict, score_all
from variations.tracking.final import Final, attention_pictures, samples
from variations.training import checkpoints
from variations.training.budget import paper_cost
from variations.training.fit import Trained, translator
from variations.training.loop import averaged_steps
from variations.training.validation import Validation

log = logging.getLogger(__name__)


def final_weights(config: RunConfig, folder: RunFolder) -> tuple[dict[str, Tensor], list[int]]:
    """Weights that are tested, and the steps they come from.

    The mean of the last checkpoints (`recipe.average`), the moving average (`recipe.ema`), or the last weights.

    Raises:
        UserError: The run has no sound checkpoint, or that whose weights it tests is gone.
    """
    folder = trained_in(folder, config.variation.source)
    if config.recipe.average > 1:
        planned = averaged_steps(config)
        kept = [(step, path) for step, path in checkpoints.weights(folder.checkpoints) if step in planned]
        sound = [(step, path) for step, path in kept if checkpoints.is_sound(path)]
        for _, path in sorted(set(kept) - set(sound)):
            log.warning("The weights in %s are damaged (their checksum does not match); they are not averaged.", path)
        if sound:
            return checkpoints.average(path for _, path in sound), [step for step, _ in sound]
    newest = checkpoints.newest(folder.checkpoints)
    if newest is None:
        raise UserError(f"{folder.path} holds no checkpoint that can be read: train the run first.")
    state = checkpoints.load(newest)
    moving = state["variations"].get("average")
    if config.recipe.ema and moving is not None:
        return moving["weights"], [int(state["global_step"])]
    weights = {name.removeprefix("model."): value for name, value in state["state_dict"].items()}
    return weights, [int(state["global_step"])]


def outcome(config: RunConfig, folder: RunFolder, trained: Trained) -> dict[str, Any]:
    """Test the trained weights: `hypotheses/`, scores, losses and totals, as `result.json` holds them."""
    task, data = trained.task, trained.data
    weights, steps = final_weights(config, folder)
    task.model.load_state_dict(weights)
    task.to(trained.device).eval()
    began = time.monotonic()
    scores = {name: translate_and_score(config, folder, trained, name, _set(data, name)) for name in config.decode.sets}
    decoding = time.monotonic() - began
    _store_attention(config, folder, trained)
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
        "reused": config.variation.source,
        "dropped_pairs": data.train_tokens.dropped,
        "decoding_seconds": decoding,
        "hardware": _hardware(config, trained),
        "deterministic": determinism(config),
        "debug": config.debug.name,
    } | _costs(config, trained)
    if trained.trackers.any:
        pictures = attention_pictures(folder, task.model, data.subwords)
        trained.trackers.end(Final(result, samples(folder), pictures))
    return result


def _store_attention(config: RunConfig, folder: RunFolder, trained: Trained) -> None:
    from variations.tasks.translation.inspection.stored import store_maps

    task = trained.task
    with task.trainer.precision_plugin.forward_context(), torch.inference_mode():
        store_maps(folder, task.model, trained.data.subwords, config.decode.attention)


def _set(data: TranslationData, name: str) -> TextPair:
    found = {"dev": data.corpus.dev, "test": data.corpus.test, **data.corpus.others}
    if name not in found:
        raise UserError(f"decode.sets names {name!r}, but the corpus has only {', '.join(found)}.")
    return found[name]


def _hardware(config: RunConfig, trained: Trained) -> dict[str, Any]:
    device = torch.device(trained.device)
    return {
        "accelerator": config.trainer.accelerator,
        "devices": config.trainer.devices * config.trainer.nodes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model(),
        "threads": torch.get_num_threads(),
    }


def _costs(config: RunConfig, trained: Trained) -> dict[str, Any]:
    """Totals of the run; `flops` is counted, `flops_paper_rule` null for a device without a figure in the paper."""
    costs, hardware = trained.task.budget.state(), _hardware(config, trained)
    by_rule = paper_cost(costs["seconds"], hardware["devices"], hardware["device"])
    efficiency = (costs["source_tokens"] + costs["target_tokens"]) / max(1, costs["padded_tokens"])
    return costs | {
        "flops": float(costs["flops"]),
        "flops_paper_rule": by_rule,
        "padding_efficiency": efficiency,
    }


def translate_and_score(
    config: RunConfig, folder: RunFolder, trained: Trained, name: str, pair: TextPair
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
    with task.trainer.precision_plugin.forward_context():
        for batch in data.decoding_batches(data.test_tokens, limit=limit):
            nll, count = task.evaluate(batch.to(task.device))
            total, tokens = total + nll, tokens + count
    _, references = data.corpus.test.read()
    return total, tokens, sum(len(line.split()) for line in references[:limit])


def determinism(config: RunConfig) -> dict[str, Any]:
    """What repeats exactly when the run is repeated on the same machine, and what does not."""
    enforced = torch.are_deterministic_algorithms_enabled()
    sure = enforced or config.trainer.accelerator == "cpu"
    uncovered = ["seconds", "speed"]
    if config.trainer.max_minutes is not None:
        uncovered.append("the number of steps (trainer.max_minutes)")
    if not sure:
        uncovered.append("the last bits of sums on the device (deterministic=true would fix their order)")
    return {
        "requested": config.deterministic,
        "enforced_by_torch": enforced,
        "seeded": ["python", "numpy", "torch", "loader workers", "data order", "dropout of each batch"],
        "kernels": "deterministic" if sure else "may differ in the last bits",
        "not_covered": uncovered,
        "needs_the_same": [
            "machine",
            "number of threads and devices",
            "versions of torch and its libraries",
        ],
    }
