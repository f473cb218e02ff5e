"""Sentences of two clauses: subordinate and relative clauses, infinitives, coordination."""

from dataclasses import replace

from toy_corpus import parts
from toy_corpus.choice import Choice
from toy_corpus.clauses import Clause, Relative, Subject, english, german
from toy_corpus.events import (
    ACTIONS,
    EVENTS,
    can_be_negated,
    event,
    riding,
    timed,
    travelling,
    walking,
    with_object,
)
from toy_corpus.nouns import Noun
from toy_corpus.parts import FITTING, GROUPS, pronoun_of, referable
from toy_corpus.phrases import Fixed, NounPhrase, Pronoun
from toy_corpus.saying import HAVE, describe, note, predicative, say
from toy_corpus.verbs import INTRANSITIVES, special
from toy_corpus.words import ADJECTIVES, MODALS, Term

WEATHER = special("weather")
IT = Fixed(Term("it", "es"), pronoun=True)
TIME = Noun(
    "time", "times", "Zeit", "Zeit", "Zeit", "Zeiten", "f", "abstract", frozenset(["abstract"]), countable=False
)
PAST_MODALS = tuple(modal for modal in MODALS if modal.past)
PRESENT_MODALS = tuple(modal for modal in MODALS if not modal.past)
REASON_MODALS = tuple(modal for modal in MODALS if modal.english in ("want to", "have to", "would like to"))


def subordinate(choice: Choice) -> Term:
    """A main clause with because, although, before, while: weil, obwohl, bevor, während."""
    who = referable(choice)
    main = timed(choice, event(choice, who), front=0.3)
    if main.tense == "perfect":  # "has bought … because he was" would mix the tenses
        main = replace(main, tense="past")
        if main.verb.past == main.verb.english:
            main = replace(main, time=parts.when(choice, "past"))
    if choice.chance(0.7):
        conjunction = choice.one((Term("because", "weil"), Term("because", "weil"), Term("although", "obwohl")))
        inner = reason(choice, pronoun_of(who), past=main.past)
    else:
        conjunction = Term("before", "bevor")
        inner = _simple(choice, pronoun_of(who), past=main.past)
    return _joined(choice, main, conjunction, inner, first=0.25)


def _joined(choice: Choice, main: Clause, conjunction: Term, inner: Clause, first: float) -> Term:
    clause = say(choice, inner, "final")
    if choice.chance(first):
        main = replace(main, front=None)
        choice.tag("inversion")
        opened = Term(english(main), german(main, "question"))
        note(choice, main, "question")
        return Term(
            f"{conjunction.english} {clause.english}, {opened.english}",
            f"{conjunction.german} {clause.german}, {opened.german}",
        )
    start = say(choice, main)
    return Term(
        f"{start.english} {conjunction.english} {clause.english}",
        f"{start.german}, {conjunction.german} {clause.german}",
    )


def reason(choice: Choice, who: Pronoun, *, past: bool) -> Clause:
    """Why: a state, no time, a duty or a wish, the weather."""
    kind = choice.weighted((("state", 40), ("time", 10), ("modal", 35), ("weather", 15)))
    if kind == "state":
        adjective = choice.word(MOODS)
        return describe(choice, who, adjective, past=past, negated=choice.chance(0.12))
    if kind == "time":
        choice.tag("negation")
        what = NounPhrase(choice.one((TIME, MONEY)), "no")
        return Clause(who, HAVE, "past" if past else "present", accusative=what)
    if kind == "modal":
        modal = choice.word(PAST_MODALS if past else REASON_MODALS)
        return replace(_simple_event(choice, who), modal=modal, negated=choice.chance(0.15))
    return replace(weather(choice), tense="past" if past else "progressive")


MONEY = GROUPS["money"][0]
MOODS = tuple(
    item
    for item in ADJECTIVES
    if item.english in ("old", "young", "tired", "hungry", "sick", "happy", "sad", "nervous", "rich", "strong")
    or (item.english, item.german) == ("poor", "arm")
)


def weather(choice: Choice) -> Clause:
    """It rains or snows."""
    return Clause(IT, choice.word(WEATHER))


def _simple_event(choice: Choice, who: Subject) -> Clause:
    """A short event: an action with an object that can be negated, or an intransitive verb."""
    if choice.chance(0.35):
        return Clause(who, choice.word(INTRANSITIVES))
    clause = with_object(choice, who, choice.word(REGULAR))
    if isinstance(clause.accusative, NounPhrase) and clause.accusative.count:
        clause = replace(clause, accusative=replace(clause.accusative, count=0))
    return clause


# Verbs whose past differs from the present, so that no adverbial of time is needed to tell them apart.
REGULAR = tuple(verb for verb in ACTIONS if verb.past != verb.english)


def _simple(choice: Choice, who: Subject, *, past: bool) -> Clause:
    return replace(_simple_event(choice, who), tense="past" if past else "present")


