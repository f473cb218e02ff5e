"""The scorer compared with EVALB: its released expectations, and the output of the released program."""

import dataclasses
import math
import re
import subprocess
from os import environ
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from variations.system.errors import DataError
from variations.tasks.parsing import evalb
from variations.tasks.parsing.parameters import COLLINS, Parameters, read_parameters

GOLDEN = Path(__file__).parent / "evalb"
RULE = "=" * 76


def lines(name: str) -> list[str]:
    return (GOLDEN / name).read_text(encoding="utf-8").splitlines()


def result(parameters: str, files: str, **changes: int) -> tuple[list[evalb.Sentence], Parameters]:
    chosen = dataclasses.replace(read_parameters(GOLDEN / parameters), **changes)
    return evalb.score_lines(lines(f"{files}.gld"), lines(f"{files}.tst"), chosen), chosen


def fields(text: list[str]) -> list[list[str]]:
    return [line.split() for line in text if line.strip()]


@pytest.mark.parametrize(
    ("parameters", "files", "expected"),
    [
        ("sample.prm", "sample", "sample.out"),
        ("new.prm", "bug", "bug.new.out"),
        ("COLLINS.prm", "bug", "bug.collins.out"),
        ("COLLINS.prm", "made_up", "made_up.collins.out"),
        ("new.prm", "made_up", "made_up.new.out"),
    ],
)
def test_the_report_is_the_released_programs_byte_for_byte(parameters: str, files: str, expected: str) -> None:
    report = evalb.report(*result(parameters, files, max_errors=1000))
    assert report == (GOLDEN / expected).read_text(encoding="utf-8")


def test_the_sample_equals_the_released_expectation() -> None:
    ours = fields(evalb.report(*result("sample.prm", "sample")).splitlines())
    golden = fields(lines("sample.rsl"))
    ours = [line for line in ours if "FMeasure" not in line]  # absent from the 1997 version
    assert len(ours) == len(golden) == 3 + 24 + 3 + 2 * 12
    for number, (line, expected) in enumerate(zip(ours, golden, strict=True)):
        if line[2:3] in (["1"], ["2"]) and 3 <= number < 27:  # that version counted the words of these sentences
            assert line[:9] == expected[:9]
            assert (line[9], expected[9]) == ("0", expected[1])
        elif number == 28:  # it printed the number of sentences without crossings instead of the number of crossings
            assert line[:5] + line[6:] == expected[:5] + expected[6:]
            assert (line[5], expected[5]) == ("1", "16")
        else:
            assert line == expected


def test_the_bug_of_2006_equals_the_released_expectation_with_quotes_mended() -> None:
    ours, golden = fields(evalb.report(*result("new.prm", "bug")).splitlines()), fields(lines("bug.rsl-new"))
    assert len(ours) == len(golden)
    for number, (line, expected) in enumerate(zip(ours, golden, strict=True)):
        if number == 9:  # as above: sentences without crossings instead of crossings
            assert line[:5] + line[6:] == expected[:5] + expected[6:]
            assert (line[5], expected[5]) == ("36", "0")
        else:
            assert line == expected


def test_the_bug_of_2006_equals_the_released_expectation_without_the_mending() -> None:
    sentences, parameters = result("sample.prm", "bug")  # COLLINS.prm of that time did not delete full stops either
    golden = lines("bug.rsl-old")
    messages = [re.findall(r"\d+", line) for line in golden if "unmatch" in line]  # number, gold words, test words
    assert messages == [
        [str(number), *reversed(re.findall(r"\d+", each.fault))] for number, each in enumerate(sentences, 1)
    ]
    ours = fields(evalb.report(sentences, parameters).splitlines())
    assert ours == fields([line for line in golden if "unmatch" not in line])


GOLD = "(TOP (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))"


@pytest.mark.parametrize(
    ("test", "precision", "recall", "f1"),
    [
        (GOLD, 100, 100, 100),
        ("(TOP (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on)) (NP (DT the) (NN mat))) (. .)))", 80, 80, 80),
        (
            "(TOP (S (NP (DT The) (NN cat)) (VP (VBD sat) (PP (IN on) (DT the) (NN mat))) (. .)))",
            100,
            80,
            pytest.approx(88.8889, abs=1e-4),
        ),
    ],
)
def test_precision_recall_and_f1_by_hand(test: str, precision: float, recall: float, f1: float) -> None:
    summary = evalb.Summary.of(evalb.score_lines([GOLD], [test]))
    assert (summary.precision, summary.recall, summary.f1) == (precision, recall, f1)


def test_adverbs_and_particles_are_the_same_label_for_collins_alone() -> None:
    gold, test = "(S (VP (VB give) (PRT (RP up))))", "(S (VP (VB give) (ADVP (RP up))))"
    assert evalb.score_sentence(gold, test).matched == 3
    assert evalb.score_sentence(gold, test, Parameters()).matched == 2


