"""Measures one shape: `python -m variations.planning.probe FOLDER NUMBER SPAWNED`, in a process of its own.

It takes some real updates through Lightning, the task and the run's own batches, then validates, decodes, scores and
saves a little, and writes what each of these costs to `FOLDER/NUMBER.json`. Nothing else stays.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from variations import processes, tracking
from variations.configuration.compose import from_dict
from variations.configuration.tasks import named
from variations.data.batching import Indices
from variations.errors import UserError
from variations.lightning import pl
from variations.models import count_parameters
from variations.planning import decoding_time
from variations.planning.activations import activation_bytes, state_bytes
from variations.planning.sample import PRICED, InventedData, evenly, is_here, prices, reduced
from variations.store.atomic import write_json
from variations.store.environment import environment
from variations.store.ledger import RunFolder
from variations.tasks.translation.config import TranslationConfig as Config
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.task import TASK
from variations.training import checkpoints, memory, performance
from variations.training.fit import device_type, make_trainer
from variations.training.step import Step

WARM = 2
"""Updates before those that count."""
FEWEST, MOST = 6, 60
"""Updates that count."""
SIGHTING = 16
"""The first look is at this part of a batch."""


class Clock(pl.Callback):
    """Times each update; stands in the place of the run's own loop."""

    def __init__(self, device: str, updates: int) -> None:
        self.device, self.updates = device, updates
        self.passes: list[float] = []
        """Seconds of each batch's loading, forward and backward pass."""
        self.steps: list[float] = []
        """Seconds of the optimiser's part."""
        self._began = self._backward_done = 0.0

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        """What the run's loop does, and the first mark."""
        task.budget.start_clock()
        self._began = self._now()

    def on_before_optimizer_step(self, trainer: pl.Trainer, task: Any, optimizer: Any) -> None:
        """Forward and backward passes are done."""
        self._backward_done = self._now()

    def on_train_batch_end(self, trainer: pl.Trainer, task: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each update."""
        now = self._now()
        self.passes.append(self._backward_done - self._began)
        self.steps.append(now - self._backward_done)
        self._began = now
        trainer.should_stop = len(self.steps) >= self.updates

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def wait_for_all(folder: Path, stage: str, count: int) -> float:
    """Wait until `count` processes have come to `stage`, and return the seconds that it took.

    Each measures while all the others are at work; whoever started them ends all when one of them fails.
    """
    began = time.monotonic()
    (folder / f"{stage}.{os.getpid()}").touch()
    while sum(1 for _ in folder.glob(f"{stage}.*")) < count:
        time.sleep(0.005)
    return time.monotonic() - began


class Probe:
    """One shape on this machine: data, network and tracker as a run has them.

    Args:
        config: Of one device's share.
        folder: Stands for a run's.
        limit: Seconds of updates.
        fits: Bytes of memory that there are; None: not known.
    """

    def __init__(self, config: Config, folder: RunFolder, limit: float, fits: int | None) -> None:
        self.folder, self.limit, self.fits = folder, limit, fits
        self.device = device_type(config)
        performance.apply(config.profile, self.device, config.trainer.threads, TASK.profile(config, self.device))
        began, here, whole = time.monotonic(), is_here(config.data), None
        if here:
            config, whole = reduced(config)
        self.config = config
        self.data: TranslationData = TranslationData(config) if here else InventedData(config)
        self.accumulate, self.data.accumulate = self.data.accumulate, 1
        self.data.prepare_data()
        self.data.setup()
        self.answer: dict[str, Any] = {
            "corpus": "invented lengths" if not here else "whole" if whole is None else "part",
            "prepare_seconds": time.monotonic() - began,
            "pairs": len(self.data.train_tokens),
            "whole_pairs": whole,
        }
        environment({})
        pl.seed_everything(config.seed, workers=True, verbose=False)
        experiment = TASK.experiment(config, self.data, self.device)
        if config.trainer.compile:
            experiment.network.compile()
        self.step = Step(config, named(config.task), experiment)
        tracking.trackers(config, folder).start(folder)
        batches = evenly(self.data.sampler.plan(0), PRICED)
        cost = prices(config, self.data, batches)
        self.batches: list[Indices] = [batches[i] for i in np.argsort(cost)]  # cheapest first
        self.mean = float(cost.mean())

    def sight(self) -> float:
        """Time a small part of the costliest batch; return when its first update began, in seconds since the epoch."""
        part = self.batches[-1][: max(1, len(self.batches[-1]) // SIGHTING)]
        clock = self._run([part] * 3)
        price = float(prices(self.config, self.data, [part])[0])
        self.expected = clock.passes[-1] / price * self.mean + clock.steps[-1]
        return time.time() - sum(clock.passes) - sum(clock.steps)

    def train(self) -> None:
        """Take updates on batches spread evenly from the cheapest to the dearest, the dearest first, uncounted.

        Of batches that are too slow or too large only a share of the rows is taken. An update is a pass over so many
        batches and the optimiser's part; a pass is seconds by FLOPs, at the epoch's mean price: what the sample lacks
        in dear batches is made up for.
        """
        share = min(1.0, 3 * self.limit / (self.expected * (FEWEST + WARM)))
        left_out = 0
        if self.fits is not None:
            needed = self._activations()
            room = 0.7 * self.fits - state_bytes(self.config, count_parameters(self.step.model)) - 1e9
            share = min(share, max(1 / SIGHTING, room / needed))
            left_out = int((1 - share) * needed)
        updates = int(np.clip(self.limit / (self.expected * share), FEWEST, MOST))
        chosen = evenly(self.batches, updates)
        chosen = [chosen[i % len(chosen)] for i in np.random.default_rng(1).permutation(updates)]
        parts = [batch[: max(1, int(len(batch) * share))] for batch in [*[self.batches[-1]] * WARM, *chosen]]
        clock = self._run(parts)
        rates = np.sort(np.array(clock.passes[WARM:]) / prices(self.config, self.data, parts[WARM:]))
        edge = len(rates) // 10
        rate = float(rates[edge : len(rates) - edge].mean())
        self.left_out = left_out
        self.answer |= {
            "updates": updates,
            "share": share,
            "update_seconds": self.accumulate * rate * self.mean + median(clock.steps[WARM:]),
            "spread": float((rates[int(0.75 * len(rates))] - rates[len(rates) // 4]) / median(rates)),
        }

    def _run(self, batches: Sequence[Indices]) -> Clock:
        """Take one update on each of the batches through the run's own Trainer."""
        clock = Clock(self.device, len(batches))
        steps = max(len(batches), self.config.trainer.max_steps)
        config = replace(self.config, trainer=replace(self.config.trainer, max_steps=steps))
        trainer = make_trainer(config, clock)  # type: ignore[arg-type]
        sampler: Any = [batch.tolist() for batch in batches]
        tokens = cast(Dataset[Any], self.data.train_tokens)
        trainer.fit(self.step, train_dataloaders=DataLoader(tokens, batch_sampler=sampler, **self.data._options(0)))
        return clock

    def _activations(self) -> int:
        """Bytes that the backward pass keeps of the dearest batch."""
        dearest, tokens = self.batches[-1], self.data.train_tokens
        longest = [int(lengths[dearest].max()) for lengths in (tokens.source_lengths, tokens.target_lengths)]
        return activation_bytes(self.config, self.data.subwords.size, len(dearest), *longest)

    def finish(self) -> dict[str, Any]:
        """Validate, decode, score and save a little; return everything that was measured."""
        on_gpu = self.device == "cuda"
        self.answer |= {
            "parameters": count_parameters(self.step.model),
            "vocabulary": self.data.subwords.size,
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "room_bytes": torch.cuda.get_device_properties(0).total_memory if on_gpu else None,
            "oom_splits": self.step.budget.oom_splits,
            **decoding_time.measure(self.config, self.step, self.data, self.limit),
        }
        path, began = self.folder.checkpoints / "weights1.pt", time.perf_counter()
        checkpoints.save(path, {"model": self.step.model.state_dict()})
        seconds, size = time.perf_counter() - began, path.stat().st_size
        if on_gpu:
            peak = int(torch.cuda.max_memory_reserved())
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        saving = {"save_seconds_per_byte": seconds / size, "weights_bytes": size}
        return self.answer | saving | {"memory_bytes": peak + self.left_out}


def measure(config: Config, request: dict[str, Any], meeting: Path, folder: Path, spawned: float) -> dict[str, Any]:
    """Everything that `run_cost` needs to know; `spawned` is when the process was started (seconds since the epoch)."""
    probe = Probe(config, RunFolder(folder), request["limit"], request["memory"])
    waited = wait_for_all(meeting, "ready", request["count"])
    began = probe.sight()
    probe.answer["startup_seconds"] = max(0.0, began - spawned - probe.answer["prepare_seconds"] - waited)
    wait_for_all(meeting, "training", request["count"])
    probe.train()
    wait_for_all(meeting, "decoding", request["count"])
    return probe.finish()


def main() -> int:
    """Read the request, measure, write the answer; after a fault its sentence, and exit code 1."""
    processes.die_with_parent()
    meeting, number, spawned = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    request = json.loads((meeting / "request.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="variations-plan-") as folder:
        try:
            config = from_dict(request["config"], Config)
            answer, code = measure(config, request, meeting, Path(folder), spawned), 0
        except (RuntimeError, MemoryError, UserError) as error:
            exhausted = memory.is_exhausted(error) or str(error).startswith("out of memory")
            if not exhausted and not isinstance(error, UserError):
                raise
            answer, code = {"fault": str(error), "exhausted": exhausted}, 1
        finally:
            tracking.close(0)
    write_json(meeting / f"{number}.json", answer)
    return code


if __name__ == "__main__":
    sys.exit(main())
