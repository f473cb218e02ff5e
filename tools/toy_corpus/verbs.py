"""The verbs of the toy corpus, as tables.

Columns: English base, past and participle (regular where one word stands alone), then `+particle` or a preposition |
German infinitive (`sich`, `prefix·verb`, and the preposition with its case) | third person singular |
participle (`ist` before it where the auxiliary is sein) | groups of nouns that it takes | flags.
Flags: `state` (no progressive form in English), `moment` (too short for one), `dat` (the object is in the dative),
`animal` (the subject may be an animal), `=form` (a preterite that is used for the past; others take the perfect).
"""

from dataclasses import dataclass

TRANSITIVE = """
eat ate eaten          | essen            | isst       | gegessen      | eat | animal
drink drank drunk      | trinken          | trinkt     | getrunken     | drink | animal
cook                   | kochen           | kocht      | gekocht       | cook
bake                   | backen           | backt      | gebacken      | bake
order                  | bestellen        | bestellt   | bestellt      | order
cut cut cut            | schneiden        | schneidet  | geschnitten   | cut
read read read         | lesen            | liest      | gelesen       | read
write wrote written    | schreiben        | schreibt   | geschrieben   | write
write wrote written +down | auf·schreiben | schreibt   | aufgeschrieben | notedown
buy bought bought      | kaufen           | kauft      | gekauft       | buy
sell sold sold         | verkaufen        | verkauft   | verkauft      | buy
need                   | brauchen         | braucht    | gebraucht     | buy need | state
repair                 | reparieren       | repariert  | repariert     | repair
clean                  | putzen           | putzt      | geputzt       | clean
wash                   | waschen          | wäscht     | gewaschen     | wash
wear wore worn         | tragen           | trägt      | getragen      | wear
carry carried carried  | tragen           | trägt      | getragen      | carry
put put put +on        | an·ziehen        | zieht      | angezogen     | wear
put put put +on        | auf·setzen       | setzt      | aufgesetzt    | head
take took taken +off   | aus·ziehen       | zieht      | ausgezogen    | wear
try tried tried +on    | an·probieren     | probiert   | anprobiert    | wear head
find found found       | finden           | findet     | gefunden      | lose | moment
lose lost lost         | verlieren        | verliert   | verloren      | lose | moment
look looked looked for | suchen           | sucht      | gesucht       | lose pet solution
forget forgot forgotten | vergessen       | vergisst   | vergessen     | forget | moment
hide hid hidden        | verstecken       | versteckt  | versteckt     | hide
see saw seen           | sehen            | sieht      | gesehen       | see person animal | state
hear heard heard       | hören            | hört       | gehört        | hear | state
love                   | lieben           | liebt      | geliebt       | family | state
know knew known        | kennen           | kennt      | gekannt       | person | state =kannte
visit                  | besuchen         | besucht    | besucht       | family
call                   | an·rufen         | ruft       | angerufen     | person
pick picked picked +up | ab·holen         | holt       | abgeholt      | person
pick                   | pflücken         | pflückt    | gepflückt     | pick
invite                 | ein·laden        | lädt       | eingeladen    | family person
ask                    | fragen           | fragt      | gefragt       | person
wake woke woken +up    | wecken           | weckt      | geweckt       | family
open                   | öffnen           | öffnet     | geöffnet      | open
close                  | schließen        | schließt   | geschlossen   | opening
lock                   | ab·schließen     | schließt   | abgeschlossen | lock
switch switched switched +on  | ein·schalten | schaltet | eingeschaltet | switch
switch switched switched +off | aus·schalten | schaltet | ausgeschaltet | switch
bring brought brought +back | zurück·bringen | bringt   | zurückgebracht | lend
tidy tidied tidied +up | auf·räumen       | räumt      | aufgeräumt    | tidy
throw threw thrown +away | weg·werfen     | wirft      | weggeworfen   | discard
prepare                | vor·bereiten     | bereitet   | vorbereitet   | prepare
paint                  | malen            | malt       | gemalt        | paintart
paint                  | streichen        | streicht   | gestrichen    | paint
draw drew drawn        | zeichnen         | zeichnet   | gezeichnet    | draw
save                   | retten           | rettet     | gerettet      | person pet
save                   | sparen           | spart      | gespart       | save
spend spent spent      | aus·geben        | gibt       | ausgegeben    | spend
miss                   | verpassen        | verpasst   | verpasst      | board | moment
miss                   | vermissen        | vermisst   | vermisst      | family pet | state
take took taken        | nehmen           | nimmt      | genommen      | board
grow grew grown        | an·bauen         | baut       | angebaut      | crop
understand understood understood | verstehen | versteht | verstanden   | understand | state =verstand
explain                | erklären         | erklärt    | erklärt       | explain
learn                  | lernen           | lernt      | gelernt       | learn
answer                 | beantworten      | beantwortet | beantwortet  | answer
pay paid paid          | bezahlen         | bezahlt    | bezahlt       | pay
rent                   | mieten           | mietet     | gemietet      | rent
build built built      | bauen            | baut       | gebaut        | build
leave left left        | verlassen        | verlässt   | verlassen     | leave
feed fed fed           | füttern          | füttert    | gefüttert     | feed
catch caught caught    | fangen           | fängt      | gefangen      | catch
press                  | drücken          | drückt     | gedrückt      | press
win won won            | gewinnen         | gewinnt    | gewonnen      | win | moment
light lit lit          | an·zünden        | zündet     | angezündet    | burn
vote voted voted for   | wählen           | wählt      | gewählt       | vote
celebrate              | feiern           | feiert     | gefeiert      | celebrate
water                  | gießen           | gießt      | gegossen      | waterplant
break broke broken     | zerbrechen       | zerbricht  | zerbrochen    | break | moment
collect                | sammeln          | sammelt    | gesammelt     | collect
help                   | helfen           | hilft      | geholfen      | person | dat
thank                  | danken           | dankt      | gedankt       | person | dat
follow                 | folgen           | folgt      | ist gefolgt   | person | dat animal
answer                 | antworten        | antwortet  | geantwortet   | person | dat
trust                  | vertrauen        | vertraut   | vertraut      | person | dat state
listen listened listened to | zu·hören    | hört       | zugehört      | person | dat
look looked looked at  | an·sehen         | sieht      | angesehen     | look
"""

