"""Figures of differences from the base row: what is drawn is what the table says."""

from pathlib import Path

import pytest

from variations.configuration.compose import compose_run
from variations.figures.canvas import style
from variations.figures.differences import Difference, Published, differences
from variations.store.rows import define
from variations.tables.drawn import differences as of_table
from variations.tables.drawn import forest
from variations.tables.table import build

ROOT = Path(__file__).resolve().parents[2]


def drawn(rows):
    with style():
        return differences(rows, "test BLEU: difference from base", "A note.")


def recorded(sweep, monkeypatch):
    monkeypatch.chdir(ROOT)
    records = Path("records")
    return build(define(compose_run([f"sweep={sweep}"]).sweep, store=records), records)


def intervals(figure):
    """The horizontal lines of intervals, from top to bottom."""
    lines = [line for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]
    return [tuple(line.get_xdata()) for line in sorted(lines, key=lambda line: line.get_ydata()[0])]


def marks(figure):
    """Places of the dots and diamonds, in the order in which they were drawn."""
    return [tuple(float(x) for x in dots.get_offsets()[0]) for dots in figure.axes[0].collections]


def test_each_row_has_its_interval_and_published_figures_are_above_it():
    figure = drawn(
        [
            Difference("a", -1.0, (-2.0, 0.5), [Published("published, BLEU", -0.5, recalled=False)]),
            Difference("b", 2.0, None, [Published("published, BLEU", 1.5, recalled=True)]),
        ]
    )
    panel = figure.axes[0]
    assert intervals(figure) == [(-2.0, 0.5)]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["a", "b"]
    (a, at_a), (b, at_b), (published_a, above_a), (published_b, above_b) = marks(figure)
    assert (a, b, published_a, published_b) == (-1.0, 2.0, -0.5, 1.5)
    assert above_a < at_a < above_b < at_b, "the y axis points downwards"
    faces = [tuple(dots.get_facecolor()[0][:3]) for dots in panel.collections[2:]]
    assert faces[0] != (1, 1, 1) and faces[1] == (1, 1, 1), "hollow: quoted from memory"
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert key == ["measured", "published, BLEU", "published, BLEU, quoted from memory"]


def test_an_interval_that_would_press_the_others_together_is_cut_and_its_value_is_written():
    rows = [Difference(name, 0.1, (-0.5, 0.7)) for name in "abc"] + [Difference("wild", -50.0, (-150.0, 50.0))]
    figure = drawn(rows)
    low, high = figure.axes[0].get_xlim()
    assert low > -1
    assert high < 1
    assert [text.get_text() for text in figure.axes[0].texts] == ["−50.00"]
    assert "An arrow at the edge: the interval goes on." in figure.get_supxlabel()
    assert "arrow" not in drawn(rows[:3]).get_supxlabel()


def test_published_differences_stand_beside_measured_ones(monkeypatch):
    """Published: Table 1 of Sukhbaatar et al. 2015."""
    table = recorded("babi_memn2n_1k", monkeypatch)
    found = {row.label: row for row in of_table(table)}
    bow = found["MemN2N 3 hops BoW"]
    assert [(mark.value, mark.recalled) for mark in bow.published] == [(pytest.approx(25.1 - 20.3), False)]
    low, high = bow.interval
    assert low < bow.value < high
    assert found["MemN2N 3 hops PE LS"].published[0].recalled
    assert found["LSTM"].published[0].value == pytest.approx(51.3 - 20.3)
    assert "MemN2N 3 hops PE" not in found, "the base row is the zero line"
    other = "MemNN, with word vectors for each hop's fact (v. MemNN, strongly supervised (AM+NG+NL))"
    assert other in found, "a row with another base row names it"
    stem, figure = forest(table)
    assert stem == "differences-test_error"
    said = figure.get_supxlabel()
    assert "95 % intervals: chance in restarts and in questions." in said
    assert "Published figures were measured on the test questions of bAbI 1.2." in said
    axis = figure.axes[0].get_xlabel().replace("\n", " ")
    assert axis.startswith("mean error % (lower is better): difference from MemN2N 3 hops PE")
    assert axis.endswith(", or from the row in brackets")


def test_rows_that_are_not_trained_are_named_and_not_drawn(monkeypatch):
    table = recorded("toy_weighted_readings", monkeypatch)
    untrained = [line.label for line in table.lines if line.untrained]
    assert untrained
    labels = [row.label for row in of_table(table)]
    _, figure = forest(table)
    said = figure.get_supxlabel().replace("\n", " ")
    for label in untrained:
        assert not any(drawn_label.startswith(label) for drawn_label in labels)
        assert f"{label}: not drawn, not trained: " in said


def test_the_interval_of_one_seed_says_what_it_leaves_out(monkeypatch):
    table = recorded("babi_dmn", monkeypatch)
    _, figure = forest(table)
    assert "95 % intervals: chance in questions, not in the seed." in figure.get_supxlabel()
