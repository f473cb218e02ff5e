import gzip
import os
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from variations.system.errors import DataError
from variations.tasks.translation.scoring.bleu import as_dict, moses, multi30k_tokens
from variations.tasks.translation.scoring.ladder import remarks, score_all

DATA = Path(os.environ.get("VARIATIONS_TEST_DATA", Path(__file__).resolve().parents[4] / ".." / "shared" / "data"))

HYPOTHESES = ["the cat sat on the mat .", "a Café-Liebhaber went home early , today ."]
REFERENCES = ["the cat is on the mat .", "the Café-Liebhaber went home early today ."]
FOX = ("the quick brown fox jumps over the lazy dog", "the fast brown fox jumped over the lazy dog")

lines = st.text(alphabet="abAB ,.-'“é", max_size=30)
corpora = st.lists(st.tuples(lines, lines), min_size=1, max_size=5)


def ladder(hypotheses, references, language="de"):
    return {score.name: score for score in score_all(hypotheses, references, language)}


def test_golden_bleu_to_all_digits():
    scores = ladder(HYPOTHESES, REFERENCES)
    for name in ("bleu", "bleu_tok"):
        assert scores[name].value == pytest.approx(44.66042519596863, abs=1e-11)
        assert scores[name].details["precisions"] == pytest.approx(
            [80.0, 61.53846153846154, 36.36363636363637, 22.22222222222222]
        )
        assert scores[name].details["bp"] == 1.0
        assert (scores[name].details["hypothesis_tokens"], scores[name].details["reference_tokens"]) == (15, 14)


def test_golden_bleu_after_compound_splitting():
    score = ladder(HYPOTHESES, REFERENCES)["bleu_split"]
    assert score.value == pytest.approx(55.095453843244776, abs=1e-11)
    assert score.details["precisions"] == pytest.approx(
        [82.3529411764706, 66.66666666666667, 46.15384615384615, 36.36363636363637]
    )
    assert (score.details["hypothesis_tokens"], score.details["reference_tokens"]) == (17, 16)


def test_golden_fox_pair_and_gleu():
    scores = ladder([FOX[0]], [FOX[1]], "en")
    assert scores["bleu"].value == pytest.approx(36.88939732334405, abs=1e-11)
    assert scores["gleu"].value == pytest.approx(46.66666666666667, abs=1e-11)
    assert ladder(HYPOTHESES, REFERENCES)["gleu"].value == pytest.approx(54.16666666666666, abs=1e-11)


@settings(max_examples=40, deadline=None)
@given(corpora)
def test_equals_sacrebleu_on_any_text(pairs):
    ours, theirs = [p[0] for p in pairs], [p[1] for p in pairs]
    scores = ladder(ours, theirs)
    assert scores["bleu"].value == sacrebleu.corpus_bleu(ours, [theirs], force=True).score
    assert scores["bleu_lc"].value == sacrebleu.corpus_bleu(ours, [theirs], lowercase=True, force=True).score
    assert scores["chrf"].value == sacrebleu.corpus_chrf(ours, [theirs]).score
    tokenise = moses("de")
    cut = [[tokenise(line) for line in side] for side in (ours, theirs)]
    expected = sacrebleu.corpus_bleu(cut[0], [cut[1]], tokenize="none", smooth_method="none", force=True).score
    assert scores["bleu_tok"].value == expected


def test_signatures_name_the_settings():
    scores = ladder(["ein Haus steht hier."], ["ein Haus steht hier."])
    version = sacrebleu.__version__
    assert scores["bleu"].signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert scores["bleu_lc"].signature == f"nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:{version}"
    assert scores["bleu_tok"].signature == f"nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:{version}"
    assert scores["chrf"].signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    assert scores["exact_match"].signature is None


def test_primary_score_comes_first_and_each_has_a_convention():
    names = ["bleu", "bleu_lc", "bleu_tok", "bleu_tok_lc", "bleu_split", "chrf", "gleu", "exact_match"]
    scores = score_all(HYPOTHESES, REFERENCES, "de")
    assert [score.name for score in scores] == names
    assert all(score.convention.endswith(".") for score in scores)
    assert [score.name for score in score_all(HYPOTHESES, REFERENCES, "fr")] == [n for n in names if n != "bleu_split"]
    assert list(as_dict(scores)) == names
    assert set(as_dict(scores)["bleu"]) == {"value", "signature", "convention", "details"}


def test_case_matters_only_where_the_convention_says_so():
    scores = ladder(["DER HUND SIEHT EINEN BALL ."], ["der Hund sieht einen Ball ."])
    assert scores["bleu_lc"].value == pytest.approx(100)
    assert scores["bleu_tok_lc"].value == pytest.approx(100)
    assert scores["bleu"].value < 10
    assert scores["exact_match"].value == 0


def test_unicode_punctuation_is_replaced_in_the_output_only():
    ours, theirs = ["er sagte “ja” dazu und ging"], ['er sagte "ja" dazu und ging']
    assert ladder(ours, theirs)["bleu_split"].value == pytest.approx(100)
    assert ladder(theirs, ours)["bleu_split"].value < 60


def test_tokenised_bleu_is_not_smoothed():
    assert ladder(["a b c d"], ["a b x d"])["bleu_tok"].value == 0
    assert ladder(["a b c d"], ["a b x d"])["bleu"].value > 0


def test_exact_match_counts_whole_lines():
    score = ladder(["ja", "nein ", "Nein"], ["ja", "nein", "nein"])["exact_match"]
    assert score.value == pytest.approx(200 / 3)
    assert score.details == {"hits": 2, "lines": 3}


def test_empty_hypotheses_are_scored_and_mentioned():
    assert ladder(["", ""], ["a b c d e", "f"])["bleu"].value == 0
    long = "x y z u"  # below four words BLEU adds its own remark
    found = remarks(["", "a", " "], [long, long, long])
    assert found == ["2 of 3 hypotheses empty (lines 1, 3); they are scored as they are."]
    assert remarks(["a"], [long]) == []


def test_tokenised_looking_text_is_mentioned():
    (remark,) = remarks(["das ist ein Haus ."], ["das ist ein Haus."])
    assert "hypotheses look tokenised" in remark


def test_different_numbers_of_lines_are_refused_with_both_counts():
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        score_all(["a", "b"], ["a"], "de")
    with pytest.raises(DataError, match="no lines"):
        score_all([], [], "de")


def test_multi30k_reference_has_the_published_number_of_tokens():
    path = DATA / "multi30k" / "test_2016_flickr.de.gz"
    if not path.is_file():
        pytest.skip("needs Multi30k below VARIATIONS_TEST_DATA")
    references = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    tokenise = multi30k_tokens("de")
    assert sum(len(tokenise(line).split()) for line in references) == 12_103
    assert sum(len(moses("de")(line).split()) for line in references) == 12_102
