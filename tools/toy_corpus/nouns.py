"""The nouns of the toy corpus, as one table.

Columns: English (`/` irregular plural) | German with its article (`/` the other cases of a weak noun, `,` genitive) |
German plural (`-` none: a mass noun; `=` plural only) | kind, then groups. The kind decides which adjectives fit; the
groups are what verbs ask of their objects. `~` before the English word marks a pair word, plural in English and
singular in German (the trousers are / die Hose ist). `!` marks words of the singular only. Two rows with the same
English word are two meanings; verbs keep them apart, since no verb accepts both.
"""

from dataclasses import dataclass

TABLE = """
man/men        | der Mann,Mannes          | Männer        | person
boy            | der Junge/Jungen         | Jungen        | person
!father        | der Vater                | Väter         | person family
brother        | der Bruder               | Brüder        | person family
uncle          | der Onkel                | Onkel         | person family
grandfather    | der Großvater            | Großväter     | person family
son            | der Sohn,Sohnes          | Söhne         | person family
friend         | der Freund,Freundes      | Freunde       | person family
neighbour      | der Nachbar/Nachbarn     | Nachbarn      | person family
colleague      | der Kollege/Kollegen     | Kollegen      | person family
doctor         | der Arzt,Arztes          | Ärzte         | person job
teacher        | der Lehrer               | Lehrer        | person job
student        | der Student/Studenten    | Studenten     | person
pupil          | der Schüler              | Schüler       | person
baker          | der Bäcker               | Bäcker        | person job
farmer         | der Bauer/Bauern         | Bauern        | person job
cook           | der Koch                 | Köche         | person job
waiter         | der Kellner              | Kellner       | person job
policeman/policemen | der Polizist/Polizisten | Polizisten | person job
gardener       | der Gärtner              | Gärtner       | person job
tourist        | der Tourist/Touristen    | Touristen     | person
customer       | der Kunde/Kunden         | Kunden        | person
guest          | der Gast,Gastes          | Gäste         | person
artist         | der Künstler             | Künstler      | person job
engineer       | der Ingenieur            | Ingenieure    | person job
bus driver     | der Busfahrer            | Busfahrer     | person job compound
taxi driver    | der Taxifahrer           | Taxifahrer    | person job compound
music teacher  | der Musiklehrer          | Musiklehrer   | person job compound
mayor          | der Bürgermeister        | Bürgermeister | person vote
woman/women    | die Frau                 | Frauen        | person
!mother        | die Mutter               | Mütter        | person family
sister         | die Schwester            | Schwestern    | person family
aunt           | die Tante                | Tanten        | person family
grandmother    | die Großmutter           | Großmütter    | person family
daughter       | die Tochter              | Töchter       | person family
niece          | die Nichte               | Nichten       | person family
nurse          | die Krankenschwester     | Krankenschwestern | person
waitress/waitresses | die Kellnerin       | Kellnerinnen  | person
actress/actresses | die Schauspielerin    | Schauspielerinnen | person
policewoman/policewomen | die Polizistin  | Polizistinnen | person
girl           | das Mädchen              | Mädchen       | person
child/children | das Kind,Kindes          | Kinder        | person
baby/babies    | das Baby                 | Babys         | person
parents        | die Eltern               | =             | person family
people         | die Leute                | =             | person
dog            | der Hund,Hundes          | Hunde         | animal pet feed draw speed
cat            | die Katze                | Katzen        | animal pet feed draw speed
horse          | das Pferd                | Pferde        | animal feed draw speed
cow            | die Kuh                  | Kühe          | animal feed draw
bird           | der Vogel                | Vögel         | animal feed draw
mouse/mice     | die Maus                 | Mäuse         | animal draw catch
pig            | das Schwein              | Schweine      | animal feed draw
duck           | die Ente                 | Enten         | animal feed draw
rabbit         | das Kaninchen            | Kaninchen     | animal pet feed draw catch speed
bear           | der Bär/Bären            | Bären         | animal draw wild danger
elephant       | der Elefant/Elefanten    | Elefanten     | animal feed draw wild danger
monkey         | der Affe/Affen           | Affen         | animal feed draw wild danger
lion           | der Löwe/Löwen           | Löwen         | animal draw wild danger
fox/foxes      | der Fuchs                | Füchse        | animal draw wild danger
apple          | der Apfel                | Äpfel         | food eat buy pick sweet give fodder hard
pear           | die Birne                | Birnen        | food eat buy pick sweet fodder
banana         | die Banane               | Bananen       | food eat buy sweet fodder
orange         | die Orange               | Orangen       | food eat buy sweet
egg            | das Ei                   | Eier          | food eat cook fodder
potato/potatoes | die Kartoffel           | Kartoffeln    | food eat cook crop fodder
tomato/tomatoes | die Tomate              | Tomaten       | food eat cut crop
carrot         | die Karotte              | Karotten      | food eat cut crop fodder
sausage        | die Wurst                | Würste        | food eat cut hard
cake           | der Kuchen               | Kuchen        | food eat bake cut sweet hard
apple cake     | der Apfelkuchen          | Apfelkuchen   | food eat bake cut compound sweet
chocolate cake | der Schokoladenkuchen    | Schokoladenkuchen | food eat bake cut compound sweet
pizza          | die Pizza                | Pizzen        | food eat bake order
soup           | die Suppe                | Suppen        | food eat cook order hot
tomato soup    | die Tomatensuppe         | Tomatensuppen | food eat cook order compound hot
vegetable soup | die Gemüsesuppe          | Gemüsesuppen  | food eat cook order compound hot
potato salad   | der Kartoffelsalat       | Kartoffelsalate | food eat order compound
fruit salad    | der Obstsalat            | Obstsalate    | food eat order compound sweet
bread          | das Brot                 | -             | food eat cut bake hard fodder
cheese         | der Käse                 | -             | food eat cut fodder hard
meat           | das Fleisch              | -             | food eat cut fodder
fish           | der Fisch                | -             | food eat order fodder
rice           | der Reis                 | -             | food eat cook
honey          | der Honig                | -             | food eat sweet
chocolate      | die Schokolade           | -             | food eat hard
coffee         | der Kaffee               | -             | drink order hot
tea            | der Tee                  | -             | drink order hot
milk           | die Milch                | -             | drink order hot liquid
water          | das Wasser               | -             | drink order hot liquid
beer           | das Bier                 | -             | drink order
wine           | der Wein                 | -             | drink order
apple juice    | der Apfelsaft            | -             | drink order compound sweet
orange juice   | der Orangensaft          | -             | drink order compound sweet
book           | das Buch                 | Bücher        | text read write buy lie lend give
school book    | das Schulbuch            | Schulbücher   | text read buy lie lend compound
newspaper      | die Zeitung              | Zeitungen     | text read buy lie discard
magazine       | die Zeitschrift          | Zeitschriften | text read buy lie lend discard
novel          | der Roman                | Romane        | text read write lend
story/stories  | die Geschichte           | Geschichten   | text read write tell hear
fairy tale     | das Märchen              | Märchen       | text read tell hear
poem           | das Gedicht              | Gedichte      | text read write hear
report         | der Bericht              | Berichte      | text read write
message        | die Nachricht            | Nachrichten   | text read write send
postcard       | die Postkarte            | Postkarten    | text write send lie buy discard
letter         | der Brief                | Briefe        | text write send open lie discard
letter         | der Buchstabe/Buchstaben,Buchstabens | Buchstaben | abstract learn explain
rule           | die Regel                | Regeln        | abstract learn explain understand
exercise       | die Aufgabe              | Aufgaben      | abstract explain understand problem
word           | das Wort                 | Wörter        | abstract learn explain understand notedown
question       | die Frage                | Fragen        | abstract understand answer problem
answer         | die Antwort              | Antworten     | abstract understand notedown solution
solution       | die Lösung               | Lösungen      | abstract understand explain solution
exam           | die Prüfung              | Prüfungen     | abstract prepare await problem
address/addresses | die Adresse           | Adressen      | detail notedown forget
phone number   | die Telefonnummer        | Telefonnummern | detail notedown forget compound
recipe         | das Rezept               | Rezepte       | detail notedown forget
birthday       | der Geburtstag           | Geburtstage   | feast celebrate forget await
wedding        | die Hochzeit             | Hochzeiten    | feast celebrate prepare await
!party         | die Party                | Partys        | feast celebrate prepare await
!party         | die Partei               | Parteien      | society vote
journey        | die Reise                | Reisen        | feast prepare await danger
coat           | der Mantel               | Mäntel        | clothes wear buy hang warm
winter coat    | der Wintermantel         | Wintermäntel  | clothes wear buy hang compound warm
shirt          | das Hemd                 | Hemden        | clothes wear wash buy warm
dress/dresses  | das Kleid                | Kleider       | clothes wear wash buy
summer dress/summer dresses | das Sommerkleid | Sommerkleider | clothes wear wash buy compound
skirt          | der Rock                 | Röcke         | clothes wear wash buy
jacket         | die Jacke                | Jacken        | clothes wear wash buy hang warm
jumper         | der Pullover             | Pullover      | clothes wear wash buy warm
suit           | der Anzug                | Anzüge        | clothes wear buy hang
~trousers      | die Hose                 | -             | clothes wear wash buy warm
shoe           | der Schuh                | Schuhe        | clothes wear clean buy side
hat            | der Hut                  | Hüte          | clothes head buy lose hang
cap            | die Mütze                | Mützen        | clothes head buy lose wash warm
~glasses       | die Brille               | -             | clothes head lose
glove          | der Handschuh            | Handschuhe    | clothes wear lose side warm
lamp           | die Lampe                | Lampen        | device switch buy repair stand discard side
kitchen lamp   | die Küchenlampe          | Küchenlampen  | device switch buy repair compound
radio          | das Radio                | Radios        | device switch buy repair stand
computer       | der Computer             | Computer      | device switch buy repair speed
washing machine | die Waschmaschine       | Waschmaschinen | device switch buy repair compound
coffee machine | die Kaffeemaschine       | Kaffeemaschinen | device switch buy repair clean compound
oven           | der Ofen                 | Öfen          | device switch clean repair
!light         | das Licht                | Lichter       | beam switch
camera         | die Kamera               | Kameras       | tool buy lose repair lend lie show
clock          | die Uhr                  | Uhren         | tool buy repair hang
car            | das Auto                 | Autos         | vehicle buy repair wash lock ride rent speed
bicycle        | das Fahrrad              | Fahrräder     | vehicle buy repair lend ride rent speed
motorbike      | das Motorrad             | Motorräder    | vehicle buy repair ride speed
boat           | das Boot                 | Boote         | vehicle buy repair paint rent speed
bus/buses      | der Bus                  | Busse         | vehicle board ride speed
train          | der Zug                  | Züge          | vehicle board ride speed
tram           | die Straßenbahn          | Straßenbahnen | vehicle board ride speed
ship           | das Schiff               | Schiffe       | vehicle board speed
table          | der Tisch                | Tische        | furniture buy surface side
kitchen table  | der Küchentisch          | Küchentische  | furniture buy surface clean compound
desk           | der Schreibtisch         | Schreibtische | furniture buy surface
chair          | der Stuhl                | Stühle        | furniture buy surface paint hard side
garden chair   | der Gartenstuhl          | Gartenstühle  | furniture buy surface paint compound side
bed            | das Bett                 | Betten        | furniture buy surface hard side
sofa           | das Sofa                 | Sofas         | furniture buy surface discard hard
shelf/shelves  | das Regal                | Regale        | furniture buy surface paint side
cupboard       | der Schrank              | Schränke      | furniture buy surface open side
bench/benches  | die Bank                 | Bänke         | furniture surface paint hard side
mirror         | der Spiegel              | Spiegel       | thing buy clean break hang
carpet         | der Teppich              | Teppiche      | thing buy discard
cup            | die Tasse                | Tassen        | thing buy break stand give
coffee cup     | die Kaffeetasse          | Kaffeetassen  | thing buy break stand compound
wine glass/wine glasses | das Weinglas    | Weingläser    | thing buy break stand compound
bottle         | die Flasche              | Flaschen      | thing open stand carry
water bottle   | die Wasserflasche        | Wasserflaschen | thing open stand carry compound
vase           | die Vase                 | Vasen         | thing buy break stand
plate          | der Teller               | Teller        | thing buy break stand
suitcase       | der Koffer               | Koffer        | weight open carry stand lose
basket         | der Korb                 | Körbe         | weight carry stand buy
box/boxes      | die Kiste                | Kisten        | weight carry open stand
bag            | die Tasche               | Taschen       | weight carry buy lose
school bag     | die Schultasche          | Schultaschen  | weight carry buy lose compound
knife/knives   | das Messer               | Messer        | thing buy lie
spoon          | der Löffel               | Löffel        | thing buy lie
towel          | das Handtuch             | Handtücher    | thing wash lie warm
!key           | der Schlüssel            | Schlüssel     | thing lose hide lie forget
!key           | die Taste                | Tasten        | knob press
button         | der Knopf                | Knöpfe        | knob press
umbrella       | der Regenschirm          | Regenschirme  | thing lose forget open give
ticket         | die Fahrkarte            | Fahrkarten    | thing buy lose forget lie discard give
ball           | der Ball                 | Bälle         | thing catch lose buy
present        | das Geschenk             | Geschenke     | thing hide open bring buy lie give
ring           | der Ring                 | Ringe         | thing lose hide buy give
picture        | das Bild                 | Bilder        | image paintart look hang show side
photo          | das Foto                 | Fotos         | image look send hang give show
map            | die Landkarte            | Landkarten    | image look draw hang show
stamp          | die Briefmarke           | Briefmarken   | coin collect buy
coin           | die Münze                | Münzen        | coin collect hide
candle         | die Kerze                | Kerzen        | flame burn buy
!match         | das Streichholz          | Streichhölzer | flame burn
!match         | das Spiel                | Spiele        | sport win
prize          | der Preis                | Preise        | sport win
competition    | der Wettbewerb           | Wettbewerbe   | sport win
flower         | die Blume                | Blumen        | plant pick bring waterplant buy
rose           | die Rose                 | Rosen         | plant pick bring waterplant buy
tree           | der Baum                 | Bäume         | plant draw waterplant grows high side
apple tree     | der Apfelbaum            | Apfelbäume    | plant draw waterplant grows compound
door           | die Tür                  | Türen         | opening open lock paint side
kitchen door   | die Küchentür            | Küchentüren   | opening open lock paint compound
front door     | die Haustür              | Haustüren     | opening open lock paint compound
window         | das Fenster              | Fenster       | opening open clean side
kitchen window | das Küchenfenster        | Küchenfenster | opening open clean compound side
garden gate    | das Gartentor            | Gartentore    | opening open lock paint compound side
wall           | die Wand                 | Wände         | barrier paint high side
house          | das Haus                 | Häuser        | building rent build leave home show
flat           | die Wohnung              | Wohnungen     | building rent tidy leave home show lit
bridge         | die Brücke               | Brücken       | building build see high
tower          | der Turm                 | Türme         | building build see high side
room           | das Zimmer               | Zimmer        | room rent tidy lit
bill           | die Rechnung             | Rechnungen    | paper pay forget
money          | das Geld                 | -             | money spend hide save need
music          | die Musik                | -             | sound hear
"""