PREPOSITIONAL = """
wait waited waited for | warten auf:acc   | wartet     | gewartet      | board person
think thought thought of | denken an:acc  | denkt      | gedacht       | family await
talk talked talked about | sprechen über:acc | spricht  | gesprochen    | await person problem
dream dreamt dreamt of | träumen von:dat  | träumt     | geträumt      | await animal
laugh laughed laughed at | lachen über:acc | lacht      | gelacht       | tell person
look looked looked forward to | sich freuen auf:acc | freut | gefreut   | await
remember               | sich erinnern an:acc | erinnert | erinnert     | person await | state
complain complained complained about | sich beschweren über:acc | beschwert | beschwert | pay problem person
look looked looked after | sich kümmern um:acc | kümmert | gekümmert    | family pet
"""

INTRANSITIVE = """
sleep slept slept      | schlafen         | schläft    | geschlafen    | rest | animal
work                   | arbeiten         | arbeitet   | gearbeitet    | work
laugh                  | lachen           | lacht      | gelacht       | rest
cry cried cried        | weinen           | weint      | geweint       | rest
dance                  | tanzen           | tanzt      | getanzt       | work
sing sang sung         | singen           | singt      | gesungen      | work
smoke                  | rauchen          | raucht     | geraucht      | work
rest                   | sich aus·ruhen   | ruht       | ausgeruht     | rest
wait                   | warten           | wartet     | gewartet      | work
have breakfast         | frühstücken      | frühstückt | gefrühstückt  | work
swim swam swum         | schwimmen        | schwimmt   | ist geschwommen | move
get got got up         | auf·stehen       | steht      | ist aufgestanden | move
wake woke woken up     | auf·wachen       | wacht      | ist aufgewacht | move
fall fell fallen asleep | ein·schlafen    | schläft    | ist eingeschlafen | move
come came come back    | zurück·kommen    | kommt      | ist zurückgekommen | move
go went gone out       | aus·gehen        | geht       | ist ausgegangen | move
watch watched watched television | fern·sehen | sieht  | ferngesehen   | rest
"""

