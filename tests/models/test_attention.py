"""Attention against numbers computed outside the project and against torch."""

import math

import pytest
import torch
from torch.nn import functional as F

from variations.configuration.transformer import ModelConfig
from variations.models.kernels import FastCPU, Reference
from variations.models.transformer.attention import AdditiveHeads, Concatenate, Heads, KeyValue, RestrictedHeads, heads

Q = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]], dtype=torch.float64)
K = torch.tensor([[[[1.0, 1.0], [0.0, 1.0], [2.0, 0.0]]]], dtype=torch.float64)
V = torch.tensor([[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]], dtype=torch.float64)
WEIGHTS = [
    [0.28399540974126, 0.140029245043378, 0.5759753452153619],
    [0.44580827410760315, 0.44580827410760315, 0.10838345178479354],
]
OUTPUT = [[3.5839598709482035, 4.5839598709482035], [2.3251503553543804, 3.32515035535438]]
KERNELS = pytest.mark.parametrize("kernels", [Reference(), FastCPU()], ids=lambda k: k.name)


def config(**settings):
    return ModelConfig(**({"d_model": 32, "h": 4} | settings))


@KERNELS
def test_outputs(kernels):
    out = kernels.attention(Q, K, V, None, False, 0.0)
    torch.testing.assert_close(out[0, 0], torch.tensor(OUTPUT, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(Q, K, V), rtol=0, atol=1e-12)


@KERNELS
def test_outputs_under_a_mask(kernels):
    mask = torch.tensor([[True, False, False], [True, True, False]])
    out = kernels.attention(Q, K, V, mask, False, 0.0)
    torch.testing.assert_close(
        out[0, 0], torch.tensor([[1.0, 2.0], [2.0, 3.0]], dtype=torch.float64), atol=1e-12, rtol=0
    )


@KERNELS
def test_weights(kernels):
    one_head = Heads(config(d_model=2, h=1), 1, kernels, cross=False).eval()
    weights = one_head.weights(Q, KeyValue(K, V), None, causal=False)
    torch.testing.assert_close(weights[0, 0], torch.tensor(WEIGHTS, dtype=torch.float64), rtol=0, atol=1e-12)


@KERNELS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_heads_equal_torch_s_kernel_and_their_concatenation_is_a_sum_over_blocks_of_w_o(kernels, dtype):
    m = config(d_k=6, d_v=10)
    multi, output = Heads(m, 4, kernels, cross=False).to(dtype).eval(), Concatenate(m).to(dtype)
    x = torch.randn(3, 7, 32, dtype=dtype)
    found, _ = multi.self_attend(x, None, causal=True)
    q, k, v = F.linear(x, multi.inputs.weight, multi.inputs.bias).split([24, 24, 40], dim=-1)
    q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in (q, k, v))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    tolerance = {"rtol": 0, "atol": 1e-6 if dtype == torch.float32 else 1e-12}
    torch.testing.assert_close(found, expected, **tolerance)
    W_O = output.output.weight.t().unflatten(0, (4, 10))
    by_block = sum(found[:, i] @ W_O[i] for i in range(4)) + output.output.bias
    torch.testing.assert_close(output(found), by_block, **tolerance)


@KERNELS
def test_causal_attention_of_later_positions_to_a_longer_past(kernels):
    q, k, v = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 5)
    found = kernels.attention(q, k, v, None, True, 0.0)
    for t in range(4):
        alone = kernels.attention(q[:, :, t : t + 1], k[:, :, : 6 + t], v[:, :, : 6 + t], None, True, 0.0)
        torch.testing.assert_close(found[:, :, t : t + 1], alone, rtol=0, atol=1e-6)


@KERNELS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("r", [1, 3])
def test_restricted_weights_are_zero_beyond_the_neighbourhood(kernels, causal, r):
    restricted = RestrictedHeads(config(attention="restricted", neighbourhood=r), 4, kernels, cross=False).eval()
    q, k = torch.randn(2, 4, 9, 8), torch.randn(2, 4, 9, 8)
    weights = restricted.weights(q, KeyValue(k, k), None, causal=causal)
    far = (torch.arange(9)[:, None] - torch.arange(9)).abs() > r
    assert not weights[:, :, far].any()
    scores = (q @ k.transpose(-2, -1) / math.sqrt(8)).masked_fill(far, -math.inf)
    if causal:
        scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -math.inf)
    torch.testing.assert_close(weights, scores.softmax(-1), rtol=0, atol=1e-6)


