"""Measurements of shapes by child processes, stored in the cache; if one fails, the others are not affected."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig, default_cache
from variations.configuration.tasks import named
from variations.data.entry import told_if_cache_unwritable
from variations.store import own_code
from variations.store.atomic import read_json, read_object, write_json
from variations.store.checksums import file_sha256
from variations.store.environment import code_hash, cpu_model, gpu_names, versions
from variations.store.identity import covered, flatten, identity
from variations.sweeping.local import on_gpus
from variations.system import processes
from variations.system.processes import cores, machine_bytes, signal_name, threads_each

IDLE = (
    "seed",
    "variation",
    "debug",
    "recipe.name",
    "recipe.scale",
    "recipe.schedule",
    "recipe.lr",
    "recipe.warmup",
    "recipe.beta1",
    "recipe.beta2",
    "recipe.eps",
    "recipe.weight_decay",
    "recipe.average",
    "recipe.average_every",
    "trainer.max_steps",
    "trainer.max_minutes",
    "trainer.max_nan_steps",
    "trainer.val_every",
    "trainer.checkpoint_every",
    "trainer.checkpoint_minutes",
    "trainer.log_every",
)
"""Keys of every task that do not affect the time of an update: names, rates, and intervals."""
SWITCHES = ("recipe.clip", "recipe.ema")
"""Numbers of which it only matters whether they are zero."""
PLACES = ("data.root", "logger.kind")
"""Keys that do not identify a run, but may affect its time."""


@dataclass(frozen=True)
class Shape:
    """Model, geometry of the batches, precision, device and threads."""

    config: RunConfig
    at_once: int = 1
    """Number of runs that share the machine, or its GPU `gpu`."""
    gpu: str | None = None
    """As CUDA_VISIBLE_DEVICES names it; None: the first, if the run uses any."""
    busy: int | None = None
    """Number of runs on the whole machine, including those of other GPUs; None: `at_once`."""

    given: int | None = None
    """CPU threads of each process where cores are reserved for it; None: those of its share of this machine."""

    @property
    def threads(self) -> int | None:
        """CPU threads of each run; None: no limit."""
        return self.given or threads_each(self.busy or self.at_once)

    def key(self) -> str:
        """Return the name of its measurement, which depends on the hardware, torch's version and the code."""
        parts = {"run": telling(self.config), "at_once": self.at_once, "threads": self.threads, "here": _here()}
        if own := own_code.modules(to_dict(self.config)):
            parts["own"] = {name: file_sha256(file) for name, file in own.items()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]


def telling(config: RunConfig) -> dict[str, Any]:
    """The flat keys that affect the time of an update, without those that have the schema's default."""
    task, values = named(config.task), to_dict(config)
    flat = flatten(values)
    silent = (*IDLE, *task.untimed, *task.without_effect(flat))
    found = identity(values) | {key: flat[key] for key in PLACES if key in flat}
    told = {key: value for key, value in found.items() if not covered(key, silent)}
    return told | {key: bool(flat[key]) for key in (*SWITCHES, *task.switches)}


@cache
def _here() -> dict[str, Any]:
    installed = versions()
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "gpus": gpu_names(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": {name: installed.get(name) for name in ("torch", "pytorch-lightning")},
        "code": code_hash("."),
    }


PATIENCE = 900.0
"""Seconds that a measurement may take in addition to the limit, for imports, preparing data and decoding."""


@dataclass(frozen=True)
class Measured:
    """The measurements of a shape, or why there are none."""

    values: Mapping[str, Any] | None = None
    fault: str | None = None
    exhausted: bool = False
    """Whether memory ran out."""


def measured(
    shapes: Mapping[str, Shape], limit: float, *, fresh: bool = False, told: bool = False
) -> dict[str, Measured]:
    """Measure each shape that is not in the cache.

    Args:
        shapes: Each shape, by the name of a row that has it.
        limit: Seconds of updates for each.
        fresh: Whether to repeat known measurements.
        told: Whether to say, where no bar is drawn, that it takes time, and which row is being measured.

    Returns:
        Measurements by the shape's key.

    Raises:
        UserError: The cache cannot be written.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    distinct: dict[str, tuple[str, Shape]] = {}  # the first row that has the shape, and the shape
    for name, shape in shapes.items():
        distinct.setdefault(shape.key(), (name, shape))
    known = {key: None if fresh else _read(_place(shape, key)) for key, (_, shape) in distinct.items()}
    found = {key: Measured(values) for key, values in known.items() if values is not None}
    todo = [key for key in distinct if key not in found]
    earlier = max((answer.values.get("load") or 0.0 for answer in found.values() if answer.values), default=0.0)
    _warn_of_load(earlier, _load() if todo else 0.0)
    console = Console(stderr=True)
    hidden = not (todo and console.is_terminal)
    tell = hidden and told
    if todo and tell:
        _tell_of_wait(limit)
    with Progress(console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task("Measuring", total=len(todo))
        for number, key in enumerate(todo, start=1):
            name, shape = distinct[key]
            if tell:
                print(f"[{number}/{len(todo)}] {name}", file=sys.stderr, flush=True)
            progress.update(bar, description=f"Measuring {escape(name)}")
            found[key] = answer = _measure(shape, limit)
            progress.advance(bar)
            if told and answer.fault:  # the last row may be minutes away
                progress.console.print(f"{escape(name)}: {escape(answer.fault)}", soft_wrap=True, highlight=False)
            if answer.values is not None:
                path = _place(shape, key)
                with told_if_cache_unwritable(path):
                    write_json(path, {**answer.values, "load": _load()})
    return found


BUSY = 1.0
"""The machine's load, before anything is measured, from which on times are not reliable."""


