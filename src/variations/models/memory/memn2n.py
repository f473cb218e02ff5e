"""End-to-end memory networks, MemN2N (Sukhbaatar, Szlam, Weston, Fergus 2015), R of them in parallel.

The paper's equations, for one question over memory slots i = 1 … n and hops k = 1 … K:

    m_i = Σ_j l_j ∘ A x_ij + T_A(i)        c_i = Σ_j l_j ∘ C x_ij + T_C(i)        u = Σ_j l_j ∘ B q_j
    p_i = softmax(uᵀ m_i)   (1)            o = Σ_i p_i c_i   (2)                  â = softmax(W u)   (3)
    u^{k+1} = u^k + o^k     (4)            layer-wise tying: u^{k+1} = H u^k + o^k

Neither m_i nor c_i is computed. A word's product with the state is the same at every position. With
l_kj = α_j + a_k β_j and X the words of the sentences, weighted by α or by β,

    uᵀ m_i = (X_α (A u) + X_β (A (a ∘ u)))_i          o = Cᵀ X_αᵀ p + a ∘ Cᵀ X_βᵀ p .

This takes one number for each word of the vocabulary and a look-up for each word of the memory, d times less work than
sentence vectors.
"""

from typing import Literal, final

import torch
from torch import Tensor, nn

from variations.models.memory.base import EMPTY, Reader, initialise
from variations.models.memory.counts import ShareOfWords, SumOfWords, WordCounts
from variations.models.memory.sentence import SENTENCE_CODES
from variations.models.memory.stories import Stories

INITIAL_DEVIATION = 0.1
"""All weights are initialised from N(0, 0.1)."""


