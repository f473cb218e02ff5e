"""Attention maps of sentences: from figures.py and from translate.py, with a small network of random weights."""

import json
import sys
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from variations.commands.figures import FiguresConfig, draw
from variations.configuration.transformer import ModelConfig
from variations.models import build
from variations.store.ledger import RunFolder
from variations.system.errors import UserError
from variations.tasks.sequences.decoding import translator
from variations.tasks.translation import translate as translating
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.inspection import sentences
from variations.tasks.translation.translate import TranslateConfig

EOS, OFFSET = 2, 4


class Letters:
    """Maps each letter to one sub-word; ▁ marks the first letter of a word."""

    def encode(self, lines):
        return [[self._id(word, i) for word in line.split() for i in range(len(word))] + [EOS] for line in lines]

    @staticmethod
    def _id(word, i):
        return OFFSET + (ord(word[i]) - 97) % 26 + (26 if i == 0 else 0)

    def pieces(self, ids):
        return [self._piece(int(i)) for i in ids]

    @staticmethod
    def _piece(i):
        if i < OFFSET:
            return ["<pad>", "<s>", "</s>", "<unk>"][i]
        return ("▁" if i - OFFSET >= 26 else "") + chr(97 + (i - OFFSET) % 26)

    def decode(self, ids):
        return ["".join(self.pieces(i for i in row if i >= OFFSET)).replace("▁", " ").strip() for row in ids]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder whose network reads 12 sub-words and has two layers of four heads."""
    monkeypatch.setattr(translator, "LONGEST_SOURCE", 12)

    def load_model(folder, load_network=None):
        config = TranslationConfig()
        config.model = ModelConfig(N=2, d_model=16, d_ff=32, h=4)
        config.data.max_length, config.decode.max_extra = 12, 3
        torch.manual_seed(2)
        return build(config, OFFSET + 52).eval(), Letters(), config

    def load_network(folder):
        network, _, config = load_model(folder)
        return network, config

    monkeypatch.setattr(translating, "load_model", load_model)
    monkeypatch.setattr("variations.training.weights.load_network", load_network)
    monkeypatch.setattr("variations.tasks.translation.data.subwords.subwords_of", lambda config, folder: Letters())
    folder = RunFolder(tmp_path / "run").create({"seed": 1})
    (folder.hypotheses / "test.src").write_text("ab c\nits law\n", encoding="utf-8")
    return folder.path


def words(path):
    return " ".join("".join(node.itertext()) for node in ElementTree.parse(path).iter() if node.tag.endswith("text"))


@pytest.mark.slow
def test_one_layer_gives_heat_maps_and_lines_of_each_part(run, capsys):
    draw(FiguresConfig(run=str(run), figure="attention", sentence="its law", layer=2, target="ab"))
    shown = capsys.readouterr()
    names = [line.rsplit("/", 1)[1] for line in shown.out.splitlines()]
    parts = ("encoder", "decoder", "cross")
    assert names == [f"attention{kind}-{part}-layer2.svg" for part in parts for kind in ("", "_lines")]
    assert shown.err == "its law\n→ ab\n"
    text = words(run / "figures" / "attention-encoder-layer2.svg")
    assert "encoder self-attention, layer 2" in text and "head 4" in text and "·t" in text and "⟨end⟩" in text
    crossed = words(run / "figures" / "attention-cross-layer2.svg")
    assert "source sub-word" in crossed and "sub-word being predicted" in crossed


@pytest.mark.slow
def test_heads_and_words_are_isolated(run, capsys):
    keys = {"line": 2, "layer": 1, "heads": [2, 3], "words": ["its"], "part": "encoder"}
    draw(FiguresConfig(run=str(run), figure="attention", **keys))
    names = [line.rsplit("/", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert names == ["attention-encoder-layer1-heads2_3.svg", "attention_lines-encoder-layer1-heads2_3-its.svg"]
    text = words(run / "figures" / names[1])
    assert "head 2" in text and "head 3" in text and "head 1" not in text and "head 4" not in text


@pytest.mark.slow
def test_without_a_layer_there_is_an_overview_of_each_part(run, capsys):
    draw(FiguresConfig(run=str(run), figure="attention", format="png"))
    names = [line.rsplit("/", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert names == ["attention-encoder.png", "attention-decoder.png", "attention-cross.png"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"layer": 3}, "layer=3: the model has layers 1 to 2"),
        ({"heads": [5]}, "has heads 1 to 4"),
        ({"words": ["law"], "part": "encoder"}, "these maps have no such words; valid words are encoder: ab c ⟨end⟩"),
        ({"line": 3}, "has 2 lines"),
        ({"sentence": " "}, "contains no sub-words"),
        ({"sentence": "abcdefghijklmnop"}, "has 17 sub-words; the run accepts 12"),
    ],
)
def test_faults_say_what_is_there(run, keys, message):
    with pytest.raises(UserError) as caught:
        draw(FiguresConfig(run=str(run), figure="attention", **keys))
    assert message in str(caught.value)


@pytest.mark.parametrize("keys", [{}, {"layer": 1}])
def test_a_network_without_attention_is_told(run, monkeypatch, keys):
    monkeypatch.setattr(sentences, "attention_weights", lambda *_: [])
    with pytest.raises(UserError, match="nothing to draw: the run's network has no attention"):
        draw(FiguresConfig(run=str(run), figure="attention", **keys))


def translate(run, monkeypatch, capsys, text, **keys):
    file = run / "input"
    file.write_bytes(text)
    with file.open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        translating.translate(TranslateConfig(run=str(run), accelerator="cpu", **keys), None)
    return capsys.readouterr().out


def test_translations_carry_their_attention_in_json(run, monkeypatch, capsys):
    text = b"its law\n\n" + b"abcdefghijklmnop\n"
    out = translate(run, monkeypatch, capsys, text, format="json", attention=True, nbest=2)
    first, empty, long = (json.loads(line) for line in out.splitlines())
    for translation in (*first["translations"], *long["translations"]):
        found = translation["attention"]
        assert len(found["weights"]) == len(found["target"]) > 0
        for row in found["weights"]:
            assert len(row) == len(found["source"])
            assert sum(row) == pytest.approx(1, abs=1e-3)
    assert first["translations"][0]["attention"]["source"] == ["i", "·t", "·s", "l", "·a", "·w", "⟨end⟩"]
    assert len(long["translations"][0]["attention"]["source"]) == long["truncated_to"] == 12
    assert empty["translations"][0]["attention"] is None


def test_one_layer_differs_from_the_mean_of_all(run, monkeypatch, capsys):
    maps = []
    for layer in (1, 2, None):
        out = translate(run, monkeypatch, capsys, b"its", format="json", attention=True, attention_layer=layer)
        maps.append(torch.tensor(json.loads(out)["translations"][0]["attention"]["weights"]))
    assert torch.allclose((maps[0] + maps[1]) / 2, maps[2], atol=2e-4)
    assert not torch.allclose(maps[0], maps[1], atol=1e-3)


@pytest.mark.slow
def test_text_output_has_a_drawing_of_each_line(run, monkeypatch, capsys, tmp_path):
    out = translate(run, monkeypatch, capsys, b"its law\n\nab\n", attention=True, out=str(tmp_path / "maps"))
    assert len(out.splitlines()) == 3
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == ["line-000001.svg", "line-000003.svg"]
    assert "mean over heads and layers" in words(tmp_path / "maps" / "line-000001.svg")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"attention": True}, "add format=json, or out=DIR"),
        ({"out": "x"}, "out is for attention maps: add attention=true"),
        ({"attention": True, "format": "json", "attention_layer": 9}, "attention_layer=9: the model has layers 1 to 2"),
    ],
)
def test_keys_that_do_not_fit_together_are_refused(run, monkeypatch, capsys, keys, message):
    with pytest.raises(UserError) as caught:
        translate(run, monkeypatch, capsys, b"its\n", **keys)
    assert message in str(caught.value)


def test_json_without_attention_is_as_before(run, monkeypatch, capsys):
    out = translate(run, monkeypatch, capsys, b"its\n", format="json")
    assert set(json.loads(out)["translations"][0]) == {"text", "score", "log_probability", "finished"}
