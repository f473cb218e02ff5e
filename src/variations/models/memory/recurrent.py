"""Recurrent layers of R restarts: a GRU, and the words of stories in reading order."""

import torch
from torch import Tensor, nn

from variations.models.memory.base import EMPTY
from variations.models.memory.scan import GRUScan
from variations.models.memory.stories import Stories


class GRU(nn.Module):
    """R gated recurrent units (Cho et al. 2014), as in the DMN paper's equations 1 to 4.

    z = σ(W^z x + U^z h + b^z)    r = σ(W^r x + U^r h + b^r)    h̃ = tanh(W x + r ∘ U h + b)    h' = z ∘ h + (1 - z) ∘ h̃
    """

    def __init__(self, restarts: int, inputs: int, d: int) -> None:
        super().__init__()
        self.d = d
        self.W = nn.Parameter(torch.empty(restarts, inputs, 3 * d))
        self.U = nn.Parameter(torch.empty(restarts, d, 3 * d))
        self.b = nn.Parameter(torch.empty(restarts, 1, 3 * d))

    def project(self, x: Tensor) -> Tensor:
        """The input's contribution to gates and candidate, for all times at once: (R, ..., inputs) to (R, ..., 3d)."""
        projected = torch.baddbmm(self.b, x.flatten(1, -2), self.W)
        return projected.view(*x.shape[:-1], 3 * self.d)

    def step(self, projected: Tensor, h: Tensor) -> Tensor:
        """The next state (R, B, d) from a projected input (R, B, 3d) and the state."""
        of_input, of_state = projected.split([2 * self.d, self.d], -1), (h @ self.U).split([2 * self.d, self.d], -1)
        z, r = torch.sigmoid(of_input[0] + of_state[0]).chunk(2, -1)  # (R, B, d) each
        candidate = torch.tanh(of_input[1] + r * of_state[1])
        return torch.lerp(candidate, h, z)

    def read(self, embedding: Tensor, words: Tensor, times: Tensor) -> Tensor:
        """The states (R, B, k, d) after the words at `times` (R, B, k) of texts (R, B, T); the initial state is 0.

        Texts have no gaps, and `times` are within them.
        """
        table = torch.baddbmm(self.b, embedding, self.W)  # (R, V, 3d): each word is projected once
        told, place, active = longest_first(words)
        states: Tensor = GRUScan.apply(lookup(table, told, axis=1), self.U, active)  # type: ignore[no-untyped-call]
        return states_at(states, place, times)


def lookup(embedding: Tensor, words: Tensor, axis: int = 0) -> Tensor:
    """Vectors (..., d) of words from each restart's embedding (R, V, d); `axis` is the words' restart axis."""
    R, V, d = embedding.shape
    offset = V * torch.arange(R, device=words.device).view(-1, *[1] * (words.dim() - axis - 1))
    return nn.functional.embedding(words + offset, embedding.reshape(R * V, d))


def longest_first(words: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """Texts (R, B, T) as (T, R, B), each restart's longest first; each text's place in this order (R, B); and the
    number of texts with a word at each time, as the maximum over restarts."""
    lengths = (words != EMPTY).sum(-1)
    order = lengths.argsort(dim=-1, descending=True, stable=True)
    times = torch.arange(words.shape[2], device=words.device)
    active: list[int] = (lengths.unsqueeze(-1) > times).sum(1).amax(0).tolist()
    return words.gather(1, order.unsqueeze(-1).expand_as(words)).permute(2, 0, 1), order.argsort(-1), active


def states_at(states: Tensor, place: Tensor, times: Tensor) -> Tensor:
    """The states at `times` (R, B, k), from states (T, R, B, d) in the order of `longest_first`: (R, B, k, d)."""
    _, R, B, d = states.shape
    row = torch.arange(R, device=times.device).view(R, 1) * B + place
    return nn.functional.embedding(times * (R * B) + row.unsqueeze(-1), states.reshape(-1, d))


def told_words(stories: Stories) -> tuple[Tensor, Tensor]:
    """The words of each story, oldest first and without gaps (R, B, T), and the end of each slot's sentence.

    The latter is (R, B, n) in slot order, the most recent sentence first; 0 for an empty slot.
    """
    padded = stories.spread(stories.sentences).flip(2)  # (R, B, n, J), the oldest sentence first
    lengths = (padded != EMPTY).sum(-1)  # (R, B, n)
    words = padded.flatten(2)
    order = (words == EMPTY).to(torch.uint8).argsort(dim=-1, stable=True)
    T = int(lengths.sum(-1).amax())
    ends = (lengths.cumsum(-1) - 1).clamp(min=0)
    return words.gather(2, order)[..., :T], (ends * (lengths > 0)).flip(2)
