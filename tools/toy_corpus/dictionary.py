"""An English-German dictionary of the grammar's words, for translations word by word."""

import re
from functools import cache

from toy_corpus import inflection, words
from toy_corpus.nouns import NOUNS
from toy_corpus.verbs import VERBS

FUNCTION_WORDS = """
the die | a ein | an ein | this diese | these diese | every jeder | many viele | all alle | no kein | which welche
my mein | his sein | her ihr | our unser | their ihr | i ich | he er | she sie | we wir | they sie | it es
me mich | him ihn | us uns | them sie | who der | whom den | that dass | if wenn | when wenn | because weil
although obwohl | before bevor | why warum | but aber | than als | to zu | of von | in in | into in | on auf | onto auf
at an | by mit | with mit | without ohne | for für | from von | about über | under unter | next neben | behind hinter
front vor | after nach | not nicht | do tun | does tut | did tat | is ist | are sind | am bin | was war | were waren
been gewesen | be sein | has hat | have haben | had hatte | will wird | can kann | cannot kann nicht | should sollte
could konnte | would würde | wants will | want wollen | wanted wollte | allowed erlaubt | there da | order Ordnung
euros Euro | old alt | o'clock Uhr | ago vor | every jeden | day Tag | morning Morgen | evening Abend | week Woche
year Jahr | last letzte | moment Moment | winter Winter | summer Sommer | spring Frühling | weekend Wochenende
holidays Ferien | piano Klavier | guitar Gitarre | violin Geige | flute Flöte | time Zeit
"""


@cache
def dictionary() -> dict[str, str]:
    """Return English word → German word: the form in the dictionary, or the commonest of a function word."""
    entries: dict[str, str] = {}
    for value in range(2, 100):
        entries[words.number(value).english] = words.number(value).german
    for term in (*words.CITIES, *words.COUNTRIES, *words.LANGUAGES, *words.GAMES, *words.UNITS_OF_TIME):
        entries[term.english.lower()] = term.german
    for terms in words.TIMES.values():
        entries.update({term.english.lower(): term.german for term in terms})
    for adjective in words.ADJECTIVES:
        entries.setdefault(adjective.english, adjective.german)
        if adjective.comparative:
            entries.setdefault(*adjective.comparative)
    for verb in VERBS:
        infinitive = verb.prefix + verb.infinitive
        entries.setdefault(verb.english, infinitive)
        entries.setdefault(inflection.third_person(verb.english), verb.third)
        entries.setdefault(inflection.ing(verb.english), verb.third)
        entries.setdefault(verb.participle, verb.german_participle)
        entries.setdefault(verb.past, verb.german_participle)
    for noun in (*NOUNS, *(place.noun for place in words.PLACES)):
        entries.setdefault(noun.english, noun.german)
        entries.setdefault(noun.english_plural, noun.german_plural)
    for entry in re.split(r"[|\n]", FUNCTION_WORDS.strip()):
        english, german = entry.strip().split(" ", 1)
        entries[english] = german
    return entries
