"""Measures one shape: `python -m variations.planning.probe FOLDER NUMBER SPAWNED`, in its own process.

It runs some real updates through Lightning, the task and the run's own batches, then a short validation, test and
checkpoint, and writes the cost of each to `FOLDER/NUMBER.json`. It leaves no other files.
"""

import functools
import itertools
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from variations.configuration.compose import from_dict
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.models import count_parameters
from variations.store.atomic import read_json, write_json
from variations.store.environment import environment
from variations.store.ledger import RunFolder
from variations.system import processes
from variations.system.errors import UserError
from variations.tasks.counting import kept_bytes, state_bytes
from variations.training import checkpoints, memory, performance, tracking
from variations.training.fit import device_type, make_trainer
from variations.training.step import Step

WARM = 2
"""Warm-up updates, which are not timed."""
FEWEST, MOST = 6, 60
"""Updates that are timed."""
PRICED = 300
"""Number of batches at the start of an epoch whose FLOPs are counted."""
SIGHTING = 4
"""How many times the batch of the first timing is halved."""


class Clock(pl.Callback):
    """Times each update; it replaces the run's own loop."""

    def __init__(self, device: str, updates: int) -> None:
        self.device, self.updates = device, updates
        self.passes: list[float] = []
        """Seconds for loading, forward and backward pass of each batch."""
        self.steps: list[float] = []
        """Seconds for the optimiser's step."""
        self._began = self._backward_done = 0.0

    def on_train_start(self, trainer: pl.Trainer, task: Any) -> None:
        """Start the clocks."""
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


class Parts:
    """Successive batches, each halved `cuts` times; records their FLOPs."""

    def __init__(self, experiment: Any, batches: Iterable[Any], cuts: int, number: int) -> None:
        self.experiment, self.batches, self.cuts, self.number = experiment, batches, cuts, number
        self.flops: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        for batch in itertools.islice(self.batches, self.number):
            part = cut(self.experiment, batch, self.cuts)
            self.flops.append(self.experiment.count(part)[-1])
            yield part


def cut(experiment: Any, batch: Any, times: int) -> Any:
    """The first part of a batch after up to `times` halvings, as far as it can be divided."""
    for _ in range(times):
        half = experiment.halves(batch)[0] if len(batch) > 1 else batch
        if not len(half):
            break
        batch = half
    return batch


def wait_for_all(folder: Path, stage: str, count: int) -> float:
    """Wait until `count` processes have reached `stage`, and return the seconds that this took.

    Each measures while all others run; the process that started them ends all if one fails.
    """
    began = time.monotonic()
    (folder / f"{stage}.{os.getpid()}").touch()
    while sum(1 for _ in folder.glob(f"{stage}.*")) < count:
        time.sleep(0.005)
    return time.monotonic() - began


