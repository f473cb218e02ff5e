"""The generated stories: every answer follows from the supporting facts, checked by an independent reader."""

import pytest

from variations.system.errors import UserError
from variations.tasks.question_answering.reader import Question
from variations.tasks.question_answering.toy import KINDS, PLACES, PUT, STORIES, THINGS, WENT, generate

MOVES = {next(iter(went.split())) for went in WENT}


def place_of(actor: str, story: tuple[tuple[str, ...], ...]) -> tuple[str, int]:
    """Return an actor's place at the end of a story, and the index of the sentence that states it."""
    told = [(words[-1], at) for at, words in enumerate(story) if words[0] == actor and words[1] in MOVES]
    return told[-1]


def answer_of(task: int, question: Question) -> tuple[str, tuple[int, ...]]:
    """Return the answer and its facts, found by reading the story backwards."""
    story, words = question.story, question.words
    if task == 1:
        place, fact = place_of(words[2], story)
        return place, (fact,)
    if task == 6:
        place, fact = place_of(words[1], story)
        return ("yes" if place == words[-1] else "no"), (fact,)
    if task == 2:
        handled = max(at for at, told in enumerate(story) if told[-1] == words[-1])
        actor = story[handled][0]
        before = story[:handled] if story[handled][1] in PUT else story
        place, moved = place_of(actor, before)
        return place, (handled, moved)
    singular = {plural: kind for kind, plural in KINDS.items()}
    is_a = next(at for at, told in enumerate(story) if told[0] == words[2])
    kind = story[is_a][-1]
    fears = next(at for at, told in enumerate(story) if told[0] == KINDS[kind])
    return singular[story[fears][-1]], (is_a, fears)


@pytest.mark.parametrize("task", sorted(STORIES))
def test_answers_follow_from_the_facts(task: int) -> None:
    split = generate(task, train=200, test=100)
    questions = split.train + split.valid + split.test
    assert len(questions) == 300
    for question in questions:
        assert (question.answer, question.supports) == answer_of(task, question)


@pytest.mark.parametrize("task", sorted(STORIES))
def test_no_answer_is_much_more_frequent_than_the_others(task: int) -> None:
    answers = [question.answer for question in generate(task, train=1000, test=1, valid=0).train]
    most = max(answers.count(answer) for answer in set(answers))
    assert most / len(answers) < {1: 0.25, 2: 0.25, 6: 0.6, 15: 0.35}[task]


@pytest.mark.parametrize("task", sorted(STORIES))
def test_the_same_seed_tells_the_same_and_no_story_is_in_both_parts(task: int) -> None:
    split = generate(task, train=100, test=50, seed=4)
    assert split == generate(task, train=100, test=50, seed=4)
    assert split != generate(task, train=100, test=50, seed=5)
    assert (len(split.train), len(split.valid), len(split.test)) == (90, 10, 50)
    whole = {question.story for question in split.train + split.valid}
    assert not whole & {question.story for question in split.test if len(question.story) > 4}


def test_the_words_are_of_the_world() -> None:
    split = generate(2, train=200, test=1)
    assert {question.words[-1] for question in split.train} == set(THINGS)
    assert {question.answer for question in split.train} == set(PLACES)


def test_other_tasks() -> None:
    with pytest.raises(UserError, match="no task 3"):
        generate(3, train=10, test=10)
