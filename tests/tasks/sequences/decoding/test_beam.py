"""Beam search compared with exhaustive search and with a plain beam search, and its edge cases."""

import importlib.util
import math
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from variations.data import special
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.sequences.decoding import beam as beam_module
from variations.tasks.sequences.decoding import greedy as greedy_module
from variations.tasks.sequences.decoding import protocol
from variations.tasks.sequences.decoding.beam import beam_search, length_penalty
from variations.tasks.sequences.decoding.step import best_tokens

spec = importlib.util.spec_from_file_location("decoding_fakes", Path(__file__).with_name("fakes.py"))
assert spec is not None and spec.loader is not None
fakes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fakes)
HashModel, ScriptedModel, exhaustive = fakes.HashModel, fakes.ScriptedModel, fakes.exhaustive

EOS, PAD = 2, 0
SOURCES = [[3, 4, EOS], [4, EOS], [EOS], [3, 3, 4, EOS], [1, EOS]]


def padded(sources):
    longest = max(map(len, sources))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in sources])


def search(model, sources, **options):
    options = {"beam": 4, "alpha": 0.6, "max_extra": 2, "bos": None} | options
    return beam_search(model, padded(sources), **options)


def test_default_identifiers_are_those_of_the_vocabulary():
    assert (protocol.PAD, protocol.BOS, protocol.EOS, protocol.UNK) == (
        special.PAD,
        special.BOS,
        special.EOS,
        special.UNK,
    )


@pytest.mark.parametrize(
    ("alpha", "length", "expected"),
    [
        (0.6, 1, 1.0),
        (0.6, 5, 1.35865518),
        (0.6, 7, 1.51571657),
        (0.6, 10, 1.73286211),
        (0.6, 20, 2.35436208),
        (0.6, 50, 3.77856470),
        (0.3, 10, 1.31638220),
        (0.0, 10, 1.0),
    ],
)
def test_length_penalty_has_the_golden_values(alpha, length, expected):
    assert length_penalty(length, alpha) == pytest.approx(expected, abs=1e-8)


def test_length_penalty_stays_a_number_at_the_largest_bounds():
    bounds = {item.name: item.metadata for item in fields(DecodeConfig)}
    alpha, length = bounds["alpha"]["bounds"]["le"], bounds["max_extra"]["most"]
    found = [length_penalty(each, alpha) for each in (1, 100, 7000, 8000, length)]
    assert found[:3] == [((5 + each) / 6) ** alpha for each in (1, 100, 7000)]
    assert found == sorted(found) and math.isfinite(found[-1])


@pytest.mark.parametrize("beam", [1, 2])
def test_search_ends_where_the_penalty_of_the_longest_output_is_too_large_for_a_float(beam):
    script = {(): {3: 1.0}, (3,): {EOS: 1.0}}
    (best,) = search(ScriptedModel(script), [[3, EOS]], beam=beam, alpha=100.0, max_extra=10_000)[0]
    assert (best.tokens, best.finished) == ([3], True)


def test_longer_hypothesis_of_lower_probability_ranks_first_as_in_the_golden_case():
    short, long = [3, 5, 5, 5], [4, 5, 5, 5, 5, 5, 5, 5]  # |Y| = 5 and 9 with EOS
    script = {(): {3: math.exp(-4.0), 4: math.exp(-4.6)}}
    for tokens in (short, long):
        script |= {tuple(tokens[:at]): {tokens[at]: 1.0} for at in range(1, len(tokens))} | {tuple(tokens): {EOS: 1.0}}
    best, second = search(ScriptedModel(script), [[3, EOS]], max_extra=20, nbest=2)[0]
    assert (best.tokens, second.tokens) == (long, short)
    assert best.score == pytest.approx(-2.766762, abs=1e-6)
    assert second.score == pytest.approx(-2.944088, abs=1e-6)
    assert best.log_probability == pytest.approx(-4.6, abs=1e-6)
    assert search(ScriptedModel(script), [[3, EOS]], max_extra=20, alpha=0.0)[0][0].tokens == short


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_wide_beam_finds_what_exhaustive_search_finds(seed, alpha):
    model = HashModel(seed)
    found = search(model, SOURCES[:3], beam=200, alpha=alpha, nbest=20)
    for source, hypotheses in zip(SOURCES, found, strict=False):
        expected = exhaustive(model, source, len(source) + 2, alpha)[:20]
        assert [h.tokens for h in hypotheses] == [tokens for tokens, _, _ in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score, _ in expected], abs=1e-5)
        assert [h.log_probability for h in hypotheses] == pytest.approx([log_p for _, _, log_p in expected], abs=1e-5)
        assert all(h.finished for h in hypotheses)


