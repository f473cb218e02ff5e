"""Endings of both languages: articles, adjectives, verbs. Genders are m, f, n and p (the plural of all three)."""

from typing import NamedTuple

from toy_corpus.verbs import Verb

CASES = ("nom", "acc", "dat", "gen")

THE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
RELATIVE = {**THE, "dat": {"m": "dem", "f": "der", "n": "dem", "p": "denen"}}

# Endings of dieser, jeder, welcher, and of adjectives that no article precedes.
STRONG = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
# Endings of ein, kein, mein.
EIN = {
    "nom": {"m": "", "f": "e", "n": "", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
_ALL_EN = {"m": "en", "f": "en", "n": "en", "p": "en"}
# Adjectives after der, dieser, jeder, alle.
WEAK = {
    "nom": {"m": "e", "f": "e", "n": "e", "p": "en"},
    "acc": {"m": "en", "f": "e", "n": "e", "p": "en"},
    "dat": _ALL_EN,
    "gen": _ALL_EN,
}
# Adjectives after ein, kein, mein.
MIXED = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "en"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "en"},
    "dat": _ALL_EN,
    "gen": _ALL_EN,
}
ADJECTIVE_ENDINGS = {"weak": WEAK, "mixed": MIXED, "strong": {**STRONG, "gen": {**STRONG["gen"], "m": "en", "n": "en"}}}

POSSESSIVES = {"my": "mein", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr"}

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}


class Personal(NamedTuple):
    """A personal pronoun; `agreement` is I, he or we: they stand for the three sets of German endings."""

    english: str
    english_object: str
    nom: str
    acc: str
    dat: str
    agreement: str
    reflexive: str


PRONOUNS = {
    "I": Personal("I", "me", "ich", "mich", "mir", "I", "mich"),
    "he": Personal("he", "him", "er", "ihn", "ihm", "he", "sich"),
    "she": Personal("she", "her", "sie", "sie", "ihr", "he", "sich"),
    "we": Personal("we", "us", "wir", "uns", "uns", "we", "uns"),
    "they": Personal("they", "them", "sie", "sie", "ihnen", "we", "sich"),
    "it m": Personal("it", "it", "er", "ihn", "ihm", "he", "sich"),
    "it f": Personal("it", "it", "sie", "sie", "ihr", "he", "sich"),
    "it n": Personal("it", "it", "es", "es", "ihm", "he", "sich"),
}

HAVE = {"I": "habe", "he": "hat", "we": "haben"}
BE = {"I": "bin", "he": "ist", "we": "sind"}
WILL = {"I": "werde", "he": "wird", "we": "werden"}
FIRST_PERSON = {"sein": "bin", "wissen": "weiß", "mögen": "mag"}
PLURAL = {"sein": "sind"}

DOUBLING = ("swim", "run", "get", "put", "sit", "cut", "win", "begin", "forget", "travel")
VOWELS = "aeiou"


def article(word: str) -> str:
    """Return a or an before an English word."""
    return "an" if word[0] in VOWELS else "a"


def third_person(verb: str) -> str:
    """Return the third person singular of an English verb: goes, carries, watches, works."""
    if verb == "have":
        return "has"
    if verb.endswith(("s", "x", "ch", "sh", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ies"
    return verb + "s"


def ing(verb: str) -> str:
    """Return the present participle of an English verb: lying, swimming, writing, seeing, working."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb in DOUBLING:
        return verb + verb[-1] + "ing"
    if verb.endswith("e") and not verb.endswith("ee") and verb != "be":
        return verb[:-1] + "ing"
    return verb + "ing"


def present(verb: Verb, agreement: str) -> str:
    """Return the German finite present without its prefix; `agreement` is I, he or we."""
    if agreement == "he":
        return verb.third
    if agreement == "we":
        return PLURAL.get(verb.infinitive, verb.infinitive)
    if verb.infinitive in FIRST_PERSON:
        return FIRST_PERSON[verb.infinitive]
    stem = verb.infinitive.removesuffix("n")
    if stem.endswith("el"):  # sammeln: ich sammle
        return stem[:-2] + "le"
    return stem if stem.endswith("e") else stem + "e"  # kaufen: ich kaufe; erinnern: ich erinnere


def preterite(verb: Verb, agreement: str) -> str:
    """Return the German finite preterite of a verb that has one in the table."""
    if agreement != "we":
        return verb.preterite
    return verb.preterite + ("n" if verb.preterite.endswith("e") else "en")


def auxiliary(verb: Verb, agreement: str) -> str:
    """Return the finite auxiliary of the German perfect."""
    return (BE if verb.auxiliary == "sein" else HAVE)[agreement]


def dative_plural(noun: str) -> str:
    """Return the dative plural from the nominative plural: -n is added after all but -n and -s."""
    return noun if noun[-1] in "ns" else noun + "n"
