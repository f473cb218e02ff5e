import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate import gleu_score as nltk_gleu

from variations.tasks.translation.scoring.gleu import corpus_gleu, sentence_gleu

HYPOTHESES = ["the cat sat on the mat .", "a Café-Liebhaber went home early , today ."]
REFERENCES = ["the cat is on the mat .", "the Café-Liebhaber went home early today ."]
FOX = ("the quick brown fox jumps over the lazy dog", "the fast brown fox jumped over the lazy dog")

words = st.lists(st.sampled_from("abcd"), max_size=12)
corpora = st.lists(st.tuples(words, words), min_size=1, max_size=6)


def test_golden_values():
    pairs = [(ours.split(), theirs.split()) for ours, theirs in zip(HYPOTHESES, REFERENCES, strict=True)]
    assert sentence_gleu(*pairs[0]) == pytest.approx(0.5909090909090909, abs=1e-15)
    assert sentence_gleu(*pairs[1]) == pytest.approx(0.5, abs=1e-15)
    assert corpus_gleu([p[0] for p in pairs], [p[1] for p in pairs]) == pytest.approx(0.5416666666666666, abs=1e-15)
    assert sentence_gleu(FOX[0].split(), FOX[1].split()) == pytest.approx(0.4666666666666667, abs=1e-15)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(corpora)
def test_equals_nltk(pairs):
    hypotheses, references = [p[0] for p in pairs], [p[1] for p in pairs]
    expected = nltk_gleu.corpus_gleu([[reference] for reference in references], hypotheses)
    assert corpus_gleu(hypotheses, references) == pytest.approx(expected, abs=1e-12)
    for ours, theirs in pairs:
        assert sentence_gleu(ours, theirs) == pytest.approx(nltk_gleu.sentence_gleu([theirs], ours), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(words, words)
def test_is_symmetric_and_between_0_and_1(ours, theirs):
    assert sentence_gleu(ours, theirs) == sentence_gleu(theirs, ours)
    assert 0 <= sentence_gleu(ours, theirs) <= 1
    assert sentence_gleu(ours, ours) == (1 if ours else 0)


def test_sides_of_different_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        corpus_gleu([["a"], ["b"]], [["a"]])
