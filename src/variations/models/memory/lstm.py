"""The LSTM baseline: one LSTM reads the words of the story and then of the question, and its last state answers."""

import torch
from torch import Tensor, nn

from variations.models.memory.base import EMPTY, Reader, initialise
from variations.models.memory.recurrent import lookup, told_words
from variations.models.memory.stories import Stories


class LSTM(Reader):
    """R LSTMs (Hochreiter and Schmidhuber 1997, with forget gates).

    i, f, o = σ(W x + U h + b)    g = tanh(W x + U h + b)    c' = f ∘ c + i ∘ g    h' = o ∘ tanh(c')

    Args:
        words: with the empty word.
        d: of the states.
        d_word: of word vectors.
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
            self.b[..., d : 2 * d] = 1  # what is in the cell stays there at first

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`; there are no reads."""
        words = self.read_words(stories)
        lengths = (words != EMPTY).sum(-1, keepdim=True)  # (R, B, 1)
        R, B, T = words.shape
        projected = torch.baddbmm(self.b, lookup(self.embedding, words).flatten(1, 2), self.W).view(R, B, T, -1)
        h = c = projected.new_zeros(R, B, self.d)
        for t, x in enumerate(projected.unbind(2)):
            i, f, g, o = (x + h @ self.U).chunk(4, -1)
            c_next = f.sigmoid() * c + i.sigmoid() * g.tanh()
            reading = t < lengths
            h, c = torch.where(reading, o.sigmoid() * c_next.tanh(), h), torch.where(reading, c_next, c)
        return h @ self.W_a, []

    @staticmethod
    def read_words(stories: Stories) -> Tensor:
        """The story's words and then the question's, without gaps (R, B, T)."""
        told, _ends = told_words(stories)
        words = torch.cat([told, stories.questions], -1)
        order = (words == EMPTY).to(torch.uint8).argsort(dim=-1, stable=True)
        longest = int((words != EMPTY).sum(-1).amax())
        return words.gather(2, order)[..., :longest]
