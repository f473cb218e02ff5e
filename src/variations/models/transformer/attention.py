"""Multi-head attention (Vaswani et al. 2017, section 3.2.2) and its variants.

Shapes: B sentences, T queries, S keys, h heads of width d_k (queries, keys) and d_v (values), d = d_model.
Every variant is a class with its own `attend`. The caller combines the heads: multi-head attention concatenates them
(`Concatenate`), branched attention sums over them (`branched`).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from variations.configuration.transformer import ModelConfig
from variations.models.doors import construct, resolve
from variations.models.kernels import Reference
from variations.models.kernels.segments import Mask, Packed, near
from variations.system.errors import UserError


@dataclass
class KeyValue:
    """Projected keys and values of one attention, cached between decoding steps."""

    k: Tensor
    """(R, h, S, d_k) for R rows being decoded; for the encoder's output (B, h, S, d_k), one entry per sentence."""
    v: Tensor
    """(R, h, S, d_v), or (B, h, S, d_v)."""

    def append(self, k: Tensor, v: Tensor) -> "KeyValue":
        """A copy extended by later positions."""
        return KeyValue(torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2))

    def select(self, rows: Tensor) -> "KeyValue":
        """A copy with these rows, which may be reordered or repeated."""
        return KeyValue(self.k.index_select(0, rows), self.v.index_select(0, rows))