class Probe:
    """One shape on this machine, with data, network and tracker as in a run.

    Args:
        config: The configuration of one device's share.
        folder: A temporary run folder.
        limit: Seconds of updates.
        fits: Bytes of available memory; None: not known.
    """

    def __init__(self, config: RunConfig, folder: RunFolder, limit: float, fits: int | None) -> None:
        self.config, self.folder, self.limit, self.fits = config, folder, limit, fits
        self.task, self.device = named(config.task), device_type(config)
        further = self.task.profile(config, self.device)
        performance.apply(config.profile, self.device, config.trainer.threads, further, config.trainer.precision)
        began = time.monotonic()
        rehearsal = self.task.rehearsal(config)
        self.data = rehearsal.data
        self.data.prepare_data()
        self.data.setup()
        prepared = time.monotonic() - began
        self.answer: dict[str, Any] = {
            "invented": rehearsal.invented,
            "read": rehearsal.share,
            "prepare_seconds": prepared,
        }
        environment({})
        pl.seed_everything(config.seed, workers=True, verbose=False)
        self.experiment = self.task.experiment(config, self.data, self.device)
        if config.trainer.compile:
            self.experiment.network.compile()
        self.step = Step(config, self.task, self.experiment)
        tracking.trackers(config, folder).start(folder)
        most, prices = 0, []
        for batch in itertools.islice(self.data.train_dataloader(), PRICED):
            prices.append(self.experiment.count(batch)[-1])
            if prices[-1] > most:
                most, self.dearest = prices[-1], batch
        self.mean = float(np.mean(prices))

    def sight(self) -> float:
        """Time a small part of the most expensive batch; return when its first update began, by the monotonic clock."""
        clock, _ = self._run([self.dearest] * 3, SIGHTING, 3)
        self.seconds = clock.passes[-1] + clock.steps[-1]
        return time.monotonic() - sum(clock.passes) - sum(clock.steps)

    def train(self) -> None:
        """Run updates on the first batches of the epoch, after some on the most expensive one, which are not counted.

        Only a part is used of batches that are too slow or too large. The time of an update is that of its passes plus
        that of the optimiser; the time of a pass is the measured seconds per FLOP times the mean FLOPs of a batch.
        """
        cuts, needed = 0, 0
        if self.fits is not None:
            needed = self._activations()
            room = 0.7 * self.fits - state_bytes(self.config, count_parameters(self.step.model)) - 1e9
            cuts = int(np.clip(math.ceil(-math.log2(max(1e-9, room / max(1, needed)))), 0, SIGHTING))
        cuts = self._largest(cuts)
        updates = int(np.clip(self.limit / self.seconds, FEWEST, MOST))
        loader = self.data.train_dataloader()
        epochs = itertools.chain.from_iterable(loader for _ in range(updates))
        clock, prices = self._run(itertools.chain([self.dearest] * WARM, epochs), cuts, WARM + updates)
        rates = np.sort(np.array(clock.passes[WARM:]) / prices[WARM:])
        edge = len(rates) // 10
        rate = float(rates[edge : len(rates) - edge].mean())
        self.left_out = int((1 - 2**-cuts) * needed)
        self.answer |= {
            "updates": updates,
            "share": 2**-cuts,
            "update_seconds": self.data.accumulate * rate * self.mean + median(clock.steps[WARM:]),
            "spread": float((rates[int(0.75 * len(rates))] - rates[len(rates) // 4]) / median(rates)),
        }

    def _largest(self, cuts: int) -> int:
        """Time growing parts of the most expensive batch, down to `cuts` halvings, until one may be too slow."""
        found = SIGHTING
        while found > cuts and 2 * self.seconds * (FEWEST + WARM) <= 3 * self.limit:
            found -= 1
            clock, _ = self._run([self.dearest] * 2, found, 2)
            self.seconds = clock.passes[-1] + clock.steps[-1]
        return found

    def _run(self, batches: Iterable[Any], cuts: int, number: int) -> tuple[Clock, list[int]]:
        """Run an update on a part of each batch with the run's own Trainer; return the clock and the parts' FLOPs."""
        clock, parts = Clock(self.device, number), Parts(self.experiment, batches, cuts, number)
        steps = max(number, self.config.trainer.max_steps)
        config = replace(self.config, trainer=replace(self.config.trainer, max_steps=steps))
        make_trainer(config, clock).fit(self.step, train_dataloaders=parts)  # type: ignore[arg-type]
        return clock, parts.flops[:number]

    def _activations(self) -> int:
        """Bytes kept for the backward pass of the most expensive batch, extrapolated from two parts of it."""
        place = self.step.place
        sizes, kept = [], []
        for cuts in (SIGHTING, SIGHTING - 1):
            part = cut(self.experiment, self.dearest, cuts)
            with place.precision():
                here = part.to(place.device)
                kept.append(kept_bytes(self.experiment.network, functools.partial(self.experiment.losses, here)))
            sizes.append(len(part))
        slope = (kept[1] - kept[0]) / max(1, sizes[1] - sizes[0])
        return int(kept[1] + slope * (len(self.dearest) - sizes[1]))

    def finish(self) -> dict[str, Any]:
        """Run a short validation, test and checkpoint; return all measurements."""
        on_gpu = self.device == "cuda"
        self.step.eval()
        validation, test = self.task.testing(self.experiment, self.folder, self.step.place, self.limit)
        path, began = self.folder.checkpoints / "weights1.pt", time.perf_counter()
        checkpoints.save(path, {"model": self.step.model.state_dict()})
        seconds, size = time.perf_counter() - began, path.stat().st_size
        if on_gpu:
            peak = int(torch.cuda.max_memory_reserved())
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return self.answer | {
            "parameters": count_parameters(self.step.model),
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "room_bytes": torch.cuda.get_device_properties(0).total_memory if on_gpu else None,
            "oom_splits": self.step.budget.oom_splits,
            "validation_seconds": validation,
            "test_seconds": test,
            "save_seconds_per_byte": seconds / size,
            "weights_bytes": size,
            "memory_bytes": peak + self.left_out,
        }


def measure(config: RunConfig, request: dict[str, Any], meeting: Path, folder: Path, spawned: float) -> dict[str, Any]:
    """All measurements for `run_cost`; `spawned`: when the process was started.

    Moments are those of the monotonic clock, which all processes of a machine share and nobody sets.
    """
    probe = Probe(config, RunFolder(folder), request["limit"], request["memory"])
    waited = wait_for_all(meeting, "ready", request["count"])
    began = probe.sight()
    probe.answer["startup_seconds"] = max(0.0, began - spawned - probe.answer["prepare_seconds"] - waited)
    wait_for_all(meeting, "training", request["count"])
    probe.train()
    wait_for_all(meeting, "testing", request["count"])
    return probe.finish()


def main() -> int:
    """Read the request, measure, and write the answer; after an error write its message and return 1."""
    processes.die_with_parent()
    meeting, number, spawned = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    request = read_json(meeting / "request.json")
    with tempfile.TemporaryDirectory(prefix="variations-plan-") as folder:
        try:
            config = from_dict(request["config"], RunConfig)
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
