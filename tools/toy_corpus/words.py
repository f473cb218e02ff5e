"""The other words of the toy corpus: adjectives, places, names, adverbials, numbers, modal verbs, as tables."""

from dataclasses import dataclass

from toy_corpus.nouns import Noun, noun

# English | German, before endings where it differs | comparatives (`-` none) | groups of nouns that it fits.
# `^` before the English word: stands only before a noun. Same English word, other German word: the noun decides.
ADJECTIVE = """
old         | alt | older / älter | person animal text clothes device tool vehicle furniture building
young       | jung           | younger / jünger       | person animal
tall        | groß           | taller / größer        | person
friendly    | freundlich     | friendlier / freundlicher | person
clever      | klug           | cleverer / klüger      | person animal
strong      | stark          | stronger / stärker     | person wild
tired       | müde/müd       | -                      | person animal
hungry      | hungrig        | -                      | person animal
sick        | krank          | -                      | person animal
happy       | glücklich      | happier / glücklicher  | person
sad         | traurig        | sadder / trauriger     | person tell
nervous     | nervös         | -                      | person
famous      | berühmt        | -                      | job image see
rich        | reich          | richer / reicher       | person
poor        | arm            | poorer / ärmer         | person
poor        | schlecht       | -                      | solution beam text
new         | neu            | newer / neuer          | text clothes device tool vehicle furniture building
expensive   | teuer/teur     | -                      | clothes device tool vehicle furniture order rent
cheap       | billig         | cheaper / billiger     | clothes device tool vehicle furniture order rent
small       | klein          | smaller / kleiner      | animal furniture building weight image plant town room
big         | groß           | bigger / größer        | animal furniture building weight image plant town room
beautiful   | schön          | -                      | plant image building feast break town nature
red         | rot            | -                      | clothes vehicle furniture break weight thing
blue        | blau           | -                      | clothes vehicle furniture break weight thing
green       | grün           | -                      | clothes vehicle furniture break weight thing
white       | weiß           | -                      | clothes vehicle furniture break opening barrier
black       | schwarz        | -                      | clothes vehicle furniture animal
clean       | sauber         | -                      | wash break room
dirty       | schmutzig      | -                      | wash break room opening
broken      | kaputt         | -                      | device tool vehicle
heavy       | schwer         | heavier / schwerer     | weight furniture
light       | leicht         | lighter / leichter     | weight
light       | hell           | -                      | room lit
hard        | schwierig      | harder / schwieriger   | abstract
hard        | hart           | -                      | hard
easy        | einfach        | easier / einfacher     | abstract
right       | richtig        | -                      | solution detail
^right      | recht          | -                      | side
^left       | link           | -                      | side
fresh       | frisch         | -                      | food drink
delicious   | lecker         | -                      | food
cold        | kalt           | colder / kälter        | drink room
hot         | heiß           | hotter / heißer        | hot
warm        | warm           | warmer / wärmer        | warm room
sweet       | süß            | sweeter / süßer        | sweet
long        | lang           | longer / länger        | text feast
short       | kurz           | shorter / kürzer       | text
boring      | langweilig     | -                      | read feast
interesting | interessant    | -                      | read sport town
exciting    | spannend       | -                      | read sport
important   | wichtig        | -                      | abstract detail paper
fast        | schnell        | faster / schneller     | speed
slow        | langsam        | slower / langsamer     | speed
dangerous   | gefährlich     | -                      | danger
quiet       | ruhig          | quieter / ruhiger      | town nature
modern      | modern         | -                      | building device
high        | hoch/hoh       | higher / höher         | high
loud        | laut           | louder / lauter        | sound device
empty       | leer           | -                      | weight stand
"""

