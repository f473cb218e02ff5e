"""Parts of sentences with meanings that go together: who, what, where, and when."""

from dataclasses import replace

from toy_corpus import words
from toy_corpus.choice import Choice
from toy_corpus.clauses import Clause, Subject
from toy_corpus.nouns import NOUNS, Noun
from toy_corpus.phrases import Name, NounPhrase, Phrase, Pronoun, prepositional
from toy_corpus.words import ADJECTIVES, CITIES, COUNTRIES, NAMES, PLACES, TIMES, Adjective, Place, Term

OWNED = ("clothes", "tool", "vehicle", "text", "weight", "image", "pet")
OWNING = {"I": "my", "he": "his", "she": "her", "we": "our", "they": "their"}
PERSONS = ("I", "he", "she", "we", "they")


def nouns(*groups: str) -> tuple[Noun, ...]:
    """Return the nouns that belong to one of the groups, in the order of the table."""
    return tuple(noun for noun in NOUNS if noun.groups & set(groups))


def _by_group() -> dict[str, tuple[Noun, ...]]:
    return {group: nouns(group) for noun in NOUNS for group in sorted(noun.groups)}


GROUPS = _by_group()
PLACE_GROUPS = {
    group: tuple(place for place in PLACES if group in place.noun.groups)
    for group in ("nature", "room", "house", "town", "facility", "wilds")
}
CALM = PLACE_GROUPS["nature"] + PLACE_GROUPS["room"]
ANYWHERE = CALM + PLACE_GROUPS["house"] + PLACE_GROUPS["town"]
SINGLE_PERSONS = tuple(noun for noun in GROUPS["person"] if not noun.plural_only)
STRANGERS = tuple(noun for noun in GROUPS["person"] if "family" not in noun.groups)
FITTING: dict[str, tuple[Adjective, ...]] = {
    noun.key: tuple(item for item in ADJECTIVES if item.groups & noun.groups)
    for noun in (*NOUNS, *(place.noun for place in PLACES))
}


def adjective(choice: Choice, noun: Noun, probability: float) -> Adjective | None:
    """Return an adjective that fits the noun, or, where chance or the table says so, none."""
    fitting = FITTING[noun.key]
    if not fitting or not choice.chance(probability):
        return None
    choice.tag("adjective")
    return choice.word(fitting)


def person(choice: Choice, *, adjectives: float = 0.3, singular: bool = False) -> NounPhrase:
    """Return a noun phrase for one or more persons."""
    noun = choice.word(SINGLE_PERSONS if singular else GROUPS["person"])
    description = adjective(choice, noun, adjectives)
    if "family" in noun.groups:
        owner = choice.one(("my", "my", "his", "her", "our", "their"))
        plural = plural_of(choice, noun, 0.0 if singular else 0.2)
        return NounPhrase(noun, owner, plural, description)
    if noun.plural_only:
        return NounPhrase(noun, choice.one(("the", "the", "these", "many")).replace("these", "this"), True, description)
    if singular or choice.chance(0.78):
        determiner = choice.weighted((("the", 70), ("a", 12), ("this", 12), ("every", 6)))
        return NounPhrase(noun, "the" if singular and determiner == "every" else determiner, False, description)
    determiner = choice.weighted((("the", 45), ("this", 15), ("many", 15), ("all", 10), ("number", 15)))
    return (
        counted(choice, noun, description)
        if determiner == "number"
        else NounPhrase(noun, determiner, True, description)
    )


def plural_of(choice: Choice, noun: Noun, probability: float) -> bool:
    """Return whether to use the plural: never of my father, always of my parents."""
    return noun.plural_only or ("singular" not in noun.groups and choice.chance(probability))


def counted(choice: Choice, noun: Noun, description: Adjective | None = None, highest: int = 12) -> NounPhrase:
    """Return a phrase such as: two old houses."""
    choice.tag("number")
    return NounPhrase(noun, "none", True, description, count=choice.one(range(2, highest + 1)))


def animal(choice: Choice) -> NounPhrase:
    """Return a noun phrase for an animal."""
    noun = choice.word(GROUPS["animal"])
    description = adjective(choice, noun, 0.3)
    if choice.chance(0.75):
        return NounPhrase(noun, choice.one(("the", "the", "a", "this")), False, description)
    own = "the" if "wild" in noun.groups else "our"
    return NounPhrase(noun, choice.one(("the", "this", own)), True, description)


def subject(choice: Choice, *, animals: bool = False) -> Subject:
    """Return who acts: a name, a pronoun, or a noun phrase."""
    kind = choice.weighted((("name", 18), ("pronoun", 22), ("phrase", 60)))
    if animals and choice.chance(0.35):
        return animal(choice)
    if kind == "name":
        return name(choice)
    if kind == "pronoun":
        return Pronoun(choice.one(PERSONS))
    return person(choice)


def name(choice: Choice) -> Name:
    """Return a name."""
    given = choice.word(NAME_TERMS)
    return Name(given.english, GENDER[given.english])


NAME_TERMS = tuple(Term(given, given) for given, _ in NAMES)
GENDER = dict(NAMES)


def referable(choice: Choice) -> Subject:
    """Return someone whom exactly one pronoun stands for in both languages (not: das Mädchen, the girl)."""
    who = subject(choice)
    while isinstance(who, NounPhrase) and (who.gender == "n" or who.determiner in ("every", "a")):
        who = subject(choice)
    return who


