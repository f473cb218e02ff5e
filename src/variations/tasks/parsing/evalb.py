"""EVALB: labelled bracket recall and precision of Sekine and Collins (1997), with the corrections of Ellis (2006).

The rules are those of the released program and its README; tests compare with its output line by line. Trees are read
as the program reads them, one per line, and a line that is not a tree is an error of that sentence, not of the file.
Two differences are deliberate. A sentence with an error has zeros in all columns; if a bracket is missing, the program
prints its counts so far. Files of different lengths are refused; the program scores their common part.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from variations.system.errors import DataError
from variations.tasks.parsing.parameters import COLLINS, Parameters

OK, ERROR, SKIPPED = 0, 1, 2
"""Status of a sentence: scored; not comparable; no word in the test line."""
QUOTES = frozenset({"'", '"', "/"})
"""Words that may be a quotation mark under one tag and something else under another."""

_PIECE = re.compile(
    r"\((?P<tag>[^\s()]*)\s+(?P<word>[^\s()]*)\)|\((?P<label>[^\s()]*)|(?P<close>\))|(?P<stray>[^\s()]+)"
)


# Sentences ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bracket:
    label: str
    start: int
    end: int = -1


@dataclass(slots=True)
class _Quote:
    """A word that may be a quotation mark, with its position, in case it must be put back."""

    tag: str
    word: str
    at: int
    """Words kept before it."""
    first: int
    """Brackets opened before it."""
    around: list[int]
    """The brackets around it."""


@dataclass(slots=True)
class _Line:
    """A tree as EVALB reads it: its words without deleted ones, and all brackets."""

    terminals: list[tuple[str, str]] = field(default_factory=list)
    """(tag, word)"""
    brackets: list[_Bracket] = field(default_factory=list)
    quotes: list[_Quote] = field(default_factory=list)
    length: int = 0
    fault: str = ""

    def put_back(self, index: int) -> None:
        """Put a quote back among the words, and shift what follows it."""
        quote = self.quotes[index]
        self.terminals.insert(quote.at, (quote.tag, quote.word))
        for bracket in self.brackets[quote.first :]:
            bracket.start += 1
            bracket.end += 1
        for number in quote.around:
            self.brackets[number].end += 1
        for later in self.quotes[index:]:
            later.at += 1


def _read(line: str, parameters: Parameters) -> _Line:
    tree = _Line()
    open_brackets: list[int] = []
    for piece in _PIECE.finditer(line):
        tag, word = piece["tag"], piece["word"]
        if tag is not None:
            tree.length += tag not in parameters.deleted_for_length
            if tag in parameters.quotes and word in QUOTES:
                place = len(tree.terminals), len(tree.brackets)
                tree.quotes.append(_Quote(tag, word, *place, list(open_brackets)))
            if tag not in parameters.deleted:
                tree.terminals.append((tag, word))
        elif piece["label"] is not None:
            open_brackets.append(len(tree.brackets))
            tree.brackets.append(_Bracket(piece["label"], len(tree.terminals)))
        elif piece["close"] and open_brackets:
            tree.brackets[open_brackets.pop()].end = len(tree.terminals)
        else:
            stray = "too many closing brackets" if piece["close"] else f"{piece['stray']} has no bracket of its own"
            tree.fault = tree.fault or stray
    if open_brackets:
        tree.fault = tree.fault or "too many opening brackets"
    return tree


def _mend_quotes(gold: _Line, test: _Line, deleted: frozenset[str]) -> None:
    """Put back quotation marks that one side deletes because of their tag and the other keeps (Ellis 2006)."""
    for i, ours in enumerate(test.quotes):
        at = ours.at
        for j, theirs in enumerate(gold.quotes):
            if theirs.at != at or theirs.tag == ours.tag:
                continue
            if theirs.tag in deleted and ours.tag not in deleted:
                gold.put_back(j)
            elif ours.tag in deleted and theirs.tag not in deleted:
                test.put_back(i)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The counts of one sentence."""

    length: int
    """Words of the gold tree."""
    status: int = OK
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    """Number of words whose tag counts."""
    tags: int = 0
    """Number of these with the correct tag."""
    fault: str = ""
    """The reason of an error."""

    @property
    def complete(self) -> bool:
        """Whether all brackets are correct and none is missing."""
        return self.status == OK and self.gold == self.test == self.matched

    def line(self, number: int) -> str:
        """The program's line about this sentence."""
        counts = f"{self.matched:3d}    {self.gold:3d}  {self.test:3d}    {self.crossing:3d}"
        return (
            f"{number:4d}  {self.length:3d}    {self.status}  {_percent(self.matched, self.gold):6.2f} "
            f"{_percent(self.matched, self.test):6.2f}   {counts}   {self.words:4d}  {self.tags:4d}   "
            f"{_percent(self.tags, self.words):6.2f}"
        )