# As in the table of nouns, then English=German prepositions of rest and of direction (zu governs the dative).
PLACE = """
garden         | der Garten       | Gärten       | nature   | in=in | into=in
kitchen        | die Küche        | Küchen       | room tidy clean leave | in=in | into=in
living room    | das Wohnzimmer   | Wohnzimmer   | room tidy leave compound | in=in | into=in
bedroom        | das Schlafzimmer | Schlafzimmer | room tidy | in=in | into=in
bathroom       | das Badezimmer   | Badezimmer   | room clean | in=in | into=in
cellar         | der Keller       | Keller       | room tidy | in=in | into=in
office         | das Büro         | Büros        | room tidy leave | in=in | to=in
city/cities    | die Stadt        | Städte       | town home leave | in=in | to=in
village        | das Dorf         | Dörfer       | town home leave | in=in | to=in
forest         | der Wald         | Wälder       | nature wilds | in=in | into=in
park           | der Park         | Parks        | nature   | in=in | to=in
hotel          | das Hotel        | Hotels       | house leave facility | in=in | to=in
restaurant     | das Restaurant   | Restaurants  | house facility | in=in | to=in
school         | die Schule       | Schulen      | house facility | in=in | to=in
church/churches | die Kirche      | Kirchen      | house facility | in=in | to=in
museum         | das Museum       | Museen       | house facility | in=in | to=in
library/libraries | die Bibliothek | Bibliotheken | house facility | in=in | to=in
hospital       | das Krankenhaus  | Krankenhäuser | house facility leave | in=in | to=in
theatre        | das Theater      | Theater      | house facility | in=in | to=in
cinema         | das Kino         | Kinos        | house facility | in=in | to=in
factory/factories | die Fabrik    | Fabriken     | house facility | in=in | to=in
bakery/bakeries | die Bäckerei    | Bäckereien   | house facility | in=in | to=in
supermarket    | der Supermarkt   | Supermärkte  | house facility | in=in | to=in
bank           | die Bank         | Banken       | house facility | in=in | to=zu
post office    | die Post         | =f           | house compound | at=auf | to=zu
market         | der Markt        | Märkte       | house facility | at=auf | to=auf
railway station | der Bahnhof     | Bahnhöfe     | house facility compound | at=an | to=zu
bus stop       | die Bushaltestelle | Bushaltestellen | house compound | at=an | to=zu
airport        | der Flughafen    | Flughäfen    | house facility | at=an | to=zu
beach/beaches  | der Strand       | Strände      | nature   | at=an | to=an
lake           | der See          | Seen         | nature   | at=an | to=an
mountain       | der Berg         | Berge        | nature high | on=auf | onto=auf
bench          | die Bank         | Bänke        | seat     | on=auf | onto=auf
bank           | das Ufer         | Ufer         | shore    | on=an | to=an
river          | der Fluss        | Flüsse       | stream   | in=in | into=in
"""

# Columns: English | German where it differs. Switzerland and Turkey take the article in German.
CITY = """
Berlin
Hamburg
Munich | München
Vienna | Wien
Cologne | Köln
Nuremberg | Nürnberg
Zurich | Zürich
Geneva | Genf
Italy | Italien
France | Frankreich
Spain | Spanien
Austria | Österreich
"""
COUNTRY = """
Switzerland | Schweiz
Turkey | Türkei
"""
MEN = "Peter Paul Martin Jan David Stefan"
WOMEN = "Anna Maria Laura Lena Julia Emma"

LANGUAGE = "German Deutsch, English Englisch, French Französisch, Spanish Spanisch, Italian Italienisch"
GAME = (
    "the piano = Klavier, the guitar = Gitarre, the violin = Geige, the flute = Flöte, football = Fußball, "
    "tennis = Tennis, chess = Schach, cards = Karten"
)
PERIOD = "the weekend = das Wochenende, the summer = den Sommer, the winter = den Winter, the holidays = die Ferien"

HABIT = """
every day | jeden Tag
every morning | jeden Morgen
every evening | jeden Abend
every week | jede Woche
on Mondays | montags
on Fridays | freitags
on Sundays | sonntags
in winter | im Winter
in summer | im Sommer
in spring | im Frühling
"""
FREQUENCY = """
often | oft
always | immer
sometimes | manchmal
usually | meistens
rarely | selten
never | nie
"""
ONGOING = """
now | jetzt
today | heute
at the moment | im Moment
"""
PAST = """
yesterday | gestern
yesterday evening | gestern Abend
this morning | heute Morgen
last week | letzte Woche
last year | letztes Jahr
last Saturday | letzten Samstag
last summer | letzten Sommer
"""
FUTURE = """
tomorrow | morgen
tomorrow evening | morgen Abend
this evening | heute Abend
next week | nächste Woche
next year | nächstes Jahr
next Tuesday | nächsten Dienstag
soon | bald
"""
PLANNED = """
today | heute
tomorrow | morgen
this evening | heute Abend
next week | nächste Woche
"""

# English of the affirmative after `I/we/they` and after `he` | I, he, we in German | infinitive | English pattern.
# `aux`: the word itself is negated and inverted; `be`: am, is, are before it; `do`: with the help of do.
MODAL = """
can        | can          | kann kann können        | aux
should     | should       | sollte sollte sollten   | aux
would like to | would like to | möchte möchte möchten | aux
allowed to | allowed to   | darf darf dürfen        | be
want to    | wants to     | will will wollen        | do
have to    | has to       | muss muss müssen        | do
could      | could        | konnte konnte konnten   | past aux
wanted to  | wanted to    | wollte wollte wollten   | past do
had to     | had to       | musste musste mussten   | past do
"""

