"""Batches without padding: layout, permitted shapes, and where they are used."""

import logging

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from variations.models.kernels import FusedGPU, Reference, varlen
from variations.models.kernels.segments import Packed, pack
from variations.tasks.translation.config import TranslationConfig

SOURCE = torch.tensor([[5, 6, 2, 0], [7, 2, 0, 0], [8, 9, 4, 2]])
TARGET = torch.tensor([[3, 2, 0], [4, 5, 2], [2, 0, 0]])


def test_sentences_lie_end_to_end():
    source, target, packed = pack(SOURCE, TARGET, (9, 6))
    assert source.tolist() == [[5, 6, 2, 7, 2, 8, 9, 4, 2]]
    assert target.tolist() == [[3, 2, 4, 5, 2, 2]]
    assert packed.keys.starts.tolist() == [0, 3, 5, 9]
    assert packed.keys.starts.dtype == torch.int32
    assert packed.keys.positions.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 3]
    assert packed.queries.starts.tolist() == [0, 2, 5, 6]
    assert packed.queries.positions.tolist() == [0, 1, 0, 1, 2, 0]
    assert (packed.keys.longest, packed.queries.longest) == (4, 3)


def test_heads_come_back_as_they_were():
    _, _, packed = pack(SOURCE, TARGET, (9, 6))
    x = torch.randn(1, 2, 9, 3)
    apart = packed.keys.padded(x)
    assert apart.shape == (3, 2, 4, 3)
    assert torch.equal(apart[1, :, :2], x[0, :, 3:5])
    assert torch.equal(packed.keys.packed(apart), x)
    assert packed.keys.seen()[:, 0, 0].tolist() == [[True] * 3 + [False], [True] * 2 + [False] * 2, [True] * 4]


def sentences(lengths):
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]) * torch.arange(1, max(lengths) + 1)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=20))
def test_every_token_keeps_its_place_in_its_sentence(pairs):
    sides = tuple(zip(*pairs, strict=True))
    source, target, packed = pack(*map(sentences, sides), (sum(sides[0]), sum(sides[1])))
    for ids, segments, lengths in ((source, packed.keys, sides[0]), (target, packed.queries, sides[1])):
        places = [place for length in lengths for place in range(length)]
        assert segments.positions.tolist() == places
        assert ids.tolist() == [[place + 1 for place in places]]
        assert segments.starts.diff().tolist() == list(lengths)
        assert segments.longest == max(lengths)


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_within_a_segment(window, causal):
    """Compare with each sentence alone, using explicit attention weights."""
    _, _, packed = pack(SOURCE, SOURCE, (9, 9))
    q, k, v = (torch.randn(1, 2, 9, 8, dtype=torch.float64) for _ in range(3))
    found = Reference().packed_attention(q, k, v, Packed(packed.queries, packed.keys, window), causal, 0.0)
    for start, end in ((0, 3), (3, 5), (5, 9)):
        scores = q[0, :, start:end] @ k[0, :, start:end].transpose(1, 2) / 8**0.5
        distance = torch.arange(end - start)[:, None] - torch.arange(end - start)
        hidden = (distance < 0) & causal | (distance.abs() > (window or 99))
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        torch.testing.assert_close(found[0, :, start:end], weights @ v[0, :, start:end], rtol=0, atol=1e-12)


def gpu(**changes):
    config = TranslationConfig()
    config.profile, config.trainer.precision = "experimental", "bf16-mixed"
    for key, value in changes.items():
        holder = config.trainer if key == "precision" else config if key == "profile" else config.model
        setattr(holder, key, value)
    return config


@pytest.mark.parametrize(
    ("config", "device", "reason"),
    [
        (gpu(), "cuda", None),
        (gpu(kind="weighted", attention_dropout=0.1, attention="restricted", neighbourhood=3), "cuda", None),
        (gpu(), "cpu", "only profile=experimental on a GPU removes padding"),
        (gpu(profile="auto"), "cuda", "only profile=experimental on a GPU removes padding"),
        (gpu(profile="reference"), "cuda", "only profile=experimental on a GPU removes padding"),
        (gpu(precision="32-true"), "cuda", "FlashAttention computes in bf16, not in 32-true"),
        (gpu(attention="additive"), "cuda", "FlashAttention does not support additive attention"),
        (gpu(d_k=16), "cuda", "FlashAttention needs d_k = d_v, a multiple of 8 up to 256, not 16 and 64"),
        (gpu(h=128), "cuda", "FlashAttention needs d_k = d_v, a multiple of 8 up to 256, not 4 and 4"),
        (gpu(h=1), "cuda", "FlashAttention needs d_k = d_v, a multiple of 8 up to 256, not 512 and 512"),
    ],
)
def test_where_batches_keep_their_padding(config, device, reason):
    assert varlen.why_padded(config, device) == reason


@pytest.mark.parametrize("works", [True, False])
def test_a_self_test_precedes_the_first_batch(monkeypatch, caplog, works):
    """On a CPU, without FlashAttention, the self-test fails with a message; kernels that agree pass."""
    monkeypatch.setattr(varlen, "why_padded", lambda config, device: None)
    before = torch.get_rng_state()
    with caplog.at_level(logging.WARNING):
        assert varlen.packs(gpu(), torch.device("cpu"), Reference() if works else FusedGPU()) is works
    told = [record.message for record in caplog.records]
    assert len(told) == (not works)
    assert works or (told[0].startswith("Attention without padding does not run here") and "stay padded" in told[0])
    assert torch.equal(torch.get_rng_state(), before), "the self-test drew from the run's random numbers"


def test_a_kernel_that_is_wrong_is_not_used(monkeypatch, caplog):
    class Wrong(Reference):
        def packed_attention(self, *given, **named):
            return super().packed_attention(*given, **named) * 1.1

    monkeypatch.setattr(varlen, "why_padded", lambda config, device: None)
    with caplog.at_level(logging.WARNING):
        assert not varlen.packs(gpu(), torch.device("cpu"), Wrong())
    assert "Attention without padding is wrong here" in caplog.text
