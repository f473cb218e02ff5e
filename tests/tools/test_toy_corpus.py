"""The toy corpus: correct German for each phenomenon, one translation per sentence, disjoint splits, low baselines."""

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

import make_toy_corpus
from toy_corpus import describe, generate, sentences
from toy_corpus.choice import Choice
from toy_corpus.clauses import Clause, Relative, english, german, which
from toy_corpus.corpus import finish, normalised, sentence
from toy_corpus.nouns import NOUNS, Noun
from toy_corpus.phrases import Fixed, Name, NounPhrase, Pronoun, prepositional
from toy_corpus.verbs import VERBS, Verb
from toy_corpus.words import ADJECTIVES, MODALS, PLACES, TIMES, Adjective, Modal, Term, number
from variations.tasks.translation.trained import copy_baseline, dictionary_baseline

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "src" / "variations" / "tasks" / "translation" / "data" / "toy"

HARD_PHENOMENA = (
    "adjective",
    "verb-final",
    "inversion",
    "perfect",
    "separable verb",
    "negation",
    "modal verb",
    "compound",
    "number",
    "relative clause",
    "dative",
    "accusative or dative preposition",
    "ambiguous",
    "question",
    "pronoun gender",
    "infinitive with zu",
)


def noun(german_word: str) -> Noun:
    return next(item for item in (*NOUNS, *(place.noun for place in PLACES)) if item.german == german_word)


def verb(english_word: str, infinitive: str) -> Verb:
    return next(item for item in VERBS if (item.english, item.prefix + item.infinitive) == (english_word, infinitive))


def adjective(german_word: str) -> Adjective:
    return next(item for item in ADJECTIVES if item.german == german_word)


def modal(english_word: str) -> Modal:
    return next(item for item in MODALS if item.english == english_word)


def time(english_words: str) -> Term:
    return next(term for terms in TIMES.values() for term in terms if term.english == english_words)


def the(german_word: str, **extra: object) -> NounPhrase:
    return replace(NounPhrase(noun(german_word)), **extra)


def a(german_word: str, **extra: object) -> NounPhrase:
    return replace(NounPhrase(noun(german_word), "a"), **extra)


def both(clause: Clause, order: str = "main") -> tuple[str, str]:
    end = "?" if order == "question" else "."
    return finish(english(clause, order), end), finish(german(clause, order), end)


HE, SHE, THEY, WE, ME = (Pronoun(key) for key in ("he", "she", "they", "we", "I"))
READ, BUY, GET_UP = verb("read", "lesen"), verb("buy", "kaufen"), verb("get", "aufstehen")
HELP, GIVE, BE = verb("help", "helfen"), verb("give", "geben"), verb("be", "sein")
SPEND_TIME, SPEND_MONEY = verb("spend", "verbringen"), verb("spend", "ausgeben")
YESTERDAY, TOMORROW = time("yesterday"), time("tomorrow")
OLD, NEW, HOT = adjective("alt"), adjective("neu"), adjective("heiß")
HOUSE = noun("Haus")
INTO_KITCHEN = prepositional("into", "in", "acc", the("Küche"))
IN_GARDEN = prepositional("in", "in", "dat", the("Garten"))
FRONTED = {"time": YESTERDAY, "front": YESTERDAY}
SUBJECT_RELATIVE = Relative("subject", Clause(the("Frau"), HELP, "past", dative=the("Kind")))
OBJECT_RELATIVE = Relative("accusative", Clause(HE, READ, "perfect", accusative=the("Roman")))
DATIVE_RELATIVE = Relative("dative", Clause(ME, HELP, "past", dative=the("Tourist", plural=True)))

