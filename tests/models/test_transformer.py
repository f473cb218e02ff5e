"""Embedding, tying, decoder start, task vectors and the final norm (Vaswani et al. 2017, section 3)."""

import math

import pytest
import torch
from torch import nn

from variations.models import build, rows_of
from variations.models.transformer.positions import sinusoids
from variations.tasks.translation.config import TranslationConfig

D = 16
SOURCE, TARGET = torch.tensor([[5, 9, 7, 2], [8, 2, 0, 0]]), torch.tensor([[4, 6, 2], [3, 2, 0]])


def network(**settings):
    config = TranslationConfig()
    m = config.model
    m.N, m.d_model, m.d_ff, m.h = 1, D, 32, 2
    for key, value in settings.items():
        assert hasattr(m, key)
        setattr(m, key, value)
    return build(config, 13).eval()


def test_embedding_is_scaled_by_root_d_and_padding_embeds_to_zero():
    model = network()
    x = model.embed(SOURCE, model.source_embedding, model.source_positions)
    PE = sinusoids(4, D)
    expected = math.sqrt(D) * model.source_embedding[SOURCE] + PE
    torch.testing.assert_close(x[SOURCE.ne(0)], expected[SOURCE.ne(0)])
    torch.testing.assert_close(x[1, 2:], PE[2:])


def test_decoding_starts_with_a_vector_of_zeros_or_with_bos():
    seen = []
    for start in ("zero", "bos"):
        model = network(decoder_start=start)
        model.decoder[0].register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
        model(SOURCE, TARGET)
        PE = sinusoids(3, D)
        first = PE[0] + (math.sqrt(D) * model.target_embedding[1] if start == "bos" else 0)
        torch.testing.assert_close(seen[-1][:, 0], first.expand(2, D))
        torch.testing.assert_close(seen[-1][0, 1], math.sqrt(D) * model.target_embedding[4] + PE[1])
        assert model.start_id == {"zero": 0, "bos": 1}[start]


def test_the_last_target_is_never_read():
    model = network()
    other = TARGET.clone()
    other[:, -1] = 11
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, other))


@pytest.mark.parametrize(("tying", "tables"), [("three_way", 1), ("decoder", 2), ("none", 3)])
def test_tying(tying, tables):
    model = network(tying=tying)
    assert len({id(t) for t in (model.source_embedding, model.target_embedding, model.output)}) == tables
    assert (model.source_embedding is model.target_embedding) == (tying == "three_way")
    assert (model.output is model.target_embedding) == (tying != "none")


@pytest.mark.parametrize("tying", ["three_way", "decoder", "none"])
def test_tying_survives_loading(tying):
    model, other = network(tying=tying), network(tying=tying)
    other.load_state_dict(model.state_dict())
    assert (other.output is other.target_embedding) == (tying != "none")
    assert (other.source_embedding is other.target_embedding) == (tying == "three_way")


def test_logits_are_products_with_the_embedding_without_bias():
    model = network()
    hidden = torch.randn(2, 3, D)
    torch.testing.assert_close(model.logits(hidden), hidden @ model.target_embedding.t())


def test_task_vectors_are_added_to_the_encoder_s_input_alone():
    """Only one target language is in use, so only one of the 32 vectors learns."""
    model, plain = network(task_vectors=32), network()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if k != "task"})
    ours, theirs = (m.embed(SOURCE, m.source_embedding, m.source_positions) for m in (model, plain))
    torch.testing.assert_close(ours - theirs, model.task[0].expand(2, 4, D), rtol=0, atol=1e-6)
    ours, theirs = (m.embed(TARGET, m.target_embedding, m.target_positions, 3) for m in (model, plain))
    assert torch.equal(ours, theirs)
    model(SOURCE, TARGET).sum().backward()
    assert model.task.grad[0].any()
    assert not model.task.grad[1:].any()


def test_pre_norm_alone_ends_each_stack_with_a_norm():
    pre, post = network(norm="pre"), network()
    assert isinstance(pre.encoder_norm, nn.LayerNorm)
    assert isinstance(pre.decoder_norm, nn.LayerNorm)
    assert not isinstance(post.encoder_norm, nn.LayerNorm)
    assert not isinstance(post.decoder_norm, nn.LayerNorm)
    assert {layer.eps for layer in pre.modules() if isinstance(layer, nn.LayerNorm)} == {1e-6}


def test_dropout_sites_follow_their_rates():
    """P_drop on embeddings and sub-layers, attention and ReLU dropout: each alone makes training random."""
    for rate in ("dropout", "attention_dropout", "relu_dropout"):
        off = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
        model = network(**(off | {rate: 0.5}))
        still = network(**off).train()
        assert torch.equal(still(SOURCE, TARGET), still(SOURCE, TARGET))
        assert torch.equal(model.eval()(SOURCE, TARGET), model(SOURCE, TARGET))
        assert not torch.equal(model.train()(SOURCE, TARGET), model(SOURCE, TARGET)), rate


@pytest.mark.parametrize(
    ("vocabulary", "pad_to", "rows"), [(37_000, 1, 37_000), (37_000, 40_960, 40_960), (64, 64, 64)]
)
def test_rows_of_the_embedding(vocabulary, pad_to, rows):
    assert rows_of(vocabulary, pad_to) == rows
