"""Decoding of sequences."""

from dataclasses import dataclass, field

from variations.configuration.schema import number


@dataclass
class DecodeConfig:
    """Beam search (Wu et al. 2016, section 7)."""

    beam: int = number(4, ge=1, most=10000)
    """Width of the beam; 1: greedy search."""
    alpha: float = number(0.6, ge=0, le=100)
    """Exponent of the length penalty ((5+|Y|)/6)^alpha."""
    max_extra: int = number(50, ge=0, most=1 << 20)
    """Longest output: source length plus this."""
    batch_tokens: int = number(4096, ge=1, most=1 << 24)
    """Padded source tokens times beam per batch."""
    nbest: int = number(1, ge=1)
    """Number of outputs of each sentence: 1 in a run; `translate.py` sets it from its own `nbest`."""
    sets: list[str] = field(default_factory=lambda: ["test"])
    """Sets that are decoded and scored after training: `test`, `dev`, and further test sets of the corpus."""
    attention: int = number(3, ge=0, le=5)
    """Number of short sentences whose attention maps a tested run stores for the dashboard; 0: none."""


def batches_of_device(update: int, tokens_per_batch: int | None, world: int) -> int:
    """Batches of each of `world` devices in an update of `update` tokens, of at most `tokens_per_batch` tokens each."""
    at_once = (tokens_per_batch or -(-update // world)) * world
    return -(-update // at_once)
