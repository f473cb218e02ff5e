"""Recorded weights are those that the network used: checked by hand computation, masks and unchanged output."""

import math

import pytest
import torch

from variations.configuration.transformer import ModelConfig
from variations.models import build
from variations.models.kernels import FastCPU, Reference
from variations.models.transformer.attention import Heads, KeyValue, heads
from variations.models.transformer.layers import EncoderLayer
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.inspection.attention import attention_weights, recording

EOS, PAD = 2, 0
SOURCE, TARGET = [5, 9, 7, 4, 6, EOS], [8, 3, 5, EOS]


def network(kind="transformer", *, profile="auto", **model):
    config = TranslationConfig(profile=profile)
    config.model = ModelConfig(kind=kind, N=2, d_model=16, d_ff=32, h=4, **model)
    torch.manual_seed(5)
    return build(config, 13).double()


@pytest.mark.parametrize("kernels", [Reference(), FastCPU()])
def test_weights_equal_a_hand_computation(kernels):
    heads = Heads(ModelConfig(d_model=2, h=1, d_k=2, d_v=2), 1, kernels, cross=False).double().eval()
    q = torch.tensor([[[[1.0, 0.0]]]], dtype=torch.float64)
    k = torch.tensor([[[[math.sqrt(2) * math.log(3), 5.0], [0.0, -7.0], [0.0, 1.0]]]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    with recording(torch.nn.ModuleDict({"only": heads})) as found:
        heads.attend(q, KeyValue(k, k), mask, causal=False)
    # scores (1·√2·ln 3)/√2 = ln 3 and 0: weights 3/4 and 1/4, nothing on the masked key
    assert found["only"][0].tolist() == [[[[pytest.approx(0.75), pytest.approx(0.25), 0.0]]]]


@pytest.mark.parametrize("profile", ["auto", "reference"])
@pytest.mark.parametrize("kind", ["transformer", "weighted"])
@pytest.mark.parametrize("attention", ["dot_product", "additive", "restricted"])
def test_rows_sum_to_one_and_masked_positions_are_zero(kind, attention, profile):
    extra = {"neighbourhood": 1} if attention == "restricted" else {}
    model = network(kind, profile=profile, attention=attention, **extra)
    found = attention_weights(model, SOURCE, TARGET)
    assert [(item.part, item.layer) for item in found] == [
        ("encoder", 1),
        ("encoder", 2),
        ("decoder", 1),
        ("cross", 1),
        ("decoder", 2),
        ("cross", 2),
    ]
    shapes = {"encoder": (1, 4, 6, 6), "decoder": (1, 4, 4, 4), "cross": (1, 4, 4, 6)}
    for item in found:
        assert item.values.shape == shapes[item.part]
        assert torch.allclose(item.values.sum(-1), torch.ones(item.values.shape[:-1]), atol=1e-5)
        if item.part == "decoder":
            assert item.values.triu(1).abs().max() == 0  # no position looks ahead
            assert item.values[0, :, 0, 0].tolist() == [1.0] * 4
        if attention == "restricted" and item.part != "cross":
            assert item.values.triu(2).abs().max() == 0 and item.values.tril(-2).abs().max() == 0


def test_heads_in_other_places_of_a_model_of_ones_own_are_left_out():
    model = network()
    model.mixer = heads(model.config, Reference(), cross=False).double()
    model.late = torch.nn.ModuleList([EncoderLayer(model.config, Reference()).double()])
    encode = model.encode

    def deeper(source, packed=None):
        memory, mask = encode(source, packed)
        model.mixer.self_attend(memory, mask, causal=False)
        return model.late[0](memory, mask), mask

    model.encode = deeper
    assert len(attention_weights(model, SOURCE, TARGET)) == 6


def test_padding_gets_no_weight():
    model = network().eval()
    source = torch.tensor([[5, 9, EOS, PAD, PAD], [5, 9, 7, 4, EOS]])
    with torch.no_grad(), recording(model) as found:
        model.encode(source)
    for name in ("encoder.0.self_heads", "encoder.1.self_heads"):
        assert found[name][0][0, :, :3, 3:].abs().max() == 0
        assert found[name][0][1].min() > 0


def test_the_weights_are_those_that_made_the_heads():
    model = network().eval()
    module = model.encoder[0].self_heads
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    with torch.no_grad(), recording(model) as found:
        heads, seen = module.self_attend(x, None, causal=True)
    assert torch.allclose(found["encoder.0.self_heads"][0] @ seen.v, heads, atol=1e-12)


def test_looking_changes_neither_output_nor_model():
    model = network(dropout=0.5).train()
    source, target = torch.tensor([SOURCE]), torch.tensor([TARGET])
    with torch.no_grad():
        before = model.eval()(source, target)
        model.train()
        attention_weights(model, SOURCE, TARGET)
        assert all(module.training for module in model.modules())
        with recording(model.eval()):
            assert torch.equal(model(source, target), before)
        assert torch.equal(model(source, target), before)
    assert not any("attend" in vars(module) for module in model.modules())


def test_the_wrapping_ends_also_after_a_fault():
    model = network()
    with pytest.raises(RuntimeError, match="stop"), recording(model):
        raise RuntimeError("stop")
    assert not any("attend" in vars(module) for module in model.modules())
