"""Heat maps show the given weights; lines join the right words, in one colour per head."""

import numpy as np
import pytest

from variations.figures.attention import (
    AttentionMap,
    chosen_heads,
    heat_maps,
    lines,
    overview,
    positions_of,
    query_words,
    readable,
)
from variations.system.errors import UserError

WORDS = ("the", "un", "·kind", "Its", "⟨end⟩")
WEIGHTS = np.zeros((3, 5, 5), dtype=np.float32)
WEIGHTS[0] = np.eye(5)
WEIGHTS[1, :, 2] = 1.0
WEIGHTS[2] = 0.2
MAP = AttentionMap("encoder", 5, WEIGHTS, WORDS, WORDS)


def test_subwords_are_readable():
    pieces = ["▁the", "▁un", "kind", "▁", "<unk>", "</s>"]
    assert readable(pieces) == ("the", "un", "·kind", "␣", "⟨unknown⟩", "⟨end⟩")


def test_a_word_is_all_its_pieces_whatever_its_case():
    assert positions_of(MAP, ["UNKIND", "its"]) == [1, 2, 3]
    assert positions_of(MAP, ["kind"]) == []
    assert query_words(MAP) == ["the", "unkind", "Its", "⟨end⟩"]


def test_punctuation_is_no_part_of_the_word_before_it():
    words = ("Hun", "·de", "·.", "⟨end⟩")
    found = AttentionMap("encoder", 1, np.ones((1, 4, 4), dtype=np.float32) / 4, words, words)
    assert query_words(found) == ["Hunde", ".", "⟨end⟩"]
    assert positions_of(found, ["Hunde"]) == [0, 1]


def test_heads_are_counted_from_one():
    assert chosen_heads(MAP, [3, 1]) == [2, 0]
    assert chosen_heads(MAP, None) == [0, 1, 2]
    with pytest.raises(UserError, match=r"encoder self-attention, layer 5 has heads 1 to 3"):
        chosen_heads(MAP, [0, 4])


def test_a_heat_map_holds_the_weights_and_both_sides_words():
    figure = heat_maps(MAP, [1, 2])
    first, second = figure.axes[:2]
    assert (first.get_title(), second.get_title()) == ("head 2", "head 3")
    assert np.array_equal(first.images[0].get_array(), WEIGHTS[1])
    assert first.images[0].get_clim() == (0, 1)
    assert [tick.get_text() for tick in first.get_xticklabels()] == list(WORDS)
    assert [tick.get_text() for tick in first.get_yticklabels()] == list(WORDS)


def test_the_overview_has_a_panel_for_each_layer_and_head():
    other = AttentionMap("encoder", 6, WEIGHTS, WORDS, WORDS)
    panels = [panel for panel in overview([MAP, other]).axes if panel.images]
    assert len(panels) == 6
    assert [panel.get_ylabel() for panel in panels if panel.get_ylabel()] == ["layer 5", "layer 6"]


def test_lines_join_queries_to_keys_as_strong_as_their_weight():
    panel = lines(MAP, [0, 1]).axes[0]
    first, second = panel.collections
    above, below = -0.045, 0.045  # heads that agree are drawn beside each other
    for item, shift, keys in ((first, above, range(5)), (second, below, [2] * 5)):
        ends = [[[0, i + shift], [1, j + shift]] for i, j in enumerate(keys)]
        assert np.allclose([segment.tolist() for segment in item.get_segments()], ends)
    assert tuple(first.get_colors()[0][:3]) != tuple(second.get_colors()[0][:3])
    weak = lines(MAP, [2]).axes[0].collections[0]
    assert weak.get_colors()[0][3] == pytest.approx(0.2)


def test_isolated_words_have_all_lines_and_boxes_of_the_mean_weight():
    panel = lines(MAP, [0, 1], [1, 2]).axes[0]
    assert [len(collection.get_segments()) for collection in panel.collections] == [2, 2]
    alphas = [patch.get_alpha() for patch in panel.patches]
    assert alphas[:5] == [0, 0.5, 0.5, 0, 0]  # head 1: half of "un", half of "·kind"
    assert alphas[5:] == [0, 0, 1, 0, 0]
    bold = [text.get_text() for text in panel.texts if text.get_weight() == "bold"]
    assert bold == ["un", "·kind"]


def test_eight_heads_have_eight_colours():
    eight = AttentionMap("encoder", 1, np.ones((8, 5, 5), dtype=np.float32), WORDS, WORDS)
    drawn = lines(eight, list(range(8))).axes[0].collections
    assert len({tuple(item.get_colors()[0]) for item in drawn}) == 8


def test_words_with_dollar_signs_are_no_formulas(tmp_path):
    from variations.figures.canvas import save, style

    odd = AttentionMap("encoder", 1, np.ones((1, 2, 2), dtype=np.float32) / 2, ("$x_", "y^$"), ("$x_", "y^$"))
    with style():
        for figure in (heat_maps(odd, [0]), lines(odd, [0])):
            assert "$x_" in save(figure, tmp_path / "x.svg").read_text(encoding="utf-8")
