"""The words of many sentences as a sparse matrix X, and its two products in a memory network."""

import warnings
from typing import Any

import torch
from torch import Tensor


class WordCounts:
    """X: a row for each sentence, a column for each word *of one question's vocabulary*; values are the words' weights.

    A row has as many entries as the sentence has words, so X is stored by rows (CSR). A column stands for
    (restart, question, word), because each question of a batch has its own state and therefore its own word scores.

    Args:
        columns: (N, w), the columns of each sentence's words.
        values: broadcastable to (N, w).
        width: total number of columns.
    """

    def __init__(self, columns: Tensor, values: Tensor, width: int) -> None:
        N, w = columns.shape
        self.columns, self.values = columns.flatten(), values.expand(N, w)
        self.width = width
        starts = torch.arange(0, N * w + 1, w, device=columns.device)
        with warnings.catch_warnings():  # torch calls sparse layouts a beta feature; what is used here is tested
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            self.rows = torch.sparse_csr_tensor(
                starts, self.columns, self.values.reshape(-1), (N, width), check_invariants=False
            )

    def of_sentences(self, q: Tensor) -> Tensor:
        """X q (N): for each sentence the weighted sum of its words' values; q (width)."""
        return self.rows @ q

    def of_words(self, p: Tensor) -> Tensor:
        """Xᵀ p (width): the weight of each word if sentence i has weight p_i; p (N)."""
        spread = (p.unsqueeze(1) * self.values).flatten()
        return p.new_zeros(self.width).scatter_add_(0, self.columns, spread)


class SumOfWords(torch.autograd.Function):
    """X q; its gradient is Xᵀ g."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, counts: WordCounts) -> Tensor:
        """X q."""
        ctx.counts = counts
        return counts.of_sentences(q)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor, None]:
        """Xᵀ g."""
        return ctx.counts.of_words(g[0]), None


class ShareOfWords(torch.autograd.Function):
    """Xᵀ p; its gradient is X g."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, counts: WordCounts) -> Tensor:
        """Xᵀ p."""
        ctx.counts = counts
        return counts.of_words(p)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor, None]:
        """X g."""
        return ctx.counts.of_sentences(g[0]), None
