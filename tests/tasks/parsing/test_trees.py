"""Reading, cleaning and writing trees."""

import gzip
from pathlib import Path

import pytest

from variations.system.errors import DataError
from variations.tasks.parsing.trees import Tree, parse_trees, plain_label, read_trees

CAT = "(S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .))"


def test_the_spans_of_the_golden_tree() -> None:
    (tree,) = parse_trees(f"(TOP {CAT})")
    assert tree.spans() == [("S", 0, 7), ("NP", 0, 2), ("VP", 2, 6), ("PP", 3, 6), ("NP", 4, 6)]
    assert tree.words() == ["The", "cat", "sat", "on", "the", "mat", "."]
    assert str(tree) == CAT


def test_a_tree_over_many_lines_with_functions_and_traces() -> None:
    text = """
    ( (S
        (NP-SBJ-1 (NNP Ada) )
        (VP (VBD was)
          (VP (VBN seen)
            (NP (-NONE- *-1) )
            (SBAR (-NONE- 0)
              (S (-NONE- *T*-2) ))))
        (PRN (-LRB- -LRB-) (NP=3 (CD 7) ) (-RRB- -RRB-) )
        (. .) ))
    """
    (tree,) = parse_trees(text)
    cleaned = "(S (NP (NNP Ada)) (VP (VBD was) (VP (VBN seen))) (PRN (-LRB- -LRB-) (NP (CD 7)) (-RRB- -RRB-)) (. .))"
    assert str(tree) == cleaned


@pytest.mark.parametrize("root", ["", "TOP", "ROOT", "S1"])
def test_the_outer_bracket_is_taken_off(root: str) -> None:
    assert parse_trees(f"({root} (NP (NN cat)))") == [Tree("NP", (Tree("NN", word="cat"),))]


def test_a_root_with_two_children_stays() -> None:
    assert str(parse_trees("( (NP (NN cat)) (. .))")[0]) == "(TOP (NP (NN cat)) (. .))"


def test_chains_stay_and_trees_without_words_go() -> None:
    assert [str(tree) for tree in parse_trees("(S (NP (NP (NN cat)))) (S (-NONE- *))")] == ["(S (NP (NP (NN cat))))"]


def test_two_trees_on_a_line_and_none() -> None:
    assert len(parse_trees("(NP (NN a)) (NP (NN b))\n\n(NN c)")) == 3
    assert parse_trees(" \n") == []


@pytest.mark.parametrize(("label", "plain"), [("NP-SBJ", "NP"), ("NP=2", "NP"), ("-LRB-", "-LRB-"), ("PRP$", "PRP$")])
def test_functions_are_cut_off(label: str, plain: str) -> None:
    assert plain_label(label) == plain


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("(S (NN a)", "line 1, column 1", "never closed"),
        ("(S (NN a)))", "line 1, column 11", "without an opening one"),
        ("(S (NN a))\ncat", "line 2, column 1", "cat outside all brackets"),
        ("(S\n  (NP the cat))", "line 2, column 11", "cat beside another element"),
        ("(S (NP (NN a) b))", "line 1, column 15", "b beside another element"),
        ("(S (NN co\x97op))", "line 1, column 8", r"the control character 'co\\x97op' in a word or label"),
        ("(S (NP a (NN b)))", "line 1, column 10", "a bracket beside a word"),
        ("(S (NP))", "line 1, column 4", "without a word or a constituent"),
        ("(S ((NN a)))", "line 1, column 4", "without a label"),
    ],
)
def test_a_fault_is_named_by_line_and_column(text: str, place: str, what: str) -> None:
    with pytest.raises(DataError, match=f"wsj.mrg, {place}: .*{what}"):
        parse_trees(text, "wsj.mrg")


def test_the_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("(S (NN a)", encoding="utf-8")
    (tmp_path / "b.mrg").write_text(CAT, encoding="utf-8")
    (tmp_path / "c.mrg").write_bytes("(S (NN é))\n(NN é\0)".encode().replace(b"\0", b"\xff"))
    (tmp_path / "e.mrg").write_text("(S (-NONE- *))\n", encoding="utf-8")
    names = [tmp_path / f"{name}.mrg" for name in "abcde"]
    with pytest.raises(DataError) as caught:
        read_trees(names)
    first, second, third, fourth = str(caught.value).splitlines()
    assert "a.mrg, line 1, column 1" in first
    assert "c.mrg, line 2, column 6: the byte 0xff is not UTF-8 text" in second
    assert "d.mrg: cannot be read (No such file or directory)" in third
    assert "e.mrg contains no tree" in fourth
    assert len(read_trees([tmp_path / "b.mrg"])) == 1


def test_a_byte_order_mark_and_gzip_make_no_difference(tmp_path: Path) -> None:
    plain, packed, torn = (tmp_path / name for name in ("windows.mrg", "packed.mrg.gz", "torn.mrg.gz"))
    plain.write_bytes(b"\xef\xbb\xbf" + CAT.replace(" (VP", "\r\n (VP").encode())
    packed.write_bytes(gzip.compress(CAT.encode()))
    assert [str(tree) for tree in read_trees([plain, packed])] == [CAT, CAT]
    torn.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"torn.mrg.gz: cannot be read \(it is not a complete gzip file\)"):
        read_trees([torn])


def test_a_misplaced_word_is_shown_in_part() -> None:
    with pytest.raises(DataError, match=f"line 1, column 1: {'a' * 40}… outside all brackets"):
        parse_trees("a" * 5000)


@pytest.mark.slow
def test_a_very_deep_tree_is_no_problem() -> None:
    depth = 20_000
    (tree,) = parse_trees("(X " * depth + "(NN a)" + ")" * depth)
    assert str(tree).count("(X") == depth
    assert len(tree.spans()) == depth
