"""Out of memory: the update is begun again with its batches cut in two, so that no pair is lost."""

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from variations.system.errors import RunFailedError
from variations.tasks.base import Experiment

log = logging.getLogger(__name__)

Pieces = list[tuple[int | None, Any]]
"""Batches, each with the seed of its random numbers; None leaves the generator as it is."""
SIGNS = ("out of memory", "can't allocate memory", "std::bad_alloc", "alloc_failed")
"""How devices, torch's CPU allocator, C++ and cuBLAS say it."""


def is_exhausted(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def failure(where: str, advice: str) -> RunFailedError:
    """What is said if splitting does not help; `advice` is the task's `smaller`."""
    return RunFailedError(f"out of memory {where}: {advice}.")


def accumulate(
    batches: Sequence[tuple[int | None, Any]],
    forget: Callable[[], None],
    work: Callable[[Any], None],
    experiment: Experiment,
    advice: str,
) -> int:
    """Do `work` on all batches of an update, the last of which has run out of memory, in pieces that fit.

    A failed backward pass may have added part of its gradient, so each attempt begins with the first batch. Dropout
    draws other masks for the pieces of a batch than for the whole.

    Args:
        batches: Each with its seed.
        forget: Undoes all `work`.
        work: Forward and backward pass of one batch.
        experiment: Cuts a batch, and says how big one is.
        advice: What to do if there is no memory for a single item.

    Returns:
        How often a batch was cut in two.

    Raises:
        RunFailedError: there is no memory for a single item.
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
    if items < 2:
        raise failure(f"with a single item of {size}", advice)
    log.warning("Out of memory with %d items of up to %s: they are split in two and accumulated.", items, size)
    first, second = experiment.halves(batch)
    pieces[at : at + 1] = [(seed, first), (None, second)]


def _first_failure(pieces: Pieces, work: Callable[[Any], None]) -> int | None:
    for at, (seed, batch) in enumerate(pieces):
        try:
            if seed is not None:
                torch.manual_seed(seed)
            work(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
            return at
    return None


def release() -> None:
    """Give back what a failed attempt held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
