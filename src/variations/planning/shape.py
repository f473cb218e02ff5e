"""What a run's speed depends on, and what is measured once for all runs that share it."""

import contextlib
import dataclasses
import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from variations.configuration.compose import to_dict
from variations.processes import cores, threads_each
from variations.store.environment import cpu_model, gpu_names, versions
from variations.tasks.translation.config import TranslationConfig as Config

SPEEDY = ("models", "tasks", "training", "decoding", "scoring", "data", "planning", "performance.py", "tracking")
"""Code of this package that decides how fast a run is: another text is measured anew."""
RATES = ("dropout", "attention_dropout", "relu_dropout")


@dataclasses.dataclass(frozen=True)
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
        shared = {"at_once": self.at_once, "threads": self.threads}
        parts = {"run": _telling(self.config), **shared, "here": _here()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _telling(config: Config) -> dict[str, Any]:
    """The configuration without what changes no step's time: names, seeds, lengths of the training, rates."""
    values = to_dict(config)
    model, recipe, trainer, data = (values[name] for name in ("model", "recipe", "trainer", "data"))
    for name in RATES:
        model[name] = model[name] > 0
    data.pop("cache")
    kept = {
        "model": model,
        "positions": values["positions"],
        "data": data,
        "decode": values["decode"],
        "logger": values["logger"]["kind"],
        "profile": config.profile,
        "deterministic": config.deterministic,
        "recipe": {
            "batch_tokens": recipe["batch_tokens"],
            "smoothing": recipe["smoothing"],
            "clip": recipe["clip"] > 0,
            "ema": recipe["ema"] > 0,
        },
    }
    if config.model.kind == "weighted":
        rates = ("lr_scale", "warmup", "freeze_last", "eval_seed")
        kept["branch"] = {name: value for name, value in values["branch"].items() if name not in rates}
    hardware = ("accelerator", "devices", "nodes", "strategy", "precision", "compile", "tokens_per_batch", "threads")
    limits = ("val_bleu", "limit_val_batches", "limit_test")
    kept["trainer"] = {name: trainer[name] for name in (*hardware, *limits)}
    return kept


@cache
def _here() -> dict[str, Any]:
    installed = versions()
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "gpus": gpu_names(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "versions": {name: installed.get(name) for name in ("torch", "pytorch-lightning", "variations")},
        "code": _code(),
    }


def _code() -> str:
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parents[1]
    for name in SPEEDY:
        place = package / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def machine_bytes() -> int | None:
    """Memory of this machine, or of the container if that has less; None where the system does not say."""
    found = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found) if found else None
