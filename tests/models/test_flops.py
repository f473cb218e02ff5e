"""MACs by arithmetic are those that torch counts in a forward pass."""

import itertools

import pytest
import torch
from suite import sampled
from torch.utils.flop_counter import FlopCounterMode

from variations.models import build
from variations.models.flops import Tokens, forward_macs
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


@pytest.mark.parametrize("ffn", ["split", "full"])
def test_biases_of_the_branches_are_composed_once(ffn: str) -> None:
    """With a shared FFN the bias is a further row of C_i, which is not counted."""
    config = network("weighted")
    config.branch.wo_bias, config.branch.ffn = "per_branch", ffn
    assert forward_macs(config, TOKENS, V) == counted(config)
