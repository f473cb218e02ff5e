"""The workloads that all contestants share: a synthetic corpus, and the same batches of token ids for each.

W1: N=6, d_model=512, d_ff=2048, h=8, about 2,000 target tokens per batch. W2: N=3, d_model=256, d_ff=1024, h=8, about
3,800. Both: dropout 0.1, label smoothing 0.1, one vocabulary of 8,000 rows shared by embeddings and output, Adam.
This module needs only NumPy, because each contestant has its own environment.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

PAD, BOS, EOS = 0, 1, 2
VOCABULARY = 8000
PAIRS, DEV_PAIRS = 20_000, 500
MEAN_WORDS, SPREAD, LONGEST = 19.6, 0.5, 70
"""Words per sentence (log-normal); with sub-words, a side has some 25 tokens on average, at most 100."""
WORDS = 12_000


@dataclass(frozen=True)
class Workload:
    """A model and a batch size."""

    name: str
    N: int
    d_model: int
    d_ff: int
    h: int
    batch_tokens: int
    """Padded tokens per side."""
    warmup: int
    """Steps that are not timed."""
    steps: int
    """Steps that are timed."""


WORKLOADS = {
    "W1": Workload("W1", 6, 512, 2048, 8, 2270, 1, 4),
    "W2": Workload("W2", 3, 256, 1024, 8, 4450, 3, 8),
}


@dataclass(frozen=True)
class Step:
    """One batch: padded ids, (B, S) and (B, T), each row ending in EOS."""

    source: np.ndarray
    target: np.ndarray

    @property
    def target_tokens(self) -> int:
        """Real ones."""
        return int((self.target != PAD).sum())

    def flops(self, w: Workload) -> float:
        """3 × forward at 2 per multiply-accumulate, real tokens and matrix products only."""
        s, t = ((ids != PAD).sum(1).astype(np.float64) for ids in (self.source, self.target))
        d, f, S, T = w.d_model, w.d_ff, s.sum(), t.sum()
        forward = S * w.N * (4 * d * d + 2 * d * f) + T * w.N * (6 * d * d + 2 * d * f) + S * w.N * 2 * d * d
        forward += T * d * VOCABULARY + 2 * d * w.N * ((s * s).sum() + (t * t).sum() + (s * t).sum())
        return 6 * forward


def write_text(folder: Path, seed: int = 1) -> None:
    """Train and dev files of random words with Zipf's frequencies; both sides of a pair are about equally long."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size=rng.integers(2, 9))) for _ in range(WORDS)]
    frequency = 1 / np.arange(1, WORDS + 1)
    frequency /= frequency.sum()
    folder.mkdir(parents=True, exist_ok=True)
    for stem, pairs in (("train", PAIRS), ("valid", DEV_PAIRS), ("test", DEV_PAIRS)):
        mean = np.log(MEAN_WORDS) - SPREAD**2 / 2
        lengths = rng.lognormal(mean, SPREAD, pairs)
        for side, scale in (("a", 1.0), ("b", rng.normal(1, 0.1, pairs))):
            counts = np.clip(np.round(lengths * scale), 1, LONGEST).astype(int)
            picked = iter(rng.choice(WORDS, size=counts.sum(), p=frequency))
            lines = (" ".join(words[next(picked)] for _ in range(count)) for count in counts)
            (folder / f"{stem}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def save(path: Path, batches: list[Step]) -> None:
    """Store batches for the contestants."""
    np.savez(path, **{f"{side}{i}": getattr(b, side) for i, b in enumerate(batches) for side in ("source", "target")})


def load(path: Path) -> list[Step]:
    """The batches, in the order of training."""
    with np.load(path) as file:
        return [Step(file[f"source{i}"], file[f"target{i}"]) for i in range(len(file.files) // 2)]