@pytest.mark.parametrize("look", [1, 4])
@pytest.mark.parametrize("beam", [2, 3, 7])
@pytest.mark.parametrize("seed", range(5))
def test_equals_a_plain_search_without_early_stop(seed, beam, look, monkeypatch):
    monkeypatch.setattr(beam_module, "look_interval", lambda device: look)
    model = HashModel(seed, vocabulary=7)
    for alpha in (0.0, 0.6, 2.0):
        for nbest in (1, 2):
            found = search(model, SOURCES, beam=beam, alpha=alpha, max_extra=5, nbest=nbest)
            for source, hypotheses in zip(SOURCES, found, strict=True):
                finished, alive = fakes.plain_beam_search(model, source, len(source) + 5, alpha, beam)
                expected = finished or [(t, p / fakes.penalty(len(t), alpha)) for t, p in alive]
                assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in expected[:nbest]]
                assert [h.score for h in hypotheses] == pytest.approx([s for _, s in expected[:nbest]], abs=1e-5)
                assert {h.finished for h in hypotheses} == {bool(finished)}


def test_early_stop_saves_steps():
    script = {(): {EOS: 0.9, 3: 0.1}} | {(3,) * n: {3: 0.5, EOS: 0.5} for n in range(1, 60)}
    steps = []
    model = ScriptedModel(script)
    step = model.decode_step
    model.decode_step = lambda tokens, cache: steps.append(1) or step(tokens, cache)
    (best,) = search(model, [[3, EOS]], max_extra=50)[0]
    assert best.tokens == [] and best.log_probability == pytest.approx(math.log(0.9), abs=1e-6)
    # lp(52) = 9.5^0.6 = 3.86: an alive log P must fall below 3.86 · log 0.9 = -0.41, which happens at once (log 0.1).
    assert len(steps) == 1


@pytest.mark.parametrize("beam", [1, 3])
def test_cached_equals_recomputed(beam):
    for seed in range(3):
        model = HashModel(seed, vocabulary=9)
        options = {"beam": beam, "max_extra": 8, "nbest": beam}
        assert search(model, SOURCES, **options) == search(fakes.RecomputingModel(model), SOURCES, **options)


@pytest.mark.parametrize("beam", [1, 4])
def test_result_does_not_depend_on_the_batch(beam):
    model = HashModel(5, vocabulary=11)
    together = search(model, SOURCES, beam=beam, nbest=beam, max_extra=6)
    alone = [search(model, [source], beam=beam, nbest=beam, max_extra=6)[0] for source in SOURCES]
    assert together == alone
    assert search(model, SOURCES[::-1], beam=beam, nbest=beam, max_extra=6) == alone[::-1]


