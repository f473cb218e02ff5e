"""Multiply-accumulates (MACs) of a forward pass: matrix products on real tokens only.

The composed Weighted Transformer recomputes its branches in the backward pass, which is not counted. Arguments
`tokens`, `queries` and `keys` are numbers of positions in a batch, `pairs` is the number of query-key pairs.
"""

from variations.configuration.transformer import BranchConfig, ModelConfig
from variations.models.network import Tokens


def attention_macs(model: ModelConfig, queries: int, keys: int, pairs: int, h: int) -> int:
    """Projections of queries, keys and values, scores and weighted sums of h heads, without an output projection."""
    d_k, d_v = model.head_widths
    project = model.d_model * h * (queries * d_k + keys * (d_k + d_v))
    return project + h * (d_k + d_v) * pairs


def output_macs(model: ModelConfig, tokens: int) -> int:
    """W_O of one multi-head attention."""
    _, d_v = model.head_widths
    return tokens * model.h * d_v * model.d_model


def feed_forward_macs(model: ModelConfig, tokens: int) -> int:
    """W_1 and W_2 of one FFN."""
    return 2 * tokens * model.d_model * model.d_ff


def branched_macs(model: ModelConfig, branch: BranchConfig, tokens: int) -> int:
    """W_O and FFN of a branched sub-layer, or their composed form with the composition itself (docs/paper.md)."""
    M, d, (_, d_v), f = branch.branches(model), model.d_model, model.head_widths, branch.ffn_width(model)
    gate = d * M if branch.gate.kind == "topk_input" else 0
    if branch.impl == "naive":
        return tokens * (M * d_v * d + 2 * M * d * f + gate)  # W_O^i, then W_1 and W_2 of each branch
    ffns = 1 if branch.ffn == "shared" else M
    residual = {"per_branch_into_ffn": ffns * d * f, "outer+inner": M * d_v * d}.get(branch.residual, 0)  # x W_1; W_O^i
    composing = M * d_v * d * f + (M * d * f if branch.wo_bias != "none" else 0)  # W_O^i W_1; b_O^i W_1
    return tokens * (M * d_v * f + ffns * f * d + residual + gate) + composing  # C_i, W_2


def transformer_macs(model: ModelConfig, tokens: Tokens, vocabulary: int) -> int:
    """The whole Transformer."""
    s, t, h = tokens.source, tokens.target, model.h
    encoder = attention_macs(model, s, s, tokens.source_squared, h)
    encoder += output_macs(model, s) + feed_forward_macs(model, s)
    decoder = attention_macs(model, t, t, tokens.target_squared, h) + output_macs(model, t)
    decoder += attention_macs(model, t, s, tokens.product, h) + output_macs(model, t)
    decoder += feed_forward_macs(model, t)
    return model.N * (encoder + decoder) + t * model.d_model * (model.target_vocabulary or vocabulary)


def weighted_macs(model: ModelConfig, branch: BranchConfig, tokens: Tokens, vocabulary: int) -> int:
    """The whole Weighted Transformer: the same except for sub-layers with M branches."""
    s, t, h, M = tokens.source, tokens.target, model.h, branch.branches(model)
    encoder = attention_macs(model, s, s, tokens.source_squared, M if branch.encoder else h)
    if branch.encoder:
        encoder += branched_macs(model, branch, s)
    else:
        encoder += output_macs(model, s) + feed_forward_macs(model, s)
    decoder = attention_macs(model, t, t, tokens.target_squared, M if branch.on_self else h)
    decoder += attention_macs(model, t, s, tokens.product, M if branch.on_cross else h)
    for branched in (branch.on_self, branch.on_cross):
        decoder += branched_macs(model, branch, t) if branched else output_macs(model, t)
    if not (branch.on_self or branch.on_cross):
        decoder += feed_forward_macs(model, t)
    return model.N * (encoder + decoder) + t * model.d_model * (model.target_vocabulary or vocabulary)