@cache
def _load() -> float:
    """The machine's load when it was first asked for; later ones would contain what is measured."""
    return os.getloadavg()[0]


@cache
def _tell_of_wait(limit: float) -> None:
    """Say once, where no bar is drawn, why nothing is printed for a while."""
    text = (
        f"Measuring step times that are not known yet: about {limit:.3g} s of updates for each network, and its start "
        "and test. measure=false leaves this out."
    )
    print(text, file=sys.stderr, flush=True)


@cache
def _warn_of_load(earlier: float, now: float) -> None:
    """Say once that times were measured on a busy machine, earlier or now."""
    found = [f"when some of these times were measured (load {earlier:.1f})"] if earlier >= BUSY else []
    found += [f"in the last minute (load {now:.1f})"] if now >= BUSY else []
    if found:
        print(
            f"warning: this machine, which has {cores()} cores, was busy {' and '.join(found)}. Times measured on a "
            "busy machine may be wrong by a factor of two and more: fresh=true repeats them when it is quiet.",
            file=sys.stderr,
        )


def _place(shape: Shape, key: str) -> Path:
    data = getattr(shape.config, "data", None)  # not every task has one
    return Path(getattr(data, "cache", default_cache())).expanduser().absolute() / "plan" / f"{key}.json"


def _read(path: Path) -> dict[str, Any] | None:
    values = read_object(path)
    return values if values and "update_seconds" in values else None


def one_device(config: RunConfig) -> RunConfig:
    """The share of one device in the run; communication between devices is left out."""
    world = config.trainer.devices * config.trainer.nodes
    trainer = replace(config.trainer, devices=1, nodes=1, strategy="auto", progress=False, max_minutes=None)
    logger = replace(config.logger, mode="offline") if config.logger.mode != "disabled" else config.logger
    shared: RunConfig = named(config.task).one_of(replace(config, trainer=trainer, logger=logger), world)
    return shared


def _measure(shape: Shape, limit: float) -> Measured:
    """Run as many processes at once as runs will share the machine; times are means, memory is the maximum."""
    total = machine_bytes()
    room = None if total is None or on_gpus(shape.config.trainer.accelerator) else total // shape.at_once
    place = {processes.PARENT: str(os.getpid())}
    if shape.threads is not None:
        place["OMP_NUM_THREADS"] = str(shape.threads)
    if shape.gpu is not None:
        place["CUDA_VISIBLE_DEVICES"] = shape.gpu
    with tempfile.TemporaryDirectory(prefix="variations-plan-") as name:
        folder = Path(name)
        request = {"limit": limit, "memory": room, "count": shape.at_once}
        write_json(folder / "request.json", {"config": to_dict(one_device(shape.config)), **request})
        children = []
        try:
            for number in range(shape.at_once):
                command = [sys.executable, "-m", "variations.planning.probe", name, str(number), str(time.monotonic())]
                with (folder / f"{number}.log").open("wb") as log:
                    environment, nothing = processes.environment(place), subprocess.DEVNULL
                    children.append(subprocess.Popen(command, env=environment, stdin=nothing, stdout=log, stderr=log))
            return _awaited(children, folder, PATIENCE + 20 * limit)
        finally:
            for child in children:
                child.kill()
                child.wait()


def _awaited(children: Sequence["subprocess.Popen[bytes]"], folder: Path, patience: float) -> Measured:
    """Wait for all processes, or until one fails, since the others would wait for it forever."""
    deadline = time.monotonic() + patience
    while True:
        codes = [child.poll() for child in children]
        for number, code in enumerate(codes):
            if code:
                return _fault(folder, number, code)
        if None not in codes:
            return Measured(_merged([read_json(folder / f"{number}.json") for number in range(len(codes))]))
        if time.monotonic() > deadline:
            return Measured(fault=f"it took more than {patience:.0f} s")
        time.sleep(0.02)


def _fault(folder: Path, number: int, code: int) -> Measured:
    """Why a process ended without a measurement."""
    answer = folder / f"{number}.json"
    if answer.exists():
        return Measured(**read_json(answer))
    if code == -9:  # as Linux does when memory runs out
        return Measured(fault="its process was killed, probably because memory ran out", exhausted=True)
    lines = (folder / f"{number}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    ended = f"its process was ended by {signal_name(-code)}" if code < 0 else f"its process ended with code {code}"
    return Measured(fault=lines[-1] if lines and code > 0 else ended)


def _merged(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged = dict(values[0])
    for name, value in merged.items():
        if name == "prepare_seconds":  # one process prepared it while the others waited
            merged[name] = max(v[name] for v in values)
        elif name.endswith("_seconds") or name == "save_seconds_per_byte":
            merged[name] = sum(v[name] for v in values) / len(values)
        elif name.endswith("_bytes") and value is not None:
            merged[name] = max(v[name] for v in values)
    return merged
