"""What a run has used so far, kept exactly through resumes (SPEC section 4)."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from variations.data.batching import Batch
from variations.models.flops import Tokens

SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
"""The paper's sustained single-precision figures (Vaswani et al. 2017, Table 2); its cost is seconds × GPUs × these."""
COUNTED = ("pairs", "source_tokens", "target_tokens", "padded_tokens", "flops")


def counts(batch: Batch, flops: int) -> list[int]:
    """What one batch adds to the totals, in the order of COUNTED."""
    return [len(batch), batch.source_tokens, batch.target_tokens, batch.padded_tokens, flops]


def tokens(batch: Batch) -> Tokens:
    """What a batch's FLOPs are counted from."""
    return Tokens(batch.source_tokens, batch.target_tokens, *batch.products)


@dataclass
class Budget:
    """Totals over all updates of a run, over all ranks and attempts."""

    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    padded_tokens: int = 0
    """Slots of both sides, padding included."""
    flops: int = 0
    """Counted: 3 × 2 × MACs; a whole number, so that the sum does not depend on its order."""
    seconds: float = 0.0
    """Time in training, validation included, interruptions left out."""
    nan_steps: int = 0
    """Updates left out because the loss or a gradient was not finite."""
    oom_splits: int = 0
    """Times that a batch was cut in two because memory ran out."""
    _since: float | None = field(default=None, repr=False)

    def add(self, update: list[int]) -> None:
        """Add one update: sums of `counts` over its batches and over all ranks."""
        for key, value in zip(COUNTED, update, strict=True):
            setattr(self, key, getattr(self, key) + value)

    def start_clock(self) -> None:
        """Begin to count seconds."""
        self._since = time.monotonic()

    def stop_clock(self) -> None:
        """Count no further seconds."""
        self.seconds, self._since = self.elapsed(), None

    def elapsed(self) -> float:
        """Seconds so far."""
        running = 0.0 if self._since is None else time.monotonic() - self._since
        return self.seconds + running

    def state(self) -> dict[str, Any]:
        """Plain numbers, for checkpoints and results."""
        totals = {key: value for key, value in asdict(self).items() if not key.startswith("_")}
        return totals | {"seconds": self.elapsed()}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state()` of an earlier process."""
        for key, value in state.items():
            setattr(self, key, value)
        if self._since is not None:
            self.start_clock()


def paper_cost(seconds: float, gpus: int, device: str | None) -> float | None:
    """FLOPs by the paper's rule: time × number of GPUs × sustained TFLOPS.

    None for a device that the paper gives no figure for: a sustained figure of another one would be a choice of ours.
    """
    name = (device or "").upper().replace("-", " ").split()
    known = [tflops for model, tflops in SUSTAINED_TFLOPS.items() if any(word.startswith(model) for word in name)]
    return seconds * gpus * known[0] * 1e12 if known else None
