"""An exported model compared with its original: CTranslate2 is another implementation of the same layers."""

import pytest
import torch

from variations.models import build
from variations.system.errors import UserError
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.sequences.decoding.translator import Translator
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.exporting import LONGEST, ExportedTranslator

pytest.importorskip("ctranslate2")
EOS = 2
SOURCES = [[5, 9, 7, 4, EOS], [8, EOS], [6, 6, 11, EOS], [4, 5, 6, 7, 8, 9, 10, 11, 12, EOS]]


def network(**changes):
    config = TranslationConfig()
    config.model.N, config.model.d_model, config.model.d_ff, config.model.h = 2, 32, 64, 4
    positions = changes.pop("positions", "sinusoidal")
    config.positions.kind, config.positions.max_length = positions, 40
    for key, value in changes.items():
        setattr(config.model, key, value)
    torch.manual_seed(3)
    model = build(config, 13).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # move biases and gains away from their initial values
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def log_probability(model, source, tokens):
    target = torch.tensor([tokens])
    with torch.no_grad():
        log_p = model.logits(model(torch.tensor([source]), target)).log_softmax(-1)
    return float(log_p[0].gather(1, target[0][:, None]).sum())


def greedy(model, source, length):
    """Return the most probable token at each position given the previous ones, without a cache."""
    tokens = []
    for _ in range(length):
        with torch.no_grad():
            logits = model.logits(model(torch.tensor([source]), torch.tensor([[*tokens, 0]])))
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


def test_a_source_beyond_a_learned_table_reads_its_last_row():
    model = network(positions="learned")  # 40 rows
    source = [*SOURCES[0][:-1]] * 20 + [EOS]
    assert len(source) > 40
    translator = ExportedTranslator(model, None, DecodeConfig(beam=1, alpha=0.0, max_extra=6), max_target=8)
    [[found]] = translator.search([source], progress=False)
    assert found.tokens == greedy(model, source, len(found.tokens))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre"},
        {"decoder_start": "bos"},
        {"tying": "none"},
        {"tying": "decoder"},
        {"attention_bias": True},
        {"positions": "learned"},
    ],
    ids=str,
)
def test_greedy_outputs_and_log_probabilities_are_our_own(changes, alpha):
    model = network(**changes)
    limit = 40 if changes.get("positions") == "learned" else None
    translator = ExportedTranslator(model, None, DecodeConfig(beam=1, alpha=alpha, max_extra=6), max_target=limit)
    for source, (found,) in zip(SOURCES, translator.search(SOURCES, progress=False), strict=True):
        tokens = found.tokens + [EOS] * found.finished
        assert tokens == greedy(model, source, len(tokens))
        assert found.finished or len(tokens) == len(source) + 6  # its source length plus six
        expected = log_probability(model, source, tokens)
        assert found.log_probability == pytest.approx(expected, rel=1e-4)
        assert found.score == pytest.approx(expected / ((5 + len(tokens)) / 6) ** alpha, rel=1e-4)


def test_a_translation_does_not_depend_on_its_neighbours_and_is_as_long_as_its_own_source_allows():
    model, decode = network(), DecodeConfig(beam=1, max_extra=4)
    translator = ExportedTranslator(model, None, decode)
    together = [nbest[0].tokens for nbest in translator.search(SOURCES)]
    assert together == [translator.search([source])[0][0].tokens for source in SOURCES]
    ours = [nbest[0].tokens for nbest in Translator(model, None, decode).search(SOURCES)]
    assert [len(tokens) for tokens in together] == [len(tokens) for tokens in ours]
    assert len(together[3]) == len(SOURCES[3]) + 4  # a sentence that does not end by itself


def test_outputs_may_be_longer_than_the_usual_number_of_positions():
    decode = DecodeConfig(beam=1, max_extra=LONGEST)
    [[found]] = ExportedTranslator(network(), None, decode, max_source=9).search([SOURCES[0]])
    assert len(found.tokens) == len(SOURCES[0]) + LONGEST


def test_a_list_of_translations_is_ranked_and_scored():
    decode = DecodeConfig(beam=4, alpha=0.6, max_extra=6, nbest=4)
    model = network()
    for source, found in zip(SOURCES, ExportedTranslator(model, None, decode).search(SOURCES), strict=True):
        assert len(found) == 4
        for hypothesis in found:
            tokens = hypothesis.tokens + [EOS] * hypothesis.finished
            expected = log_probability(model, source, tokens)
            assert hypothesis.log_probability == pytest.approx(expected, rel=1e-4)
            assert hypothesis.score == pytest.approx(expected / ((5 + len(tokens)) / 6) ** 0.6, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"kind": "weighted"}, "branched"), ({"attention": "additive"}, "additive"), ({"d_k": 4}, "d_k")],
    ids=str,
)
def test_what_the_library_cannot_take_is_told(changes, word):
    with pytest.raises(UserError, match=word):
        ExportedTranslator(network(**changes), None, DecodeConfig())