def pronoun_of(who: Subject) -> Pronoun:
    """Return the pronoun for a referable subject."""
    if isinstance(who, Pronoun):
        return who
    gender = who.gender if isinstance(who, NounPhrase | Name) else "m"
    return Pronoun({"m": "he", "f": "she", "p": "they"}[gender])


def possessive(choice: Choice, who: Subject) -> str:
    """Return the possessive for something of the subject: mostly his own."""
    if isinstance(who, NounPhrase) and (who.gender == "n" or who.noun.kind == "animal"):
        return choice.one(("my", "our"))
    return OWNING[pronoun_of(who).key]


def thing(choice: Choice, noun: Noun, who: Subject, *, adjectives: float = 0.28) -> NounPhrase:
    """Return a noun phrase for an object that the subject has to do with."""
    if noun.kind == "person":
        return _object_person(choice, noun, who)
    description = adjective(choice, noun, adjectives)
    if "beam" in noun.groups:
        return NounPhrase(noun, "the", False, description)
    if not noun.countable and not noun.pair:
        return NounPhrase(noun, choice.weighted((("none", 60), ("the", 28), ("this", 12))), False, description)
    own = possessive(choice, who)
    if noun.pair:
        return NounPhrase(noun, choice.one(("the", own)), False, description)
    if noun.groups & set(OWNED) and choice.chance(0.12):
        choice.tag("genitive")
        return NounPhrase(noun, "the", False, description, owner=owner(choice))
    if "singular" in noun.groups or choice.chance(0.76):
        return NounPhrase(noun, choice.weighted((("the", 40), ("a", 30), (own, 20), ("this", 10))), False, description)
    determiner = choice.weighted((("the", 30), (own, 20), ("this", 12), ("none", 18), ("number", 20)))
    return (
        counted(choice, noun, description)
        if determiner == "number"
        else NounPhrase(noun, determiner, True, description)
    )


def _object_person(choice: Choice, noun: Noun, who: Subject) -> NounPhrase:
    description = adjective(choice, noun, 0.2)
    plural = plural_of(choice, noun, 0.2)
    if "family" in noun.groups:
        return NounPhrase(noun, possessive(choice, who), plural, description)
    return NounPhrase(noun, choice.one(("the", "the", "this")), plural, description)


def owner(choice: Choice) -> NounPhrase | Name:
    """Return whose something is: the teacher's, Anna's."""
    if choice.chance(0.25):
        return name(choice)
    noun = choice.word(SINGLE_PERSONS)
    return NounPhrase(noun, "my" if "family" in noun.groups else "the")


def object_of(choice: Choice, groups: frozenset[str], who: Subject) -> Phrase:
    """Return an object from these groups; for persons now and then a pronoun."""
    noun = choice.word(GROUPS[choice.one(sorted(groups))])
    if noun.kind == "person" and choice.chance(0.25) and not isinstance(who, Pronoun):
        return Pronoun(choice.one(("I", "we")))
    if noun.groups & {"crop"} and groups == {"crop"}:
        return NounPhrase(noun, "none", True, adjective(choice, noun, 0.2))
    return thing(choice, noun, who)


def location(choice: Choice, place: Place, *, to: bool = False, adjectives: float = 0.15) -> Term:
    """Return where (in the garden, im Garten) or, with `to`, where to (into the garden, in den Garten)."""
    description = adjective(choice, place.noun, adjectives)
    phrase = NounPhrase(place.noun, "the", False, description)
    english, german = place.direction if to else place.rest
    case = "acc" if to and german != "zu" else "dat"
    choice.tag("accusative or dative preposition")
    return prepositional(english, german, case, phrase)


def city(choice: Choice, *, to: bool = False) -> Term:
    """Return in or to a city or country; two countries take the article in German."""
    if choice.chance(0.14):
        country = choice.word(COUNTRIES)
        article = "die" if to else "der"
        return Term(f"{'to' if to else 'in'} {country.english}", f"in {article} {country.german}")
    target = choice.word(CITIES)
    return (
        Term(f"to {target.english}", f"nach {target.german}")
        if to
        else Term(f"in {target.english}", f"in {target.german}")
    )


def company(choice: Choice, who: Subject) -> Term:
    """Return with or without whom, or for whom."""
    noun = choice.word(GROUPS["family"])
    phrase = NounPhrase(noun, possessive(choice, who), plural_of(choice, noun, 0.25))
    english, german, case = choice.weighted(
        ((("with", "mit", "dat"), 60), (("without", "ohne", "acc"), 25), (("for", "für", "acc"), 15))
    )
    choice.tag("accusative or dative preposition")
    return prepositional(english, german, case, phrase)


def when(choice: Choice, kind: str) -> Term:
    """Return a time that goes with a tense: habit, frequency, progressive, past, future, planned."""
    draw = choice.random.random()
    if kind == "past" and draw < 0.12:
        unit = choice.word(words.UNITS_OF_TIME)
        count = words.number(choice.one(range(2, 13)))
        choice.tag("number")
        return Term(f"{count.english} {unit.english} ago", f"vor {count.german} {dative_unit(unit.german)}")
    if kind == "future" and draw < 0.10:
        hour = words.number(choice.one(range(2, 13)))
        choice.tag("number")
        return Term(f"at {hour.english} o'clock", f"um {hour.german} Uhr")
    return choice.word(TIMES[kind])


def dative_unit(unit: str) -> str:
    """Return the dative plural of a unit of time: vor zwei Tagen."""
    return unit if unit.endswith("n") else unit + "n"


def plain(clause: Clause) -> Clause:
    """Return the clause without adverbials of time, for a subordinate clause."""
    return replace(clause, time=None, frequency=None, front=None)