@KERNELS
def test_restricted_attention_stays_finite_on_padding_wider_than_the_neighbourhood(kernels):
    restricted = RestrictedHeads(config(attention="restricted", neighbourhood=2), 4, kernels, cross=False)
    mask = (torch.arange(12) < 3)[None, None, None, :]
    out, _ = restricted.self_attend(torch.randn(1, 12, 32), mask, causal=False)
    assert torch.isfinite(out).all()


@KERNELS
def test_a_neighbourhood_beyond_the_sentence_is_ordinary_attention(kernels):
    wide = RestrictedHeads(config(attention="restricted", neighbourhood=50), 4, kernels, cross=False)
    full = Heads(config(), 4, kernels, cross=False)
    full.load_state_dict(wide.state_dict())
    x, real = torch.randn(2, 9, 32), torch.arange(9) < torch.tensor([[9], [5]])
    for causal in (False, True):
        a, b = (one.self_attend(x, real[:, None, None, :], causal=causal)[0].transpose(1, 2) for one in (wide, full))
        torch.testing.assert_close(a[real], b[real], rtol=0, atol=1e-6)


def test_additive_scores_are_u_tanh_of_query_plus_key():
    additive = AdditiveHeads(config(attention="additive"), 4, Reference(), cross=True).eval()
    q, k, v = torch.randn(1, 4, 2, 8), torch.randn(1, 4, 3, 8), torch.randn(1, 4, 3, 8)
    found = additive.attend(q, KeyValue(k, v), torch.tensor([True, True, False])[None, None, None], causal=False)
    energy = additive.energy.detach()
    for head in range(4):
        for t in range(2):
            scores = [float(energy[head] @ torch.tanh(q[0, head, t] + k[0, head, s])) for s in range(2)]
            weights = torch.tensor(scores).softmax(0)
            torch.testing.assert_close(found[0, head, t], weights @ v[0, head, :2], rtol=0, atol=1e-6)


def test_additive_attention_looks_at_no_later_position():
    additive = AdditiveHeads(config(attention="additive"), 4, Reference(), cross=False).eval()
    q, k = torch.randn(1, 4, 2, 8), torch.randn(1, 4, 5, 8)  # the last two of five positions
    weights = additive.weights(q, KeyValue(k, k), None, causal=True)
    for t in range(2):
        scores = torch.einsum("hsd,hd->hs", torch.tanh(q[0, :, t, None] + k[0]), additive.energy.detach())
        torch.testing.assert_close(weights[0, :, t, : 4 + t], scores[:, : 4 + t].softmax(-1), rtol=0, atol=1e-6)
        assert not weights[0, :, t, 4 + t :].any()


def test_restricted_models_read_the_whole_source_and_additive_ones_are_additive_everywhere():
    restricted = config(attention="restricted", neighbourhood=2)
    assert type(heads(restricted, Reference(), cross=False)) is RestrictedHeads
    assert type(heads(restricted, Reference(), cross=True)) is Heads
    assert type(heads(config(attention="additive"), Reference(), cross=True)) is AdditiveHeads


def test_attention_dropout_is_on_the_weights_in_training_alone():
    """At rate 0.5, values of one give the sum of the weights, which is 1 on average but rarely exactly 1."""
    one = Heads(config(attention_dropout=0.5), 4, Reference(), cross=False)
    q, k, v = torch.randn(64, 4, 9, 8), torch.randn(64, 4, 9, 8), torch.ones(64, 4, 9, 8)
    torch.testing.assert_close(one.eval().attend(q, KeyValue(k, v), None, causal=False), v)
    sums = one.train().attend(q, KeyValue(k, v), None, causal=False)[..., 0]
    assert float((sums - 1).abs().min()) < 0.5 < float((sums - 1).abs().max())
    assert float(sums.mean()) == pytest.approx(1, abs=0.05)  # 2,304 sums with deviation at most 1: 2.4 standard errors
