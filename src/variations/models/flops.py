"""Counted work of a forward pass in multiply-accumulates (MACs), from the configuration alone.

Matrix products only, real tokens only; one training step is taken as 3 forward passes, and a MAC as 2 FLOPs (SPEC
section 4). The composed Weighted Transformer computes its branches again in the backward pass; that is not counted,
as work done twice does not make a model bigger.
"""

from dataclasses import dataclass

from variations.config import BranchConfig, ModelConfig
from variations.config import TransformerConfig as Config


@dataclass(frozen=True)
class Tokens:
    """Sizes of a batch: numbers of real tokens, and sums over sentences of products of their lengths."""

    source: int
    target: int
    source_squared: int
    """Σ s²."""
    target_squared: int
    """Σ t²."""
    product: int
    """Σ s·t."""

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.source + other.source,
            self.target + other.target,
            self.source_squared + other.source_squared,
            self.target_squared + other.target_squared,
            self.product + other.product,
        )


def _head_widths(model: ModelConfig) -> tuple[int, int]:
    return model.d_k or model.d_model // model.h, model.d_v or model.d_model // model.h


def attention_macs(model: ModelConfig, queries: int, keys: int, pairs: int, h: int) -> int:
    """Projections of queries, keys and values and the scores of h heads, without an output projection."""
    d_k, d_v = _head_widths(model)
    project = model.d_model * h * (queries * d_k + keys * (d_k + d_v))
    return project + h * (d_k + d_v) * pairs


def plain_macs(model: ModelConfig, tokens: int) -> int:
    """W_O and the FFN of the plain layer."""
    _, d_v = _head_widths(model)
    return tokens * (model.h * d_v * model.d_model + 2 * model.d_model * model.d_ff)


def branched_macs(model: ModelConfig, branch: BranchConfig, tokens: int) -> int:
    """What replaces W_O and the FFN in a branched sub-layer (SPEC section 3.5), composition of matrices included."""
    M, d, (_, d_v) = branch.M or model.h, model.d_model, _head_widths(model)
    f = {"shared": model.d_ff, "full": model.d_ff, "split": model.d_ff // M}[branch.ffn]
    outputs = M * f * d if branch.ffn != "shared" else f * d  # W_2: one product per branch, or one of the sum
    if branch.impl == "composed":
        return tokens * (M * d_v * f + outputs) + M * d_v * d * f
    if branch.impl == "sum_first":
        return tokens * (M * d_v * d + M * d * f + outputs)
    return tokens * (M * d_v * d + 2 * M * d * f)


def output_macs(model: ModelConfig, tokens: int) -> int:
    """W_O of one multi-head attention."""
    _, d_v = _head_widths(model)
    return tokens * model.h * d_v * model.d_model


def forward_macs(config: Config, tokens: Tokens, vocabulary: int) -> int:
    """MACs of one forward pass over a batch, logits included."""
    model, branch = config.model, config.branch
    weighted = model.kind == "weighted"
    M = branch.M or model.h
    encoder_branched = weighted and branch.encoder
    on_self = weighted and branch.decoder in ("self", "both", "both_shared_ffn")
    on_cross = weighted and branch.decoder in ("cross", "both", "both_shared_ffn")

    layer = attention_macs(
        model, tokens.source, tokens.source, tokens.source_squared, M if encoder_branched else model.h
    )
    layer += branched_macs(model, branch, tokens.source) if encoder_branched else plain_macs(model, tokens.source)
    h_self, h_cross = (M if on_self else model.h), (M if on_cross else model.h)
    layer += attention_macs(model, tokens.target, tokens.target, tokens.target_squared, h_self)
    layer += attention_macs(model, tokens.target, tokens.source, tokens.product, h_cross)
    for branched in (on_self, on_cross):
        layer += branched_macs(model, branch, tokens.target) if branched else output_macs(model, tokens.target)
    if not (on_self or on_cross):
        layer += 2 * tokens.target * model.d_model * model.d_ff
    return model.N * layer + tokens.target * model.d_model * vocabulary


def training_flops(config: Config, tokens: Tokens, vocabulary: int) -> int:
    """FLOPs of forward and backward over a batch: 3 × 2 × MACs."""
    return 6 * forward_macs(config, tokens, vocabulary)
