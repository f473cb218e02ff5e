"""Questions as tensors: a table of all sentences, and for each question the rows of its memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from variations.models.memory.stories import LOST
from variations.system.errors import DataError
from variations.tasks.question_answering.reader import Question

NIL = 0
"""Id of the empty word, with which sentences and stories are padded."""


def with_ngrams(sentence: tuple[str, ...], longest: int) -> tuple[str, ...]:
    """The words of a sentence, followed by its n-grams of two to `longest` words: `went_to`."""
    runs = [sentence[at : at + n] for n in range(2, longest + 1) for at in range(len(sentence) - n + 1)]
    return (*sentence, *("_".join(run) for run in runs))


def without_ngrams(features: tuple[str, ...], longest: int) -> tuple[str, ...]:
    """The sentence of which `with_ngrams` has made `features`."""
    return next(features[:n] for n in range(len(features) + 1) if with_ngrams(features[:n], longest) == features)


@dataclass(frozen=True)
class Vocabulary:
    """Ids of words and answers; answers are words, too, so that a model may tie the two."""

    words: tuple[str, ...]
    longest: int
    """Number of words of the longest sentence or question, n-grams included."""
    memory: int
    """Number of sentences of the longest story, at most the `limit` of `build`."""
    ngrams: int = 1
    """Longest n-grams that are used as additional words (NG); 1: words only."""

    @classmethod
    def build(cls, questions: Iterable[Question], limit: int = 50, ngrams: int = 1) -> "Vocabulary":
        """All words of the questions, sorted independently of the order of questions; word 0 is the empty one.

        Words of the test questions are included, as in the authors' code, which reads both files into one dictionary.
        No parameter is trained on them.
        """
        words: set[str] = set()
        longest = memory = 0
        for question in questions:
            for sentence in (*question.story, question.words):
                features = with_ngrams(sentence, ngrams)
                words.update(features)
                longest = max(longest, len(features))
            words.add(question.answer)
            memory = max(memory, len(question.story))
        return cls(("", *sorted(words)), longest, min(memory, limit), ngrams)

    def __len__(self) -> int:
        return len(self.words)

    def answer_words(self) -> Tensor:
        """(words, A) ids of the words that each word consists of as an answer, `NIL` after the last.

        An answer of several words (`apple,milk`) is one class. Words in it that occur in no sentence have no id.
        """
        ids = {word: number for number, word in enumerate(self.words)}
        rows = [[ids[part] for part in word.split(",") if part in ids] for word in self.words]
        longest = max(map(len, rows))
        return torch.tensor([row + [NIL] * (longest - len(row)) for row in rows])


@dataclass(frozen=True)
class Encoded:
    """Q questions over S sentences of at most J words.

    A story is a range of rows of `sentences`, which its questions share. Slot 1 of a question's memory is the latest
    sentence, row `end - 1`; slot 2 is the one before it, and so on.
    """

    sentences: Tensor
    """(S, J) word ids, `NIL` after the last word."""
    end: Tensor
    """(Q,) row after the last sentence of the story so far."""
    count: Tensor
    """(Q,) sentences in memory: the latest ones, at most the vocabulary's `memory`."""
    questions: Tensor
    """(Q, J) word ids."""
    answers: Tensor
    """(Q,) word ids."""
    supports: Tensor
    """(Q, F) slots of the supporting facts, in the file's order, counted from 1; `LOST`: not in memory; 0: no more."""

    def __len__(self) -> int:
        return len(self.answers)


def encode(questions: Sequence[Question], vocabulary: Vocabulary) -> Encoded:
    """Tensors of `questions`.

    Raises:
        DataError: a word is not in the vocabulary, or a sentence is longer than the vocabulary's longest.
    """
    ids = {word: number for number, word in enumerate(vocabulary.words)}
    rows: list[tuple[str, ...]] = []
    told: tuple[tuple[str, ...], ...] = ()
    end = torch.zeros(len(questions), dtype=torch.long)
    for at, question in enumerate(questions):
        shared = len(told) if question.story[: len(told)] == told else 0
        told = question.story
        rows.extend(told[shared:])
        end[at] = len(rows)
    count = torch.tensor([min(len(question.story), vocabulary.memory) for question in questions])
    facts = max((len(question.supports) for question in questions), default=0)
    supports = torch.zeros(len(questions), facts, dtype=torch.long)
    for at, question in enumerate(questions):
        for order, fact in enumerate(question.supports):
            slot = len(question.story) - fact
            supports[at, order] = slot if slot <= vocabulary.memory else LOST
    return Encoded(
        sentences=_padded(rows, ids, vocabulary),
        end=end,
        count=count,
        questions=_padded([question.words for question in questions], ids, vocabulary),
        answers=torch.tensor([_id(question.answer, ids) for question in questions]),
        supports=supports,
    )


def _padded(sentences: Sequence[tuple[str, ...]], ids: dict[str, int], vocabulary: Vocabulary) -> Tensor:
    rows = []
    for sentence in sentences:
        row = [_id(word, ids) for word in with_ngrams(sentence, vocabulary.ngrams)]
        if len(row) > vocabulary.longest:
            text, known = " ".join(sentence), vocabulary.longest
            raise DataError(f'"{text}" has {len(row)} words; the longest sentence of the vocabulary has {known}.')
        rows.append(row + [NIL] * (vocabulary.longest - len(row)))
    return torch.tensor(rows, dtype=torch.long).view(len(rows), vocabulary.longest)


def _id(word: str, ids: dict[str, int]) -> int:
    if word not in ids:
        raise DataError(f'The word "{word}" is not in the vocabulary: it was built from other questions.')
    return ids[word]