@pytest.mark.parametrize("look", [1, 4])
def test_beam_of_one_is_greedy(look, monkeypatch):
    monkeypatch.setattr(greedy_module, "look_interval", lambda device: look)
    for seed in range(8):
        model = HashModel(seed, vocabulary=6)
        found = search(model, SOURCES, beam=1, max_extra=6)
        for source, (hypothesis,) in zip(SOURCES, found, strict=True):
            tokens, total = [], 0.0
            while len(tokens) < len(source) + 6 and tokens[-1:] != [EOS]:
                logits = model.logits(source, tokens).clone()
                token = max(range(1, 6), key=lambda candidate: float(logits[candidate]))
                total += model.log_p(source, tokens, token)
                tokens.append(token)
            assert hypothesis.finished == (tokens[-1] == EOS)
            assert hypothesis.tokens == (tokens[:-1] if hypothesis.finished else tokens)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-5)
            assert hypothesis.score == pytest.approx(total / fakes.penalty(len(tokens), 0.6), abs=1e-5)


def test_greedy_stops_at_eos_even_where_going_on_would_score_higher():
    script = {(): {EOS: 0.51, 3: 0.49}} | {(3,) * n: {3: 1.0} for n in range(1, 10)} | {(3,) * 10: {EOS: 1.0}}
    assert search(ScriptedModel(script), [[3, EOS]], beam=1, max_extra=20)[0][0].tokens == []
    assert search(ScriptedModel(script), [[3, EOS]], beam=2, max_extra=20)[0][0].tokens == [3] * 10


@pytest.mark.parametrize("beam", [1, 3])
def test_padding_and_bos_are_never_generated(beam):
    model = HashModel(0, vocabulary=6)
    model.table[:, :2] += 20.0  # by far the most probable
    found = search(model, SOURCES, beam=beam, nbest=beam, bos=1, max_extra=4)
    for hypothesis in (hypothesis for nbest in found for hypothesis in nbest):
        assert not {0, 1} & set(hypothesis.tokens)
        assert hypothesis.log_probability < -10  # the model's own log P, not renormalised


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_longest_output_is_own_source_length_plus_extra_and_unfinished_ones_are_returned(beam):
    model = HashModel(1)
    model.table[:, EOS] = -torch.inf
    found = search(model, SOURCES, beam=beam, nbest=beam, max_extra=3)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        _, alive = fakes.plain_beam_search(model, source, len(source) + 3, 0.6, beam)
        assert [len(h.tokens) for h in hypotheses] == [len(source) + 3] * beam
        assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in alive[:beam]]
        assert not any(h.finished for h in hypotheses)
    lengths = [len(h.tokens) for (h, *_) in search(model, SOURCES, beam=beam, max_extra=3, max_length=5)]
    assert lengths == [5, 5, 4, 5, 5]


@pytest.mark.parametrize("beam", [1, 4])
def test_no_extra_length_and_a_source_of_padding_still_give_one_token(beam):
    model = HashModel(3)
    for hypotheses, source in zip(search(model, SOURCES, beam=beam, max_extra=0), SOURCES, strict=True):
        assert len(hypotheses[0].tokens) + hypotheses[0].finished <= len(source)
    assert len(search(model, [[PAD]], beam=beam, max_extra=0)[0][0].tokens) <= 1


@pytest.mark.parametrize("beam", [1, 3])
def test_model_that_allows_nothing_gives_one_empty_hypothesis(beam):
    for value in (-math.inf, math.nan, math.inf):
        model = HashModel(3)
        model.table[:] = value
        (only,) = search(model, [[3, EOS]], beam=beam, nbest=beam)[0]
        assert only.tokens == [] and only.log_probability == -math.inf and not only.finished


def test_beam_larger_than_the_number_of_outputs_returns_only_possible_ones():
    script = {(): {3: 0.6, EOS: 0.4}, (3,): {EOS: 1.0}}
    found = search(ScriptedModel(script), [[3, EOS]], beam=9, nbest=9)[0]
    assert [h.tokens for h in found] == [[3], []]
    assert [math.exp(h.log_probability) for h in found] == pytest.approx([0.6, 0.4])


def test_equal_candidates_are_taken_in_order_of_beam_and_identifier():
    script = {(): {3: 0.25, 4: 0.25, 5: 0.25, 6: 0.25}} | {(token,): {EOS: 1.0} for token in (3, 4, 5, 6)}
    found = search(ScriptedModel(script), [[3, EOS]], beam=4, nbest=4)[0]
    assert [h.tokens for h in found] == [[3], [4], [5], [6]]


