"""Events: clauses in the present tense without adverbials of time, and the step that places them in time."""

from dataclasses import replace

from toy_corpus import parts
from toy_corpus.choice import Choice
from toy_corpus.clauses import Clause, Subject
from toy_corpus.nouns import NOUNS, Noun
from toy_corpus.parts import GROUPS, PLACE_GROUPS, object_of, thing
from toy_corpus.phrases import Fixed, NounPhrase, Pronoun, prepositional
from toy_corpus.verbs import INTRANSITIVES, PREPOSITIONALS, TRANSITIVES, Verb, special
from toy_corpus.words import GAMES, LANGUAGES, MODALS, PERIODS, PLACES, SURFACES, Place, Term

ANIMAL_VERBS = tuple(verb for verb in TRANSITIVES if "animal" in verb.flags)
VERBS_OF = {
    noun.key: tuple(verb for verb in TRANSITIVES if verb.case == "acc" and verb.groups & noun.groups - {"crop"})
    for noun in NOUNS
}
OBJECTS = tuple(noun for noun in NOUNS if VERBS_OF[noun.key] and noun.kind not in ("person", "animal"))
ACTIONS = tuple(verb for verb in TRANSITIVES if not verb.state)
AROUND = {"work": "house", "rest": "nature", "move": "nature"}


def transitive(choice: Choice, who: Subject) -> Clause:
    """Someone does something with a thing or a person (accusative or dative)."""
    beast = isinstance(who, NounPhrase) and who.noun.kind == "animal"
    if beast:
        return with_object(choice, who, choice.word(ANIMAL_VERBS))
    if choice.chance(0.4):
        return with_object(choice, who, choice.word(TRANSITIVES))
    noun = choice.word(OBJECTS)  # the rare nouns have their turn too
    return Clause(who, choice.word(VERBS_OF[noun.key]), accusative=thing(choice, noun, who))


def with_object(choice: Choice, who: Subject, verb: Verb) -> Clause:
    """Give a verb an object that goes with it."""
    beast = isinstance(who, NounPhrase) and who.noun.kind == "animal"
    groups = verb.groups
    if beast and "eat" in groups:  # animals eat in another word: fressen
        verb, groups = choice.use(special("devour")[0]), frozenset(["fodder"])
        choice.tag("ambiguous")
    elif beast and "drink" in groups:
        groups = frozenset(["liquid"])
    target = object_of(choice, groups, who)
    if verb.case == "dat":
        choice.tag("dative")
        return Clause(who, verb, dative=target)
    return Clause(who, verb, accusative=target)


def prepositional_object(choice: Choice, who: Subject) -> Clause:
    """Someone waits for, thinks of, looks forward to somebody or something."""
    verb = choice.word(PREPOSITIONALS)
    noun = choice.word(GROUPS[choice.one(sorted(verb.groups))])
    target = thing(choice, noun, who, adjectives=0.2)
    if target.determiner in ("a", "none") or target.count:
        target = replace(target, determiner="the", count=0)
    phrase = prepositional(verb.rest, verb.preposition, verb.case, target)
    choice.tag("accusative or dative preposition")
    bare = replace(verb, rest="")
    return Clause(who, bare, adjuncts=(phrase,))


def intransitive(choice: Choice, who: Subject) -> Clause:
    """Someone sleeps, works, gets up: somewhere, with somebody."""
    beast = isinstance(who, NounPhrase) and who.noun.kind == "animal"
    verb = next(verb for verb in INTRANSITIVES if verb.english == "sleep") if beast else choice.word(INTRANSITIVES)
    if "move" in verb.groups:
        return Clause(who, verb, adjuncts=(parts.company(choice, who),) if _sociable(verb, choice) else ())
    adjuncts = []
    if not beast and "work" in verb.groups and choice.chance(0.35):
        adjuncts.append(parts.company(choice, who))
    if choice.chance(0.75):
        pool = parts.ANYWHERE if "work" in verb.groups else _home_of(who)
        adjuncts.append(parts.location(choice, choice.word(pool)))
    return Clause(who, verb, adjuncts=tuple(adjuncts))


