"""Encoder and decoder layers of the Transformer (Vaswani et al. 2017, section 3.1)."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from variations.configuration.transformer import ModelConfig
from variations.models.kernels import Reference
from variations.models.kernels.segments import Mask, among_queries
from variations.models.transformer.attention import Concatenate, Heads, KeyValue, heads
from variations.models.transformer.feed_forward import FeedForward


@dataclass
class LayerState:
    """The cached keys and values of one decoder layer."""

    memory: KeyValue
    """Keys and values of the encoder's output, computed once; one entry for each sentence."""
    past: KeyValue | None = None
    """Keys and values of previous target positions."""


class Residual(nn.Module):
    """LN(x + drop(f(x))), or with pre-norm x + drop(f(LN(x)))."""

    def __init__(self, config: ModelConfig, kernels: Reference) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.pre, self.rate, self.kernels = config.norm == "pre", config.dropout, kernels

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor], *, keep: bool = True) -> Tensor:
        """Apply the sub-layer `f` to `x` (B, T, d); `keep=False` leaves the residual `x` out of the sum."""
        y = f(self.norm(x) if self.pre else x)
        if self.training:
            y = self.kernels.dropout(y, self.rate)
        y = x + y if keep else y
        return y if self.pre else self.norm(y)


class EncoderLayer(nn.Module):
    """Self-attention, then FFN."""

    def __init__(self, config: ModelConfig, kernels: Reference) -> None:
        super().__init__()
        self.self_heads = heads(config, kernels, cross=False)
        self.self_output = Concatenate(config)
        self.feed_forward = FeedForward(config, kernels)
        self.residuals = nn.ModuleList(Residual(config, kernels) for _ in range(2))

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """(B, S, d) to (B, S, d); `mask` (B, 1, 1, S) is True at real tokens, None if all are; or the segments."""
        x = self.residuals[0](x, lambda y: self.self_output(self.self_heads.self_attend(y, mask, causal=False)[0]))
        x = self.residuals[1](x, self.feed_forward)
        return x


class IncrementalLayer(nn.Module):
    """Base of decoder layers: two attentions, whose keys and values are cached between decoding steps."""

    self_heads: Heads
    cross_heads: Heads

    def start(self, memory: Tensor) -> LayerState:
        """State before the first target position: `memory` (B, S, d) is projected once."""
        return LayerState(self.cross_heads.project(memory))

    def self_attend(self, x: Tensor, state: LayerState, mask: Mask) -> Tensor:
        """Heads (B, h, T, d_v) of masked self-attention; `mask` is that of the source. Extends the state by `x`."""
        attended, state.past = self.self_heads.self_attend(x, among_queries(mask), causal=True, past=state.past)
        return attended


class DecoderLayer(IncrementalLayer):
    """Masked self-attention, attention to the encoder's output, then FFN."""

    def __init__(self, config: ModelConfig, kernels: Reference) -> None:
        super().__init__()
        self.self_heads = heads(config, kernels, cross=False)
        self.self_output = Concatenate(config)
        self.cross_heads = heads(config, kernels, cross=True)
        self.cross_output = Concatenate(config)
        self.feed_forward = FeedForward(config, kernels)
        self.residuals = nn.ModuleList(Residual(config, kernels) for _ in range(3))

    def forward(self, x: Tensor, state: LayerState, mask: Mask) -> Tensor:
        """(B, T, d) to (B, T, d); `mask` is True at real source tokens, (B, 1, 1, S), or the segments."""
        x = self.residuals[0](x, lambda y: self.self_output(self.self_attend(y, state, mask)))
        x = self.residuals[1](x, lambda y: self.cross_output(self.cross_heads.cross_attend(y, state.memory, mask)))
        x = self.residuals[2](x, self.feed_forward)
        return x