# The expected German, with the reason why it is hard.
SENTENCES = [
    ("verb-second after an adverbial; perfect at the end",
     Clause(the("Lehrer"), BUY, "past", accusative=a("Buch", adjective=NEW), **FRONTED),
     "Yesterday the teacher bought a new book.", "Gestern hat der Lehrer ein neues Buch gekauft."),
    ("time before an indefinite object",
     Clause(the("Lehrer"), BUY, "past", accusative=a("Buch", adjective=NEW), time=YESTERDAY),
     "The teacher bought a new book yesterday.", "Der Lehrer hat gestern ein neues Buch gekauft."),
    ("masculine accusative with an adjective",
     Clause(SHE, BUY, "future", accusative=a("Mantel", adjective=adjective("teuer"))),
     "She will buy an expensive coat.", "Sie wird einen teuren Mantel kaufen."),
    ("weak noun in the accusative",
     Clause(SHE, verb("know", "kennen"), accusative=the("Student", adjective=OLD)),
     "She knows the old student.", "Sie kennt den alten Studenten."),
    ("separable prefix at the end",
     Clause(HE, GET_UP, time=time("every morning")),
     "He gets up every morning.", "Er steht jeden Morgen auf."),
    ("sein in the perfect of motion",
     Clause(THEY, verb("go", "gehen"), "past", time=YESTERDAY, adjuncts=(INTO_KITCHEN,)),
     "They went into the kitchen yesterday.", "Sie sind gestern in die Küche gegangen."),
    ("dative of place, contracted",
     Clause(the("Katze"), verb("sleep", "schlafen"), "progressive", adjuncts=(IN_GARDEN,)),
     "The cat is sleeping in the garden.", "Die Katze schläft im Garten."),
    ("kein for an indefinite object",
     Clause(the("Bäcker"), verb("drink", "trinken"), negated=True, accusative=NounPhrase(noun("Bier"), "none")),
     "The baker does not drink beer.", "Der Bäcker trinkt kein Bier."),
    ("nicht after a definite object and the time",
     Clause(the("Bäcker"), READ, "past", negated=True, accusative=the("Zeitung"), time=YESTERDAY),
     "The baker did not read the newspaper yesterday.", "Der Bäcker hat die Zeitung gestern nicht gelesen."),
    ("nicht before a phrase with a preposition; reflexive verb",
     Clause(SHE, replace(verb("look", "freuen"), rest=""), negated=True,
            adjuncts=(prepositional("forward to", "auf", "acc", the("Prüfung")),)),
     "She does not look forward to the exam.", "Sie freut sich nicht auf die Prüfung."),
    ("tens after ones; dative plural stays out of the accusative",
     Clause(the("Bauer"), verb("have", "haben"), accusative=NounPhrase(noun("Kuh"), "none", True, count=21)),
     "The farmer has twenty-one cows.", "Der Bauer hat einundzwanzig Kühe."),
    ("dative before accusative; dative plural in -n",
     Clause(WE, GIVE, "past", dative=the("Kind", plural=True), accusative=a("Apfel")),
     "We gave the children an apple.", "Wir haben den Kindern einen Apfel gegeben."),
    ("dative object of a verb with the accusative in English",
     Clause(the("Arzt"), HELP, dative=NounPhrase(noun("Schwester"), "my", False, OLD)),
     "The doctor helps my old sister.", "Der Arzt hilft meiner alten Schwester."),
    ("modal verb with a separable infinitive",
     Clause(the("Mädchen"), verb("wake", "aufwachen"), modal=modal("have to"), time=TOMORROW),
     "The girl has to wake up tomorrow.", "Das Mädchen muss morgen aufwachen."),
    ("not have to, not must not",
     Clause(ME, verb("work", "arbeiten"), modal=modal("have to"), negated=True),
     "I do not have to work.", "Ich muss nicht arbeiten."),
    ("compound for two words",
     Clause(the("Waschmaschine", adjective=NEW), BE, predicate=Term("expensive", "teuer")),
     "The new washing machine is expensive.", "Die neue Waschmaschine ist teuer."),
    ("plural word, singular in German",
     Clause(NounPhrase(noun("Brille"), "his", False, NEW), BE, predicate=Term("broken", "kaputt")),
     "His new glasses are broken.", "Seine neue Brille ist kaputt."),
    ("relative clause in the middle, pronoun in the nominative",
     Clause(the("Frau", relative=SUBJECT_RELATIVE), BE, predicate=Term("tired", "müde")),
     "The woman who helped the child is tired.", "Die Frau, die dem Kind geholfen hat, ist müde."),
    ("relative clause at the end, masculine accusative",
     Clause(SHE, BUY, "past", accusative=the("Roman", relative=OBJECT_RELATIVE, relative_last=True)),
     "She bought the novel that he has read.", "Sie hat den Roman gekauft, den er gelesen hat."),
    ("relative pronoun in the dative plural",
     Clause(the("Tourist", plural=True, relative=DATIVE_RELATIVE), BE, "past", predicate=Term("happy", "glücklich")),
     "The tourists whom I helped were happy.", "Die Touristen, denen ich geholfen habe, waren glücklich."),
    ("genitive: the owner follows",
     Clause(THEY, verb("repair", "reparieren"), accusative=the("Auto", owner=the("Nachbar"))),
     "They repair the neighbour's car.", "Sie reparieren das Auto des Nachbarn."),
    ("name as owner: strong adjective",
     Clause(THEY, verb("wash", "waschen"), accusative=the("Auto", owner=Name("Anna", "f"), adjective=OLD)),
     "They wash Anna's old car.", "Sie waschen Annas altes Auto."),
    ("put is stellen for what stands",
     Clause(HE, verb("put", "stellen"), "progressive", accusative=the("Vase"),
            adjuncts=(prepositional("on", "auf", "acc", the("Tisch")),)),
     "He is putting the vase on the table.", "Er stellt die Vase auf den Tisch."),
    ("put is legen for what lies",
     Clause(HE, verb("put", "legen"), "progressive", accusative=the("Messer"),
            adjuncts=(prepositional("on", "auf", "acc", the("Tisch")),)),
     "He is putting the knife on the table.", "Er legt das Messer auf den Tisch."),
    ("spend is verbringen for time",
     Clause(WE, SPEND_TIME, "past", accusative=Fixed(Term("the summer", "den Sommer")),
            adjuncts=(Term("in Vienna", "in Wien"),)),
     "We spent the summer in Vienna.", "Wir haben den Sommer in Wien verbracht."),
    ("spend is ausgeben for money",
     Clause(WE, SPEND_MONEY, "past", accusative=the("Geld")),
     "We spent the money.", "Wir haben das Geld ausgegeben."),
    ("like to is gern",
     Clause(Name("Anna", "f"), verb("play", "spielen"), gladly=True, predicate=Term("the piano", "Klavier")),
     "Anna likes to play the piano.", "Anna spielt gern Klavier."),
    ("not … but is nicht … sondern",
     Clause(HE, BUY, "past", negated=True, accusative=the("Kuchen"), contrast=the("Brot")),
     "He did not buy the cake but the bread.", "Er hat nicht den Kuchen gekauft, sondern das Brot."),
    ("kein … sondern",
     Clause(HE, verb("drink", "trinken"), negated=True, accusative=NounPhrase(noun("Kaffee"), "none"),
            contrast=NounPhrase(noun("Tee"), "none")),
     "He does not drink coffee but tea.", "Er trinkt keinen Kaffee, sondern Tee."),
    ("hoch loses its c; weak ending after dieser",
     Clause(SHE, verb("paint", "streichen"), "progressive",
            accusative=NounPhrase(noun("Wand"), "this", False, adjective("hoch"))),
     "She is painting this high wall.", "Sie streicht diese hohe Wand."),
    ("strong plural after viele, weak plural after alle",
     Clause(NounPhrase(noun("Gast"), "many", True, OLD), verb("thank", "danken"),
            dative=NounPhrase(noun("Kellner"), "all", True, adjective("jung"))),
     "Many old guests thank all the young waiters.", "Viele alte Gäste danken allen jungen Kellnern."),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "source", "target"), [row[1:] for row in SENTENCES], ids=[r[0] for r in SENTENCES])
