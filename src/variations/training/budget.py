"""What a run has used so far, kept exactly through resumes (SPEC section 4)."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from variations.models.flops import Tokens

SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
"""The paper's sustained single-precision figures; its cost is seconds × GPUs × these."""


@dataclass
class Budget:
    """Totals over all updates of a run, over all ranks and attempts."""

    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    padded_tokens: int = 0
    """Slots of both sides, padding included."""
    flops: float = 0.0
    """Counted: 3 × 2 × MACs."""
    seconds: float = 0.0
    """Time in training, validation included, interruptions left out."""
    nan_steps: int = 0
    _since: float | None = field(default=None, repr=False)

    def count(self, pairs: int, tokens: Tokens, padded: int, flops: float) -> None:
        """Add one batch."""
        self.pairs += pairs
        self.source_tokens += tokens.source
        self.target_tokens += tokens.target
        self.padded_tokens += padded
        self.flops += flops

    def start_clock(self) -> None:
        """Begin to count seconds."""
        self._since = time.monotonic()

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


def paper_cost(seconds: float, gpus: int, sustained_tflops: float) -> float:
    """FLOPs by the paper's rule: time × number of GPUs × sustained TFLOPS."""
    return seconds * gpus * sustained_tflops * 1e12
