"""Out of memory: the update is begun again with its batches cut in two, so that no pair is lost."""

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from variations.data.batching import Batch
from variations.data.special import PAD
from variations.errors import RunFailedError

log = logging.getLogger(__name__)

Pieces = list[tuple[int | None, Batch]]
"""Batches, each with the seed of its random numbers; None goes on with the generator as it is."""
SIGNS = ("out of memory", "can't allocate memory", "std::bad_alloc", "alloc_failed")
"""How devices, torch's CPU allocator, C++ and cuBLAS say it."""
ADVICE = "lower trainer.tokens_per_batch (the update stays the same: its batches are accumulated), or the model's size"


def is_exhausted(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def failure(where: str) -> RunFailedError:
    """What the user is told when splitting does not help."""
    return RunFailedError(f"out of memory {where}: {ADVICE}.")


def accumulate(
    batches: Sequence[tuple[int | None, Batch]], forget: Callable[[], None], work: Callable[[Batch], None]
) -> int:
    """Do `work` on all batches of an update, the last of which has run out of memory, in pieces that fit.

    A failed backward pass may have added part of its gradient, so each attempt begins with the first batch. Dropout
    draws other masks for the pieces of a batch than for the whole.

    Args:
        batches: Each with its seed.
        forget: Undoes all `work`.
        work: Forward and backward pass of one batch.

    Returns:
        How often a batch was cut in two.

    Raises:
        RunFailedError: there is no memory for a single pair.
    """
    pieces: Pieces = list(batches)
    cuts, at = 0, len(pieces) - 1
    while True:
        _cut(pieces, at)
        cuts += 1
        release()
        forget()
        failed = _first_failure(pieces, work)
        if failed is None:
            return cuts
        at = failed


def _cut(pieces: Pieces, at: int) -> None:
    seed, batch = pieces[at]
    rows, sizes = len(batch), f"{batch.source.shape[1]} and {batch.target.shape[1]} sub-words"
    if rows < 2:
        raise failure(f"with a single pair of {sizes}")
    log.warning("Out of memory with %d pairs of up to %s: they are split in two and accumulated.", rows, sizes)
    first, second = halves(batch)
    pieces[at : at + 1] = [(seed, first), (None, second)]


def _first_failure(pieces: Pieces, work: Callable[[Batch], None]) -> int | None:
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


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Every other pair, so that both halves hold long and short ones; columns of padding alone are cut off."""
    return _rows(batch, 0), _rows(batch, 1)


def _rows(batch: Batch, first: int) -> Batch:
    source, target = _trimmed(batch.source[first::2]), _trimmed(batch.target[first::2])
    return replace(
        batch,
        source=source,
        target=target,
        index=batch.index[first::2],
        source_tokens=int(source.ne(PAD).sum()),
        target_tokens=int(target.ne(PAD).sum()),
    )


def _trimmed(ids: Tensor) -> Tensor:
    return ids[:, : int(ids.ne(PAD).sum(1).max())]
