"""Out of memory: the update is repeated with halved batches, so that no pair is lost."""

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from variations.system.errors import RunFailedError
from variations.tasks.base import Experiment
from variations.training.seeding import seed_batch

log = logging.getLogger(__name__)

Pieces = list[tuple[int | None, Any]]
"""Batches, each with the seed of its random numbers; None leaves the generator unchanged."""
SIGNS = ("out of memory", "can't allocate memory", "std::bad_alloc", "alloc_failed")
"""Messages of devices, torch's CPU allocator, C++ and cuBLAS."""


def is_exhausted(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def failure(where: str, advice: str) -> RunFailedError:
    """The error if splitting does not help; `advice` is the task's `smaller`."""
    return RunFailedError(f"out of memory {where}: {advice}.")


def accumulate(
    batches: Sequence[tuple[int | None, Any]],
    forget: Callable[[], None],
    work: Callable[[Any], None],
    experiment: Experiment,
    advice: str,
) -> int:
    """Do `work` on all batches of an update, the last of which ran out of memory, in parts that fit.

    A failed backward pass may have added part of its gradient, so each attempt starts from the first batch. Dropout
    masks of parts differ from those of a whole batch.

    Args:
        batches: The batches with their seeds.
        forget: Undoes all `work`.
        work: Forward and backward pass of one batch.
        experiment: Halves batches, and knows their size.
        advice: What to do if even a single item does not fit.

    Returns:
        How often a batch was halved.

    Raises:
        RunFailedError: even a single item does not fit.
    """
    pieces: Pieces = list(batches)
    cuts, at = 0, len(pieces) - 1
    while True:
        _cut(pieces, at, experiment, advice)
        cuts += 1
        release()
        forget()
        failed = _first_failure(pieces, work)
        if failed is None:
            return cuts
        at = failed


def _cut(pieces: Pieces, at: int, experiment: Experiment, advice: str) -> None:
    seed, batch = pieces[at]
    items, size = len(batch), experiment.size(batch)
    first, second = experiment.halves(batch) if items > 1 else (batch, None)
    if second is None or not len(first) or not len(second):  # an item of all restarts cannot be halved
        raise failure(f"with a single item of {size}", advice)
    log.warning("Out of memory with %d items of up to %s: they are halved and accumulated.", items, size)
    pieces[at : at + 1] = [(seed, first), (None, second)]


def _first_failure(pieces: Pieces, work: Callable[[Any], None]) -> int | None:
    for at, (seed, batch) in enumerate(pieces):
        try:
            if seed is not None:
                seed_batch(seed)
            work(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
            return at
    return None


def release() -> None:
    """Release the memory of a failed attempt."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
