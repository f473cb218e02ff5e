"""Sentences of one clause, each made in both languages from one meaning."""

from dataclasses import replace

from toy_corpus import parts
from toy_corpus.choice import Choice
from toy_corpus.clauses import Clause, Subject, which
from toy_corpus.complex import SEEN
from toy_corpus.events import ACTIONS, can_be_negated, event, located, playing, timed, with_object
from toy_corpus.inflection import article
from toy_corpus.nouns import NOUNS, Noun
from toy_corpus.parts import FITTING, GROUPS, thing
from toy_corpus.phrases import Fixed, Name, NounPhrase, Pronoun
from toy_corpus.saying import BE, HAVE, describe, predicative, say
from toy_corpus.verbs import INTRANSITIVES, special
from toy_corpus.words import MODALS, NAMES, Term, number

DESCRIBED = tuple(
    noun
    for noun in NOUNS
    if noun.kind not in ("person", "animal") and any(item.predicative for item in FITTING[noun.key])
)
COMPARED = tuple(
    noun for noun in NOUNS if not noun.plural_only and noun.countable and any(a.comparative for a in FITTING[noun.key])
)


def statement(choice: Choice) -> Term:
    """A main clause in any tense: verb-second, fronted adverbials, negation, modal verbs."""
    return say(choice, timed(choice, event(choice, parts.subject(choice, animals=True))))


def located_things(choice: Choice) -> Term:
    """Something stands, lies, hangs somewhere."""
    return say(choice, timed(choice, located(choice), adverbs=0.0, front=0.0, negation=0.2))


def gladly(choice: Choice) -> Term:
    """Like to is gern."""
    who = parts.subject(choice)
    choice.tag("gern")
    kind = choice.one(("food", "place", "game"))
    if kind == "game":
        clause = replace(playing(choice, who), manner=None)
    elif kind == "food":
        verb = choice.word(CONSUMING)
        noun = choice.word(GROUPS[choice.one(sorted(verb.groups))])
        what = NounPhrase(noun, "none", noun.countable, parts.adjective(choice, noun, 0.3))
        clause = Clause(who, verb, accusative=what)
    else:
        verb = choice.word(tuple(verb for verb in INTRANSITIVES if "work" in verb.groups and not verb.rest))
        clause = Clause(who, verb, adjuncts=(parts.location(choice, choice.word(parts.ANYWHERE)),))
    return say(choice, replace(clause, gladly=True), choice.one(("main", "main", "question")))


CONSUMING = tuple(
    verb for verb in ACTIONS if verb.english in ("eat", "drink", "read", "bake", "cook", "wear", "collect", "feed")
)


def liking(choice: Choice) -> Term:
    """Not coffee but tea: sondern; there is: es gibt; belong to; like."""
    return choice.weighted(((_contrast, 45), (_there, 30), (_belonging, 12), (_like, 13)))(choice)


def _contrast(choice: Choice) -> Term:
    who = parts.subject(choice)
    while not can_be_negated(Clause(who, BE)):
        who = parts.subject(choice)
    verb = choice.word(OPPOSED)
    pool = GROUPS[choice.one(sorted(verb.groups))]
    wanted = choice.one(("a", "the", "none"))
    first, second = (_bare(choice.word(pool), wanted) for _ in range(2))
    while first.noun.english.split()[-1] == second.noun.english.split()[-1]:
        second = _bare(choice.word(pool), wanted)
    choice.tag("sondern")
    clause = timed(choice, Clause(who, verb, accusative=first, contrast=second), front=1.0, negation=0.0)
    clause = replace(clause, negated=True, frequency=None)
    time = clause.time if clause.tense != "present" or clause.modal else None
    return say(choice, replace(clause, time=time, front=time))


def _bare(noun: Noun, wanted: str) -> NounPhrase:
    if not noun.countable:
        return NounPhrase(noun, "none")
    if wanted == "none" and "singular" not in noun.groups:
        return NounPhrase(noun, "none", True)
    return NounPhrase(noun, "the" if wanted == "the" else "a")


OPPOSED = tuple(
    verb
    for verb in SEEN
    if "switch" not in verb.groups
    and verb.past != verb.english
    and min(len(GROUPS[group]) for group in sorted(verb.groups)) > 2
)


