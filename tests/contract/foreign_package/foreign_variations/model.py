"""A model with keys of its own, which Variations has never heard of."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class MeanModelConfig:
    """Its keys."""

    d_model: int = 32
    """Width."""


class MeanModel(nn.Module):
    """Predicts each target token from the mean of the source's embeddings and from the token before.

    Args:
        config: Its keys.
        vocabulary: Rows of the embedding, which source and target share.
    """

    def __init__(self, config: MeanModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.d_model)
        self.output = nn.Linear(2 * config.d_model, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, n, V) for source (B, m) and the target shifted right (B, n)."""
        mean = self.embedding(source).mean(1, keepdim=True).expand(-1, target.shape[1], -1)  # (B, n, d)
        return self.output(torch.cat([mean, self.embedding(target)], dim=-1))
