"""bAbI files: what is read from them, and that malformed files are rejected."""

import gzip
from pathlib import Path

import pytest

from variations.system.errors import DataError
from variations.tasks.question_answering.reader import Question, parse, read

FILE = """\
1 Mary got the milk there.
2 John moved to the bedroom.
3 What is Mary carrying? \tmilk\t1
4 Mary took the apple.
5 What is Mary carrying? \tmilk,apple\t1 4
1 Bill went to the cinema.
2 Where is Bill?\tcinema\t1
"""


def faults_of(*lines: str) -> list[tuple[int, str]]:
    return parse(iter(lines))[1]


def test_stories_questions_answers_and_supporting_facts(tmp_path: Path) -> None:
    path = tmp_path / "qa8_lists-sets_train.txt"
    path.write_text(FILE, encoding="utf-8")
    mary, john, took = ("mary", "got", "the", "milk", "there"), ("john", "moved", "to", "the", "bedroom"), None
    took = ("mary", "took", "the", "apple")
    asked = ("what", "is", "mary", "carrying")
    assert read(path) == [
        Question((mary, john), asked, "milk", (0,)),
        Question((mary, john, took), asked, "milk,apple", (0, 2)),
        Question((("bill", "went", "to", "the", "cinema"),), ("where", "is", "bill"), "cinema", (0,)),
    ]


def test_numbers_of_thousands_of_digits_are_faults() -> None:
    huge = "9" * 5000
    assert faults_of(f"{huge} Mary left.")[0][1].startswith("a line is a number")
    assert "is not the number of an earlier sentence" in faults_of("1 Mary left.", f"2 Who left?\tmary\t{huge}")[0][1]


def test_packed_files_read_alike(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text(FILE, encoding="utf-8")
    packed.write_bytes(gzip.compress(FILE.encode()))
    assert read(plain) == read(packed)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "a number, one space and a text"),
        ("2  Mary went home.", "a number, one space and a text"),
        ("two Mary went home.", "a number, one space and a text"),
        ("3 Mary went home.", "numbered 3 instead of 2 or 1"),
        ("2 Mary went home", "no full stop"),
        ("2 Mary w3nt home.", '"w3nt" is not a word'),
        ("2 Mary, went home.", '"mary," is not a word'),
        ("2 .", "no words"),
        ("2 Where is Mary?\thome", "has 1 in all"),
        ("2 Where is Mary?\thome\t1\t1", "has 3 in all"),
        ("2 Where is Mary\thome\t1", "question mark"),
        ("2 Where is Mary?\t\t1", 'the answer ""'),
        ("2 Where is Mary?\tat home\t1", 'the answer "at home"'),
        ("2 Where is Mary?\thome\t", "no supporting facts"),
        ("2 Where is Mary?\thome\t2", 'the supporting fact "2"'),
        ("2 Where is Mary?\thome\t1,2", 'the supporting fact "1,2"'),
    ],
)
def test_a_malformed_line_is_named(line: str, fault: str) -> None:
    [(number, text)] = faults_of("1 Mary is here.", line)
    assert number == 2
    assert fault in text


def test_a_story_begins_with_line_1() -> None:
    assert faults_of("2 Mary is here.") == [(1, "the line is numbered 2 instead of 1")]


def test_a_question_is_no_supporting_fact() -> None:
    lines = ["1 Mary is here.", "2 Where is Mary?\there\t1", "3 Where is Mary?\there\t2"]
    assert [number for number, _ in faults_of(*lines)] == [3]


def test_a_supporting_fact_is_of_the_same_story() -> None:
    lines = ["1 Mary is here.", "2 Bill is here.", "1 Mary is there.", "2 Where is Mary?\tthere\t2"]
    assert [number for number, _ in faults_of(*lines)] == [4]


def test_all_malformed_lines_come_at_once_with_their_file(tmp_path: Path) -> None:
    path = tmp_path / "qa1.txt"
    path.write_text("1 Mary is here\n2 Where is Mary?\there\t1\nhello\n", encoding="utf-8")
    with pytest.raises(DataError) as raised:
        read(path)
    text = str(raised.value)
    assert str(path) in text
    assert [line.split(":")[0].strip() for line in text.splitlines()[1:]] == ["line 1", "line 2", "line 3"]


def test_many_faults_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "qa1.txt"
    path.write_text("hello\n" * 25, encoding="utf-8")
    with pytest.raises(DataError, match="and 5 more"):
        read(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "contains no question"),
        (b"1 Mary is here.\n", "contains no question"),
        (b"1 Mary is here.\n\n2 Where is Mary?\there\t1\n", "  line 2: "),
        (b"1 Mary is here.\n2 M\xffry.\n", "line 2, column 4: the byte 0xff is not UTF-8 text"),
    ],
)
def test_unusable_files(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "qa1.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=text):
        read(path)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "qa1.txt.gz"
    path.write_bytes(gzip.compress(FILE.encode())[:40])
    with pytest.raises(DataError, match="not a complete gzip file"):
        read(path)
    with pytest.raises(DataError, match="No such file"):
        read(tmp_path / "none.txt")