def _home_of(who: Subject) -> tuple[Place, ...]:
    """Return the quiet places for a person or pet; lions and bears stay out of doors."""
    wild = isinstance(who, NounPhrase) and who.noun.kind == "animal" and "pet" not in who.noun.groups
    return PLACE_GROUPS["nature"] if wild else parts.CALM


def _sociable(verb: Verb, choice: Choice) -> bool:
    return verb.rest == "out" and choice.chance(0.5)


def walking(choice: Choice, who: Subject) -> Clause:
    """Someone goes, comes, runs into a place."""
    beast = isinstance(who, NounPhrase) and who.noun.kind == "animal"
    verb = choice.word(tuple(verb for verb in special("walk") if not beast or "animal" in verb.flags))
    target = parts.location(choice, choice.word(_home_of(who) if verb.english == "run" else TARGETS), to=True)
    return Clause(who, verb, adjuncts=(target,))


TARGETS = tuple(place for place in PLACES if not place.noun.groups & {"seat", "shore", "stream", "high"})


def riding(choice: Choice, who: Subject) -> Clause:
    """Someone goes somewhere by bus: gehen becomes fahren."""
    vehicle = choice.word(GROUPS["ride"])
    verb = special("vehicle")[0]
    choice.use(verb)
    pool = (*PLACE_GROUPS["facility"], *PLACE_GROUPS["town"])
    target = parts.city(choice, to=True) if choice.chance(0.5) else parts.location(choice, choice.word(pool), to=True)
    means = Term(f"by {vehicle.english}", f"mit {NounPhrase(vehicle).german('dat')}")
    choice.tag("ambiguous")
    return Clause(who, verb, manner=means, adjuncts=(target,))


def travelling(choice: Choice, who: Subject) -> Clause:
    """Someone travels or flies to a city."""
    company = parts.company(choice, who) if choice.chance(0.4) else None
    verb = choice.word(special("city"))
    return Clause(who, verb, manner=company, adjuncts=(parts.city(choice, to=True),))


def living(choice: Choice, who: Subject) -> Clause:
    """Someone lives (wohnt) in a house or city; wild animals live (leben) in the forest."""
    if isinstance(who, NounPhrase) and who.noun.kind == "animal":
        verb = choice.use(special("wild")[0])
        return Clause(who, verb, adjuncts=(parts.location(choice, choice.word(PLACE_GROUPS["nature"][:3])),))
    verb = choice.use(special("home")[0])
    if choice.chance(0.45):
        return Clause(who, verb, adjuncts=(parts.city(choice),))
    noun = choice.word(GROUPS["home"])
    home = NounPhrase(noun, choice.one(("a", "this")), False, parts.adjective(choice, noun, 0.7))
    return Clause(who, verb, adjuncts=(prepositional("in", "in", "dat", home),))


def giving(choice: Choice, who: Subject) -> Clause:
    """Someone gives, shows, sends, brings, lends somebody something."""
    verb = choice.word(GIVING)
    groups = frozenset(group for group in verb.groups if group in GROUPS)
    target = object_of(choice, groups, who)
    choice.tag("dative")
    receiver = _receiver(choice, who)
    if isinstance(receiver, Pronoun) and isinstance(target, NounPhrase) and target.determiner == "none":
        target = replace(target, determiner="the", count=0)
    return Clause(who, verb, dative=receiver, accusative=target)


GIVING = tuple(verb for group in ("give", "show", "send", "bring", "lend", "tell") for verb in special(group))


def _receiver(choice: Choice, who: Subject) -> NounPhrase | Pronoun:
    if choice.chance(0.3):
        others = [key for key in parts.PERSONS if not (isinstance(who, Pronoun) and who.key == key)]
        if isinstance(who, Pronoun) and who.key in ("I", "we"):
            others = [key for key in others if key not in ("I", "we")]
        return Pronoun(choice.one(others))
    noun = choice.word(GROUPS["person"])
    plural = parts.plural_of(choice, noun, 0.25)
    own = parts.possessive(choice, who) if "family" in noun.groups else "the"
    return NounPhrase(noun, own, plural, parts.adjective(choice, noun, 0.15))