@dataclass(frozen=True)
class Noun:
    """A noun of both languages. `gender` is m, f, n or p (plural only); `oblique` the weak form of other cases."""

    english: str
    english_plural: str
    german: str
    oblique: str
    genitive: str
    german_plural: str
    gender: str
    kind: str
    groups: frozenset[str]
    countable: bool = True
    pair: bool = False

    @property
    def key(self) -> str:
        """Name of the lexeme, unique also for ambiguous words."""
        return f"{self.english}={self.german}"

    @property
    def plural_only(self) -> bool:
        """Whether both languages use the plural only (parents, Eltern)."""
        return self.gender == "p"


def english_plural(word: str) -> str:
    """Return the regular plural of an English noun."""
    return word + "s"


def _german_genitive(word: str, oblique: str, gender: str) -> str:
    if gender in "fp":
        return word
    if oblique != word:
        return oblique
    return word + ("es" if word[-1] in "sßxz" else "s")


def noun(row: str) -> Noun:
    """Read one row of the table (the format is in the module's docstring)."""
    english, german, plural, groups = (part.strip() for part in row.split("|"))
    pair, singular = english.startswith("~"), english.startswith("!")
    english, _, irregular = english.lstrip("~!").partition("/")
    article, _, german = german.partition(" ")
    german, _, genitive = german.partition(",")
    german, _, oblique = german.partition("/")
    gender = "p" if plural == "=" else {"der": "m", "die": "f", "das": "n"}[article]
    kind, *rest = groups.split()
    invariable = pair or plural == "="
    return Noun(
        english=english,
        english_plural=english if invariable else irregular or english_plural(english),
        german=german,
        oblique=oblique or german,
        genitive=genitive or _german_genitive(german, oblique or german, gender),
        german_plural=german if plural in "-=" else plural,
        gender=gender,
        kind=kind,
        groups=frozenset([kind, *rest, *(["singular"] if singular else [])]),
        countable=plural != "-",
        pair=pair,
    )


NOUNS = tuple(noun(row) for row in TABLE.strip().splitlines())