def test_each_phenomenon_is_correct_in_both_languages(clause: Clause, source: str, target: str) -> None:
    assert both(clause) == (source, target)


@pytest.mark.parametrize(
    ("clause", "source", "target"),
    [
        (
            Clause(the("Koch"), BUY, "past", accusative=the("Ei", plural=True), time=YESTERDAY),
            "Did the cook buy the eggs yesterday?",
            "Hat der Koch gestern die Eier gekauft?",
        ),
        (
            Clause(HE, verb("know", "kennen"), accusative=the("Bürgermeister")),
            "Does he know the mayor?",
            "Kennt er den Bürgermeister?",
        ),
        (
            Clause(HE, verb("call", "anrufen"), "future", accusative=WE, asked=Term("when", "wann")),
            "When will he call us?",
            "Wann wird er uns anrufen?",
        ),
        (
            which(Clause(the("Kind"), READ, "progressive", accusative=the("Brief", adjective=OLD))),
            "Which old letter is the child reading?",
            "Welchen alten Brief liest das Kind?",
        ),
        (
            which(Clause(the("Kind"), verb("learn", "lernen"), "past", accusative=the("Buchstabe"))),
            "Which letter did the child learn?",
            "Welchen Buchstaben hat das Kind gelernt?",
        ),
    ],
)
def test_questions_invert_and_use_do_in_english(clause: Clause, source: str, target: str) -> None:
    assert both(clause, "question") == (source, target)


