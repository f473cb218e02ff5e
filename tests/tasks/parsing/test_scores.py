"""Scores of a set of parses, and the built-in treebank that they are tested on."""

import numpy as np
import pytest

from variations.tables.significance import paired_bootstrap
from variations.tasks.parsing import scores
from variations.tasks.parsing.evalb import Summary
from variations.tasks.parsing.linearise import Repairs
from variations.tasks.parsing.trees import Tree, parse_trees
from variations.tasks.parsing.trees_toy import generate


def tree(text: str) -> Tree:
    return parse_trees(text)[0]


GOLD = tree("(S (NP (DT the) (NN cat)) (, ,) (VP (VBD sat)) (. .))")


def test_a_wrong_tag_on_punctuation_makes_no_error_of_the_sentence() -> None:
    ours = tree("(S (NP (DT the) (, cat)) (NN ,) (VP (VBN sat)) (. .))")
    mended = scores.with_gold_punctuation(ours, GOLD)
    assert str(mended) == "(S (NP (DT the) (WRONG cat)) (, ,) (VP (VBN sat)) (. .))"
    (sentence,) = scores.compare([GOLD], [ours])
    assert (sentence.status, sentence.matched, sentence.gold, sentence.test) == (0, 3, 3, 3)
    assert (sentence.tags, sentence.words) == (1, 3)


def test_figures_by_hand() -> None:
    flat = tree("(S (DT the) (NN cat) (, ,) (VP (VBD sat)) (. .))")
    sentences = scores.compare([GOLD, GOLD], [GOLD, flat])
    found = scores.figures(sentences, [Repairs(), Repairs(words_added=1)])
    assert (found["recall"], found["precision"]) == (pytest.approx(100 * 5 / 6), 100)
    assert (found["exact"], found["valid"], found["tags"], found["errors"]) == (50, 50, 100, 0)
    assert scores.f1(scores.counts(sentences).sum(0)) == pytest.approx(found["f1"])
    assert scores.f1(np.zeros((2, 7))).tolist() == [0, 0]


def test_lengths_are_told_apart() -> None:
    long = Tree("S", tuple(Tree("NN", word="a") for _ in range(41)))
    table = scores.by_length(scores.compare([GOLD, long], [GOLD, long]), [Repairs(), Repairs()])
    assert {name: row["sentences"] for name, row in table.items()} == {"1-10": 1, "41+": 1}


@pytest.mark.slow
def test_the_built_in_treebank_is_the_same_for_the_same_seed_and_varied() -> None:
    trees = generate(300, seed=1)
    assert trees == generate(300, seed=1) != generate(300, seed=2)
    assert parse_trees("\n".join(map(str, trees))) == trees
    labels = {node.label for each in trees for node in each.nodes() if node.word is None}
    assert labels == {"S", "NP", "VP", "PP", "SBAR", "WHNP", "ADVP", "PRT"}
    assert Summary.of(scores.compare(trees, trees)).f1 == 100


def test_the_bootstrap_over_sentences_sees_a_difference_and_none() -> None:
    trees = generate(60, seed=7)
    flat = [Tree("S", tuple(each.leaves())) for each in trees]
    right, wrong = (scores.counts(scores.compare(trees, side)) for side in (trees, flat))
    found = paired_bootstrap(right, wrong, scores.f1)
    assert found.difference == pytest.approx(100 - scores.f1(wrong.sum(0)))
    assert found.p < 0.01
    assert 0 < found.low < found.difference < found.high
    same = paired_bootstrap(wrong, wrong, scores.f1)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
