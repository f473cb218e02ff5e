"""What a run's speed depends on, and what is measured once for all runs that share it."""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.processes import cores, threads_each
from variations.store.environment import cpu_model, gpu_names, versions
from variations.store.identity import covered, identity
from variations.tasks.translation.config import TranslationConfig as Config

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
    "recipe.label_smoothing",
    "recipe.average",
    "recipe.average_every",
    "branch.lr_scale",
    "branch.warmup",
    "branch.freeze_last",
    "branch.eval_mode",
    "branch.eval_seed",
    "trainer.max_steps",
    "trainer.max_minutes",
    "trainer.max_nan_steps",
    "trainer.val_every",
    "trainer.checkpoint_every",
    "trainer.checkpoint_minutes",
    "trainer.log_every",
)
"""Keys that change no update's time: names, rates, and how often something else happens."""
RATES = ("model.dropout", "model.attention_dropout", "model.relu_dropout", "recipe.clip", "recipe.ema")
"""Numbers of which only counts whether they are zero."""


@dataclass(frozen=True)
class Shape:
    """Model, geometry of the batches, precision, device and threads."""

    config: Config
    at_once: int = 1
    """Runs that share the machine, or its GPU `gpu`."""
    gpu: str | None = None
    """As CUDA_VISIBLE_DEVICES names it; None: the first, if the run uses any."""
    busy: int | None = None
    """Runs on the whole machine, where other GPUs have theirs; None: `at_once`."""

    @property
    def threads(self) -> int | None:
        """CPU threads of each run; None: no limit."""
        return threads_each(self.busy or self.at_once)

    def key(self) -> str:
        """Return the name of its measurement: another hardware, torch or code is another one."""
        parts = {"run": telling(self.config), "at_once": self.at_once, "threads": self.threads, "here": _here()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]


def telling(config: Config) -> dict[str, Any]:
    """The configuration without what changes no update's time, as flat keys; values of the schema are left out."""
    found = identity(to_dict(config)) | {"data.root": config.data.root, "logger.kind": config.logger.kind}
    silent = IDLE if config.model.kind == "weighted" else (*IDLE, "branch")
    told = {key: value for key, value in found.items() if not covered(key, silent)}
    flat = {key: getattr(getattr(config, key.split(".")[0]), key.split(".")[1]) for key in RATES}
    return told | {key: bool(value) for key, value in flat.items()}


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
    """Memory of this machine, or of the container if that has less; None where the system does not say."""
    found = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # the file may say "max"
            found.append(int(Path(path).read_text(encoding="ascii")))
    return min(found) if found else None