def score_sentence(gold: str, test: str, parameters: Parameters = COLLINS) -> Sentence:
    """Compare one line of brackets with the gold line."""
    ours, theirs = _read(test, parameters), _read(gold, parameters)
    length = theirs.length
    if not ours.terminals:
        return Sentence(length, SKIPPED)
    if theirs.fault or ours.fault:
        side = f"gold: {theirs.fault}" if theirs.fault else ours.fault
        return Sentence(length, ERROR, fault=side)
    if len(ours.terminals) != len(theirs.terminals):
        _mend_quotes(theirs, ours, parameters.deleted)
    if len(ours.terminals) != len(theirs.terminals):
        return Sentence(length, ERROR, fault=f"{len(ours.terminals)} words, gold {len(theirs.terminals)}")
    for (_, word), (_, right) in zip(ours.terminals, theirs.terminals, strict=True):
        if not _equal(word, right, parameters.equal_words):
            return Sentence(length, ERROR, fault=f"the word {word}, gold {right}")
    brackets, right_brackets = _counted(ours, parameters), _counted(theirs, parameters)
    pairs = zip(ours.terminals, theirs.terminals, strict=True)
    return Sentence(
        length,
        matched=_matches(right_brackets, brackets, parameters),
        gold=len(right_brackets),
        test=len(brackets),
        crossing=sum(any(_cross(bracket, other) for other in right_brackets) for bracket in brackets),
        words=len(ours.terminals),
        tags=sum(_equal(tag, other, parameters.equal_labels) for (tag, _), (other, _) in pairs),
    )


def _counted(tree: _Line, parameters: Parameters) -> list[_Bracket]:
    """The brackets that count, their labels without functions."""
    found = [
        _Bracket(re.sub("[-=].*", "", bracket.label), bracket.start, bracket.end)
        for bracket in tree.brackets
        if bracket.start != bracket.end
    ]
    deleted, equal = parameters.deleted, parameters.equal_labels
    return [each for each in found if not any(_equal(each.label, label, equal) for label in deleted)]


def _matches(gold: Sequence[_Bracket], test: Sequence[_Bracket], parameters: Parameters) -> int:
    """How many gold brackets find a partner; each bracket is used once, in the order of the files."""
    free = list(test)
    for bracket in gold:
        for number, other in enumerate(free):
            same_label = not parameters.labelled or _equal(bracket.label, other.label, parameters.equal_labels)
            if (bracket.start, bracket.end) == (other.start, other.end) and same_label:
                del free[number]
                break
    return len(test) - len(free)


def _cross(one: _Bracket, other: _Bracket) -> bool:
    return one.start < other.start < one.end < other.end or other.start < one.start < other.end < one.end


def _equal(one: str, other: str, pairs: frozenset[frozenset[str]]) -> bool:
    return one == other or frozenset((one, other)) in pairs


# Files ----------------------------------------------------------------------------------------------------------------


