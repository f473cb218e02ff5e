"""Parameter counts: an independent closed form for every network, and exact integers for the papers' rows."""

import pytest
import torch

from variations.models import build, count_parameters
from variations.tasks.translation.config import TranslationConfig


def closed_form(config: TranslationConfig, vocabulary: int) -> int:
    """Count parameters by arithmetic (docs/departures.md), independently of the networks' code."""
    m, b = config.model, config.branch
    d, f, biased, ffn_biased = m.d_model, m.d_ff, int(m.attention_bias), int(m.ffn_bias)
    d_k, d_v = m.d_k or d // m.h, m.d_v or d // m.h
    weighted = m.kind == "weighted"
    M = b.M or m.h
    norm = 2 * d
    ffn = 2 * d * f + ffn_biased * (f + d)
    branch_ffn = {
        "shared": ffn,
        "full": M * ffn,
        "split": 2 * d * f + ffn_biased * (f + M * d),
    }[b.ffn]

    def attention(h: int, kind: str) -> int:
        return (d + biased) * h * (2 * d_k + d_v) + (h * d_k if kind == "additive" else 0)

    def heads(h: int, *, cross: bool) -> int:
        return attention(h, m.attention if m.attention == "additive" or not cross else "dot_product")

    def multi_head(*, cross: bool) -> int:
        return heads(m.h, cross=cross) + m.h * d_v * d + biased * d + norm

    def branched(*, cross: bool) -> int:
        extra = {"none": 0, "single": d, "per_branch": M * d}[b.wo_bias] + (norm if b.inner_norm else 0)
        extra += d * M if b.gate.kind == "topk_input" else 0
        return heads(M, cross=cross) + M * d_v * d + 2 * M + extra + branch_ffn + norm

    encoder = branched(cross=False) if weighted and b.encoder else multi_head(cross=False) + ffn + norm
    decoder = {
        "none": multi_head(cross=False) + multi_head(cross=True) + ffn + norm,
        "cross": multi_head(cross=False) + branched(cross=True),
        "self": branched(cross=False) + multi_head(cross=True),
        "both": branched(cross=False) + branched(cross=True),
        "both_shared_ffn": branched(cross=False) + branched(cross=True) - branch_ffn,
    }[b.decoder if weighted else "none"]
    if weighted and b.scope == "shared_enc_dec":
        decoder -= 2 * M * (2 if b.decoder.startswith("both") else 1)
    rows = -(-vocabulary // config.data.vocabulary_pad_to) * config.data.vocabulary_pad_to
    tables = {"three_way": 1, "decoder": 2, "none": 3}[m.tying] * rows + m.task_vectors
    tables += 2 * config.positions.max_length if config.positions.kind == "learned" else 0
    return tables * d + m.N * (encoder + decoder) + (2 * norm if m.norm == "pre" else 0)


def test_count_is_the_closed_form(case):
    assert count_parameters(case.network()) == closed_form(case.config, 50)


def count(vocabulary, *, task_vectors=0, branch=(), **model):
    config = TranslationConfig()
    config.model.task_vectors = task_vectors
    for key, value in model.items():
        assert hasattr(config.model, key)
        setattr(config.model, key, value)
    for key, value in branch:
        assert hasattr(config.branch, key)
        setattr(config.branch, key, value)
    with torch.device("meta"):
        total = count_parameters(build(config, vocabulary))
    assert total == closed_form(config, vocabulary)
    return total


BIG = {"d_model": 1024, "d_ff": 4096, "h": 16}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, 63_082_496),
        (BIG, 214_245_376),
        ({"d_k": 16}, 55_990_784),
        ({"d_model": 1024}, 163_889_152),
    ],
)
def test_exact_counts_with_37000_rows(row, expected):
    assert count(37_000, **row) == expected


def test_exact_counts_of_the_body():
    assert count(37_000) - 37_000 * 512 == 44_138_496
    assert count(37_000, **BIG) - 37_000 * 1024 == 176_357_376


def test_exact_count_under_the_code_s_convention():
    assert count(40_960, task_vectors=32) == 65_126_400


@pytest.mark.parametrize(
    ("row", "printed"),
    [
        ({}, 65),
        ({"d_k": 16}, 58),
        ({"d_k": 32}, 60),
        ({"N": 2}, 36),
        ({"N": 4}, 50),
        ({"N": 8}, 80),
        ({"d_model": 256}, 28),
        ({"d_model": 1024}, 168),
        ({"d_ff": 1024}, 53),
        ({"d_ff": 4096}, 90),
    ],
)
def test_printed_column_of_table_3_with_40960_rows_and_not_with_37000(row, printed):
    row = {"d_v": 64, **row} if "d_k" in row else row
    assert round(count(40_960, task_vectors=32, **row) / 1e6) == printed
    assert round(count(37_000, **row) / 1e6) != printed


def test_big_matches_the_printed_count_under_neither_convention():
    assert round(count(37_000, **BIG) / 1e6) == 214
    assert round(count(40_960, task_vectors=32, **BIG) / 1e6) == 218
    assert int(count(36_549, **BIG) / 1e6) == 213


@pytest.mark.parametrize("h", [1, 4, 16, 32])
def test_rows_a_differ_by_nothing(h):
    assert count(37_000, h=h) == 63_082_496


@pytest.mark.parametrize(
    ("size", "ffn", "change"),
    [({}, "shared", -18_240), (BIG, "shared", -36_480), ({}, "split", 24_768), (BIG, "split", 147_840)],
)
def test_change_of_the_weighted_transformer_against_the_baseline(size, ffn, change):
    weighted = count(40_960, kind="weighted", branch=[("ffn", ffn)], **size)
    assert weighted - count(40_960, **size) == change


@pytest.mark.parametrize(
    ("size", "decoder", "expected"),
    [
        ({}, "cross", 192),
        ({}, "self", 192),
        ({}, "both", 288),
        ({}, "both_shared_ffn", 288),
        ({}, "none", 96),
        (BIG, "cross", 384),
        (BIG, "both", 576),
        (BIG, "none", 192),
    ],
)
def test_number_of_branch_weights(size, decoder, expected):
    config = TranslationConfig()
    config.model.kind, config.branch.decoder = "weighted", decoder
    for key, value in size.items():
        setattr(config.model, key, value)
    with torch.device("meta"):
        model = build(config, 100)
    found = [p.numel() for name, p in model.named_parameters() if name.endswith((".kappa", ".alpha"))]
    assert sum(found) == expected


def test_weights_shared_between_the_stacks_are_192_for_big():
    config = TranslationConfig()
    config.model.kind, config.branch.scope = "weighted", "shared_enc_dec"
    for key, value in BIG.items():
        setattr(config.model, key, value)
    with torch.device("meta"):
        model = build(config, 100)
    assert sum(p.numel() for name, p in model.named_parameters() if name.endswith((".kappa", ".alpha"))) == 192
