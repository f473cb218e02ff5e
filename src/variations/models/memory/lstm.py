"""The LSTM baseline: one LSTM over the words of the story and then of the question; its last state gives the answer."""

import torch
from torch import Tensor, nn

from variations.models.memory.base import EMPTY, Reader, initialise
from variations.models.memory.recurrent import longest_first, lookup, states_at, told_words
from variations.models.memory.scan import LSTMScan
from variations.models.memory.stories import Stories


class LSTM(Reader):
    """R LSTMs (Hochreiter and Schmidhuber 1997, with forget gates).

    i, f, o = σ(W x + U h + b)    g = tanh(W x + U h + b)    c' = f ∘ c + i ∘ g    h' = o ∘ tanh(c')

    Args:
        words: vocabulary size, with the empty word.
        d: dimension of the states.
        d_word: dimension of word vectors.
        seeds: one for each restart.
    """

    def __init__(self, words: int, d: int, d_word: int, seeds: list[int]) -> None:
        super().__init__()
        R = len(seeds)
        self.d = d
        self.embedding = nn.Parameter(torch.empty(R, words, d_word))
        self.W = nn.Parameter(torch.empty(R, d_word, 4 * d))
        self.U = nn.Parameter(torch.empty(R, d, 4 * d))
        self.b = nn.Parameter(torch.empty(R, 1, 4 * d))
        self.W_a = nn.Parameter(torch.empty(R, d, words))
        initialise(self, seeds)
        with torch.no_grad():
            self.b[..., d : 2 * d] = 1  # forget-gate bias: the cell initially keeps its contents

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`; there is no attention."""
        words = self.read_words(stories)
        last = (words != EMPTY).sum(-1, keepdim=True) - 1  # (R, B, 1)
        W, U, b = (_with_g_last(weights) for weights in (self.W, self.U, self.b))
        told, place, active = longest_first(words)
        projected = lookup(torch.baddbmm(b, self.embedding, W), told, axis=1)  # (T, R, B, 4d)
        states: Tensor = LSTMScan.apply(projected, U, active)  # type: ignore[no-untyped-call]
        return states_at(states, place, last).squeeze(2) @ self.W_a, []

    @staticmethod
    def read_words(stories: Stories) -> Tensor:
        """The story's words and then the question's, without gaps (R, B, T)."""
        told, _ends = told_words(stories)
        words = torch.cat([told, stories.questions], -1)
        order = (words == EMPTY).to(torch.uint8).argsort(dim=-1, stable=True)
        longest = int((words != EMPTY).sum(-1).amax())
        return words.gather(2, order)[..., :longest]


def _with_g_last(weights: Tensor) -> Tensor:
    """Reorder the columns i, f, g, o to i, f, o, g."""
    i, f, g, o = weights.chunk(4, -1)
    return torch.cat([i, f, o, g], -1)
