"""Measures one shape: `python -m variations.planning.probe REQUEST ANSWER`, in a process of its own.

It takes some real updates through Lightning, the task and the run's own batches, then validates, decodes, scores and
saves a little, and writes what each of these costs. Nothing is written but the answer and a temporary folder.
"""

import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from variations import processes, tracking
from variations.configuration.compose import from_dict
from variations.data.batching import Indices
from variations.errors import UserError
from variations.lightning import pl
from variations.models import count_parameters
from variations.planning import decoding_time
from variations.planning.meeting import Meeting
from variations.planning.sample import PRICED, InventedData, evenly, is_here, prices, reduced
from variations.store.atomic import write_json
from variations.store.environment import environment
from variations.store.ledger import RunFolder
from variations.tasks.translation.config import TranslationConfig as Config
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.task import Translation
from variations.training import checkpoints, memory, performance
from variations.training.fit import device_type, make_trainer

WARM = 2
"""Updates before those that count."""
FEWEST, MOST = 6, 60
"""Updates that count."""
SIGHTING = 16
"""The first look is at this part of a batch."""


class Clock(pl.Callback):
    """Notes when each update begins and ends; stands in the place of the run's own loop."""

    def __init__(self, device: str, updates: int) -> None:
        self.device, self.updates, self.steps = device, updates, 0
        self.seconds: list[float] = []
        """From the start of each update to its end, data loading included."""
        self.update_seconds: list[float] = []
        """Of which the optimiser's part."""
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
        if trainer.global_step == self.steps:
            return
        self.steps, now = trainer.global_step, self._now()
        self.seconds.append(now - self._began)
        self.update_seconds.append(now - self._backward_done)
        self._began = now
        trainer.should_stop = self.steps >= self.updates

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


