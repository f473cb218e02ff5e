"""Trees as lines and back, and lines that are not trees."""

from os import environ
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variations.system.errors import DataError
from variations.tasks.parsing.linearise import Bracketed, Form, Repairs, Tagged, delinearise, linearise
from variations.tasks.parsing.trees import Tree, parse_trees, read_trees

(CAT,) = parse_trees("(TOP (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))")
TAGS = [leaf.label for leaf in CAT.leaves()]

LABELS = st.sampled_from(["S", "NP", "VP", "PP", "ADVP|PRT"])
LEAVES = st.builds(
    lambda tag, word: Tree(tag, word=word),
    st.sampled_from(["DT", "NN", ",", "-LRB-", "PRP$"]),
    st.text(st.characters(categories=["L", "N", "P"], exclude_characters="()"), min_size=1, max_size=4),
)
TREES = st.recursive(
    LEAVES,
    lambda below: st.builds(
        lambda label, children: Tree(label, tuple(children)), LABELS, st.lists(below, min_size=1, max_size=4)
    ),
    max_leaves=30,
)
SYMBOLS = st.lists(st.sampled_from(["S", "NP", "VP", "/S", "/NP", "/VP", "DT", "NN", "unseen", "/", "/unseen"]))


def forms(tree: Tree) -> list[Form]:
    return [Bracketed(), Tagged.of([tree])]


def test_the_golden_lines() -> None:
    assert " ".join(linearise(CAT, Tagged.of([CAT]))) == "S NP DT NN /NP VP VBD PP IN NP DT NN /NP /PP /VP . /S"
    vinyals = "(S (NP XX XX )NP (VP XX (PP XX (NP XX XX )NP )PP )VP XX )S"
    assert " ".join(linearise(CAT, Bracketed())) == vinyals


@pytest.mark.slow
@given(TREES)
def test_back_and_forth_is_the_identity(tree: Tree) -> None:
    for form in forms(tree):
        tags = [leaf.label for leaf in tree.leaves()] if form.name == "vinyals" else None
        assert delinearise(linearise(tree, form), tree.words(), form, tags=tags) == (tree, Repairs())


@pytest.mark.skipif("PTB" not in environ, reason="PTB=FOLDER names a folder of .mrg files")
def test_back_and_forth_is_the_identity_on_the_treebank() -> None:
    trees = read_trees(sorted(Path(environ["PTB"]).rglob("*.mrg")))
    assert trees
    tagged = Tagged.of(trees)
    for tree in trees:
        assert delinearise(linearise(tree, tagged), tree.words(), tagged) == (tree, Repairs())
        tags = [leaf.label for leaf in tree.leaves()]
        assert delinearise(linearise(tree, Bracketed()), tree.words(), Bracketed(), tags=tags) == (tree, Repairs())
        assert parse_trees(str(tree)) == [tree]


@given(SYMBOLS, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=9))
def test_any_line_becomes_a_tree_over_the_sentence(symbols: list[str], words: list[str]) -> None:
    form = Tagged(["S", "NP", "VP"])
    tree, repairs = delinearise(symbols, words, form)
    assert tree.words() == words
    assert all(node.children or node.word for node in tree.nodes())
    assert min(repairs.words_added, repairs.words_dropped) == 0
    rewritten = linearise(tree, form)
    assert (rewritten == symbols) == (not repairs)
    assert delinearise(rewritten, words, form) == (tree, Repairs())


@pytest.mark.parametrize(
    ("line", "expected", "repairs"),
    [
        ("S NP DT NN", "(S (NP (DT a) (NN b)))", Repairs(brackets_added=2)),
        ("S NP DT NN /S", "(S (NP (DT a) (NN b)))", Repairs(brackets_added=1)),
        ("S NP DT /NP /S", "(S (NP (DT a)) (XX b))", Repairs(words_added=1)),
        ("S NP DT /NP", "(S (NP (DT a)) (XX b))", Repairs(words_added=1, brackets_added=1)),
        ("S DT NN /VP NN /S", "(S (DT a) (NN b))", Repairs(words_dropped=1, brackets_dropped=1)),
        ("S NP /NP DT NN /S", "(S (DT a) (NN b))", Repairs(brackets_dropped=1)),
        ("NP DT /NP NP NN /NP", "(S (NP (DT a)) (NP (NN b)))", Repairs(roots_joined=1)),
        ("NP /NP /NP", "(S (XX a) (XX b))", Repairs(words_added=2, brackets_dropped=2, roots_joined=1)),
        ("", "(S (XX a) (XX b))", Repairs(words_added=2, roots_joined=1)),
    ],
)
def test_what_is_mended_and_how_it_is_counted(line: str, expected: str, repairs: Repairs) -> None:
    tree, done = delinearise(line.split(), ["a", "b"], Tagged(["S", "NP", "VP"]))
    assert (str(tree), done) == (expected, repairs)
    assert bool(done)


def test_given_tags_go_before_those_of_the_line() -> None:
    line = "(S (NP XX XX )NP XX )S"
    tree, repairs = delinearise(line.split(), ["The", "cat", "."], Bracketed(), tags=["DT", "NN", "."])
    assert (str(tree), bool(repairs)) == ("(S (NP (DT The) (NN cat)) (. .))", False)
    assert str(delinearise(line.split(), ["The", "cat", "."], Bracketed())[0]).count("XX") == 3


@pytest.mark.parametrize("text", ["(X (X a))", "(S (/X a))"])
def test_labels_that_the_tagged_form_cannot_tell_apart_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"tensor2tensor cannot write .*X.*Use the form vinyals"):
        Tagged.of(parse_trees(text))


@pytest.mark.parametrize("form", [Bracketed(), Tagged([])])
def test_a_sentence_without_words_is_no_sentence(form: Form) -> None:
    with pytest.raises(ValueError, match="at least one word"):
        delinearise([], [], form)