class Heads(nn.Module):
    """h heads of scaled dot-product attention, before any output projection.

    Args:
        config: The network's shape.
        h: Number of heads, or of branches.
        kernels: Kernels of the device.
        cross: Whether keys and values come from another sequence than the queries.

    A class of another package is constructed with the same arguments; usually it overrides only `attend`.
    """

    self_only: ClassVar[bool] = False
    """Whether cross-attention stays ordinary attention."""

    def __init__(self, config: ModelConfig, h: int, kernels: Reference, *, cross: bool) -> None:
        super().__init__()
        self.h, self.kernels, self.dropout, self.cross = h, kernels, config.attention_dropout, cross
        self.d_k, self.d_v = config.head_widths
        d, bias = config.d_model, config.attention_bias
        # One matrix for all projections of the same input, as in the code behind the paper: it is faster, and the
        # Xavier bounds of the wide matrix are the paper's initialisation.
        widths = [h * self.d_k, h * self.d_k, h * self.d_v]
        self.widths = widths[1:] if cross else widths
        if cross:
            self.query = nn.Linear(d, widths[0], bias)
        self.inputs = nn.Linear(d, sum(self.widths), bias)
        blocks = [self.inputs.weight] if config.init == "fused_qkv" else list(self.inputs.weight.split(self.widths))
        with torch.no_grad():
            for block in [*blocks, self.query.weight] if cross else blocks:
                nn.init.xavier_uniform_(block)
            for layer in (self.query, self.inputs) if cross else (self.inputs,):
                if layer.bias is not None:
                    layer.bias.zero_()

    def _split(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        return x.view(B, T, self.h, -1).transpose(1, 2)  # (B, h, T, d_k or d_v)

    def project(self, memory: Tensor) -> KeyValue:
        """Keys and values for cross-attention: (B, S, d) to (B, h, S, ·)."""
        k, v = (self._split(x) for x in self.inputs(memory).split(self.widths, dim=-1))  # (B, h, S, d_k or d_v)
        if torch.is_grad_enabled():
            return KeyValue(k, v)
        return KeyValue(k.contiguous(), v.contiguous())  # once, rather than in each decoding step

    def self_attend(
        self, x: Tensor, mask: Mask, *, causal: bool, past: KeyValue | None = None
    ) -> tuple[Tensor, KeyValue]:
        """Heads of self-attention.

        Args:
            x: (B, T, d), the positions after `past`.
            mask: Visible positions.
            causal: Whether a position attends only to itself and earlier ones.
            past: Keys and values of earlier positions.

        Returns:
            Heads (B, h, T, d_v), and the keys and values of all positions so far.
        """
        q, k, v = (self._split(part) for part in self.inputs(x).split(self.widths, dim=-1))  # (B, h, T, d_k or d_v)
        seen = past.append(k, v) if past is not None else KeyValue(k, v)
        return self._attended(q, seen, mask, causal=causal), seen

    def cross_attend(self, x: Tensor, memory: KeyValue, mask: Mask) -> Tensor:
        """Heads (R, h, T, d_v) of attention from `x` (R, T, d) to projected `memory` of B sentences, R a multiple of B.

        The rows of a sentence are consecutive, and their queries share its keys.
        """
        q = self._split(self.query(x))  # (R, h, T, d_k)
        R, B, T = q.size(0), memory.k.size(0), q.size(2)
        if R != B:
            q = q.unflatten(0, (B, R // B)).transpose(1, 2).flatten(2, 3)  # (B, h, R/B·T, d_k)
        attended = self._attended(q, memory, mask, causal=False)  # (B, h, R/B·T, d_v)
        if R != B:
            attended = attended.unflatten(2, (R // B, T)).transpose(1, 2).flatten(0, 1)  # (R, h, T, d_v)
        return attended

    def _attended(self, q: Tensor, seen: KeyValue, mask: Mask, *, causal: bool) -> Tensor:
        """What `attend` returns, which a class of another package may have in another shape."""
        attended = self.attend(q, seen, mask, causal=causal)
        wanted, found = (*q.shape[:3], seen.v.shape[-1]), getattr(attended, "shape", None)
        if found != wanted:
            said = type(attended).__name__ if found is None else tuple(found)
            raise UserError(
                f"{type(self).__name__}.attend must return heads of shape (B, h, T, d_v), here {wanted}, but returned "
                f"{said}."
            )
        return attended

    def attend(self, q: Tensor, seen: KeyValue, mask: Mask, *, causal: bool) -> Tensor:
        """softmax(q kᵀ / √d_k) v for every head (eq. 1); see `kernels.Reference.attention`.

        Args:
            q: (B, h, T, d_k).
            seen: Keys (B, h, S, d_k) and values (B, h, S, d_v).
            mask: Visible positions.
            causal: Whether query t attends only to keys up to S - T + t.

        Returns:
            (B, h, T, d_v).
        """
        dropout = self.dropout if self.training else 0.0
        if isinstance(mask, Packed):
            return self.kernels.packed_attention(q, seen.k, seen.v, mask, causal, dropout)
        return self.kernels.attention(q, seen.k, seen.v, mask, causal, dropout)

    def weights(self, q: Tensor, seen: KeyValue, mask: Mask, *, causal: bool) -> Tensor:
        """The attention weights (B, h, T, S), for figures: attention over one-hot values."""
        S = seen.k.size(2)
        one_hot = torch.eye(S, device=q.device, dtype=q.dtype).expand(q.size(0), q.size(1), S, S)
        return self.attend(q, KeyValue(seen.k, one_hot), mask, causal=causal)


class RestrictedHeads(Heads):
    """Self-attention in a neighbourhood of r positions on either side (Vaswani et al. 2017, section 4)."""

    self_only = True

    def __init__(self, config: ModelConfig, h: int, kernels: Reference, *, cross: bool) -> None:
        super().__init__(config, h, kernels, cross=cross)
        if config.neighbourhood is None:
            raise ValueError("restricted attention needs model.neighbourhood")
        self.r = config.neighbourhood

    def attend(self, q: Tensor, seen: KeyValue, mask: Mask, *, causal: bool) -> Tensor:
        """As in `Heads`, with each query restricted to keys at most r positions away."""
        if isinstance(mask, Packed):
            return super().attend(q, seen, Packed(mask.queries, mask.keys, window=self.r), causal=causal)
        T, S = q.size(2), seen.k.size(2)
        everyone = torch.ones((), dtype=torch.bool, device=q.device) if mask is None else mask
        return super().attend(q, seen, near(self.r, T, S, everyone), causal=causal)


class AdditiveHeads(Heads):
    """Additive attention: scores u·tanh(q + k) per head (Bahdanau et al.; compared in section 3.2.1)."""

    def __init__(self, config: ModelConfig, h: int, kernels: Reference, *, cross: bool) -> None:
        super().__init__(config, h, kernels, cross=cross)
        self.energy = nn.Parameter(torch.empty(h, self.d_k))
        nn.init.xavier_uniform_(self.energy)

    def attend(self, q: Tensor, seen: KeyValue, mask: Mask, *, causal: bool) -> Tensor:
        """As in `Heads`, with additive scores; needs B·h·T·S·d_k memory."""
        if isinstance(mask, Packed):
            padded = lambda q, k, v, real: self.attend(q, KeyValue(k, v), real, causal=causal)  # noqa: E731
            return mask.apart(padded, q, seen.k, seen.v)
        energies = torch.tanh(q[:, :, :, None] + seen.k[:, :, None])  # (B, h, T, S, d_k)
        scores = torch.einsum("bhtsd,hd->bhts", energies, self.energy)
        T, S = scores.shape[-2:]
        if causal:
            ahead = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T).logical_not()
            scores = scores.masked_fill(ahead, float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.kernels.dropout(weights, self.dropout if self.training else 0.0) @ seen.v


ATTENTION: dict[str, type[Heads]] = {"dot_product": Heads, "additive": AdditiveHeads, "restricted": RestrictedHeads}
"""Values of `model.attention`."""


def heads(config: ModelConfig, kernels: Reference, *, cross: bool, h: int | None = None) -> Heads:
    """The attention that the configuration names; `h` overrides the number of heads.

    Raises:
        UserError: The class that `model.attention` names is not available, or cannot be constructed.
    """
    kind = resolve("model.attention", config.attention, ATTENTION, Heads)
    if cross and kind.self_only:
        kind = Heads
    return construct("model.attention", config.attention, lambda: kind(config, h or config.h, kernels, cross=cross))


class Concatenate(nn.Module):
    """Concat(head_1 … head_h) W_O, the output projection of multi-head attention."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        _, d_v = config.head_widths
        self.output = nn.Linear(config.h * d_v, config.d_model, config.attention_bias)
        nn.init.xavier_uniform_(self.output.weight)
        if self.output.bias is not None:
            nn.init.zeros_(self.output.bias)

    def forward(self, heads: Tensor) -> Tensor:
        """(B, h, T, d_v) to (B, T, d)."""
        out: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # of (B, T, h·d_v)
        return out
