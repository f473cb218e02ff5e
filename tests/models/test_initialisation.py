"""Initial weights: bounds of Xavier's law, of the fused matrices in the paper's code, and of the embeddings."""

import math

import pytest
import torch

from variations.models import build
from variations.tasks.translation.config import TranslationConfig

D, F, H = 64, 256, 4


def network(**settings):
    config = TranslationConfig()
    m = config.model
    m.N, m.d_model, m.d_ff, m.h = 1, D, F, H
    for key, value in settings.items():
        node = config.branch if hasattr(config.branch, key) and not hasattr(m, key) else m
        setattr(node, key, value)
    torch.manual_seed(0)
    return build(config, 1000)


def assert_uniform(weights, bound):
    """Assert at least 2,048 draws of U(-bound, bound): maximum within 1 % of the bound, deviation within 5 %."""
    weights = weights.detach()
    assert weights.numel() >= 2048
    assert float(weights.abs().max()) <= bound + 1e-7
    assert float(weights.abs().max()) >= 0.99 * bound
    assert float(weights.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_fused_queries_keys_and_values_have_the_bound_of_one_wide_matrix():
    model = network()
    assert_uniform(model.encoder[0].self_heads.inputs.weight, math.sqrt(3 / (2 * D)))
    assert_uniform(model.decoder[0].self_heads.inputs.weight, math.sqrt(3 / (2 * D)))
    assert_uniform(model.decoder[0].cross_heads.inputs.weight, math.sqrt(6 / (3 * D)))
    assert_uniform(model.decoder[0].cross_heads.query.weight, math.sqrt(6 / (2 * D)))


def test_fused_gain_is_one_over_root_two_of_separate_matrices():
    fused, separate = (network(**keys).encoder[0].self_heads.inputs.weight for keys in ({}, {"init": "xavier"}))
    assert float((fused.std() / separate.std()).detach()) == pytest.approx(1 / math.sqrt(2), rel=0.05)


def test_xavier_gives_each_of_queries_keys_and_values_its_own_bound():
    model = network(init="xavier", d_k=16, d_v=32)
    widths = [H * 16, H * 16, H * 32]
    for block, width in zip(model.encoder[0].self_heads.inputs.weight.split(widths), widths, strict=True):
        assert_uniform(block, math.sqrt(6 / (D + width)))
    for block, width in zip(model.decoder[0].cross_heads.inputs.weight.split(widths[1:]), widths[1:], strict=True):
        assert_uniform(block, math.sqrt(6 / (D + width)))


def test_output_projection_and_feed_forward_are_xavier():
    layer = network().encoder[0]
    assert_uniform(layer.self_output.output.weight, math.sqrt(6 / (2 * D)))
    assert_uniform(layer.feed_forward.inner.weight, math.sqrt(6 / (D + F)))
    assert_uniform(layer.feed_forward.outer.weight, math.sqrt(6 / (D + F)))


@pytest.mark.parametrize(("ffn", "width"), [("shared", F), ("full", F), ("split", F // H)])
def test_branches_start_as_the_matrices_they_are_blocks_of(ffn, width):
    layer = network(kind="weighted", ffn=ffn).encoder[0].branched.feed_forward
    assert_uniform(layer.output, math.sqrt(6 / (2 * D)))
    assert_uniform(layer.W1, math.sqrt(6 / (D + width)))
    assert_uniform(layer.W2, math.sqrt(6 / (D + width)))


@pytest.mark.parametrize("kind", ["transformer", "weighted"])
def test_biases_start_at_zero_and_norms_as_the_identity(kind):
    model = network(kind=kind, wo_bias="per_branch")
    for name, parameter in model.named_parameters():
        last = name.rsplit(".", 1)[-1]
        if "norm" in name:
            assert torch.equal(parameter, torch.full_like(parameter, float(last == "weight"))), name
        elif last in ("bias", "b1", "b2", "output_bias"):
            assert not parameter.any(), name


def test_embeddings_are_normal_with_deviation_of_d_to_minus_a_half():
    table = network(tying="none").source_embedding.detach()
    assert float(table.std()) == pytest.approx(D**-0.5, rel=0.02)
    assert float(table.abs().max()) > 3 * D**-0.5  # beyond any uniform law with this deviation


@pytest.mark.parametrize(
    ("constraint", "total"),
    [("project", 1), ("softmax", 1), ("softmax_xM", 8), ("renormalise", 1), ("sigmoid", 1), ("none", 1)],
)
@pytest.mark.parametrize("init", ["random", "uniform"])
def test_branch_weights_start_on_the_simplex(constraint, total, init):
    from variations.configuration.transformer import BranchConfig
    from variations.models.transformer.branch_weights import BranchWeights

    torch.manual_seed(0)
    weights = BranchWeights(BranchConfig(constraint=constraint, init=init), 8)
    for value in weights.values():
        value = value.detach()
        assert float(value.sum()) == pytest.approx(total, abs=1e-5)
        assert (value > 0).all()
        spread = float(value.max() / value.min())
        assert spread == pytest.approx(1, abs=1e-4) if init == "uniform" else spread > 1.5
    assert init == "uniform" or not torch.equal(weights.kappa, weights.alpha)
