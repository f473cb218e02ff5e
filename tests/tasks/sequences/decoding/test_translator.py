"""Translations come out in the order of the input lines, whatever the lines contain."""

import string
import sys

import pytest
import torch

from variations.system.errors import ConfigError
from variations.tasks.sequences.config import DecodeConfig
from variations.tasks.sequences.decoding.translator import Translator, batches, clean, pad_sources

PAD, BOS, EOS, UNK = 0, 1, 2, 3
LETTERS = string.ascii_lowercase + " "


class Letters:
    """Maps each letter to one identifier; everything else is unknown."""

    def encode(self, lines):
        return [[LETTERS.find(c) + 4 if c in LETTERS else UNK for c in line.strip()] + [EOS] for line in lines]

    def decode(self, ids):
        return ["".join(LETTERS[i - 4] for i in row if i >= 4) for row in ids]


class Rows:
    def __init__(self, source):
        self.source, self.at = source, 0

    def select(self, rows, sentences=None):
        self.source = self.source[rows]


class Copier(torch.nn.Module):
    """Repeats the source with high probability; its second-best output replaces the first letter with z."""

    start_id = PAD

    def __init__(self):
        super().__init__()
        self.shapes, self.modes = [], []

    def start_cache(self, source):
        self.shapes.append(tuple(source.shape))
        self.modes.append(self.training)
        return Rows(source)

    def decode_step(self, tokens, cache):
        at = min(cache.at, cache.source.size(1) - 1)
        wanted = cache.source[:, at].clone()
        wanted[(wanted == PAD) | (cache.at >= cache.source.size(1))] = EOS
        logits = torch.full((len(tokens), len(LETTERS) + 4), -20.0)
        logits[torch.arange(len(tokens)), wanted] = 5.0
        if cache.at == 0:
            logits[:, 4 + LETTERS.index("z")] += 22.0
        cache.at += 1
        return logits


def translator(**options):
    limits = {key: options.pop(key) for key in ("max_source", "max_target") if key in options}
    return Translator(Copier(), Letters(), DecodeConfig(**options), **limits)


LINES = ["a", "the quick brown fox", "", "hello", "   ", "so long a line is rare", "b", "the end"]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("batch_tokens", [1, 60, 4096])
def test_translations_come_in_input_order(beam, batch_tokens):
    found = translator(beam=beam, batch_tokens=batch_tokens).translate(LINES)
    assert [item.source for item in found] == LINES
    assert [item.outputs[0].text for item in found] == [line.strip() for line in LINES]
    assert [item.source_length for item in found] == [len(line.strip()) + 1 for line in LINES]
    assert not any(item.truncated for item in found)


def test_batches_keep_the_token_budget_and_are_sorted_longest_first():
    lengths = [3, 9, 1, 4, 9, 2, 2, 30]
    cut = list(batches(lengths, batch_tokens=40, beam=2))
    assert cut == [[7], [1, 4], [3, 0, 5, 6, 2]]  # a single sentence may exceed the budget
    model = Copier()
    Translator(model, Letters(), DecodeConfig(beam=2, batch_tokens=40)).search([[4] * (n - 1) + [EOS] for n in lengths])
    assert model.shapes == [(1, 30), (2, 9), (5, 4)]


def test_n_best_lists_have_scores_in_order():
    (found,) = translator(beam=4, nbest=2).translate(["hello"])
    assert [output.text for output in found.outputs] == ["hello", "zello"]
    scores = [output.hypothesis.score for output in found.outputs]
    assert scores[0] > scores[1]
    assert scores[0] == pytest.approx(found.outputs[0].hypothesis.log_probability / (11 / 6) ** 0.6)


def test_line_without_text_is_an_empty_translation_and_costs_nothing():
    search = translator(beam=4, nbest=3)
    for item in search.translate(["", " ", "\t", "\x00\x07", "\r"]):
        (output,) = item.outputs
        assert output.text == "" and output.hypothesis.finished
        assert output.hypothesis.score == output.hypothesis.log_probability == 0.0
    assert search.model.shapes == []
    assert search.translate([]) == []


def test_too_long_line_is_truncated_and_marked():
    short, long = translator(max_source=6).translate(["abcde", "abcdef ghi"])
    assert (short.truncated, short.source_length, short.outputs[0].text) == (False, 6, "abcde")
    assert (long.truncated, long.source_length, long.translated_length) == (True, 11, 6)
    assert long.outputs[0].text == "abcde"


def test_output_keeps_to_the_longest_target():
    (found,) = translator(max_target=3).translate(["abcdef"])
    assert found.outputs[0].hypothesis.tokens == [4, 5, 6]
    assert not found.outputs[0].hypothesis.finished


def test_any_line_is_accepted():
    lines = ["日本語", "x" * 3000, "a\x00b\x1b[31mc", "\ud800 lone", "emoji 😀", "\u2028", "\ufeffa", "é\u0301", "ß"]
    found = translator(max_source=50, beam=2).translate(lines)
    assert [item.source for item in found] == lines
    assert found[1].truncated and found[1].outputs[0].text == "x" * 49


def test_control_characters_are_blanks_and_plain_text_is_untouched():
    assert clean("a\x00b\tc\x85d") == "a b c d"
    assert clean("x\ud800y") == "x?y"
    for line in ("", "Ein Hund läuft.", "日本語 \u00a0 \u2009", "a\u00adb"):
        assert clean(line) == line


def test_padding_stands_at_the_end():
    assert pad_sources([[5, 6, 2], [2]]).tolist() == [[5, 6, 2], [2, 0, 0]]


def test_model_is_in_evaluation_mode_only_during_the_call():
    model = Copier()
    model.frozen = torch.nn.Dropout()
    model.frozen.eval()
    Translator(model, Letters(), DecodeConfig()).translate(["a"])
    assert model.modes == [False]
    assert model.training and not model.frozen.training


def test_more_translations_than_beams_is_a_fault_that_names_both_keys():
    with pytest.raises(ConfigError, match=r"decode\.nbest=5 is more than decode\.beam=2.*decode\.beam=5"):
        translator(beam=2, nbest=5)


def test_bar_is_shown_only_on_a_terminal(monkeypatch, capsys):
    translator().translate(["a"])
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    translator().translate(["a", "b"])
    assert capsys.readouterr().out == ""
    translator().translate(["a"], progress=False)
    assert capsys.readouterr() == ("", "")