def _there(choice: Choice) -> Term:
    target = choice.word(FACILITIES)
    description = parts.adjective(choice, target.noun, 0.3)
    many = choice.chance(0.35)
    what = NounPhrase(target.noun, "a", False, description)
    if many:
        what = parts.counted(choice, target.noun, description)
    where = parts.location(choice, choice.word(parts.PLACE_GROUPS["town"]))
    if choice.chance(0.3):
        where = parts.city(choice)
    there, gives = f"there {'are' if many else 'is'} {what.english()}", what.german("acc")
    choice.tag("es gibt")
    if choice.chance(0.4):
        choice.tag("inversion")
        return Term(f"{where.english} {there}", f"{where.german} gibt es {gives}")
    return Term(f"{there} {where.english}", f"es gibt {gives} {where.german}")


FACILITIES = parts.PLACE_GROUPS["facility"]


def _belonging(choice: Choice) -> Term:
    verb = choice.use(special("belong")[0])
    noun = choice.word(parts.nouns(*parts.OWNED))
    what = NounPhrase(noun, "this", False, parts.adjective(choice, noun, 0.4))
    owner = parts.owner(choice)
    choice.tag("dative")
    clause = Clause(what, verb, dative=owner, negated=choice.chance(0.25))
    return say(choice, clause, choice.one(("main", "main", "question")) if not clause.negated else "main")


def _like(choice: Choice) -> Term:
    verb = choice.use(special("like")[0])
    who = parts.subject(choice)
    noun = choice.word(parts.nouns("food", "drink", "family", "pet"))
    what = thing(choice, noun, who)
    if what.determiner == "a":
        what = replace(what, determiner="none" if noun.countable else "the", plural=True)
    clause = Clause(who, verb, choice.one(("present", "present", "past")), accusative=what)
    return say(choice, replace(clause, negated=choice.chance(0.3) and can_be_negated(clause)))


def question(choice: Choice) -> Term:
    """A question: with do in English, verb-first or after the question word in German."""
    choice.tag("question")
    kind = choice.weighted((("yes", 35), ("why", 35), ("which", 20), ("who", 10)))
    if kind == "who":
        clause = timed(choice, event(choice, Fixed(Term("who", "wer"), pronoun=True)), front=0.0, negation=0.1)
        return say(choice, clause)
    who = parts.subject(choice)
    if kind == "which":
        clause = with_object(choice, who, choice.word(ACTIONS))
        while not isinstance(clause.accusative, NounPhrase) or clause.accusative.noun.kind == "beam":
            clause = with_object(choice, who, choice.word(ACTIONS))
        choice.tag("inversion")
        return say(choice, which(_asked(choice, clause)), "question")
    clause = _asked(choice, event(choice, who))
    if kind == "why":
        words = (Term("why", "warum"), Term("when", "wann"))
        open_time = clause.time is None and clause.frequency is None and not clause.verb.state
        asked = choice.one(words if open_time else words[:1])
        clause = replace(clause, asked=asked)
    return say(choice, clause, "question")


def _asked(choice: Choice, clause: Clause) -> Clause:
    return timed(choice, clause, adverbs=0.6, front=0.0, negation=0.0)


def adjectives(choice: Choice) -> Term:
    """Someone or something is so, or more so than another, or wants to become something."""
    kind = choice.weighted((("person", 20), ("thing", 40), ("comparison", 30), ("job", 10)))
    past = choice.chance(0.35)
    if kind == "person":
        who = parts.person(choice, adjectives=0.0)
        negated = choice.chance(0.25) and can_be_negated(Clause(who, BE))
        return say(choice, describe(choice, who, predicative(choice, who.noun), past=past, negated=negated))
    if kind == "comparison":
        return _comparison(choice, past)
    if kind == "job":
        return _job(choice)
    what = thing(choice, choice.word(DESCRIBED), Pronoun("I"), adjectives=0.0)
    what = replace(what, determiner="the" if what.determiner in ("a", "none") else what.determiner, count=0)
    negated = choice.chance(0.3)
    return say(choice, describe(choice, what, predicative(choice, what.noun), past=past, negated=negated))


