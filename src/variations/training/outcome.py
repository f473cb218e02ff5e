"""The result of a run: the tested weights, the task's scores, and costs."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.models import count_parameters
from variations.store import conflicts
from variations.store.atomic import plain
from variations.store.contents import no_score, result_fault
from variations.store.environment import cpu_model
from variations.store.ledger import RunFolder
from variations.store.reuse import trained_in
from variations.system.errors import RunFailedError
from variations.training.budget import paper_cost
from variations.training.finite import refuse_bad_weights
from variations.training.fit import Trained, label
from variations.training.tracking.final import Final
from variations.training.weights import final_weights


def outcome(config: RunConfig, folder: RunFolder, trained: Trained) -> dict[str, Any]:
    """Test the trained weights, and return the contents of result.json."""
    step, task = trained.step, named(config.task)
    if config.trainer.progress:
        print(f"{label(config, folder)} step {trained.steps} · testing", file=sys.stderr, flush=True)
    experiment, source = step.experiment, trained_in(folder, config.variation.source)
    weights, steps = final_weights(config, folder)
    refuse_bad_weights(weights.values(), task.steadier)
    step.model.load_state_dict(weights)
    step.to(trained.place.device).eval()
    result: dict[str, Any] = {"schema": 1} | experiment.test(folder, trained.place)
    result |= {
        "averaged_steps": steps,
        "parameters": count_parameters(step.model),
        "steps": trained.steps,
        "stopped": trained.stopped,
        "changed": conflicts.history(source.config()),
        "reused": config.variation.source,
        "hardware": _hardware(config, trained),
        "deterministic": determinism(config),
        "code": (source.environment() or {}).get("code"),
        "debug": config.debug.name,
        "row_file": config.variation.sha256,
    } | _costs(config, trained, None if source is folder else source.result())
    remarks = [*result.get("remarks", [])]
    performance = (folder.environment() or {}).get("performance") or {}
    if others := performance.get("threads_before"):
        counts = " and ".join(map(str, [*others, performance.get("threads")]))
        remarks.append(
            f"trained with {counts} threads in turn: its last bits are those of no run with one number of threads"
        )
    if len(versions := source.trained_by()) > 1:
        each = "; then ".join(versions)
        remarks.append(
            f"trained with several versions of this project's code ({each}), so the result belongs to none of them"
        )
    if remarks:
        result["remarks"] = remarks
    if copied := folder.copied_from():
        result["copied"] = copied
    known = plain(result)
    measure = task.primary(config.sweep.metric) if task.scores or task.metrics else None
    compared = (measure.label, measure.value(known)) if measure is not None else None
    if fault := result_fault(known, config.task) or no_score(known, compared):
        raise RunFailedError(f"The test of the trained weights gave a result that cannot be used: {fault}.")
    if trained.trackers.any:
        trained.trackers.end(Final(result, task.samples(folder), task.pictures(folder, experiment)))
    return result


def _hardware(config: RunConfig, trained: Trained) -> dict[str, Any]:
    device = torch.device(trained.place.device)
    return {
        "accelerator": config.trainer.accelerator,
        "devices": config.trainer.devices * config.trainer.nodes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model(),
        "threads": torch.get_num_threads(),
    }


def _costs(config: RunConfig, trained: Trained, reused: Mapping[str, Any] | None) -> dict[str, Any]:
    """Totals of the run; `flops` is counted, `flops_paper_rule` is null for devices without a figure in the paper.

    `reused` is the result of the run whose weights are tested: its last checkpoint lacks the seconds after it.
    """
    costs, hardware = trained.step.budget.state(), _hardware(config, trained)
    costs |= {key: reused[key] for key in costs if reused and key in reused}
    by_rule = paper_cost(costs["seconds"], hardware["devices"], hardware["device"])
    return costs | {"flops": float(costs["flops"]), "flops_paper_rule": by_rule} | trained.step.task.totals(costs)


def determinism(config: RunConfig) -> dict[str, Any]:
    """Which parts are exactly reproducible on the same machine, and which are not."""
    enforced = torch.are_deterministic_algorithms_enabled()
    sure = enforced or config.trainer.accelerator == "cpu"
    uncovered = ["seconds", "speed"]
    if config.trainer.max_minutes is not None:
        uncovered.append("the number of steps (trainer.max_minutes)")
    if config.trainer.compile:
        uncovered.append(
            "the last bits of a continued run, whose first batch has a program of its own (trainer.compile)"
        )
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
