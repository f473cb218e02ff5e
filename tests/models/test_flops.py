"""MACs by arithmetic are those that torch counts in a forward pass."""

import itertools

import pytest
import torch
from suite import sampled
from torch.utils.flop_counter import FlopCounterMode

from variations.models import build
from variations.models.flops import Tokens, forward_macs
from variations.models.transformer.flops import attention_macs
from variations.tasks.translation.config import TranslationConfig

B, S, T, V = 3, 7, 6, 50
TOKENS = Tokens(B * S, B * T, B * S * S, B * T * T, B * S * T)
RESIDUALS = ("outer", "none", "outer+inner", "per_branch_into_ffn")
KINDS = (("shared", "cross", "none"), ("split", "self", "topk_input"), ("full", "both", "topk"))
"""FFN, decoder and gate."""


def network(kind: str) -> TranslationConfig:
    """N = 1; without biases, which the composed form adds by products of matrices."""
    config = TranslationConfig()
    m = config.model
    m.kind, m.N, m.d_model, m.d_ff, m.h, m.ffn_bias = kind, 1, 16, 24, 4, False
    return config


def counted(config: TranslationConfig) -> int:
    model = build(config, V).train()
    source, target = torch.randint(4, V, (B, S)), torch.randint(4, V, (B, T))
    with FlopCounterMode(display=False) as counter:
        model.logits(model(source, target))
    assert counter.get_total_flops() % 2 == 0
    return int(counter.get_total_flops()) // 2


@pytest.mark.parametrize("tying", ["three_way", "none"])
def test_the_transformer(tying: str) -> None:
    config = network("transformer")
    config.model.tying, config.model.d_k, config.model.d_v, config.model.ffn_bias = tying, 3, 5, True
    assert forward_macs(config, TOKENS, V) == counted(config)


@pytest.mark.parametrize(
    ("residual", "impl", "kinds"), sampled(itertools.product(RESIDUALS, ("composed", "naive"), KINDS), 5)
)
def test_the_weighted_transformer(residual: str, impl: str, kinds: tuple[str, str, str]) -> None:
    config = network("weighted")
    b = config.branch
    b.residual, b.impl, b.gate.k, (b.ffn, b.decoder, b.gate.kind) = residual, impl, 2, kinds
    assert forward_macs(config, TOKENS, V) == counted(config)


@pytest.mark.parametrize("kind", ["transformer", "weighted"])
@pytest.mark.parametrize("attention", ["additive", "restricted"])
def test_other_attention(attention: str, kind: str) -> None:
    """Scores u·tanh(q + k) take d_k multiplications each, as many as q·k. Restricted attention masks all pairs."""
    config = network(kind)
    m = config.model
    m.attention, m.neighbourhood, m.d_k, m.d_v = attention, 1, 3, 5
    if kind == "weighted":
        config.branch.M, config.branch.decoder = 2, "both"
    assert forward_macs(config, TOKENS, V) == counted(config)


def test_attention_by_hand() -> None:
    """h = 4 heads with d_k = 3 and d_v = 5, of d = 16."""
    m = network("transformer").model
    m.d_k, m.d_v = 3, 5
    queries, keys, scores, values = 7 * 16 * 12, 6 * 16 * (12 + 20), 7 * 6 * 12, 7 * 6 * 20
    assert attention_macs(m, 7, 6, 7 * 6, 4) == queries + keys + scores + values == 5_760


@pytest.mark.parametrize(("kind", "form"), [("sinusoidal", "t2t"), ("learned", "paper")])
def test_positions_are_looked_up_and_cost_nothing(kind: str, form: str) -> None:
    config = network("transformer")
    config.positions.kind, config.positions.form = kind, form
    assert forward_macs(config, TOKENS, V) == counted(config) == forward_macs(network("transformer"), TOKENS, V)


@pytest.mark.parametrize("kind", ["transformer", "weighted"])
def test_what_multiplies_no_matrices_costs_nothing(kind: str) -> None:
    config = network(kind)
    plain = forward_macs(config, TOKENS, V)
    m = config.model
    m.norm, m.decoder_start, m.tying, m.task_vectors, m.dropout, m.attention_dropout = (
        "pre",
        "bos",
        "decoder",
        3,
        0.2,
        0.2,
    )
    assert forward_macs(config, TOKENS, V) == counted(config) == plain


@pytest.mark.parametrize("ffn", ["split", "full"])
def test_biases_of_the_branches_are_composed_once(ffn: str) -> None:
    """With a shared FFN the bias is a further row of C_i, which is not counted."""
    config = network("weighted")
    config.branch.wo_bias, config.branch.ffn = "per_branch", ffn
    assert forward_macs(config, TOKENS, V) == counted(config)