def _comparison(choice: Choice, past: bool) -> Term:
    noun = choice.word(COMPARED)
    adjective = choice.word(tuple(item for item in FITTING[noun.key] if item.comparative))
    other = choice.word(tuple(item for item in COMPARED if item.kind == noun.kind and adjective.groups & item.groups))
    comparative = adjective.comparative or ("", "")
    choice.tag("comparison")
    mine, yours = ("my", "his") if "family" in noun.groups else ("this", "the")
    if "family" in other.groups:
        yours = "her"
    second = NounPhrase(other, yours)
    phrase = Term(f"{comparative[0]} than {second.english()}", f"{comparative[1]} als {second.german('nom')}")
    plural = not noun.groups & {"singular"} and not noun.pair and choice.chance(0.2)
    return say(choice, Clause(NounPhrase(noun, mine, plural), BE, "past" if past else "present", predicate=phrase))


def _job(choice: Choice) -> Term:
    noun = choice.word(GROUPS["job"])
    who: Subject = Name(*choice.one(NAMES)) if choice.chance(0.5) else Pronoun(choice.one(("I", "he")))
    while isinstance(who, Name) and who.gender == "f":
        who = Name(*choice.one(NAMES))
    job = Term(f"{article(noun.english)} {noun.english}", noun.german)
    become = choice.use(special("become")[0])
    if choice.chance(0.3):
        return say(choice, Clause(who, BE, choice.one(("present", "past")), predicate=job))
    modal = choice.word(tuple(modal for modal in MODALS if modal.english in ("want to", "would like to", "wanted to")))
    return say(choice, Clause(who, become, modal=modal, predicate=job))


def numbers(choice: Choice) -> Term:
    """Prices, ages, amounts, departures: einundzwanzig for twenty-one."""
    choice.tag("number")
    kind = choice.weighted((("have", 35), ("price", 25), ("age", 20), ("departure", 20)))
    value = choice.one(range(2, 100))
    if kind == "have":
        who = parts.subject(choice)
        noun = choice.word(COUNTED)
        what = NounPhrase(noun, "none", True, parts.adjective(choice, noun, 0.2), count=value)
        verb = choice.use(HAVE)
        return say(choice, Clause(who, verb, choice.one(("present", "present", "past")), accusative=what))
    if kind == "price":
        noun = choice.word(PRICED)
        what = NounPhrase(noun, choice.one(("the", "this")), False, parts.adjective(choice, noun, 0.3))
        price = Term(f"{number(value).english} euros", f"{number(value).german} Euro")
        return say(choice, Clause(what, choice.use(special("price")[0]), predicate=price))
    if kind == "age":
        person = parts.name(choice) if choice.chance(0.5) else parts.person(choice, adjectives=0.0, singular=True)
        age = Term(f"{number(value).english} years old", f"{number(value).german} Jahre alt")
        return say(choice, Clause(person, BE, choice.one(("present", "present", "past")), predicate=age))
    return departure(choice, value)


UNCOUNTED = frozenset(
    ("person", "singular", "opening", "beam", "barrier", "sport", "society", "feast", "building", "room", "knob")
)
COUNTED = tuple(
    noun for noun in NOUNS if noun.countable and not noun.pair and not noun.plural_only and not noun.groups & UNCOUNTED
)
PRICED = tuple(noun for noun in GROUPS["buy"] if noun.countable and not noun.pair and noun.kind != "food")


def departure(choice: Choice, value: int) -> Term:
    """Trains leave (fahren ab) and arrive (kommen an)."""
    noun = choice.word(GROUPS["board"])
    verb = choice.word(special("schedule"))
    choice.tag("ambiguous")
    if choice.chance(0.5):
        hour = value % 11 + 2
        time = Term(f"at {number(hour).english} o'clock", f"um {number(hour).german} Uhr")
    else:
        time = Term(f"in {number(value).english} minutes", f"in {number(value).german} Minuten")
    tense = choice.one(("present", "future", "future")) if time.english.startswith("in") else "past"
    clause = Clause(NounPhrase(noun, choice.one(("the", "this", "our"))), verb, tense, time=time)
    return say(choice, replace(clause, front=time) if choice.chance(0.35) else clause)