@dataclass
class Probe:
    """One shape on this machine."""

    config: Config
    limit: float
    folder: RunFolder
    fits: int | None
    """Bytes of memory that there are; None: not known."""
    meeting: Meeting
    """With the runs that share the machine."""
    whole: int | None = None
    prepared: float = 0.0
    answer: dict[str, Any] = field(default_factory=dict)

    def measure(self, spawned: float) -> dict[str, Any]:
        """Measure everything; `spawned` is when the process was started (seconds since the epoch)."""
        self._set_up()
        device = self.device
        waited = self.meeting.at("ready")
        sighted = self._sight()
        self.answer["startup_seconds"] = max(0.0, sighted - spawned - self.prepared - waited)
        self.meeting.at("training")
        self._train()
        self.meeting.at("decoding")
        self.answer |= {
            "parameters": count_parameters(self.task.model),
            "vocabulary": self.data.subwords.size,
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
            "room_bytes": torch.cuda.get_device_properties(0).total_memory if device == "cuda" else None,
            "oom_splits": self.task.budget.oom_splits,
        }
        self.answer |= decoding_time.measure(self.config, self.task, self.data, self.limit)
        self.answer |= self._saving()
        self.answer["memory_bytes"] = self._peak()  # the test needs its share as well
        return self.answer

    def _set_up(self) -> None:
        config = self.config
        self.device = device_type(config)
        performance.apply(config.profile, self.device, config.trainer.threads)
        began = time.monotonic()
        here = is_here(config.data)
        if here:
            config, self.whole = reduced(config)
            self.config = config
        self.data: TranslationData = TranslationData(config) if here else InventedData(config)
        self.data.prepare_data()
        self.data.setup()
        self.prepared = time.monotonic() - began
        self.answer |= {
            "corpus": "invented lengths" if not here else "whole" if self.whole is None else "part",
            "prepare_seconds": self.prepared,
            "pairs": len(self.data.train_tokens),
            "whole_pairs": self.whole,
        }
        environment({})
        pl.seed_everything(config.seed, workers=True, verbose=False)
        self.task = Translation(config, self.data.subwords.size, self.device)
        if config.trainer.compile:
            self.task.model.compile()
        tracking.trackers(config, self.folder).start(self.folder)
        self._plan()

    def _plan(self) -> None:
        batches = evenly(self.data.sampler.plan(0), PRICED)
        cost = prices(self.config, self.data, batches)
        order = np.argsort(cost)
        self.batches: list[Indices] = [batches[i] for i in order]  # cheapest first
        self.costs = cost[order]
        self.mean = float(cost.mean())

    def _run(self, batches: Sequence[Indices], accumulate: int, updates: int) -> Clock:
        """Take updates over the given batches through the run's own Trainer."""
        self.data.accumulate = accumulate
        clock = Clock(self.device, updates)
        steps = max(updates, self.config.trainer.max_steps)
        config = replace(self.config, trainer=replace(self.config.trainer, max_steps=steps))
        trainer = make_trainer(config, self.data, clock)  # type: ignore[arg-type]
        options = self.data._options(0)
        sampler: Any = [batch.tolist() for batch in batches]
        loader = StatefulDataLoader(self.data.train_tokens, batch_sampler=sampler, **options)
        trainer.fit(self.task, train_dataloaders=loader)
        return clock

    def _sight(self) -> float:
        """Time a small part of the costliest batch: how long will a whole one take? Also the end of the start-up."""
        dearest = self.batches[-1]
        part = dearest[: max(1, len(dearest) // SIGHTING)]
        with self._logging_of_warnings_off():
            clock = self._run([part] * 3, 1, 3)
        one = self._price(part)
        per_flop = (clock.seconds[-1] - clock.update_seconds[-1]) / one
        self.expected = self.accumulate * per_flop * self.mean + clock.update_seconds[-1]
        return time.time() - sum(clock.seconds)

    @property
    def accumulate(self) -> int:
        """Batches of an update."""
        return TranslationData(self.config).accumulate

    def _price(self, rows: Indices) -> float:
        return float(prices(self.config, self.data, [rows])[0])

    def _train(self) -> None:
        share = min(1.0, 3 * self.limit / (self.expected * (FEWEST + WARM)))
        if self.fits is not None:
            share = min(share, self._share_that_fits())
        if share < 1:
            self._train_on_parts(share)
        else:
            self._train_on_whole_batches()

    def _share_that_fits(self) -> float:
        from variations.planning.activations import activation_bytes, state_bytes

        dearest, data = self.batches[-1], self.data
        sides = [
            int(lengths[dearest].max())
            for lengths in (data.train_tokens.source_lengths, data.train_tokens.target_lengths)
        ]
        needed = activation_bytes(self.config, data.subwords.size, len(dearest), sides[0], sides[1])
        self.activations = needed
        room = 0.7 * (self.fits or 0) - state_bytes(self.config, count_parameters(self.task.model)) - 1e9
        return max(1 / SIGHTING, room / needed) if needed > room else 1.0

    def _train_on_whole_batches(self) -> None:
        accumulate = self.accumulate
        updates = int(np.clip(self.limit / self.expected, FEWEST, MOST))
        dear = [self.batches[-1]] * (WARM * accumulate)  # the most memory that will be needed
        chosen = evenly(range(len(self.batches)), updates * accumulate)
        chosen = [chosen[i % len(chosen)] for i in range(updates * accumulate)]
        np.random.default_rng(1).shuffle(chosen)
        clock = self._run([*dear, *(self.batches[i] for i in chosen)], accumulate, WARM + updates)
        paid = np.array([self.costs[chosen[i : i + accumulate]].sum() for i in range(0, len(chosen), accumulate)])
        seconds = np.array(clock.seconds[WARM:])
        # Seconds by FLOPs, at the epoch's mean price: what the sample lacks in dear batches is made up for.
        rates = np.sort(seconds / paid)
        edge = len(rates) // 10
        rate = float(rates[edge : len(rates) - edge].mean())
        self.answer |= {
            "updates": updates,
            "share": 1.0,
            "update_seconds": rate * self.mean * accumulate,
            "spread": float((rates[int(0.75 * len(rates))] - rates[len(rates) // 4]) / median(rates)),
        }

    def _train_on_parts(self, share: float) -> None:
        """Rows of a batch that is too slow or too large are left out, and what they would add is computed."""
        updates = FEWEST
        chosen = evenly(self.batches, updates)
        parts = [batch[: max(1, int(len(batch) * share))] for batch in [chosen[-1], *chosen]]
        clock = self._run(parts, 1, updates + 1)
        passes = [all_ - own for all_, own in zip(clock.seconds[1:], clock.update_seconds[1:], strict=True)]
        per_flop = median(s / self._price(p) for s, p in zip(passes, parts[1:], strict=True))
        self.answer |= {
            "updates": updates,
            "share": share,
            "update_seconds": per_flop * self.mean * self.accumulate + median(clock.update_seconds[1:]),
            "spread": None,
        }

    def _peak(self) -> int:
        """The most memory held so far, and what the rows left out would add to it."""
        if self.device == "cuda":
            peak = int(torch.cuda.max_memory_reserved())
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        share = self.answer["share"]
        return peak + int((1 - share) * getattr(self, "activations", 0))

    def _saving(self) -> dict[str, Any]:
        """Seconds for each byte of a checkpoint, flushed to the disk and summed."""
        path = self.folder.checkpoints / "weights1.pt"
        began = time.perf_counter()
        checkpoints.save(path, {"model": self.task.model.state_dict()})
        seconds, size = time.perf_counter() - began, path.stat().st_size
        return {"save_seconds_per_byte": seconds / size, "weights_bytes": size}

    @contextmanager
    def _logging_of_warnings_off(self) -> Iterator[None]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


def main() -> int:
    """Read the request, measure, write the answer: `{"ok": …}` or `{"fault": sentence, "memory": bool}`."""
    processes.die_with_parent()
    request, place = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    config = from_dict(request["config"], Config)
    with tempfile.TemporaryDirectory(prefix="variations-plan-") as folder:
        try:
            meeting = Meeting(Path(request["meeting"]["folder"]), request["meeting"]["count"])
            probe = Probe(config, request["limit"], RunFolder(folder), request["memory"], meeting)
            answer: dict[str, Any] = {"ok": probe.measure(request["spawned"])}
        except (RuntimeError, MemoryError, UserError) as error:
            exhausted = memory.is_exhausted(error) or str(error).startswith("out of memory")
            if not exhausted and not isinstance(error, UserError):
                raise
            answer = {"fault": str(error), "memory": exhausted}
        finally:
            tracking.close(0)
            gc.collect()
    write_json(place, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
