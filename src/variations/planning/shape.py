"""The shape of a run: what its speed depends on, measured once for all runs that share it."""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.configuration.schema import RunConfig
from variations.configuration.tasks import named
from variations.store.environment import cpu_model, gpu_names, versions
from variations.store.identity import covered, flatten, identity
from variations.system.processes import cores, threads_each

IDLE = (
    "seed",
    "variation",
    "trial",
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
"""Numbers that matter only by being zero or not."""
PLACES = ("data.root", "logger.kind")
"""Keys that do not identify a run, but may affect its time."""


@dataclass(frozen=True)
class Shape:
    """Model, geometry of the batches, precision, device and threads."""

    config: RunConfig
    at_once: int = 1
    """Runs that share the machine, or its GPU `gpu`."""
    gpu: str | None = None
    """As CUDA_VISIBLE_DEVICES names it; None: the first, if the run uses any."""
    busy: int | None = None
    """Runs on the whole machine, those of other GPUs included; None: `at_once`."""

    @property
    def threads(self) -> int | None:
        """CPU threads of each run; None: no limit."""
        return threads_each(self.busy or self.at_once)

    def key(self) -> str:
        """Return the key of its measurement, which includes hardware, versions and code."""
        parts = {"run": telling(self.config), "at_once": self.at_once, "threads": self.threads, "here": _here()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]


def telling(config: RunConfig) -> dict[str, Any]:
    """Flat keys of the configuration that affect the time of an update, without defaults of the schema."""
    task, values = named(config.task), to_dict(config)
    flat = flatten(values)
    silent = (*IDLE, *task.untimed, *task.without_effect(flat))
    found = identity(values) | {key: flat[key] for key in PLACES if key in flat}
    told = {key: value for key, value in found.items() if not covered(key, silent)}
    return told | {key: bool(flat[key]) for key in (*SWITCHES, *task.switches)}


@cache
def _here() -> dict[str, Any]:
    installed, package = versions(), Path(__file__).resolve().parents[1]
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(package.rglob("*.py"))))
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "gpus": gpu_names(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": {name: installed.get(name) for name in ("torch", "pytorch-lightning")},
        "code": code.hexdigest(),
    }


def machine_bytes() -> int | None:
    """Memory of this machine, or of the container if that is less; None if the system does not report it."""
    found = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # the file may say "max"
            found.append(int(Path(path).read_text(encoding="ascii")))
    return min(found) if found else None
