"""With copied weights, the network equals torch's: multi-head attention, encoder, decoder layer."""

import pytest
import torch
from torch import nn

from variations.models import build
from variations.tasks.translation.config import TranslationConfig

D, F, H, N = 32, 48, 4, 3
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCE))
SOURCE = torch.tensor([[5, 9, 7, 4, 11, 2], [8, 21, 30, 2, 0, 0]])
REAL = SOURCE.ne(0)


def network(dtype, norm="post", profile="auto", bias=True):
    config = TranslationConfig(profile=profile)
    m = config.model
    m.N, m.d_model, m.d_ff, m.h, m.norm, m.attention_bias = N, D, F, H, norm, bias
    model = build(config, 50).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def copy_attention(ours, output, theirs):
    weights = [ours.inputs.weight] if not ours.cross else [ours.query.weight, ours.inputs.weight]
    biases = [ours.inputs.bias] if not ours.cross else [ours.query.bias, ours.inputs.bias]
    theirs.in_proj_weight.copy_(torch.cat(weights))
    theirs.out_proj.weight.copy_(output.output.weight)
    if theirs.in_proj_bias is not None:
        theirs.in_proj_bias.copy_(torch.cat(biases))
        theirs.out_proj.bias.copy_(output.output.bias)


def copy_linear(ours, theirs):
    theirs.load_state_dict(ours.state_dict())


def torch_encoder(model, dtype, norm):
    layer = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, layer_norm_eps=1e-6, batch_first=True, norm_first=norm == "pre"
    )
    final = nn.LayerNorm(D, eps=1e-6) if norm == "pre" else None
    encoder = nn.TransformerEncoder(layer, N, norm=final, enable_nested_tensor=False).to(dtype)
    with torch.no_grad():
        for ours, theirs in zip(model.encoder, encoder.layers, strict=True):
            copy_attention(ours.self_heads, ours.self_output, theirs.self_attn)
            copy_linear(ours.feed_forward.inner, theirs.linear1)
            copy_linear(ours.feed_forward.outer, theirs.linear2)
            copy_linear(ours.residuals[0].norm, theirs.norm1)
            copy_linear(ours.residuals[1].norm, theirs.norm2)
        if final is not None:
            copy_linear(model.encoder_norm, encoder.norm)
    return encoder


def torch_decoder_layer(ours, dtype, norm):
    theirs = nn.TransformerDecoderLayer(
        D, H, F, dropout=0.0, layer_norm_eps=1e-6, batch_first=True, norm_first=norm == "pre"
    ).to(dtype)
    with torch.no_grad():
        copy_attention(ours.self_heads, ours.self_output, theirs.self_attn)
        copy_attention(ours.cross_heads, ours.cross_output, theirs.multihead_attn)
        copy_linear(ours.feed_forward.inner, theirs.linear1)
        copy_linear(ours.feed_forward.outer, theirs.linear2)
        for i, norm_layer in enumerate((theirs.norm1, theirs.norm2, theirs.norm3)):
            copy_linear(ours.residuals[i].norm, norm_layer)
    return theirs


@DTYPES
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_multi_head_attention(dtype, bias, cross):
    layer = network(dtype, bias=bias).decoder[0]
    ours, output = (layer.cross_heads, layer.cross_output) if cross else (layer.self_heads, layer.self_output)
    theirs = nn.MultiheadAttention(D, H, bias=bias, batch_first=True).to(dtype)
    with torch.no_grad():
        copy_attention(ours, output, theirs)
    x, y = torch.randn(2, 5, D, dtype=dtype), torch.randn(2, 6, D, dtype=dtype)
    if cross:
        found = output(ours.cross_attend(x, ours.project(y), REAL[:, None, None, :]))
        expected, _ = theirs(x, y, y, key_padding_mask=~REAL)
    else:
        found = output(ours.self_attend(x, None, causal=True)[0])
        ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
        expected, _ = theirs(x, x, x, attn_mask=ahead)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("profile", ["auto", "reference"])
def test_encoder(dtype, norm, profile):
    model = network(dtype, norm, profile)
    theirs = torch_encoder(model, dtype, norm)
    found, _ = model.encode(SOURCE)
    x = model.embed(SOURCE, model.source_embedding, model.source_positions)
    expected = theirs.train()(x, src_key_padding_mask=~REAL)  # no dropout is set; evaluation would take the fused path
    torch.testing.assert_close(found[REAL], expected[REAL], rtol=0, atol=TOLERANCE[dtype])
    probe = torch.randn_like(found) * REAL[..., None]
    ours_by = torch.autograd.grad((found * probe).sum(), model.encoder[0].self_heads.inputs.weight)[0]
    theirs_by = torch.autograd.grad((expected * probe).sum(), theirs.layers[0].self_attn.in_proj_weight)[0]
    torch.testing.assert_close(ours_by, theirs_by, rtol=1e-4, atol=10 * TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer(dtype, norm):
    model = network(dtype, norm)
    ours = model.decoder[0]
    theirs = torch_decoder_layer(ours, dtype, norm).train()
    x, memory = torch.randn(2, 5, D, dtype=dtype), torch.randn(2, 6, D, dtype=dtype)
    found = ours(x, ours.start(memory), REAL[:, None, None, :])
    ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(x, memory, tgt_mask=ahead, memory_key_padding_mask=~REAL)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE[dtype])
