"""Dynamic memory networks, DMN (Kumar et al. 2016), R of them side by side.

Input module: a GRU reads the words of the story; c_t is its state at the end of sentence t. Question module: a GRU of
its own (on the same word vectors) ends in q. Episodic memory: m^0 = q, and pass i = 1 … T_M reads

    z(c, m, q) = [c, m, q, c ∘ q, c ∘ m, |c - q|, |c - m|, cᵀ W_b q, cᵀ W_b m]                 (7d + 2)
    g_t = σ(W² tanh(W¹ z(c_t, m^{i-1}, q) + b¹) + b²)                                       equation (6)
    h_t = g_t GRU(c_t, h_{t-1}) + (1 - g_t) h_{t-1},    e^i = h_{T_C}                         equation (8)
    m^i = GRU(e^i, m^{i-1})

Answer module: a_0 = m^{T_M}, a_1 = GRU([y_0, q], a_0) with y_0 = 0, y = softmax(W_a a_1): answers are one class each.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from variations.models.memory.base import Reader, answer_loss, initialise
from variations.models.memory.recurrent import GRU, lookup, told_words
from variations.models.memory.stories import Stories


class Gate(nn.Module):
    """g before its σ, for each sentence: equations (5) and (6).

    Args:
        restarts: R.
        d: of the states.
        distance: `squared` has (c - q)², (c - m)² in place of |c - q|, |c - m|, whose gradient is undefined at 0 and
            led the public Theano implementation to NaN.
        products: `elementwise` (published) or `inner`: cᵀq and cᵀm, one number each, in place of c ∘ q and c ∘ m.
    """

    def __init__(
        self,
        restarts: int,
        d: int,
        distance: Literal["squared", "absolute"] = "squared",
        products: Literal["elementwise", "inner"] = "elementwise",
    ) -> None:
        super().__init__()
        self.distance, self.products = distance, products
        self.W_b = nn.Parameter(torch.empty(restarts, d, d))
        features = 7 * d + 2 if products == "elementwise" else 5 * d + 4
        self.W_1 = nn.Parameter(torch.empty(restarts, features, d))
        self.b_1 = nn.Parameter(torch.empty(restarts, 1, d))
        self.W_2 = nn.Parameter(torch.empty(restarts, d, 1))
        self.b_2 = nn.Parameter(torch.empty(restarts, 1, 1))

    def features(self, c: Tensor, m: Tensor, q: Tensor) -> Tensor:
        """z (R, B, n, 7d + 2) of sentences c (R, B, n, d), memory m and question q (R, B, d)."""
        m_n, q_n = m.unsqueeze(2).expand_as(c), q.unsqueeze(2).expand_as(c)
        like = [c * q_n, c * m_n]
        if self.products == "inner":
            like = [product.sum(-1, keepdim=True) for product in like]
        far = [c - q_n, c - m_n]
        far = [difference.square() if self.distance == "squared" else difference.abs() for difference in far]
        bilinear = [c @ (other @ self.W_b.mT).unsqueeze(-1) for other in (q, m)]  # cᵀ W_b q: (R, B, n, 1)
        return torch.cat([c, m_n, q_n, *like, *far, *bilinear], -1)

    def forward(self, c: Tensor, m: Tensor, q: Tensor) -> Tensor:
        """(R, B, n), before σ."""
        z = self.features(c, m, q)
        inner = torch.tanh(torch.baddbmm(self.b_1, z.flatten(1, 2), self.W_1))
        return torch.baddbmm(self.b_2, inner, self.W_2).view(z.shape[:-1])


class DMN(Reader):
    """R dynamic memory networks.

    Args:
        words: with the empty word.
        d: of all states.
        d_word: of word vectors. They are learned; the paper begins with GloVe's.
        passes: T_M.
        seeds: one for each restart.
        distance, products: see `Gate`.
        gate_weight: of the gates' cross-entropy against the supporting facts; 0: answers alone are supervised.
    """

    def __init__(
        self,
        words: int,
        d: int,
        d_word: int,
        passes: int,
        seeds: list[int],
        distance: Literal["squared", "absolute"] = "squared",
        products: Literal["elementwise", "inner"] = "elementwise",
        gate_weight: float = 1.0,
    ) -> None:
        super().__init__()
        R = len(seeds)
        self.passes, self.gate_weight = passes, gate_weight
        self.embedding = nn.Parameter(torch.empty(R, words, d_word))
        self.input, self.question = GRU(R, d_word, d), GRU(R, d_word, d)
        self.gate = Gate(R, d, distance, products)
        self.episode, self.memory = GRU(R, d, d), GRU(R, d, d)
        self.answer = GRU(R, words + d, d)
        self.W_a = nn.Parameter(torch.empty(R, d, words))
        initialise(self, seeds)

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`: the reads are the gates of each pass."""
        scores, gates = self._answer(stories)
        return scores, [gate.sigmoid() * stories.filled for gate in gates]

    def loss(self, stories: Stories) -> Tensor:
        """(R) cross-entropies of the answers, and of the gates against the supporting facts (section 2.5)."""
        scores, gates = self._answer(stories)
        loss = answer_loss(scores, stories)
        if self.gate_weight:
            wanted = self.wanted_gates(stories)
            filled = stories.filled
            for gate, target in zip(gates, wanted, strict=True):
                each = binary_cross_entropy_with_logits(gate, target.to(gate.dtype), reduction="none")
                loss = loss + self.gate_weight * (each * filled).sum((1, 2))
        return loss

    def wanted_gates(self, stories: Stories) -> list[Tensor]:
        """The slots that each pass is to read (R, B, n): pass i the i-th supporting fact, the last pass all others."""
        R, B, F = stories.supports.shape
        slots = torch.arange(1, stories.n + 1, device=stories.supports.device)
        named = stories.supports.unsqueeze(-1) == slots  # (R, B, F, n)
        first, rest = named[:, :, : self.passes - 1], named[:, :, self.passes - 1 :]
        missing = self.passes - 1 - first.shape[2]
        nothing = [named.new_zeros(R, B, stories.n)] * max(0, missing)
        return [*first.unbind(2), *nothing, rest.any(2)] if F else [named.new_zeros(R, B, stories.n)] * self.passes

    def _answer(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """Scores (R, B, words), and each pass's gates before σ (R, B, n)."""
        words, ends = told_words(stories)
        c = _states_at(self.input(lookup(self.embedding, words)), ends)  # (R, B, n, d), the most recent first
        last = (stories.questions > 0).sum(-1, keepdim=True) - 1  # (R, B, 1)
        q = _states_at(self.question(lookup(self.embedding, stories.questions)), last).squeeze(2)
        filled, projected = stories.filled, self.episode.project(c)
        m, gates = q, []
        for _ in range(self.passes):
            gates.append(self.gate(c, m, q))
            e = self._episode(projected, gates[-1].sigmoid() * filled, q.shape)
            m = self.memory.step(self.memory.project(e), m)
        nothing_said = m.new_zeros(*m.shape[:2], self.W_a.shape[2])
        a = self.answer.step(self.answer.project(torch.cat([nothing_said, q], -1)), m)
        return a @ self.W_a, gates

    def _episode(self, projected: Tensor, g: Tensor, shape: torch.Size) -> Tensor:
        """e (R, B, d): the state after the sentences, the oldest first, each let in by its gate (R, B, n)."""
        h = projected.new_zeros(shape)
        for sentence, gate in zip(reversed(projected.unbind(2)), reversed(g.unsqueeze(-1).unbind(2)), strict=True):
            h = torch.lerp(h, self.episode.step(sentence, h), gate)
        return h


def _states_at(states: Tensor, times: Tensor) -> Tensor:
    """The states (R, B, k, d) of (R, B, T, d) at the times (R, B, k)."""
    return states.gather(2, times.unsqueeze(-1).expand(-1, -1, -1, states.shape[-1]))
