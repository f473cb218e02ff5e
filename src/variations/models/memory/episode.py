"""The episode of a DMN: the result e of one pass over the sentences, from the gates' scores.

There are two forms, each with its supervision of the gates. Both are the paper's; the first is the simpler, for bAbI.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from variations.models.memory.recurrent import GRU
from variations.models.memory.stories import Stories


class Episode(nn.Module):
    """Base of both forms. `c` (R, B, k, d) are the slots that a pass reads, the most recent sentence first."""

    def slots(self, c: Tensor, filled: Tensor) -> tuple[Tensor, Tensor]:
        """The slots, and which of them are filled (R, B, k): here only the sentences."""
        return c, filled

    def prepare(self, c: Tensor) -> Tensor:
        """What all passes share; here the slots themselves."""
        return c

    def weights(self, scores: Tensor, filled: Tensor) -> Tensor:
        """A pass's weights of the slots (R, B, k), from the gates' scores."""
        raise NotImplementedError

    def forward(self, prepared: Tensor, weights: Tensor) -> Tensor:
        """e (R, B, d)."""
        raise NotImplementedError

    def wanted(self, stories: Stories, passes: int) -> list[Tensor]:
        """The target weights of the slots (R, B, k) for each pass."""
        raise NotImplementedError

    def loss(self, scores: Tensor, wanted: Tensor, filled: Tensor) -> Tensor:
        """(R) the cross-entropy of one pass's gates against `wanted`, summed over the batch."""
        raise NotImplementedError


class SoftmaxSum(Episode):
    """e = Σ_t softmax(g)_t c_t (section 4.1, for bAbI; from memory).

    A further slot comes after the sentences: a learned end-of-passes vector (section 2.3), the target of passes after
    the last supporting fact.
    """

    def __init__(self, restarts: int, d: int) -> None:
        super().__init__()
        self.mark = nn.Parameter(torch.empty(restarts, 1, d))

    def slots(self, c: Tensor, filled: Tensor) -> tuple[Tensor, Tensor]:
        """The sentences and the end-of-passes vector."""
        mark = self.mark.unsqueeze(1).expand(-1, c.shape[1], -1, -1)  # (R, B, 1, d)
        return torch.cat([c, mark], 2), pad(filled, (0, 1), value=True)

    def weights(self, scores: Tensor, filled: Tensor) -> Tensor:
        """The softmax over the slots."""
        return self._logarithms(scores, filled).exp()

    def forward(self, prepared: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum."""
        return (weights.unsqueeze(2) @ prepared).squeeze(2)

    def wanted(self, stories: Stories, passes: int) -> list[Tensor]:
        """Pass i: the i-th supporting fact; the last pass: all others in equal shares; if none is left: the end vector.

        All weights are 0, without supervision, if the fact is no longer in memory.
        """
        supports = stories.supports
        facts = (supports != 0).sum(2)  # (R, B)
        named = supports.unsqueeze(-1) == torch.arange(1, stories.n + 1, device=supports.device)  # (R, B, F, n)
        targets = []
        for number in range(passes):
            until = None if number == passes - 1 else number + 1
            share = named[:, :, number:until].any(2).to(self.mark.dtype)  # (R, B, n)
            share = share / share.sum(-1, keepdim=True).clamp(min=1)
            targets.append(torch.cat([share, (facts <= number).unsqueeze(-1)], -1))
        return targets

    def loss(self, scores: Tensor, wanted: Tensor, filled: Tensor) -> Tensor:
        """The cross-entropy of the softmax."""
        return -(wanted * self._logarithms(scores, filled)).sum((1, 2))

    @staticmethod
    def _logarithms(scores: Tensor, filled: Tensor) -> Tensor:
        least = torch.finfo(scores.dtype).min / 2  # finite, because it is multiplied by a target of 0
        return scores.masked_fill(~filled, least).log_softmax(-1)


class GatedGRU(Episode):
    """h_t = g_t GRU(c_t, h_{t-1}) + (1 - g_t) h_{t-1}, e = h_{T_C}, with g = σ(scores): equation (8)."""

    def __init__(self, restarts: int, d: int) -> None:
        super().__init__()
        self.gru = GRU(restarts, d, d)

    def prepare(self, c: Tensor) -> Tensor:
        """The GRU's projections of the sentences."""
        return self.gru.project(c)

    def weights(self, scores: Tensor, filled: Tensor) -> Tensor:
        """The gates."""
        return scores.sigmoid() * filled

    def forward(self, prepared: Tensor, weights: Tensor) -> Tensor:
        """The state after all sentences, oldest first, each gated."""
        h = prepared.new_zeros(*prepared.shape[:2], self.gru.d)  # (R, B, d)
        gates = weights.unsqueeze(-1).unbind(2)  # k of (R, B, 1)
        for sentence, gate in zip(reversed(prepared.unbind(2)), reversed(gates), strict=True):
            h = torch.lerp(h, self.gru.step(sentence, h), gate)
        return h

    def wanted(self, stories: Stories, passes: int) -> list[Tensor]:
        """Pass i: the i-th supporting fact; the last pass: all others."""
        R, B, F = stories.supports.shape
        slots = torch.arange(1, stories.n + 1, device=stories.supports.device)
        named = stories.supports.unsqueeze(-1) == slots  # (R, B, F, n)
        first, rest = named[:, :, : passes - 1], named[:, :, passes - 1 :]
        missing = passes - 1 - first.shape[2]
        nothing = [named.new_zeros(R, B, stories.n)] * max(0, missing)
        return [*first.unbind(2), *nothing, rest.any(2)] if F else [named.new_zeros(R, B, stories.n)] * passes

    def loss(self, scores: Tensor, wanted: Tensor, filled: Tensor) -> Tensor:
        """The binary cross-entropy of each gate."""
        each = binary_cross_entropy_with_logits(scores, wanted.to(scores.dtype), reduction="none")
        return (each * filled).sum((1, 2))


EPISODES: dict[str, type[SoftmaxSum] | type[GatedGRU]] = {"softmax": SoftmaxSum, "gru": GatedGRU}
"""The forms by `model.episode`."""