def playing(choice: Choice, who: Subject) -> Clause:
    """Someone plays or speaks something: no article in German."""
    game = choice.chance(0.6)
    verb = choice.use(special("game" if game else "language")[0])
    what = choice.word(GAMES if game else LANGUAGES)
    company = parts.company(choice, who) if choice.chance(0.4) else None
    return Clause(who, verb, predicate=what, manner=company)


def placing(choice: Choice, who: Subject) -> Clause:
    """Someone puts something somewhere: stellen, legen, hängen, with the accusative of direction."""
    group = choice.one(("stand", "lie", "hang"))
    verb = choice.use(special("put" + group)[0])
    target = thing(choice, choice.word(GROUPS[group]), who, adjectives=0.2)
    return Clause(who, verb, accusative=target, adjuncts=(spot(choice, group, "acc"),))


def spot(choice: Choice, group: str, case: str) -> Term:
    """Return a place in, on, under, next to … some piece of furniture."""
    choice.tag("accusative or dative preposition")
    if group == "hang":
        english, german, pool = choice.one((("on", "an", "barrier"), ("next to", "neben", "opening")))
        noun = choice.word(GROUPS[pool])
    else:
        preposition = choice.word(SURFACES)
        english, german = preposition.english, preposition.german
        noun = choice.word(GROUPS["surface"])
    phrase = NounPhrase(noun, "the", False, parts.adjective(choice, noun, 0.15))
    return prepositional(english, german, case, phrase)


def located(choice: Choice) -> Clause:
    """Something stands, lies, hangs or grows (wachsen, not anbauen) somewhere, with the dative of rest."""
    group = choice.one(("stand", "lie", "hang", "grows"))
    if group == "grows":
        tree = thing(choice, choice.word(GROUPS[group]), Pronoun("I"))
        place = parts.location(choice, choice.word(PLACE_GROUPS["nature"][:3]))
        return Clause(tree, choice.use(special(group)[0]), adjuncts=(place,))
    what = thing(choice, choice.word(GROUPS[group]), Pronoun("I"))
    verb = choice.use(special(group)[0])
    return Clause(what, verb, adjuncts=(spot(choice, group, "dat"),))


def sitting(choice: Choice, who: Subject) -> Clause:
    """Someone sits on a bench in the park (Bank), or on the bank of the river (Ufer)."""
    verb = choice.use(special("sit")[0])
    if choice.chance(0.45):
        bank, river = (choice.use(_place(name)) for name in ("Ufer", "Fluss"))
        owner = NounPhrase(river.noun)
        german = f"{prepositional('on', 'an', 'dat', NounPhrase(bank.noun)).german} {owner.german('gen')}"
        choice.tag("ambiguous", "genitive")
        return Clause(who, verb, adjuncts=(Term("on the bank of the river", german),))
    seat = choice.word(SEATS)
    where = prepositional("on", "auf", "dat", NounPhrase(seat, "the", False, parts.adjective(choice, seat, 0.25)))
    outside = seat.english not in ("bed", "sofa") and choice.chance(0.5)
    garden = (parts.location(choice, choice.word(PLACE_GROUPS["nature"][:3])),) if outside else ()
    return Clause(who, verb, adjuncts=(where, *garden))


def _place(german: str) -> Place:
    return next(place for place in PLACES if place.noun.german == german)


SEATS: tuple[Noun, ...] = tuple(
    noun for noun in GROUPS["surface"] if noun.english in ("chair", "garden chair", "sofa", "bed", "bench")
)


def spending(choice: Choice, who: Subject) -> Clause:
    """Someone spends the summer somewhere: verbringen, not ausgeben."""
    verb = choice.use(special("period")[0])
    period = choice.word(PERIODS)
    place = parts.city(choice) if choice.chance(0.5) else parts.location(choice, choice.word(PLACE_GROUPS["nature"]))
    return Clause(who, verb, accusative=Fixed(period), adjuncts=(place,))