OTHER = """
go went gone           | gehen            | geht       | ist gegangen  | walk
come came come         | kommen           | kommt      | ist gekommen  | walk
run ran run            | laufen           | läuft      | ist gelaufen  | walk | animal
go went gone           | fahren           | fährt      | ist gefahren  | vehicle
travel travelled travelled | reisen       | reist      | ist gereist   | city
fly flew flown         | fliegen          | fliegt     | ist geflogen  | city
live                   | wohnen           | wohnt      | gewohnt       | home | state
live                   | leben            | lebt       | gelebt        | wild | state
arrive                 | an·kommen        | kommt      | ist angekommen | schedule
leave left left        | ab·fahren        | fährt      | ist abgefahren | schedule
grow grew grown        | wachsen          | wächst     | ist gewachsen | grows
stand stood stood      | stehen           | steht      | gestanden     | stand
lie lay lain           | liegen           | liegt      | gelegen       | lie
sit sat sat            | sitzen           | sitzt      | gesessen      | sit
hang hung hung         | hängen           | hängt      | gehangen      | hang
put put put            | stellen          | stellt     | gestellt      | putstand
put put put            | legen            | legt       | gelegt        | putlie
hang hung hung         | hängen           | hängt      | gehängt       | puthang
give gave given        | geben            | gibt       | gegeben       | give
show showed shown      | zeigen           | zeigt      | gezeigt       | show
send sent sent         | schicken         | schickt    | geschickt     | send
bring brought brought  | bringen          | bringt     | gebracht      | bring
lend lent lent         | leihen           | leiht      | geliehen      | lend
tell told told         | erzählen         | erzählt    | erzählt       | tell
play                   | spielen          | spielt     | gespielt      | game
speak spoke spoken     | sprechen         | spricht    | gesprochen    | language
spend spent spent      | verbringen       | verbringt  | verbracht     | period
be was been            | sein             | ist        | ist gewesen   | copula | state =war
have had had           | haben            | hat        | gehabt        | own | state =hatte
cost cost cost         | kosten           | kostet     | gekostet      | price | state
belong belonged belonged to | gehören     | gehört     | gehört        | belong | state dat
like                   | mögen            | mag        | gemocht       | like | state =mochte
know knew known        | wissen           | weiß       | gewusst       | fact | state =wusste
believe                | glauben          | glaubt     | geglaubt      | belief | state
hope                   | hoffen           | hofft      | gehofft       | belief attempt | state
say said said          | sagen            | sagt       | gesagt        | report
ask                    | fragen           | fragt      | gefragt       | whether
become became become   | werden           | wird       | ist geworden  | become
try tried tried        | versuchen        | versucht   | versucht      | attempt
begin began begun      | beginnen         | beginnt    | begonnen      | attempt
eat ate eaten          | fressen          | frisst     | gefressen     | devour
rain                   | regnen           | regnet     | geregnet      | weather
snow                   | schneien         | schneit    | geschneit     | weather
"""


@dataclass(frozen=True)
class Verb:
    """A verb of both languages with what it takes."""

    english: str
    past: str
    participle: str
    rest: str
    particle: bool
    prefix: str
    infinitive: str
    third: str
    german_participle: str
    auxiliary: str
    reflexive: bool
    preposition: str
    case: str
    preterite: str
    groups: frozenset[str]
    flags: frozenset[str]

    @property
    def key(self) -> str:
        """Name of the lexeme, unique also for ambiguous words."""
        words = f"{self.english} {self.rest}".strip()
        return f"{words}={self.prefix}{self.infinitive} {self.preposition}".strip()

    @property
    def state(self) -> bool:
        """Whether English has no progressive form of it."""
        return "state" in self.flags


def regular_past(word: str) -> str:
    """Return the regular past of an English verb (spelling changes are in the tables)."""
    return word + ("d" if word.endswith("e") else "ed")


def verb(row: str) -> Verb:
    """Read one row of the tables (the format is in the module's docstring)."""
    english, german, third, participle, groups, *flags = (part.strip() for part in row.split("|"))
    words = english.split()
    if words[0] == "have" and len(words) == 2:  # "have breakfast" is inflected like "have"
        words = ["have", "had", "had", words[1]]
    base, past, past_participle = words[:3] if len(words) >= 3 else (words[0], *[regular_past(words[0])] * 2)
    rest = " ".join(words[3:])
    head, _, governs = german.removeprefix("sich ").partition(" ")
    prefix, _, infinitive = head.rpartition("·")
    preposition, _, case = governs.partition(":")
    marks = frozenset(" ".join(flags).split())
    return Verb(
        english=base,
        past=past,
        participle=past_participle,
        rest=rest.removeprefix("+"),
        particle=rest.startswith("+"),
        prefix=prefix,
        infinitive=infinitive,
        third=third,
        german_participle=participle.removeprefix("ist "),
        auxiliary="sein" if participle.startswith("ist ") else "haben",
        reflexive=german.startswith("sich "),
        preposition=preposition,
        case=case or ("dat" if "dat" in marks else "acc"),
        preterite=next((mark[1:] for mark in sorted(marks) if mark.startswith("=")), ""),
        groups=frozenset(groups.split()),
        flags=marks,
    )


def _table(text: str) -> tuple[Verb, ...]:
    return tuple(verb(row) for row in text.strip().splitlines())


TRANSITIVES = _table(TRANSITIVE)
PREPOSITIONALS = _table(PREPOSITIONAL)
INTRANSITIVES = _table(INTRANSITIVE)
OTHERS = _table(OTHER)
VERBS = (*TRANSITIVES, *PREPOSITIONALS, *INTRANSITIVES, *OTHERS)


def special(group: str) -> tuple[Verb, ...]:
    """Return the verbs of the last table that belong to `group`."""
    return tuple(verb for verb in OTHERS if group in verb.groups)
