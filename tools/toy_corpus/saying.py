"""Rendering clauses with a note of their phenomena, and clauses with to be."""

from toy_corpus.choice import Choice
from toy_corpus.clauses import Clause, Subject, english, german
from toy_corpus.nouns import Noun
from toy_corpus.parts import FITTING
from toy_corpus.verbs import special
from toy_corpus.words import Adjective, Term

BE = special("copula")[0]
HAVE = special("own")[0]


def say(choice: Choice, clause: Clause, order: str = "main") -> Term:
    """Render a clause and note its phenomena; `order` as in German: main, question, final."""
    note(choice, clause, order)
    if order == "question":
        choice.tag("question")
    return Term(english(clause, "main" if order == "final" else order), german(clause, order))


def note(choice: Choice, clause: Clause, order: str) -> None:
    """Note the phenomena of a clause in a German order."""
    if clause.negated:
        choice.tag("negation")
    if clause.modal:
        choice.tag("modal verb")
    if clause.german_perfect:
        choice.tag("perfect")
    if clause.verb.prefix:
        choice.tag("separable verb")
    if clause.front and order == "main":
        choice.tag("inversion")
    if clause.verb.reflexive:
        choice.tag("reflexive")
    if order == "final":
        choice.tag("verb-final")


def describe(choice: Choice, who: Subject, adjective: Adjective, *, past: bool, negated: bool = False) -> Clause:
    """Someone or something is or was so."""
    choice.use(adjective)
    choice.use(BE)
    return Clause(
        who,
        BE,
        "past" if past else "present",
        negated=negated,
        predicate=Term(adjective.english, adjective.german),
    )


def predicative(choice: Choice, noun: Noun) -> Adjective:
    """Return an adjective that the noun can be said to be."""
    return choice.word(tuple(item for item in FITTING[noun.key] if item.predicative))