def test_cache_is_left_alone_while_rows_stay_in_place():
    script = {(): {3: 0.5, 4: 0.5}}
    for first in (3, 4):
        script |= {(first, *[5] * n): {5: 1.0} for n in range(6)} | {(first, *[5] * 6): {EOS: 1.0}}
    model = ScriptedModel(script)
    selected = []

    class Counting(fakes.PrefixCache):
        def select(self, rows, sentences=None):
            selected.append(rows.tolist())
            super().select(rows, sentences)

    model.start_cache = Counting
    search(model, [[3, EOS], [4, EOS]], beam=2, nbest=2, max_extra=20)
    assert selected == [[0, 0, 1, 1]]


@pytest.mark.parametrize("beam", [1, 4])
def test_complete_sentences_leave_the_batch(beam):
    model = HashModel(2, vocabulary=8)
    search(model, SOURCES, beam=beam, max_extra=30)
    assert model.rows[0] == len(SOURCES)
    rows = model.rows[1:]
    assert rows == sorted(rows, reverse=True) and rows[-1] < rows[0]


def test_low_precision_logits_are_normalised_in_fp32():
    model = HashModel(4, vocabulary=400, dtype=torch.bfloat16)
    wide = HashModel(4, vocabulary=400)
    wide.table = model.table.float()
    assert search(model, SOURCES, beam=3, nbest=3) == search(wide, SOURCES, beam=3, nbest=3)


@pytest.mark.parametrize("columns", [5, 640, 1031, 5000])
@pytest.mark.parametrize("k", [1, 4])
def test_best_tokens_are_those_of_topk_in_order_of_columns(columns, k):
    scores = -torch.rand(20, columns, generator=torch.Generator().manual_seed(columns))
    values, tokens = best_tokens(scores, k)
    assert tokens.tolist() == [sorted(row) for row in scores.topk(k).indices.tolist()]
    assert torch.equal(values, scores.gather(1, tokens).double())
    coarse = (scores * 10).round()  # many ties: the values are still the largest, the columns distinct
    values, tokens = best_tokens(coarse, k)
    assert torch.equal(values.sort(descending=True)[0], coarse.topk(k)[0].double())
    assert all(len(set(row)) == k for row in tokens.tolist())


def test_empty_batch_gives_nothing():
    assert beam_search(HashModel(0), torch.zeros(0, 3, dtype=torch.int64), beam=4, alpha=0.6, max_extra=5) == []


@pytest.mark.parametrize(
    "options", [{"beam": 0}, {"alpha": -1.0}, {"max_extra": -1}, {"nbest": 5}, {"nbest": 0}, {"max_length": 0}]
)
def test_options_out_of_range_are_named(options):
    (name, value) = next(iter(options.items()))
    with pytest.raises(ValueError, match=f"{name}={value}"):
        search(HashModel(0), SOURCES, **options)


def test_gradients_are_not_recorded():
    recorded = []

    class Learning(HashModel):
        def decode_step(self, tokens, cache):
            recorded.append(super().decode_step(tokens, cache).requires_grad)
            return super().decode_step(tokens, cache)

    model = Learning(0)
    model.table.requires_grad_(True)
    search(model, SOURCES)
    assert recorded and not any(recorded)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("beam", [1, 4])
def test_gpu_gives_what_the_cpu_gives(beam):
    model = HashModel(6, vocabulary=2000)
    on_cpu = search(model, SOURCES, beam=beam, nbest=beam)
    on_gpu = beam_search(model, padded(SOURCES).cuda(), beam=beam, alpha=0.6, max_extra=2, nbest=beam, bos=None)
    assert [[h.tokens for h in found] for found in on_gpu] == [[h.tokens for h in found] for found in on_cpu]
