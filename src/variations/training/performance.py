"""The performance profile: process settings that make the same computation faster on this machine.

It is applied once before training, printed, and recorded in the run's `environment.json`; `profile=reference` keeps
torch's defaults.
"""

import ctypes
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from variations.store.atomic import read_object
from variations.store.ledger import RunFolder

log = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
KEPT_BYTES = (1 << 31) - 1
ALLOCATORS = {"tcmalloc": "tc_version", "jemalloc": "mallctl", "mimalloc": "mi_version"}
"""A function by which each allocator is recognised."""
PRIMITIVES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
KEPT_PRIMITIVES = 32
"""The number of products whose compiled code oneDNN caches. With its default of 1,024, memory grows with every new
batch shape, by half a gigabyte in 48 batches, without being faster, since new lengths can rarely reuse code."""
FP32_TOLERANCE = 1e-5
"""Largest relative error of a product that still counts as float32 (bfloat16 would give about 1e-2)."""


@contextmanager
def as_in_a_new_process() -> Iterator[None]:
    """Undo, for a run, what the program around it may have set: default type and device, autocast, inference mode."""
    import torch

    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with ExitStack() as stack:
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            yield
    finally:
        torch.set_default_dtype(dtype)


def apply(
    profile: str, device: str, threads: int | None, further: Mapping[str, str], precision: str = "32-true"
) -> dict[str, Any]:
    """Set up the process and return the choices.

    Args:
        profile: `auto`, `reference` or `experimental`, which differs from `auto` only in kernels for GPUs.
        device: `cpu` or `cuda`.
        threads: CPU threads; None leaves torch's choice.
        further: The task's choices for this device (`Task.profile`), unless the profile is `reference`.
        precision: `trainer.precision`.

    Returns:
        Names and values of the effective settings.
    """
    import torch

    usual = _usual_threads()
    torch.set_num_threads(usual if threads is None else threads)
    chosen: dict[str, Any] = {"profile": profile, "device": device, "threads": torch.get_num_threads()}
    if profile != "reference" and device == "cpu":
        os.environ.setdefault(PRIMITIVES, str(KEPT_PRIMITIVES))  # read when the first product is made
        chosen |= {"kept_primitives": os.environ[PRIMITIVES]}
        chosen |= {"matmul_precision": matmul_precision(), **_memory()}
        if precision == "bf16-mixed":
            chosen |= {"bf16_products": _bf16_products()}
        chosen |= {**further, "adam": "fused"}
    elif profile != "reference":
        torch.set_float32_matmul_precision("high")
        chosen |= {"matmul_precision": "high", **further, "adam": "fused"}
    else:
        torch.set_float32_matmul_precision("highest")  # torch's default, also after another run of this process
    return chosen


@cache
def _usual_threads() -> int:
    """torch's own choice of threads: their number before this process's first run changes it."""
    import torch

    return torch.get_num_threads()


def threads_of(folder: RunFolder, threads: int, *, trains: bool) -> dict[str, Any]:
    """The numbers of threads with which a run is trained: `threads`, and `threads_before`, other ones so far, if any.

    Args:
        folder: The run's.
        threads: Of this process.
        trains: There are updates left; else they stay those of the training.
    """
    former = (read_object(folder.path / "environment.json") or {}).get("performance")
    if not isinstance(former, dict) or not folder.has_checkpoint():
        return {"threads": threads}
    if not trains:
        return {key: former[key] for key in ("threads", "threads_before") if key in former}
    known = dict.fromkeys([*former.get("threads_before", []), former.get("threads")])
    others = [number for number in known if isinstance(number, int) and number != threads]
    return {"threads": threads} | ({"threads_before": others} if others else {})


def told(chosen: dict[str, Any]) -> str:
    """A line for the terminal."""
    threads = f"{chosen['threads']} thread{'' if chosen['threads'] == 1 else 's'}"
    return f"profile {chosen['profile']} on {chosen['device']} · {threads} · environment.json has its settings"


def matmul_precision() -> str:
    """Set and return torch's precision of float32 products on this CPU: the fastest that really is float32.

    `medium` uses oneDNN, which on some CPUs (with AMX) computes in bfloat16, so it is kept only if exact.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    torch.set_float32_matmul_precision("medium")
    error = float(((a @ b) - exact).norm() / exact.norm())
    if error > FP32_TOLERANCE:
        torch.set_float32_matmul_precision("highest")
        return "highest"
    return "medium"


def _bf16_products() -> str:
    """Where products of bfloat16 matrices are computed: by oneDNN, or in float32 if the CPU has no instructions."""
    from variations.training import bf16

    if bf16.has_instructions():
        return "oneDNN"
    bf16.multiply_in_float32()
    return "in float32, rounded"


def _memory() -> dict[str, Any]:
    """The memory allocator: a preloaded library (docs/speed.md), or glibc.

    glibc is set to keep large blocks for reuse, because returning them to the system costs page faults in every step.
    """
    try:
        loaded = ctypes.CDLL(None)
        for allocator, function in ALLOCATORS.items():
            if hasattr(loaded, function):
                return {"allocator": allocator}
        settings = [loaded.mallopt(M_MMAP_THRESHOLD, 1 << 30), loaded.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)]
    except (OSError, AttributeError):  # another C library
        return {"keep_freed_memory": False}
    return {"keep_freed_memory": all(setting == 1 for setting in settings)}