UNITS = "minutes Minuten, hours Stunden, days Tage, weeks Wochen, months Monate, years Jahre"
SURFACE = "on auf, under unter, next_to neben, behind hinter, in_front_of vor"

# Below twenty, and the tens.
ENGLISH_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
ten twenty thirty forty fifty sixty seventy eighty ninety
"""
GERMAN_NUMBERS = """
null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn
achtzehn neunzehn
zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
"""
_NUMBERS = tuple(zip(ENGLISH_NUMBERS.split(), GERMAN_NUMBERS.split(), strict=True))


@dataclass(frozen=True)
class Adjective:
    """An adjective of both languages; `stem` is the German form that takes endings."""

    english: str
    german: str
    stem: str
    comparative: tuple[str, str] | None
    predicative: bool
    groups: frozenset[str]

    @property
    def key(self) -> str:
        """Name of the lexeme, unique also for ambiguous words."""
        return f"{self.english}={self.german}"


@dataclass(frozen=True)
class Place:
    """A noun with the prepositions of rest and of direction, each (English, German)."""

    noun: Noun
    rest: tuple[str, str]
    direction: tuple[str, str]

    @property
    def key(self) -> str:
        """Name of the lexeme."""
        return self.noun.key


@dataclass(frozen=True)
class Term:
    """A fixed expression of both languages."""

    english: str
    german: str

    @property
    def key(self) -> str:
        """Name of the lexeme."""
        return f"{self.english}={self.german}"


@dataclass(frozen=True)
class Modal:
    """A modal verb: English base and third person, German forms after I, he and we, English pattern."""

    english: str
    third: str
    first: str
    german_third: str
    plural: str
    pattern: str
    past: bool

    @property
    def key(self) -> str:
        """Name of the lexeme."""
        return f"{self.english}={self.plural}"


def number(value: int) -> Term:
    """Return the number words for 2 to 99: twenty-one, einundzwanzig."""
    if value < 20:
        return Term(*_NUMBERS[value])
    tens, ones = _NUMBERS[19 + value // 10], _NUMBERS[value % 10]
    if value % 10 == 0:
        return Term(*tens)
    return Term(f"{tens[0]}-{ones[0]}", f"{ones[1]}und{tens[1]}")


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in text.strip().splitlines()]


def _terms(text: str) -> tuple[Term, ...]:
    return tuple(Term(cells[0], cells[-1]) for cells in _rows(text))


def _pairs(text: str, separator: str = " ") -> tuple[Term, ...]:
    return tuple(Term(*(part.strip() for part in item.split(separator))) for item in text.split(", "))


def _adjective(cells: list[str]) -> Adjective:
    english, german, comparative, groups = cells
    german, _, stem = german.partition("/")
    higher = tuple(part.strip() for part in comparative.split("/"))
    return Adjective(
        english=english.lstrip("^"),
        german=german,
        stem=stem or german,
        comparative=(higher[0], higher[1]) if len(higher) == 2 else None,
        predicative=not english.startswith("^"),
        groups=frozenset(groups.split()),
    )


def _place(cells: list[str]) -> Place:
    *columns, rest, direction = cells
    row = " | ".join(columns).replace("=f", columns[1].split()[1])
    (rest_en, rest_de), (to_en, to_de) = rest.split("="), direction.split("=")
    return Place(noun(row), (rest_en, rest_de), (to_en, to_de))


def _modal(cells: list[str]) -> Modal:
    english, third, forms, pattern = cells
    first, german_third, plural = forms.split()
    return Modal(english, third, first, german_third, plural, pattern.split()[-1], pattern.startswith("past"))


ADJECTIVES = tuple(_adjective(cells) for cells in _rows(ADJECTIVE))
PLACES = tuple(_place(cells) for cells in _rows(PLACE))
CITIES = _terms(CITY)
COUNTRIES = _terms(COUNTRY)
NAMES = tuple((name, "m") for name in MEN.split()) + tuple((name, "f") for name in WOMEN.split())
LANGUAGES = _pairs(LANGUAGE)
GAMES = _pairs(GAME, "=")
PERIODS = _pairs(PERIOD, "=")
TIMES = {
    "habit": _terms(HABIT),
    "frequency": _terms(FREQUENCY),
    "progressive": _terms(ONGOING),
    "past": _terms(PAST),
    "future": _terms(FUTURE),
    "planned": _terms(PLANNED),
}
MODALS = tuple(_modal(cells) for cells in _rows(MODAL))
SURFACES = tuple(Term(item.english.replace("_", " "), item.german) for item in _pairs(SURFACE))
UNITS_OF_TIME = _pairs(UNITS)