def when(choice: Choice) -> Term:
    """When is als for one event of the past, wenn otherwise."""
    who = referable(choice)
    choice.tag("ambiguous")
    if choice.chance(0.5):
        main = replace(_simple_event(choice, who), tense="past")
        inner = _simple(choice, pronoun_of(who), past=True) if choice.chance(0.6) else _state(choice, who)
        return _joined(choice, main, Term("when", "als"), inner, first=0.5)
    future = choice.chance(0.5)
    main = replace(_simple_event(choice, who), tense="future" if future else "present")
    if not future:
        main = replace(main, frequency=parts.when(choice, "frequency"))
    return _joined(choice, main, Term("when", "wenn"), _simple(choice, pronoun_of(who), past=False), first=0.5)


def _state(choice: Choice, who: Subject) -> Clause:
    """Someone was old, tired, sick."""
    return describe(choice, pronoun_of(who), choice.word(MOODS), past=True)


def conditional(choice: Choice) -> Term:
    """If at the start of a sentence is wenn."""
    who = referable(choice)
    choice.tag("ambiguous")
    if choice.chance(0.4):
        inner = replace(weather(choice), time=parts.when(choice, "planned"))
    elif choice.chance(0.5):
        what = NounPhrase(choice.one((TIME, MONEY)), choice.one(("none", "no")))
        inner = Clause(pronoun_of(who), HAVE, accusative=what)
    else:
        inner = describe(choice, pronoun_of(who), choice.word(MOODS), past=False, negated=choice.chance(0.3))
    main = event(choice, who)
    modal = choice.word(PRESENT_MODALS) if choice.chance(0.5) else None
    negated = choice.chance(0.2) and can_be_negated(main)
    main = replace(main, tense="future" if modal is None else "present", modal=modal, negated=negated)
    return _joined(choice, main, Term("if", "wenn"), inner, first=1.0)


def that(choice: Choice) -> Term:
    """Someone knows (weiß), says, believes, hopes that …"""
    who = parts.person(choice, adjectives=0.15) if choice.chance(0.6) else parts.subject(choice)
    verb = choice.word((*special("fact"), *special("belief"), *special("report"), *special("belief")))
    inner = timed(choice, event(choice, parts.subject(choice)), front=0.0, negation=0.2)
    head = Clause(who, verb, _tense_of_report(choice, inner))
    return _content(choice, head, Term("that", "dass"), inner)


def whether(choice: Choice) -> Term:
    """Someone asks or does not know if, why, where, when: ob, warum, wo, wann."""
    who = parts.subject(choice)
    asks = choice.chance(0.5) or not can_be_negated(Clause(who, special("fact")[0]))
    verb = choice.use(special("whether" if asks else "fact")[0])
    word = choice.one((Term("if", "ob"), Term("if", "ob"), Term("why", "warum"), Term("when", "wann")))
    if word.english == "when":
        inner = replace(event(choice, parts.subject(choice)), tense="future")
    else:
        inner = timed(choice, event(choice, parts.subject(choice)), front=0.0, negation=0.15)
    choice.tag("ambiguous")
    head = Clause(who, verb, _tense_of_report(choice, inner))
    return _content(choice, replace(head, negated=not asks and can_be_negated(head)), word, inner)


def _tense_of_report(choice: Choice, inner: Clause) -> str:
    """Return past or present: past goes with past only ("said that he slept", not "said that he sleeps")."""
    return "past" if inner.past and inner.tense != "perfect" and choice.chance(0.6) else "present"


def _content(choice: Choice, head: Clause, conjunction: Term, inner: Clause) -> Term:
    start, clause = say(choice, head), say(choice, inner, "final")
    return Term(
        f"{start.english} {conjunction.english} {clause.english}",
        f"{start.german}, {conjunction.german} {clause.german}",
    )


def relative_subject(choice: Choice) -> Term:
    """The man who …, ….: the relative clause is in the middle."""
    noun = choice.word(parts.STRANGERS)
    plural = noun.plural_only or choice.chance(0.3)
    base = NounPhrase(noun, "the", plural, parts.adjective(choice, noun, 0.2))
    relative = _relative_about(choice, base)
    who = replace(base, relative=relative)
    choice.tag("relative clause", "verb-final")
    if choice.chance(0.45) or base.noun.plural_only:
        adjective = predicative(choice, base.noun)
        who = replace(who, adjective=None)
        negated = choice.chance(0.15)
        return say(choice, describe(choice, who, adjective, past=choice.chance(0.4), negated=negated))
    return say(choice, timed(choice, event(choice, who), front=0.25))


def _relative_about(choice: Choice, base: NounPhrase) -> Relative:
    """A relative clause about a person, who is its subject or its object."""
    if choice.chance(0.65):
        inner = timed(choice, _short_event(choice, base), adverbs=0.3, front=0.0, negation=0.1)
        note(choice, inner, "final")
        return Relative("subject", inner)
    dative = choice.chance(0.45)
    verbs = [verb for verb in ACTIONS if "person" in verb.groups and (verb.case == "dat") == dative]
    verb = choice.word(verbs)
    who = parts.subject(choice)
    role = "dative" if dative else "accusative"
    inner = Clause(who, verb, dative=base) if dative else Clause(who, verb, accusative=base)
    if dative:
        choice.tag("dative")
    inner = replace(inner, tense=choice.one(("past", "perfect", "future")))
    note(choice, inner, "final")
    return Relative(role, inner)


