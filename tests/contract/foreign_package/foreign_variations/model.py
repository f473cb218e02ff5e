"""A small network with its own keys: predicts each target word from the source's mean and the previous word."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from variations.configuration.foreign import options_of
from variations.configuration.schema import choice, number
from variations.models.network import SequenceToSequence, Tokens

PAD, BOS = 0, 1


class MeanModel(SequenceToSequence):
    """h_t = tanh(W [source; y_(t-1)]), where `source` is the mean, or the maximum, of the source's embeddings.

    Shapes: B sentences, S source and T target positions, d = `width`, V rows of the vocabulary.
    """

    @dataclass
    class Options:
        """Keys of `model.options`."""

        width: int = number(32, ge=1)
        pooling: str = choice("mean", "mean", "max")

    pad, start_id = PAD, BOS

    def __init__(self, options: Options, vocabulary: int) -> None:
        super().__init__()
        self.pooling, self.vocabulary = options.pooling, vocabulary
        self.embedding = nn.Embedding(vocabulary, options.width, padding_idx=PAD)
        self.output = self.embedding.weight  # (V, d): the logits are h · outputᵀ
        self.mix = nn.Linear(2 * options.width, options.width)

    @classmethod
    def from_config(cls, config: Any, vocabulary: int, kernels: Any) -> "MeanModel":
        """Build the network of a run's configuration."""
        return cls(options_of(cls, config.model.options), vocabulary)

    @classmethod
    def forward_macs(cls, config: Any, tokens: Tokens, vocabulary: int) -> int:
        """Count, for each target token, the matrix of `mix` and the logits."""
        d: int = options_of(cls, config.model.options).width
        return tokens.target * (2 * d * d + d * vocabulary)

    def read(self, source: Tensor) -> Tensor:
        """Pool source tokens (B, S) into vectors (B, d)."""
        words, real = self.embedding(source), (source != PAD).unsqueeze(-1)  # (B, S, d), (B, S, 1)
        if self.pooling == "max":
            return words.masked_fill(~real, -torch.inf).amax(1)
        return (words * real).sum(1) / real.sum(1)

    def state(self, read: Tensor, before: Tensor) -> Tensor:
        """Return hidden states of any number of positions from the pooled source and each position's previous token."""
        words = self.embedding(before)
        return torch.tanh(self.mix(torch.cat([read.expand_as(words), words], dim=-1)))

    def forward(self, source: Tensor, target: Tensor, packed: None = None) -> Tensor:
        """Return hidden states (B, T, d), each from the tokens before its position."""
        before = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)  # (B, T)
        return self.state(self.read(source).unsqueeze(1), before)

    def start_cache(self, source: Tensor) -> "Cache":
        """Return the decoding cache for a batch of sources."""
        return Cache(self.read(source))

    def decode_step(self, tokens: Tensor, cache: "Cache") -> Tensor:
        """Return the logits (R, V) of the position after `tokens` (R,)."""
        return self.logits(self.state(cache.read, tokens))


class Cache:
    """The pooled source of each row: (R, d)."""

    def __init__(self, read: Tensor) -> None:
        self.read = read

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep, drop and repeat hypotheses for beam search: row i becomes the former row `rows[i]`."""
        self.read = self.read[rows]
