"""The corpus: sentences drawn until each split has enough, no source or target sentence twice."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from toy_corpus import complex as pairs
from toy_corpus import sentences
from toy_corpus.choice import Choice
from toy_corpus.nouns import NOUNS
from toy_corpus.verbs import VERBS
from toy_corpus.words import ADJECTIVES

KINDS = (
    (sentences.statement, 30.0),
    (pairs.subordinate, 9.0),
    (pairs.when, 4.0),
    (pairs.conditional, 4.0),
    (pairs.that, 6.0),
    (pairs.whether, 4.0),
    (pairs.relative_subject, 6.0),
    (pairs.relative_object, 6.0),
    (pairs.infinitive, 4.0),
    (pairs.purpose, 2.5),
    (pairs.coordination, 6.0),
    (sentences.question, 8.0),
    (sentences.adjectives, 6.0),
    (sentences.numbers, 7.0),
    (sentences.located_things, 3.0),
    (sentences.gladly, 3.0),
    (sentences.liking, 5.0),
)
LONGEST = 25
"""Words of the longest sentence, in either language."""


@dataclass(frozen=True)
class Sentence:
    """One sentence in both languages; `lexemes` its content words, `tags` the phenomena that it shows."""

    source: str
    target: str
    kind: str
    lexemes: tuple[str, ...]
    tags: tuple[str, ...]


def finish(text: str, end: str) -> str:
    """Set commas and spaces right, begin with a capital, end with `end`."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\s*,(\s*,)*\s*", ", ", text)
    text = text.strip().rstrip(", ")
    return text[0].upper() + text[1:] + end


@cache
def _ambiguous() -> frozenset[str]:
    """Keys of the lexemes whose English word has several German ones."""
    meanings: dict[str, list[str]] = {}
    keys = [*(noun.key for noun in NOUNS), *(item.key for item in ADJECTIVES), *(verb.key for verb in VERBS)]
    for key in keys:
        meanings.setdefault(key.partition("=")[0], []).append(key)
    return frozenset(key for keys in meanings.values() if len(set(keys)) > 1 for key in keys)


@cache
def _compounds() -> frozenset[str]:
    return frozenset(noun.key for noun in NOUNS if "compound" in noun.groups)


def sentence(choice: Choice) -> Sentence:
    """Make one sentence."""
    choice.begin()
    maker = choice.weighted(KINDS)
    both = maker(choice)
    if not choice.lexemes.keys().isdisjoint(_ambiguous()):
        choice.tag("ambiguous")
    if not choice.lexemes.keys().isdisjoint(_compounds()):
        choice.tag("compound")
    end = "?" if "question" in choice.tags else "."
    return Sentence(
        finish(both.english, end),
        finish(both.german, end),
        maker.__name__,
        tuple(choice.lexemes),
        tuple(choice.tags),
    )


def normalised(text: str) -> str:
    """Return the lower-cased words of a sentence, for comparisons."""
    return " ".join(re.findall(r"\w+", text.lower()))


def stream(seed: int) -> Iterator[Sentence]:
    """Yield different sentences without end: no two share their normalised source or target."""
    choice = Choice(seed)
    sources: set[str] = set()
    targets: set[str] = set()
    misses = 0
    while misses < 10_000:
        made = sentence(choice)
        source, target = normalised(made.source), normalised(made.target)
        long = max(source.count(" "), target.count(" ")) >= LONGEST
        if long or source in sources or target in targets:
            misses += 1
            continue
        misses = 0
        sources.add(source)
        targets.add(target)
        yield made
    raise ValueError(f"The toy grammar has no more than {len(sources)} different sentences: ask for fewer pairs.")