def test_unlabelled_scores_look_at_spans_only() -> None:
    gold, test = "(S (NP (DT a) (NN b)) (VB c))", "(X (Y (DT a) (NN b)) (VB c))"
    assert evalb.score_sentence(gold, test).matched == 0
    assert evalb.score_sentence(gold, test, dataclasses.replace(COLLINS, labelled=False)).matched == 2


@pytest.mark.parametrize(
    ("test", "fault"),
    [
        ("(S (NP (DT The) (NN cat)", "too many opening brackets"),
        ("(S (DT The) (NN cat)))", "too many closing brackets"),
        ("(S (DT The cat) (NN cat))", "The has no bracket of its own"),
        ("(S (DT The))", "1 words, gold 2"),
        ("(S (DT The) (NN dog))", "the word dog, gold cat"),
    ],
)
def test_a_line_that_cannot_be_compared_is_an_error_with_its_reason(test: str, fault: str) -> None:
    sentence = evalb.score_sentence("(S (DT The) (NN cat))", test)
    assert (sentence.status, sentence.fault, sentence.gold) == (evalb.ERROR, fault, 0)


def test_a_summary_without_a_valid_sentence_is_nan_and_no_crash() -> None:
    summary = evalb.Summary.of([evalb.score_sentence("(S (DT The))", "")])
    assert (summary.skipped, summary.valid, summary.recall) == (1, 0, 0.0)
    assert math.isnan(summary.f1)


def test_the_program_stops_at_the_twelfth_error_and_so_do_we() -> None:
    gold = ["(S (DT The))"] * 12
    wrong = ["(S (DT A))"] * 12
    assert evalb.Summary.of(evalb.score_lines(gold[:11], wrong[:11])).errors == 11
    with pytest.raises(
        DataError, match=r"12 sentences cannot be compared; MAX_ERROR allows 10: line 1: the word A, gold The"
    ):
        evalb.score_lines(gold, wrong)


def test_files_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match="has 1 lines and the gold file 2"):
        evalb.score_lines([GOLD, GOLD], [GOLD])


def test_the_built_in_parameters_are_those_of_collins_prm() -> None:
    assert read_parameters(GOLDEN / "COLLINS.prm") == COLLINS
    assert read_parameters(GOLDEN / "nk.prm") == dataclasses.replace(
        read_parameters(GOLDEN / "new.prm"), max_errors=10_000
    )


def test_a_wrong_parameter_file_names_all_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "wrong.prm"
    path.write_text(
        "# comment\nLABELED yes\nDELETE_LABEL\nEQ_LABEL ADVP\nDELETED X\nDEBUG 0\nDELETE_LABEL TOP S1\n",
        encoding="utf-8",
    )
    with pytest.raises(DataError) as caught:
        read_parameters(path)
    message = str(caught.value)
    assert "line 2: LABELED takes a whole number, not 'yes'" in message
    assert "line 3: DELETE_LABEL without a value" in message
    assert "line 4: EQ_LABEL takes two names, not 'ADVP'" in message
    assert "line 5: unknown keyword DELETED" in message
    assert "line 7: DELETE_LABEL takes one name, not 'TOP S1'" in message
    with pytest.raises(DataError, match=r"absent.prm: cannot be read \(No such file or directory\)"):
        read_parameters(tmp_path / "absent.prm")


def test_a_file_that_is_no_parameter_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"sample.gld is not .*line 10: unknown keyword \(S; … and 14 more faults. Valid"
    ):
        read_parameters(GOLDEN / "sample.gld")
    (tmp_path / "empty.prm").write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"empty.prm is not a parameter file of EVALB: it sets nothing. Valid"):
        read_parameters(tmp_path / "empty.prm")


TERMINALS = st.tuples(
    st.sampled_from(["NN", "``", "POS", ".", "-NONE-", "ADVP"]), st.sampled_from(["a", "b", "'", '"'])
)
TREES = st.recursive(
    TERMINALS.map(lambda pair: f"({pair[0]} {pair[1]})"),
    lambda below: st.tuples(
        st.sampled_from(["S", "NP-SBJ", "ADVP", "PRT", "TOP", "X=1"]), st.lists(below, min_size=1, max_size=4)
    ).map(lambda parts: f"({parts[0]} {' '.join(parts[1])})"),
    max_leaves=12,
)


@pytest.mark.skipif("EVALB" not in environ, reason="EVALB=PROGRAM names a compiled evalb")
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(TREES, TREES), min_size=1, max_size=5), st.sampled_from(["COLLINS.prm", "new.prm"]))
def test_any_trees_give_the_programs_report(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], name: str
) -> None:
    folder = tmp_path_factory.mktemp("evalb")
    gold, test = zip(*pairs, strict=True)
    for file, side in (("gld", gold), ("tst", test)):
        (folder / file).write_text("\n".join(side) + "\n", encoding="utf-8")
    command = [environ["EVALB"], "-p", str(GOLDEN / name), str(folder / "gld"), str(folder / "tst")]
    expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout.replace("-nan", " nan")
    parameters = read_parameters(GOLDEN / name)
    assert evalb.report(evalb.score_lines(gold, test, parameters), parameters) == expected
