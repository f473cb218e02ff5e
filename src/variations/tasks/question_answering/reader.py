"""A strict reader of the files of the bAbI tasks, version 1.2.

A file contains stories. A line is a number, a space and a text; the number 1 begins a story, and numbers increase by
one. A sentence ends with a full stop. A question ends with a question mark and is followed by a tab, the answer, a
tab, and the numbers of the sentences that support the answer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from variations.data.text import read_text
from variations.system.errors import DataError

LINE = re.compile(r"([1-9][0-9]{0,8}) (\S.*)")
WORDS = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*", re.UNICODE)
MOST_FAULTS = 20
"""Largest number of malformed lines that are listed for a file; the rest are counted."""


@dataclass(frozen=True)
class Question:
    """A question, its answer, and the story so far.

    `story` contains the sentences before the question, oldest first, as tuples of lower-case words; the story of a
    later question begins with that of an earlier one. `supports` are indices into `story`, in the order of the file.
    """

    story: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]
    answer: str
    """One class, even if it is a list: `milk,football`."""
    supports: tuple[int, ...]


class _Malformed(Exception):  # noqa: N818 - a fault of one line, collected with the others
    """What is wrong with a line."""


class _Story:
    """The sentences of a story so far, and the line numbers by which questions refer to them."""

    def __init__(self) -> None:
        self.sentences: list[tuple[str, ...]] = []
        self.index: dict[int, int] = {}

    def tell(self, number: int, text: str) -> None:
        if not text.endswith("."):
            raise _Malformed("neither a sentence (no full stop at its end) nor a question (no tab)")
        self.index[number] = len(self.sentences)
        self.sentences.append(_words(text[:-1]))

    def ask(self, text: str) -> Question:
        parts = text.split("\t")
        if len(parts) != 3:
            raise _Malformed(
                f"a question has a tab before its answer and one before its supporting facts, but this "
                f"line has {len(parts) - 1} in all"
            )
        asked, answer, facts = (part.strip(" ") for part in parts)
        if not asked.endswith("?"):
            raise _Malformed("the text before the first tab does not end with a question mark")
        if not answer or " " in answer:
            raise _Malformed(f'the answer "{answer}" is not one word or several separated by commas')
        return Question(tuple(self.sentences), _words(asked[:-1]), answer.lower(), self._supports(facts))

    def _supports(self, facts: str) -> tuple[int, ...]:
        if not facts:
            raise _Malformed("no supporting facts are listed")
        supports = []
        for fact in facts.split():
            if not re.fullmatch(r"[0-9]{1,9}", fact) or int(fact) not in self.index:
                raise _Malformed(f'the supporting fact "{fact}" is not the number of an earlier sentence of the story')
            supports.append(self.index[int(fact)])
        return tuple(supports)


def read(path: Path) -> list[Question]:
    """The questions of a file, in its order; a file whose name ends in .gz is decompressed.

    Raises:
        DataError: the file cannot be read, contains no question, or has malformed lines, which are listed by number.
    """
    questions, faults = parse(lines(path))
    if faults:
        more = f"\n  and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
        listed = "\n".join(f"  line {number}: {fault}" for number, fault in faults[:MOST_FAULTS])
        raise DataError(f"{path} is not a bAbI file of version 1.2:\n{listed}{more}")
    if not questions:
        raise DataError(f"{path} contains no question: is it a bAbI file of version 1.2?")
    return questions


def parse(told: Iterator[str]) -> tuple[list[Question], list[tuple[int, str]]]:
    """The questions in the lines of a file, and its faults with line numbers counted from 1."""
    questions: list[Question] = []
    faults: list[tuple[int, str]] = []
    story, last = _Story(), 0
    for at, line in enumerate(told, start=1):
        try:
            match = LINE.fullmatch(line)
            if match is None:
                raise _Malformed("a line is a number, one space and a text")
            number, text = int(match[1]), match[2]
            if number == 1:
                story = _Story()
            elif number != last + 1:
                expected = f"{last + 1} or 1" if last else "1"
                last = number
                raise _Malformed(f"the line is numbered {number} instead of {expected}")
            last = number
            if "\t" in text:
                questions.append(story.ask(text))
            else:
                story.tell(number, text)
        except _Malformed as fault:
            faults.append((at, str(fault)))
    return questions, faults


def _words(text: str) -> tuple[str, ...]:
    words = tuple(text.lower().split())
    for word in words:
        if not WORDS.fullmatch(word):
            raise _Malformed(f'"{word}" is not a word')
    if not words:
        raise _Malformed("there are no words")
    return words


def lines(path: Path) -> Iterator[str]:
    """The lines of a file without line endings. Raises DataError as `read_text`."""
    text = read_text(path)
    return (line for line in text.removesuffix("\n").split("\n") if text)
