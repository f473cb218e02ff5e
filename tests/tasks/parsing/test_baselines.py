"""Right-branching trees, and the PCFG compared with NLTK's own parser."""

import math
import random

import nltk
import pytest
from parsing_pcfg import Pcfg
from parsing_right_branching import RightBranching

from variations.tasks.parsing.trees import Tree, parse_trees
from variations.tasks.parsing.words import signature

TRAINING = """
(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .))
(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (DT the) (NN cat)) (PP (IN with) (NP (DT the) (NN dog))))) (. .))
(S (NP (DT the) (NN cat)) (VP (VP (VBD saw) (NP (DT the) (NN dog))) (PP (IN with) (NP (DT the) (NN cat)))) (. .))
(S (NP (DT the) (NN dog)) (VP (VBD barked)) (. .))
(S (NP (DT the) (NN cat)) (VP (VBD barked)) (. .))
(S (NP (NNP Ada)) (VP (VBD saw) (NP (DT the) (JJ big) (NN dog))) (. .))
(S (NP (NNP Ada)) (VP (VBD barked) (ADVP (RB loudly))) (. .))
(S (NP (NNP Eve)) (VP (VBD saw) (NP (NNP Ada))) (. .))
"""
TREES = parse_trees(TRAINING)
NOUNS = [["the", "cat"], ["the", "dog"], ["Ada"], ["Bea"], ["the", "big", "dog"]]


def test_right_branching_by_hand() -> None:
    parser = RightBranching(TREES)
    tree = parser.parse(["the", "cat", "saw", "Ada", "."], ["DT", "NN", "VBD", "NNP", "."])
    assert str(tree) == "(S (DT the) (VP (NN cat) (VP (VBD saw) (NNP Ada))) (. .))"


@pytest.mark.parametrize("words", [["Ada"], ["."], ["Ada", "."], [".", "."]])
def test_right_branching_of_short_sentences(words: list[str]) -> None:
    tags = ["NNP" if word == "Ada" else "." for word in words]
    tree = RightBranching(TREES).parse(words, tags)
    assert tree.words() == words
    assert [label for label, *_ in tree.spans()] == ["S"]


@pytest.mark.parametrize(("horizontal", "vertical"), [(0, 0), (1, 0), (1, 1), (2, 1)])
def test_the_chart_finds_what_nltks_viterbi_parser_finds(horizontal: int, vertical: int) -> None:
    """The same grammar, estimated and parsed by NLTK, gives the best tree the same probability."""
    parser = Pcfg(TREES, horizontal, vertical)
    productions = []
    for tree in TREES:
        binary = nltk.Tree.fromstring(f"(TOP {tree})")
        for position in binary.treepositions("leaves"):
            binary[position] = parser.known(binary[position])
        binary.collapse_unary(collapsePOS=True)
        binary.chomsky_normal_form(horzMarkov=horizontal, vertMarkov=vertical, childChar="@")
        productions += binary.productions()
    reference = nltk.ViterbiParser(nltk.induce_pcfg(nltk.Nonterminal("TOP"), productions))
    rng = random.Random(1)
    parsed = 0
    for turn in range(24):
        if turn % 3:  # a sentence of the grammar
            tail = rng.choice(
                [["barked"], ["saw", *rng.choice(NOUNS)], ["saw", *rng.choice(NOUNS), "with", "the", "cat"]]
            )
            words = [*rng.choice(NOUNS), *tail, "."]
        else:
            words = rng.choices(["the", "cat", "saw", "with", "barked", "Bea", "."], k=rng.randint(1, 7))
        best = next(iter(reference.parse([parser.known(word) for word in words])), None)
        tree, cost = parser.parse(words)
        assert (tree is None) == (best is None)
        if tree is not None and best is not None:
            parsed += 1
            assert cost == pytest.approx(math.log(best.prob()), rel=1e-5)
            assert tree.words() == words
    assert parsed > 5  # the comparison is not vacuous


def test_training_sentences_come_back_as_trees_of_the_training_set() -> None:
    parser = Pcfg(TREES)
    tree, cost = parser.parse(["Ada", "saw", "the", "big", "dog", "."])
    assert str(tree) == "(S (NP (NNP Ada)) (VP (VBD saw) (NP (DT the) (JJ big) (NN dog))) (. .))"
    assert -math.inf < cost < 0


def test_a_sentence_beyond_the_grammar_has_no_tree() -> None:
    assert Pcfg(TREES).parse(["the", "the"]) == (None, -math.inf)


def test_labels_with_a_bar_survive_binarisation() -> None:
    (odd,) = parse_trees("(S (ADVP|PRT (RB up) (RB up) (RB up)) (VP (VB go)))")
    assert Pcfg([odd, odd]).parse(odd.words())[0] == odd


def test_unknown_words_are_told_by_their_shape() -> None:
    classes = {signature(word) for word in ("Bea", "1987", "well-known", "walking", "walked", "cat")}
    assert len(classes) == 6
    parser = Pcfg(TREES)
    tree, _ = parser.parse(["Bea", "saw", "the", "dog", "."])
    assert isinstance(tree, Tree)
    assert tree.leaves()[0].label == "NNP"
