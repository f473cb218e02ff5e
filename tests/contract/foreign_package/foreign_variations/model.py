"""A model with keys of its own, which Variations has never heard of."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from variations.configuration.schema import choice, number


class MeanModel(nn.Module):
    """Predicts each target token from the mean of the source's embeddings and from the token before.

    Args:
        options: Its keys.
        vocabulary: Rows of the embedding, which source and target share.
    """

    @dataclass
    class Options:
        """Keys of `model.options`."""

        width: int = number(32, ge=1)
        pooling: str = choice("mean", "mean", "max")

    def __init__(self, options: Options, vocabulary: int) -> None:
        super().__init__()
        self.pooling = options.pooling
        self.embedding = nn.Embedding(vocabulary, options.width)
        self.output = nn.Linear(2 * options.width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, n, V) for source (B, m) and the target shifted right (B, n)."""
        words = self.embedding(source)  # (B, m, d)
        pooled = words.mean(1, keepdim=True) if self.pooling == "mean" else words.amax(1, keepdim=True)
        mean = pooled.expand(-1, target.shape[1], -1)  # (B, n, d)
        return self.output(torch.cat([mean, self.embedding(target)], dim=-1))
