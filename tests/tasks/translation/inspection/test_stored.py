"""A tested run stores attention maps of a few short sentences, within a size limit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from variations.configuration.transformer import ModelConfig
from variations.models import Transformer, build
from variations.store.ledger import RunFolder
from variations.tasks.translation.config import TranslationConfig
from variations.tasks.translation.inspection import stored
from variations.tasks.translation.inspection.stored import store_maps

EOS = 2
VOCABULARY = 30


class Words:
    """Maps each word to one sub-word: its length."""

    def encode(self, lines: list[str]) -> list[list[int]]:
        return [[4 + len(word) for word in line.split()] + [EOS] for line in lines]

    def pieces(self, ids: list[int]) -> list[str]:
        return ["</s>" if i == EOS else f"▁{i}" for i in ids]


@pytest.fixture
def model() -> Transformer:
    config = TranslationConfig()
    config.model = ModelConfig(N=2, d_model=16, d_ff=32, h=4)
    torch.manual_seed(3)
    return build(config, VOCABULARY).eval()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path / "run").create({"seed": 1})
    sources = ["one two three four", "a", "a b c d e f g h i j k l m n o p q", "five six seven", "x yy zzz xx"]
    targets = ["eins zwei drei", "ein", "a b c", "fünf sechs sieben acht", "y xx zzz"]
    for side, lines in (("src", sources), ("hyp", targets)):
        (found.hypotheses / f"dev.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return found


def read(folder: RunFolder) -> dict[str, Any]:
    return json.loads((folder.path / "attention.json").read_text(encoding="utf-8"))


def test_sentences_that_are_too_short_or_too_long_are_passed_over(model: Transformer, folder: RunFolder) -> None:
    store_maps(folder, model, Words(), 2)
    document = read(folder)
    assert [item["source"] for item in document["sentences"]] == ["one two three four", "five six seven"]
    assert "note" not in document


def test_every_layer_and_head_is_there_and_each_query_spends_its_attention(
    model: Transformer, folder: RunFolder
) -> None:
    store_maps(folder, model, Words(), 1)
    (sentence,) = read(folder)["sentences"]
    names = {layer["name"]: layer for layer in sentence["layers"]}
    assert set(names) == {f"{part}.{layer}" for part in ("encoder", "decoder", "cross") for layer in (0, 1)}
    tokens = {
        "source": sentence["source_tokens"],
        "target": sentence["target_tokens"],
        "before": sentence["before_tokens"],
    }
    for layer in sentence["layers"]:
        weights = np.array(layer["weights"])
        assert weights.shape == (4, len(tokens[layer["queries"]]), len(tokens[layer["keys"]]))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=0.0005 * weights.shape[-1])
    assert np.triu(np.array(names["decoder.1"]["weights"]), k=1).max() == 0  # no look-ahead
    assert tokens["before"][0] == "⟨start⟩" and tokens["target"][-1] == "⟨end⟩"


def test_the_file_has_a_limit_and_says_what_it_left_out(
    model: Transformer, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST", 2 * 4 * (5 * 5 + 4 * 4 + 4 * 5))  # exactly the first sentence
    store_maps(folder, model, Words(), 3)
    document = read(folder)
    assert len(document["sentences"]) == 1
    assert document["note"].startswith("1 of 3 sentences")


def test_a_run_whose_translations_are_all_too_long_stores_maps_with_references(
    model: Transformer, folder: RunFolder
) -> None:
    (folder.hypotheses / "dev.ref").write_text((folder.hypotheses / "dev.hyp").read_text())
    (folder.hypotheses / "dev.hyp").write_text("x " * 40 + "\n" + "x " * 40 + "\n" * 4)
    store_maps(folder, model, Words(), 2)
    document = read(folder)
    assert [item["target"] for item in document["sentences"]] == ["eins zwei drei", "fünf sechs sieben acht"]
    assert document["note"].startswith("The targets are references") and document["references"] is True


def test_none_are_stored_where_none_are_wanted_or_nothing_was_translated(
    model: Transformer, folder: RunFolder, tmp_path: Path
) -> None:
    store_maps(folder, model, Words(), 0)
    store_maps(RunFolder(tmp_path / "other").create({"seed": 1}), model, Words(), 3)
    assert list(tmp_path.rglob("attention.json")) == []
