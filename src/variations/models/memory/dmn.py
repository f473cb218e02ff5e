"""Dynamic memory networks, DMN (Kumar et al. 2016), R of them in parallel.

Input module: a GRU reads the words of the story; c_t is its state at the end of sentence t. Question module: q is the
last state of another GRU on the same word vectors. Episodic memory: m^0 = q, and pass i = 1 … T_M computes

    z(c, m, q) = [c, m, q, c ∘ q, c ∘ m, |c - q|, |c - m|, cᵀ W_b q, cᵀ W_b m]                 (7d + 2)
    g_t = W² tanh(W¹ z(c_t, m^{i-1}, q) + b¹) + b²                                equation (6), before its σ
    e^i = Σ_t softmax(g)_t c_t, or the state of a GRU whose steps σ(g_t) lets in                  (`episode.py`)
    m^i = GRU(e^i, m^{i-1})

Answer module: a_0 = m^{T_M}, a_1 = GRU([y_0, q], a_0) with y_0 = 0, y = softmax(W_a a_1): each answer is one class.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from variations.models.memory.base import Reader, answer_loss, initialise
from variations.models.memory.episode import EPISODES
from variations.models.memory.recurrent import GRU, told_words
from variations.models.memory.stories import Stories


class Gate(nn.Module):
    """g before the σ or softmax, for each slot: equations (5) and (6).

    Args:
        restarts: R.
        d: dimension of the states.
        distance: `squared` uses (c - q)², (c - m)² instead of |c - q|, |c - m|, whose gradient is undefined at 0 and
            caused NaN in the public Theano implementation.
        products: `elementwise` (published) or `inner`: the scalars cᵀq and cᵀm instead of c ∘ q and c ∘ m.
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

    def forward(self, c: Tensor, q: Tensor) -> Callable[[Tensor], Tensor]:
        """The function from a memory m (R, B, d) to g (R, B, n), for slots c (R, B, n, d) and question q (R, B, d).

        W¹ z is a sum over the parts of z; those without m are computed once for all passes.
        """
        d = c.shape[-1]
        like = (self.W_1.shape[1] - 5 * d - 2) // 2
        W_c, W_m, W_q, W_like_q, W_like_m, W_far_q, W_far_m, w_q, w_m = self.W_1.split(
            [d, d, d, like, like, d, d, 1, 1], 1
        )
        fixed = torch.baddbmm(self.b_1, c.flatten(1, 2), W_c)  # (R, B·n, d)
        if self.distance == "squared":
            fixed = torch.baddbmm(fixed, c.square().flatten(1, 2), W_far_q + W_far_m)
        fixed = self._add(fixed, c, q, W_q, W_like_q, W_far_q, w_q)

        def scores(m: Tensor) -> Tensor:
            inner = torch.tanh(self._add(fixed, c, m, W_m, W_like_m, W_far_m, w_m))  # (R, B·n, d)
            return torch.baddbmm(self.b_2, inner, self.W_2).view(c.shape[:-1])

        return scores

    def _add(self, before: Tensor, c: Tensor, x: Tensor, W: Tensor, W_like: Tensor, W_far: Tensor, w: Tensor) -> Tensor:
        """`before` (R, B·n, d) plus the parts of W¹ z with x, which is q or m; `before` includes the c² of (c - x)²."""
        product, alone = c * x.unsqueeze(2), x @ W  # (R, B, n, d), (R, B, d)
        bilinear = c @ (x @ self.W_b.mT).unsqueeze(-1)  # cᵀ W_b x: (R, B, n, 1)
        like = product if self.products == "elementwise" else product.sum(-1, keepdim=True)
        if self.distance == "squared":
            far, alone = -2 * product, torch.baddbmm(alone, x.square(), W_far)
        else:
            far = (c - x.unsqueeze(2)).abs()
        parts, weights = [like, far, bilinear], [W_like, W_far, w]
        if self.distance == "squared" and self.products == "elementwise":
            parts, weights = [product, bilinear], [W_like - 2 * W_far, w]  # the same with one product less
        summed = torch.baddbmm(before, torch.cat(parts, -1).flatten(1, 2), torch.cat(weights, 1))  # (R, B·n, d)
        return (summed.view_as(c) + alone.unsqueeze(2)).flatten(1, 2)


class DMN(Reader):
    """R dynamic memory networks.

    Args:
        words: vocabulary size, with the empty word.
        d: dimension of all states.
        d_word: dimension of word vectors. They are learned, with an initial variance of 1; the paper starts from GloVe.
        passes: T_M.
        seeds: one for each restart.
        distance, products: see `Gate`.
        gate_weight: weight of the gates' cross-entropy against the supporting facts; 0: only answers are supervised.
        episode: see `episode.py`.
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
        episode: Literal["softmax", "gru"] = "softmax",
    ) -> None:
        super().__init__()
        R = len(seeds)
        self.passes, self.gate_weight = passes, gate_weight
        self.embedding = nn.Parameter(torch.empty(R, words, d_word))
        self.input, self.question = GRU(R, d_word, d), GRU(R, d_word, d)
        self.gate = Gate(R, d, distance, products)
        self.episode = EPISODES[episode](R, d)
        self.memory = GRU(R, d, d)
        self.answer = GRU(R, words + d, d)
        self.W_a = nn.Parameter(torch.empty(R, d, words))
        initialise(self, seeds)
        with torch.no_grad():
            self.embedding.mul_((3 * d_word) ** 0.5)  # uniform, of variance 1

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """See `Reader.forward`: each pass's attention over the slots, without the end-of-passes vector."""
        scores, gates, filled = self._answer(stories)
        return scores, [self.episode.weights(gate, filled)[..., : stories.n] for gate in gates]

    def loss(self, stories: Stories) -> Tensor:
        """(R) cross-entropy of the answers plus that of the gates against the supporting facts (section 2.5)."""
        scores, gates, filled = self._answer(stories)
        loss = answer_loss(scores, stories)
        if self.gate_weight:
            for gate, target in zip(gates, self.episode.wanted(stories, self.passes), strict=True):
                loss = loss + self.gate_weight * self.episode.loss(gate, target, filled)
        return loss

    def _answer(self, stories: Stories) -> tuple[Tensor, list[Tensor], Tensor]:
        """Scores (R, B, words), each pass's gates before σ or softmax (R, B, k), and the filled slots (R, B, k)."""
        words, ends = told_words(stories)
        c = self.input.read(self.embedding, words, ends)  # (R, B, n, d), the most recent first
        last = (stories.questions > 0).sum(-1, keepdim=True) - 1  # (R, B, 1)
        q = self.question.read(self.embedding, stories.questions, last).squeeze(2)  # (R, B, d)
        c, filled = self.episode.slots(c, stories.filled)
        prepared = self.episode.prepare(c)
        scores_of = self.gate(c, q)
        m, gates = q, []
        for _ in range(self.passes):
            gates.append(scores_of(m))
            e = self.episode(prepared, self.episode.weights(gates[-1], filled))  # (R, B, d)
            m = self.memory.step(self.memory.project(e), m)
        nothing_said = m.new_zeros(*m.shape[:2], self.W_a.shape[2])  # (R, B, words)
        a = self.answer.step(self.answer.project(torch.cat([nothing_said, q], -1)), m)
        return a @ self.W_a, gates, filled