class MemN2N(Reader):
    """R end-to-end memory networks.

    The vocabulary's V words are followed by one word for each possible age of a sentence, so T_A and T_C are rows of A
    and C. Word 0 is empty; its vectors stay 0 (`after_update`).

    Args:
        words: V, with the empty word.
        memory: number of memory slots, and largest age.
        longest: words of the longest sentence or question.
        d: dimensions of a state.
        hops: K.
        seeds: one for each of the R restarts, for its initial weights.
        code: `bow`, `paper` (PE as in section 4.1) or `authors` (PE as in their code): see
            `variations.models.memory.sentence`.
        tying: `adjacent` (A^{k+1} = C^k, B = A^1, W = C^K) or `layer_wise` (one A, one C, and H; B and W apart).
        empty_slots: `attended` (as in the authors' code: they score 0 in the softmax, since all their words are empty)
            or `masked`.
    """

    def __init__(
        self,
        words: int,
        memory: int,
        longest: int,
        d: int,
        hops: int,
        seeds: list[int],
        code: Literal["bow", "paper", "authors"] = "authors",
        tying: Literal["adjacent", "layer_wise"] = "adjacent",
        empty_slots: Literal["attended", "masked"] = "attended",
    ) -> None:
        super().__init__()
        self.words, self.memory, self.hops, self.empty_slots = words, memory, hops, empty_slots
        self.code = SENTENCE_CODES[code](d, longest)
        restarts = len(seeds)
        adjacent = tying == "adjacent"
        self.embeddings = nn.ParameterList(
            torch.empty(restarts, words + memory, d) for _ in range(hops + 1 if adjacent else 4)
        )
        self.H = None if adjacent else nn.Parameter(torch.empty(restarts, d, d))
        self.A = list(range(hops)) if adjacent else [0] * hops  # which embedding each hop addresses with,
        self.C = list(range(1, hops + 1)) if adjacent else [1] * hops  # and which one it reads with
        self.B, self.W = (0, hops) if adjacent else (2, 3)
        self.register_buffer("linear", torch.zeros(restarts, dtype=torch.bool))
        self.linear: Tensor
        """(R) linear start (LS): True where the memory softmax is left out, p_i = uᵀ m_i."""
        initialise(self, seeds, INITIAL_DEVIATION)
        self.after_update()

    @final
    @torch.no_grad()
    def after_update(self) -> None:
        """Reset the empty word's vectors to 0."""
        for embedding in self.embeddings:
            embedding[:, EMPTY] = 0

    def forward(self, stories: Stories) -> tuple[Tensor, list[Tensor]]:
        """Logits of the answer's word (R, B, V + memory), and each hop's attention over the slots (R, B, n)."""
        R, B, J = stories.questions.shape
        told = stories.times.unsqueeze(1) + (self.words - 1)  # (N, 1)
        memory = self._counts(torch.cat([stories.sentences, told], 1), stories.place // stories.n, R, B, timed=True)
        every = torch.arange(R * B, device=told.device)
        question = self._counts(stories.questions.view(R * B, J), every, R, B, timed=False)
        filled = stories.filled if self.empty_slots == "masked" else None
        u = self._read(self.embeddings[self.B], question, every.new_ones(R * B, dtype=told.dtype), B)  # (R, B, d)
        reads = []
        for A, C in zip(self.A, self.C, strict=True):
            score = stories.spread(self._address(self.embeddings[A], memory, u))  # (R, B, n)
            p = self._attend(score, filled)
            o = self._read(self.embeddings[C], memory, stories.gather(p), B)  # (R, B, d)
            u = o + (u if self.H is None else u @ self.H.mT)
            reads.append(p)
        return u @ self.embeddings[self.W].mT, reads

    def _counts(self, words: Tensor, question: Tensor, R: int, B: int, timed: bool) -> WordCounts:
        """X of sentences (N, J); `question` (N) is the number of each one's question over all restarts.

        With β, a restart has 2B states: u of its B questions, then a ∘ u of the same.
        """
        rows = self.words + self.memory
        alpha, beta = self.code(words, timed)
        known = words != EMPTY
        if self.code.a is None:
            return WordCounts(words + rows * question.unsqueeze(1), alpha * known, R * B * rows)
        state = question + question // B * B  # of 2B in each restart
        first = words + rows * state.unsqueeze(1)  # (N, J)
        columns = torch.cat([first, first + B * rows], 1)  # (N, 2J)
        return WordCounts(columns, torch.cat([alpha * known, beta * known], 1), 2 * R * B * rows)

    def _address(self, E: Tensor, memory: WordCounts, u: Tensor) -> Tensor:
        """uᵀ m_i for each sentence (N)."""
        if self.code.a is not None:
            u = torch.cat([u, u * self.code.a], 1)  # (R, 2B, d)
        out: Tensor = SumOfWords.apply((u @ E.mT).flatten(), memory)
        return out

    def _attend(self, score: Tensor, filled: Tensor | None) -> Tensor:
        """Attention over the slots from their scores (R, B, n): equation (1)."""
        if bool(self.linear.all()):
            return score
        if filled is not None:
            p = score.masked_fill(~filled, -torch.inf).softmax(-1)
        else:  # memory slots beyond the batch's n are also empty, with score 0
            absent = self.memory - score.shape[-1]
            top = score.detach().amax(-1, keepdim=True).clamp(min=0)
            e = (score - top).exp()
            p = e / (e.sum(-1, keepdim=True) + absent * (-top).exp())
        return torch.where(self.linear.view(-1, 1, 1), score, p) if bool(self.linear.any()) else p

    def _read(self, E: Tensor, sentences: WordCounts, p: Tensor, B: int) -> Tensor:
        """Σ_i p_i Σ_j l_j ∘ E x_ij over each question's sentences (R, B, d)."""
        R, rows, _ = E.shape
        share: Tensor = ShareOfWords.apply(p.to(E.dtype), sentences)  # (width)
        o = share.view(R, -1, rows) @ E  # (R, B, d); with β, (R, 2B, d)
        return o if self.code.a is None else o[:, :B] + self.code.a * o[:, B:]