@pytest.mark.parametrize(
    ("clause", "target"),
    [
        (Clause(HE, GET_UP), "er aufsteht"),
        (Clause(HE, GET_UP, "past"), "er aufgestanden ist"),
        (Clause(HE, GET_UP, modal=modal("want to")), "er aufstehen will"),
        (Clause(THEY, READ, "future", accusative=the("Buch"), negated=True), "sie das Buch nicht lesen werden"),
        (Clause(the("Frau"), verb("rest", "ausruhen")), "sich die Frau ausruht"),
        (Clause(SHE, BE, "past", predicate=Term("sick", "krank")), "sie krank war"),
    ],
)
def test_the_finite_verb_is_last_in_subordinate_clauses(clause: Clause, target: str) -> None:
    assert german(clause, "final") == target


def test_zu_goes_between_the_prefix_and_the_verb() -> None:
    clause = Clause(HE, verb("switch", "einschalten"), accusative=the("Lampe"))
    assert (english(clause, "infinitive"), german(clause, "zu")) == ("to switch on the lamp", "die Lampe einzuschalten")
    assert german(Clause(HE, READ, accusative=the("Buch")), "zu") == "das Buch zu lesen"


def test_an_object_pronoun_parts_the_english_particle_and_precedes_the_german_time() -> None:
    clause = Clause(SHE, verb("switch", "ausschalten"), "past", accusative=Pronoun("it f"), time=YESTERDAY)
    assert both(clause) == ("She switched it off yesterday.", "Sie hat sie gestern ausgeschaltet.")


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (30, "thirty", "dreißig"),
        (21, "twenty-one", "einundzwanzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (66, "sixty-six", "sechsundsechzig"),
        (99, "ninety-nine", "neunundneunzig"),
    ],
)
def test_numbers_are_spelled(value: int, source: str, target: str) -> None:
    assert number(value) == Term(source, target)


@pytest.mark.parametrize(
    ("determiner", "expected"),
    [
        ("the", "der alte Hund, den alten Hund, dem alten Hund, des alten Hundes"),
        ("a", "ein alter Hund, einen alten Hund, einem alten Hund, eines alten Hundes"),
        ("our", "unser alter Hund, unseren alten Hund, unserem alten Hund, unseres alten Hundes"),
        ("this", "dieser alte Hund, diesen alten Hund, diesem alten Hund, dieses alten Hundes"),
    ],
)
def test_masculine_phrases_are_declined(determiner: str, expected: str) -> None:
    phrase = NounPhrase(noun("Hund"), determiner, False, OLD)
    assert ", ".join(phrase.german(case) for case in ("nom", "acc", "dat", "gen")) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        (NounPhrase(noun("Suppe"), "a", False, HOT), "eine heiße Suppe, eine heiße Suppe, einer heißen Suppe"),
        (NounPhrase(noun("Buch"), "a", False, NEW), "ein neues Buch, ein neues Buch, einem neuen Buch"),
        (NounPhrase(noun("Wein"), "none", False, OLD), "alter Wein, alten Wein, altem Wein"),
        (NounPhrase(noun("Milch"), "none", False, adjective("frisch")), "frische Milch, frische Milch, frischer Milch"),
        (NounPhrase(HOUSE, "none", True, OLD, count=3), "drei alte Häuser, drei alte Häuser, drei alten Häusern"),
        (NounPhrase(HOUSE, "my", True, OLD), "meine alten Häuser, meine alten Häuser, meinen alten Häusern"),
    ],
)  # fmt: skip
def test_other_phrases_are_declined(phrase: NounPhrase, expected: str) -> None:
    assert ", ".join(phrase.german(case) for case in ("nom", "acc", "dat")) == expected


# Properties of the corpus.


@pytest.fixture(scope="module")
def made() -> list:
    return sentences(2_000, seed=5)


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    """The stored text; `test_the_grammar_yields_the_bytes_stored_in_the_package` makes it anew."""

    def lines(split: str, language: str) -> list[str]:
        return gzip.decompress((STORED / f"{split}.{language}.gz").read_bytes()).decode().splitlines()

    splits = {"train": "train", "dev": "valid", "test": "test"}
    return {name: list(zip(lines(file, "en"), lines(file, "de"), strict=True)) for name, file in splits.items()}


@pytest.mark.slow
def test_every_sentence_is_well_formed(made: list) -> None:
    pattern = re.compile(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß'-]*(,? [A-Za-zÄÖÜäöüß'-]+)*[.?]")
    for item in made:
        assert pattern.fullmatch(item.source), item.source
        assert pattern.fullmatch(item.target), item.target
        assert item.source[-1] == item.target[-1]
        assert 2 <= len(item.source.split()) <= 25
        assert 2 <= len(item.target.split()) <= 25


def test_each_phenomenon_is_frequent(made: list) -> None:
    shares = {name: sum(name in item.tags for item in made) / len(made) for name in HARD_PHENOMENA}
    assert {name: share for name, share in shares.items() if share < 0.03} == {}


