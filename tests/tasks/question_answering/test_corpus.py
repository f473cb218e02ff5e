"""Selecting tasks, holding out questions for validation, and converting questions to tensors."""

import gzip
import os
from pathlib import Path

import pytest
import torch

from variations.configuration.compose import compose_run
from variations.models.memory.stories import LOST
from variations.store.ledger import RunFolder
from variations.system.errors import DataError, UserError
from variations.tasks.question_answering.corpus import TASKS, fingerprint, hold_out, load, path_of
from variations.tasks.question_answering.data import QuestionAnsweringData
from variations.tasks.question_answering.encoding import Vocabulary, encode
from variations.tasks.question_answering.reader import Question

BABI = Path(os.environ.get("VARIATIONS_BABI", "/nonexistent"))


def write(root: Path, task: int, part: str, questions: int = 10) -> None:
    lines = []
    for number in range(questions):
        lines += ["1 Mary is here.", f"2 Where is Mary?\tplace{'abcdefghij'[number % 10]}\t1"]
    folder = root / "en"
    folder.mkdir(exist_ok=True)
    (folder / f"qa{task}_{TASKS[task - 1]}_{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_loads_tasks_and_holds_out_a_part(tmp_path: Path) -> None:
    for task in (1, 20):
        write(tmp_path, task, "train", 40)
        write(tmp_path, task, "test", 5)
    first, second = load(tmp_path, [1, 20], valid=0.1, seed=3)
    assert [first.task, second.task] == [1, 20]
    assert (len(first.train), len(first.valid), len(first.test)) == (36, 4, 5)


def test_the_held_out_part_follows_from_the_seed() -> None:
    questions = [Question(((str(number),),), ("q",), "a", (0,)) for number in range(50)]
    train, valid = hold_out(questions, 0.1, seed=1)
    assert sorted(train + valid, key=questions.index) == questions
    assert train == sorted(train, key=questions.index)
    assert (train, valid) == hold_out(questions, 0.1, seed=1)
    assert valid != hold_out(questions, 0.1, seed=2)[1]
    assert hold_out(questions, 0.0, seed=1) == (questions, [])


def test_the_number_of_held_out_questions_is_that_with_which_runs_were_begun() -> None:
    questions = [Question(((str(number),),), ("q",), "a", (0,)) for number in range(10_000)]
    sizes = {part: len(hold_out(questions, part, seed=1)[1]) for part in (0.1, 0.043, 0.57)}
    assert sizes == {0.1: 1000, 0.043: 429, 0.57: 5699}


def test_stories_that_are_edited_between_reading_and_their_fingerprint_are_refused(tmp_path: Path) -> None:
    for part in ("train", "test"):
        write(tmp_path, 1, part, 40)
    data = QuestionAnsweringData(
        compose_run(["task=question_answering", "data=babi", f"data.root={tmp_path}", "data.tasks=[1]"])
    )
    data.setup()
    write(tmp_path, 1, "test", 41)
    with pytest.raises(DataError, match="changed while this run read them: run the command again"):
        data.keep_facts(RunFolder(tmp_path / "run").create({}))


def test_every_missing_file_is_named_at_once(tmp_path: Path) -> None:
    write(tmp_path, 1, "train")
    write(tmp_path, 1, "test")
    write(tmp_path, 3, "test")
    for part in ("train", "test"):
        write(tmp_path, 4, part)  # not asked for
    with pytest.raises(DataError) as raised:
        load(tmp_path, [1, 2, 3])
    text = str(raised.value)
    assert "Task 2 has no train file" in text
    assert "Task 2 has no test file" in text
    assert "Task 3 has no train file" in text
    assert "leave the task out with task=question_answering 'data.tasks=[1]'." in text


def test_unknown_tasks_sizes_and_parts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Task 0, 21 is unknown"):
        load(tmp_path, [0, 1, 21])
    with pytest.raises(UserError, match="No task is named"):
        load(tmp_path, [])
    with pytest.raises(UserError, match="Valid choices: 1k, 10k"):
        load(tmp_path, [1], size="100k")
    with pytest.raises(UserError, match="at least 0 and below 1"):
        load(tmp_path, [1], valid=1.0)
    with pytest.raises(DataError, match=r"data\.root"):
        load(tmp_path, [1])


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    write(tmp_path, 1, "train")
    write(tmp_path, 1, "test")
    before = fingerprint(tmp_path, [1], "1k")
    assert before == fingerprint(tmp_path, [1], "1k")
    test = path_of(tmp_path, 1, "1k", "test")
    compressed = test.with_name(f"{test.name}.gz")
    compressed.write_bytes(gzip.compress(test.read_bytes()))
    test.unlink()
    assert before == fingerprint(tmp_path, [1], "1k")
    compressed.unlink()
    write(tmp_path, 1, "test", 11)
    assert before != fingerprint(tmp_path, [1], "1k")


def test_a_question_that_moves_from_training_to_test_changes_the_fingerprint(tmp_path: Path) -> None:
    write(tmp_path, 1, "train", 12)
    write(tmp_path, 1, "test")
    before = fingerprint(tmp_path, [1], "1k")
    train, test = (path_of(tmp_path, 1, "1k", part) for part in ("train", "test"))
    lines = train.read_text(encoding="utf-8").splitlines(keepends=True)
    test.write_text("".join(lines[-2:]) + test.read_text(encoding="utf-8"), encoding="utf-8")
    train.write_text("".join(lines[:-2]), encoding="utf-8")  # all bytes are in the same order as before
    assert before != fingerprint(tmp_path, [1], "1k")


STORY = (("mary", "is", "here"), ("bill", "left"), ("mary", "left", "too", "now"))
QUESTIONS = [
    Question(STORY[:1], ("where", "is", "mary"), "here", (0,)),
    Question(STORY, ("where", "is", "mary"), "gone,away", (2, 0)),
    Question((("bill", "is", "here"),), ("where", "is", "bill"), "here", (0,)),
]


def test_the_vocabulary_has_each_word_and_answer_once() -> None:
    vocabulary = Vocabulary.build(QUESTIONS)
    assert vocabulary.words == (
        "", "bill", "gone,away", "here", "is", "left", "mary", "now", "too", "where",
    )  # fmt: skip
    assert (vocabulary.longest, vocabulary.memory) == (4, 3)
    assert Vocabulary.build(reversed(QUESTIONS)) == vocabulary


def test_questions_of_a_story_share_its_sentences() -> None:
    vocabulary = Vocabulary.build(QUESTIONS)
    data = encode(QUESTIONS, vocabulary)
    assert data.sentences.tolist() == [[6, 4, 3, 0], [1, 5, 0, 0], [6, 5, 8, 7], [1, 4, 3, 0]]
    assert data.end.tolist() == [1, 3, 4]
    assert data.count.tolist() == [1, 3, 1]
    assert data.questions.tolist() == [[9, 4, 6, 0], [9, 4, 6, 0], [9, 4, 1, 0]]
    assert data.answers.tolist() == [3, 2, 3]
    assert data.supports.tolist() == [[1, 0], [1, 3], [1, 0]]  # slot 1 holds the most recent sentence


def test_memory_keeps_the_last_sentences() -> None:
    vocabulary = Vocabulary.build(QUESTIONS, limit=2)
    data = encode(QUESTIONS, vocabulary)
    assert data.count.tolist() == [1, 2, 1]
    assert data.supports.tolist() == [[1, 0], [1, LOST], [1, 0]]  # the first fact of question 2 is forgotten


def test_words_and_lengths_that_the_vocabulary_does_not_know() -> None:
    vocabulary = Vocabulary.build(QUESTIONS[2:])
    with pytest.raises(DataError, match='"mary" is not in the vocabulary'):
        encode(QUESTIONS[:1], vocabulary)
    with pytest.raises(DataError, match="has 4 words"):
        encode([Question((("bill", "is", "here", "here"),), ("is", "here"), "here", (0,))], vocabulary)


def test_ngrams_are_words_beside_the_words() -> None:
    vocabulary = Vocabulary.build(QUESTIONS[2:], ngrams=3)
    assert vocabulary.words == (
        "", "bill", "bill_is", "bill_is_here", "here", "is", "is_bill", "is_here", "where", "where_is", "where_is_bill",
    )  # fmt: skip
    assert vocabulary.longest == 6
    assert encode(QUESTIONS[2:], vocabulary).sentences.tolist() == [[1, 5, 4, 2, 7, 3]]


def test_the_words_of_answers_of_several() -> None:
    story = (("the", "milk", "is", "here"),)
    answers = ["milk", "here,milk", "nothing", "n,milk"]
    vocabulary = Vocabulary.build([Question(story, ("what",), answer, (0,)) for answer in answers])
    words = [{vocabulary.words[i] for i in row if i} for row in vocabulary.answer_words().tolist()]
    found = dict(zip(vocabulary.words, words, strict=True))
    assert [found[a] for a in answers] == [{"milk"}, {"here", "milk"}, {"nothing"}, {"milk"}]
    assert found[""] == set()


@pytest.mark.skipif(not BABI.is_dir(), reason="VARIATIONS_BABI names no folder with bAbI 1.2")
def test_the_real_tasks() -> None:
    splits = load(BABI, range(1, 21))
    assert [(len(s.train), len(s.valid), len(s.test)) for s in splits] == [(900, 100, 1000)] * 20
    vocabulary = Vocabulary.build(q for s in splits for q in (*s.train, *s.valid, *s.test))
    assert (vocabulary.longest, vocabulary.memory) == (11, 50)
    assert torch.equal(encode(splits[3].test, vocabulary).count, torch.full((1000,), 2))  # task 4: two sentences each
    with pytest.raises(DataError, match="Task 3 has no train file"):
        load(BABI, [3], size="10k")