def score_lines(gold: Sequence[str], test: Sequence[str], parameters: Parameters = COLLINS) -> list[Sentence]:
    """Score a file of trees, one per line, against the gold file.

    Raises DataError for different numbers of lines and for more than `max_errors` sentences with an error.
    """
    if len(gold) != len(test):
        raise DataError(
            f"The test file has {len(test)} lines and the gold file {len(gold)}: write one tree per line, in order."
        )
    sentences = [score_sentence(right, ours, parameters) for right, ours in zip(gold, test, strict=True)]
    errors = [f"line {number}: {each.fault}" for number, each in enumerate(sentences, 1) if each.status == ERROR]
    if len(errors) > parameters.max_errors + 1:  # the program stops at the second error beyond its limit
        raise DataError(
            f"{len(errors)} sentences cannot be compared; MAX_ERROR allows {parameters.max_errors}: "
            f"{'; '.join(errors[:5])}, … Parse the sentences of the gold file, or raise MAX_ERROR."
        )
    return sentences


@dataclass(frozen=True)
class Summary:
    """Sums over sentences, and the summary that EVALB prints."""

    sentences: int
    errors: int
    skipped: int
    matched: int
    gold: int
    test: int
    complete: int
    crossing: int
    no_crossing: int
    two_or_less: int
    words: int
    tags: int

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> "Summary":
        """The sums; sentences with an error and skipped ones are only counted."""
        every = list(sentences)
        valid = [each for each in every if each.status == OK]
        return cls(
            sentences=len(every),
            errors=sum(each.status == ERROR for each in every),
            skipped=sum(each.status == SKIPPED for each in every),
            no_crossing=sum(each.crossing == 0 for each in valid),
            two_or_less=sum(each.crossing <= 2 for each in valid),
            matched=sum(each.matched for each in valid),
            gold=sum(each.gold for each in valid),
            test=sum(each.test for each in valid),
            complete=sum(each.complete for each in valid),
            crossing=sum(each.crossing for each in valid),
            words=sum(each.words for each in valid),
            tags=sum(each.tags for each in valid),
        )

    @property
    def valid(self) -> int:
        """Sentences that were scored."""
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        """Percentage of the gold brackets that were found; 0 without any."""
        return _percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Percentage of the found brackets that are correct; 0 without any."""
        return _percent(self.matched, self.test)

    @property
    def f1(self) -> float:
        """Harmonic mean of both, 2PR / (P + R), in percent; NaN if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else math.nan

    def lines(self) -> list[str]:
        """The program's summary."""
        counts = {
            "Number of sentence": self.sentences,
            "Number of Error sentence": self.errors,
            "Number of Skip  sentence": self.skipped,
            "Number of Valid sentence": self.valid,
        }
        rates = {
            "Bracketing Recall": self.recall,
            "Bracketing Precision": self.precision,
            "Bracketing FMeasure": self.f1,
            "Complete match": _percent(self.complete, self.valid),
            "Average crossing": self.crossing / self.valid if self.valid else 0.0,
            "No crossing": _percent(self.no_crossing, self.valid),
            "2 or less crossing": _percent(self.two_or_less, self.valid),
            "Tagging accuracy": _percent(self.tags, self.words),
        }
        first = [f"{name:25} = {count:6d}" for name, count in counts.items()]
        return first + [f"{name:25} = {rate:6.2f}" for name, rate in rates.items()]


def report(sentences: Sequence[Sentence], parameters: Parameters = COLLINS) -> str:
    """What the program writes to standard output."""
    whole = Summary.of(sentences)
    short = Summary.of(each for each in sentences if each.length <= parameters.cutoff)
    rule = "=" * 76
    lines = [
        "  Sent.                        Matched  Bracket   Cross        Correct Tag",
        " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
        rule,
        *(each.line(number) for number, each in enumerate(sentences, 1)),
        rule,
    ]
    total = f"  {whole.words:5d} {whole.tags:5d}   {_percent(whole.tags, whole.words):6.2f}"
    if whole.gold and whole.test:
        brackets = f"{whole.matched:6d} {whole.gold:5d} {whole.test:5d}  {whole.crossing:5d}"
        total = f"{'':16}{whole.recall:6.2f} {whole.precision:6.2f} {brackets}{total}"
    lines += [total, "=== Summary ===", "", "-- All --", *whole.lines()]
    lines += ["", f"-- len<={parameters.cutoff} --", *short.lines()]
    return "\n".join(lines) + "\n"


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