def test_describe_counts_sentences_and_phenomena(made: list) -> None:
    counts = describe(500, seed=5)
    assert sum(counts["kinds"].values()) == 500
    assert counts["phenomena"]["negation"] == sum("negation" in item.tags for item in made[:500])


@pytest.mark.exhaustive  # it makes the corpus twice
def test_each_word_of_the_lexicon_occurs_often(corpus: dict[str, list[tuple[str, str]]]) -> None:
    assert len(corpus["train"]) == 20_000
    counts = describe(21_000)["lexemes"]
    keys = [item.key for table in (NOUNS, VERBS, ADJECTIVES, PLACES, MODALS) for item in table]
    assert {key: counts.get(key, 0) for key in keys if counts.get(key, 0) < 60} == {}
    assert 500 <= len(counts) <= 600


@pytest.mark.slow
def test_the_english_sentence_determines_the_german_one() -> None:
    choice, translations = Choice(seed=3), {}
    for _ in range(20_000):
        item = sentence(choice)
        assert translations.setdefault(item.source.lower(), item.target) == item.target, item.source


@pytest.mark.slow
def test_the_default_corpus_has_the_promised_sizes_and_no_sentence_twice(corpus) -> None:
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 20_000, "dev": 500, "test": 500}
    pairs = [pair for split in corpus.values() for pair in split]
    assert len({normalised(source) for source, _ in pairs}) == 21_000
    assert len({normalised(target) for _, target in pairs}) == 21_000


def test_a_smaller_training_split_is_the_start_of_a_larger_one(corpus) -> None:
    small = generate(train=300)
    assert small["train"] == corpus["train"][:300]
    assert (small["dev"], small["test"]) == (corpus["dev"], corpus["test"])


def test_seeds_differ_and_repeat() -> None:
    one, again, two = (generate(100, 10, 10, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert len(set(one["train"]) & set(two["train"])) < 20


@pytest.mark.slow
def test_the_corpus_is_the_same_in_another_process_with_another_hash_seed() -> None:
    program = "import json; from toy_corpus import generate; print(json.dumps(generate(200, 20, 20)))"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tools"),
        "PYTHONHASHSEED": "4242",
        "PYTHONIOENCODING": "utf-8",
    }
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment, encoding="utf-8"
    )
    other = {name: [tuple(pair) for pair in pairs] for name, pairs in json.loads(printed.stdout).items()}
    assert other == generate(200, 20, 20)


def test_asking_for_more_sentences_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toy_corpus.corpus.KINDS", ((lambda choice: Term("it rains", "es regnet"), 1.0),))
    with pytest.raises(ValueError, match="no more than 1 different sentences: ask for fewer pairs"):
        generate(2, 0, 0)


@pytest.mark.slow
def test_the_grammar_yields_the_bytes_stored_in_the_package(tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "tools" / "make_toy_corpus.py"), str(tmp_path / "text")]
    subprocess.run(program, check=True, env={"PATH": os.environ["PATH"]})
    made = {path.name: path.read_bytes() for path in (tmp_path / "text").iterdir()}
    stored = {path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes()) for path in STORED.glob("*.gz")}
    texts = ["test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"]
    assert sorted(made) == ["dictionary.tsv", *texts]
    assert made == stored


@pytest.mark.slow
def test_the_same_text_is_compressed_to_the_same_bytes_without_a_date(tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("one", "two"):
        monkeypatch.setattr(
            sys, "argv", ["make_toy_corpus.py", str(tmp_path / name), "--train", "5", "--seed", "2", "--gzip"]
        )
        make_toy_corpus.main()
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert {data[4:8] for data in one.values()} == {bytes(4)}  # gzip's timestamp field
    assert gzip.decompress(one["train.en.gz"]).count(b"\n") == 5


@pytest.mark.slow
def test_copying_and_a_dictionary_stay_far_below_a_trained_model(corpus) -> None:
    sources, references = zip(*corpus["test"], strict=True)
    copied = sacrebleu.corpus_bleu(copy_baseline(sources), [list(references)]).score
    looked_up = sacrebleu.corpus_bleu(dictionary_baseline(sources), [list(references)]).score
    assert copied < 5
    assert copied < looked_up < 25


def test_the_dictionary_translates_word_by_word() -> None:
    assert dictionary_baseline([""]) == [""]
    assert dictionary_baseline(["The old teacher has twenty-one cows."]) == ["Die alt Lehrer hat einundzwanzig Kühe."]