def _short_event(choice: Choice, who: Subject) -> Clause:
    short = tuple((maker, weight) for maker, weight in EVENTS if maker.__name__ not in ("giving", "placing"))
    return choice.weighted(short)(choice, who)


def relative_object(choice: Choice) -> Term:
    """The book that the teacher reads: the German relative clause stands at the end."""
    who = parts.subject(choice)
    verb = choice.word(SEEN)
    noun = choice.word(GROUPS[choice.one(sorted(verb.groups))])
    plural = noun.countable and not noun.groups & {"singular"} and choice.chance(0.25)
    base = NounPhrase(noun, "the", plural and not noun.pair, parts.adjective(choice, noun, 0.2))
    other = parts.subject(choice)
    does = choice.word(tuple(item for item in ACTIONS if item.groups & noun.groups and item.case == "acc"))
    inner = Clause(other, does, choice.one(("past", "perfect", "future")), accusative=base)
    if does.past == does.english and inner.tense == "past":
        inner = replace(inner, tense="perfect")
    note(choice, inner, "final")
    target = replace(base, relative=Relative("accusative", inner), relative_last=True)
    choice.tag("relative clause", "verb-final")
    main = timed(choice, Clause(who, verb, accusative=target), front=1.0, negation=0.1)
    if main.frequency is not None:  # "sells the car often, which …" would part the clause from its noun
        time = parts.when(choice, "habit")
        main = replace(main, frequency=None, time=time, front=time)
    return say(choice, main)


SEEN = tuple(
    verb
    for verb in ACTIONS
    if verb.case == "acc" and not verb.groups & {"person", "family", "crop", "save", "spend", "vote", "see"}
)


def infinitive(choice: Choice) -> Term:
    """Someone tries, hopes, begins to …: zu before the verb, within a separable one."""
    who = parts.subject(choice)
    verb = choice.word(special("attempt"))
    negation = 0.0 if verb.english == "begin" else 0.12
    head = timed(choice, Clause(who, verb), adverbs=0.5, front=1.0, negation=negation)
    return _purpose(choice, head, Term("to", ""), _untimed_event(choice, who))


def purpose(choice: Choice) -> Term:
    """Someone goes somewhere in order to …: um … zu."""
    who = parts.subject(choice)
    head = timed(choice, choice.one((walking, riding, travelling))(choice, who), adverbs=0.6, front=1.0, negation=0.0)
    return _purpose(choice, head, Term("in order to", "um"), _untimed_event(choice, who))


def _untimed_event(choice: Choice, who: Subject) -> Clause:
    return with_object(choice, who, choice.word(ACTIONS)) if choice.chance(0.7) else _simple_event(choice, who)


def _purpose(choice: Choice, head: Clause, link: Term, inner: Clause) -> Term:
    choice.tag("infinitive with zu")
    note(choice, inner, "zu")
    start = say(choice, head)
    aim = english(inner, "infinitive").removeprefix("to ")
    return Term(
        f"{start.english} {link.english} {aim}",
        f"{start.german}, {link.german} {german(inner, 'zu')}",
    )


def coordination(choice: Choice) -> Term:
    """Someone has done something with a thing, but it …: the pronoun has the gender of its noun."""
    who = referable(choice)
    verb = choice.word(HANDLED)
    noun = choice.word(NAMEABLE[choice.one(sorted(verb.groups))])
    plural = not noun.groups & {"singular"} and choice.chance(0.2)
    determiner = choice.one(("the", "this", "the", parts.possessive(choice, who)))
    target = NounPhrase(noun, determiner, plural, parts.adjective(choice, noun, 0.15))
    others = tuple(item for item in HANDLED if item.groups & noun.groups and item.key != verb.key)
    described = not others or choice.chance(0.5)
    if described:
        target = replace(target, adjective=None)
    first = timed(choice, Clause(who, verb, accusative=target), front=0.4, negation=0.0)
    it = Pronoun(target.substitute)
    choice.tag("pronoun gender")
    if described:
        second = describe(choice, it, predicative(choice, noun), past=first.past, negated=choice.chance(0.3))
    else:
        second = Clause(pronoun_of(who), choice.word(others), accusative=it, negated=True)
        second = replace(second, tense="past" if first.past else "future")
    one, two = say(choice, first), say(choice, second)
    return Term(f"{one.english}, but {two.english}", f"{one.german}, aber {two.german}")


NAMEABLE = {
    group: tuple(
        noun
        for noun in pool
        if noun.countable
        and not noun.pair
        and noun.kind not in ("person", "animal", "beam")
        and any(item.predicative for item in FITTING[noun.key])
    )
    for group, pool in GROUPS.items()
}
HANDLED = tuple(
    verb
    for verb in SEEN
    if verb.past != verb.english
    and not verb.groups & {"learn", "explain"}
    and all(NAMEABLE[group] for group in sorted(verb.groups))
)
