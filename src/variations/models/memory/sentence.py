"""Sentence encodings: the vector of a sentence is Σ_j l_j ∘ A x_j, with weights l_j by position.

All encodings here have weights l_kj = α_j + a_k β_j (k: dimension, j: position), so that

    Σ_j l_j ∘ A x_j = Σ_j α_j A x_j + a ∘ Σ_j β_j A x_j .

`variations.models.memory.memn2n` uses this to avoid computing sentence vectors.
"""

import torch
from torch import Tensor, nn


class SentenceCode(nn.Module):
    """Weights of a sentence's words by position, for d dimensions and sentences of at most `longest` words."""

    a: Tensor | None
    """(d); None: β is 0."""

    def forward(self, words: Tensor, timed: bool) -> tuple[Tensor, Tensor]:
        """α and β of the words, each broadcastable to the shape of `words`.

        Args:
            words: (N, J) word ids; with times, (N, J + 1).
            timed: the last word of each sentence is its age.
        """
        raise NotImplementedError


class BagOfWords(SentenceCode):
    """BoW: all words have equal weights, l_kj = 1."""

    one: Tensor

    def __init__(self, d: int, longest: int) -> None:
        super().__init__()
        del d, longest
        self.a = None
        self.register_buffer("one", torch.ones(1), persistent=False)

    def forward(self, words: Tensor, timed: bool) -> tuple[Tensor, Tensor]:
        """See `SentenceCode.forward`."""
        return self.one, torch.zeros_like(self.one)


class PaperPositions(SentenceCode):
    """PE of the paper: l_kj = (1 - j/J) - (k/d)(1 - 2j/J), J words in the sentence (section 4.1).

    The time is not a word of the sentence: m_i = Σ_j l_j ∘ A x_ij + T_A(i).
    """

    a: Tensor
    alpha: Tensor
    beta: Tensor

    def __init__(self, d: int, longest: int) -> None:
        super().__init__()
        J = torch.arange(longest + 1).clamp(min=1).unsqueeze(1)  # (longest + 1, 1)
        j = torch.arange(1, longest + 1)  # (longest)
        self.register_buffer("a", torch.arange(1, d + 1) / d, persistent=False)
        self.register_buffer("alpha", 1 - j / J, persistent=False)
        self.register_buffer("beta", 2 * j / J - 1, persistent=False)

    def forward(self, words: Tensor, timed: bool) -> tuple[Tensor, Tensor]:
        """See `SentenceCode.forward`."""
        text = words[:, :-1] if timed else words
        J = (text > 0).sum(1)  # (N)
        alpha, beta = self.alpha[J], self.beta[J]  # (N, longest)
        if timed:
            one = torch.ones_like(alpha[:, :1])
            alpha, beta = torch.cat([alpha, one], 1), torch.cat([beta, 0 * one], 1)
        return alpha, beta


class AuthorsPositions(SentenceCode):
    """PE of the authors' code: l_kj = 1 + 4 (k - (d+1)/2)(j - (J+1)/2)/(dJ), about twice the paper's weights.

    J is the length of the longest sentence plus 1; the time is the word of the sentence at j = J.
    """

    a: Tensor
    b: Tensor
    one: Tensor

    def __init__(self, d: int, longest: int) -> None:
        super().__init__()
        J = longest + 1
        self.register_buffer("a", 4 * (torch.arange(1, d + 1) - (d + 1) / 2) / d, persistent=False)
        self.register_buffer("b", (torch.arange(1, J + 1) - (J + 1) / 2) / J, persistent=False)
        self.register_buffer("one", torch.ones(1), persistent=False)

    def forward(self, words: Tensor, timed: bool) -> tuple[Tensor, Tensor]:
        """See `SentenceCode.forward`."""
        return self.one, self.b if timed else self.b[:-1]


SENTENCE_CODES: dict[str, type[SentenceCode]] = {
    "bow": BagOfWords,
    "paper": PaperPositions,
    "authors": AuthorsPositions,
}
