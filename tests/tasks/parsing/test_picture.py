"""The drawing of two trees marks what EVALB does not match."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variations.tasks.parsing import evalb
from variations.tasks.parsing.picture import MISSED, WRONG, picture
from variations.tasks.parsing.trees import Tree, parse_trees

SVG = "{http://www.w3.org/2000/svg}"


def marked(svg: str, colour: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [text.text or "" for text in root.iter(f"{SVG}text") if text.get("fill") == colour]


def tree(text: str) -> Tree:
    return parse_trees(text)[0]


def test_brackets_that_differ_are_marked() -> None:
    gold = tree("(S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat))) (PRT (RP down))) (. .))")
    ours = tree("(S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on)) (NP (DT the) (NN mat)) (ADVP (RB down)) (. .)))")
    svg = picture(ours, gold)
    assert (marked(svg, WRONG), marked(svg, MISSED)) == (["PP"], ["PP"])
    assert "wrong brackets: 1" in svg
    assert marked(picture(gold, gold), WRONG) == marked(picture(gold, gold), MISSED) == []


def test_words_are_escaped_and_stand_in_their_order() -> None:
    one = tree("(S (NN <b>) (NN &))")
    texts = [text.text for text in ElementTree.fromstring(picture(one, one)).iter(f"{SVG}text")]
    assert [text for text in texts if text in {"<b>", "&"}] == ["<b>", "&"]


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="same words"):
        picture(tree("(S (NN a))"), tree("(S (NN b))"))


def trees(words: list[str]) -> st.SearchStrategy[Tree]:
    """Generate any tree over these words."""
    labels = st.sampled_from(["S", "NP", "ADVP", "PRT", "TOP"])
    if len(words) == 1:
        leaf = Tree("," if words[0] == "," else "NN", word=words[0])
        return st.one_of(st.just(leaf), st.builds(lambda label: Tree(label, (leaf,)), labels))
    split = st.integers(1, len(words) - 1)
    return split.flatmap(
        lambda at: st.builds(
            lambda label, left, right: Tree(label, (left, right)), labels, trees(words[:at]), trees(words[at:])
        )
    )


SENTENCES = st.lists(st.sampled_from(["a", "b", ","]), min_size=1, max_size=6)


@pytest.mark.slow
@given(SENTENCES.flatmap(lambda words: st.tuples(trees(words), trees(words))))
def test_as_many_are_marked_as_evalb_does_not_match(pair: tuple[Tree, Tree]) -> None:
    ours, gold = pair
    sentence = evalb.score_sentence(str(gold), str(ours))
    svg = picture(ours, gold)
    assert len(marked(svg, WRONG)) == sentence.test - sentence.matched
    assert len(marked(svg, MISSED)) == sentence.gold - sentence.matched