EVENTS = (
    (transitive, 46.0),
    (prepositional_object, 8.0),
    (intransitive, 11.0),
    (walking, 6.0),
    (riding, 4.0),
    (travelling, 3.0),
    (living, 3.0),
    (giving, 8.0),
    (playing, 7.0),
    (placing, 5.0),
    (sitting, 2.5),
    (spending, 3.5),
)
ANIMAL_EVENTS = ((transitive, 5.0), (intransitive, 2.0), (walking, 2.0), (living, 2.0))
MODAL_PRESENT = tuple(modal for modal in MODALS if not modal.past)
MODAL_PAST = tuple(modal for modal in MODALS if modal.past)


def event(choice: Choice, who: Subject) -> Clause:
    """Return what someone does, in the present tense without time."""
    beast = isinstance(who, NounPhrase) and who.noun.kind == "animal"
    return choice.weighted(ANIMAL_EVENTS if beast else EVENTS)(choice, who)


def can_be_negated(clause: Clause) -> bool:
    """Whether the clause can be negated without a second meaning (not: every, many, two)."""
    for phrase in (clause.subject, clause.dative, clause.accusative):
        if isinstance(phrase, NounPhrase) and (phrase.count or phrase.determiner in ("every", "many", "all")):
            return False
    if "language" in clause.verb.groups:
        return False
    return not (isinstance(clause.subject, NounPhrase) and clause.subject.determiner in ("a", "none"))


TENSES = (("habit", 22.0), ("progressive", 16.0), ("past", 27.0), ("perfect", 7.0), ("future", 12.0), ("modal", 16.0))
STATE_TENSES = (("habit", 55.0), ("past", 30.0))


def timed(
    choice: Choice, clause: Clause, *, adverbs: float = 0.8, front: float = 0.4, negation: float = 0.16
) -> Clause:
    """Place an event in time: choose tense or modal verb, adverbial, negation, and what opens the sentence."""
    negated = choice.chance(negation) and can_be_negated(clause)
    tense = choice.weighted(STATE_TENSES if clause.verb.state else TENSES)
    if tense == "progressive" and "moment" in clause.verb.flags:
        tense = "past"
    clause = replace(clause, negated=negated)
    timeless = "period" in clause.verb.groups  # not: spends the winter in Spain every day
    placed = _with_tense(choice, clause, tense, choice.chance(adverbs) and not timeless)
    return fronted(choice, placed, front)


def _with_tense(choice: Choice, clause: Clause, tense: str, adverb: bool) -> Clause:
    if tense == "habit":
        return _habit(choice, clause)
    if tense == "modal":
        modal = choice.word(MODAL_PRESENT if choice.chance(0.65) else MODAL_PAST)
        time = parts.when(choice, "past" if modal.past else "planned") if adverb else None
        return replace(clause, modal=modal, time=time)
    if tense == "perfect":
        return replace(clause, tense="perfect")
    # "They read", "they put": only the adverbial tells that it is past.
    needed = tense == "past" and clause.verb.past == clause.verb.english
    time = parts.when(choice, tense) if adverb or needed else None
    return replace(clause, tense=tense, time=time)


def _habit(choice: Choice, clause: Clause) -> Clause:
    if clause.verb.state or clause.negated:
        return clause
    kind = "frequency" if "period" in clause.verb.groups or choice.chance(0.5) else "habit"
    time = parts.when(choice, kind)
    return replace(clause, time=time) if kind == "habit" else replace(clause, frequency=time)


def fronted(choice: Choice, clause: Clause, probability: float) -> Clause:
    """Open the sentence with the time, or now and then with the place."""
    if clause.time is not None and choice.chance(probability):
        return replace(clause, front=clause.time)
    located_last = clause.adjuncts and not clause.negated and clause.verb.auxiliary == "haben"
    verb = clause.verb
    resting = (
        not verb.preposition and verb.case == "acc" and clause.accusative is None and not verb.groups & {"home", "wild"}
    )
    place = clause.adjuncts[-1] if clause.adjuncts else None
    opens = place is not None and place.english.startswith(("in the", "at the", "on the", "in "))
    if located_last and resting and opens and choice.chance(probability / 2):
        return replace(clause, front=place)
    return clause
