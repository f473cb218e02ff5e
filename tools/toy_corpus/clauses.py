"""Clauses: one meaning, rendered in English and German word order.

German has three orders: `main` puts the finite verb second, `question` first (also after a subordinate clause that
opens the sentence), `final` last; `zu` is the infinitive clause. The middle of the clause has one fixed order, so that
each English sentence has exactly one translation: subject pronoun, reflexive, subject, object pronouns, time, dative,
accusative, adverb of frequency, nicht, manner, prepositional phrases, predicate. Definite objects go before the time
where the clause is negated or has an adverb of frequency.
"""

from dataclasses import dataclass, replace

from toy_corpus import inflection
from toy_corpus.phrases import NounPhrase, Phrase, Pronoun
from toy_corpus.verbs import Verb
from toy_corpus.words import Modal, Term

Subject = Phrase
BASE_OF_PAST = {"wanted to": "want to", "had to": "have to"}
AM = {"I": "am", "he": "is", "we": "are"}
WAS = {"I": "was", "he": "was", "we": "were"}


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, when and where.

    `tense` is present, progressive, past, perfect or future; `gladly` is English "like to", German gern; `front` is
    the adverbial that opens the main clause (the same as `time` or one of `adjuncts`); `manner` follows the other
    phrases in English and precedes them in German; `asked` opens a question (a question word).
    """

    subject: Subject
    verb: Verb
    tense: str = "present"
    modal: Modal | None = None
    gladly: bool = False
    negated: bool = False
    dative: Phrase | None = None
    accusative: Phrase | None = None
    contrast: Phrase | None = None
    time: Term | None = None
    frequency: Term | None = None
    manner: Term | None = None
    adjuncts: tuple[Term, ...] = ()
    predicate: Term | None = None
    front: Term | None = None
    asked: Term | None = None

    @property
    def past(self) -> bool:
        """Whether it tells of the past."""
        return self.tense in ("past", "perfect") or (self.modal is not None and self.modal.past)

    @property
    def german_perfect(self) -> bool:
        """Whether German uses the perfect tense."""
        return self.modal is None and (self.tense == "perfect" or (self.tense == "past" and not self.verb.preterite))


# English


def _english_modal(modal: Modal, base: str, agreement: str, support: bool) -> tuple[str, str]:
    if modal.pattern == "aux":
        auxiliary, _, rest = modal.english.partition(" ")
        return auxiliary, f"{rest} {base}".strip()
    if modal.pattern == "be":
        return AM[agreement], f"{modal.english} {base}"
    if modal.past:
        plain = BASE_OF_PAST[modal.english]
        return ("did", f"{plain} {base}") if support else ("", f"{modal.english} {base}")
    if support:
        return _do(agreement), f"{modal.english} {base}"
    return "", f"{modal.third if agreement == 'he' else modal.english} {base}"


def _do(agreement: str) -> str:
    return "does" if agreement == "he" else "do"


def _english_be(tense: str, agreement: str) -> tuple[str, str]:
    if tense == "perfect":
        return ("has" if agreement == "he" else "have"), "been"
    if tense == "future":
        return "will", "be"
    return (WAS if tense == "past" else AM)[agreement], ""


def english_verb(clause: Clause, *, support: bool) -> tuple[str, str]:
    """Return the auxiliary (empty where there is none) and the main verb; `support` asks for do, does, did."""
    verb, agreement = clause.verb, clause.subject.english_agreement
    if clause.modal:
        return _english_modal(clause.modal, verb.english, agreement, support)
    if clause.gladly:
        return (_do(agreement), f"like to {verb.english}") if support else ("", f"{_like(agreement)} to {verb.english}")
    if verb.english == "be":
        return _english_be(clause.tense, agreement)
    if clause.tense == "progressive":
        return AM[agreement], inflection.ing(verb.english)
    if clause.tense == "perfect":
        return ("has" if agreement == "he" else "have"), verb.participle
    if clause.tense == "future":
        return "will", verb.english
    if clause.tense == "past":
        return ("did", verb.english) if support else ("", verb.past)
    if support:
        return _do(agreement), verb.english
    return "", inflection.third_person(verb.english) if agreement == "he" else verb.english


def _like(agreement: str) -> str:
    return "likes" if agreement == "he" else "like"


def _english_objects(clause: Clause, omit: str) -> list[str]:
    given = (("dative", clause.dative), ("accusative", clause.accusative))
    objects = [phrase.english(object_form=True) for role, phrase in given if phrase is not None and role != omit]
    if clause.contrast is not None:
        objects.append("but " + clause.contrast.english(object_form=True))
    rest = clause.verb.rest
    moved = clause.verb.particle and isinstance(clause.accusative, Pronoun)
    return [*objects, rest] if moved else [rest, *objects]


def _english_rest(clause: Clause, omit: str) -> list[str]:
    last = [clause.predicate, *clause.adjuncts, clause.manner, clause.time]
    tail = [item.english for item in last if item is not None and item != clause.front]
    return [*_english_objects(clause, omit), *tail]


def english(clause: Clause, order: str = "main", omit: str = "") -> str:
    """Render in English; `order` is main, question or infinitive, `omit` a role that a relative pronoun fills."""
    if order == "infinitive":
        return _join(["to", clause.verb.english, *_english_rest(clause, "")])
    auxiliary, main = english_verb(clause, support=clause.negated or order == "question")
    subject = "" if omit == "subject" else clause.subject.english()
    frequency = clause.frequency.english if clause.frequency else ""
    negation = "not" if clause.negated else ""
    front = [clause.front.english] if clause.front else []
    if order == "question":
        asked = [clause.asked.english] if clause.asked else []
        head = [*asked, auxiliary, subject, negation, frequency, main]
    elif auxiliary == "can" and negation:
        head = [*front, subject, "cannot", frequency, main]
    else:
        head = [*front, subject, auxiliary, negation, frequency, main]
    return _join([*head, *_english_rest(clause, omit)])


# German


def german_verb(clause: Clause) -> tuple[str, str, bool]:
    """Return the finite verb, the right bracket, and whether the bracket is a prefix of the finite verb."""
    verb, agreement = clause.verb, clause.subject.agreement
    infinitive = verb.prefix + verb.infinitive
    if clause.modal:
        modal = clause.modal
        return {"I": modal.first, "he": modal.german_third, "we": modal.plural}[agreement], infinitive, False
    if clause.tense == "future":
        return inflection.WILL[agreement], infinitive, False
    if clause.german_perfect:
        return inflection.auxiliary(verb, agreement), verb.german_participle, False
    if clause.tense == "past":
        return inflection.preterite(verb, agreement), verb.prefix, True
    return inflection.present(verb, agreement), verb.prefix, True


def _negation(clause: Clause) -> tuple[str, str]:
    """Return the role whose phrase takes kein, and nicht where no phrase does."""
    if not clause.negated:
        return "", ""
    for role, phrase in (("accusative", clause.accusative), ("dative", clause.dative)):
        if phrase is not None and not phrase.definite:
            return role, ""
    return "", "nicht"


def _german_objects(clause: Clause, omit: str, kein: str) -> tuple[list[str], list[str]]:
    """Return the object pronouns and the other objects, each in order."""
    pronouns, phrases = [], []
    accusative, dative = clause.accusative, clause.dative
    if isinstance(accusative, Pronoun):
        pronouns.append(accusative.german("acc"))
    if isinstance(dative, Pronoun):
        pronouns.append(dative.german("dat"))
    if dative is not None and not dative.pronoun and omit != "dative":
        phrases.append(dative.german("dat", negated=kein == "dative"))
    if accusative is not None and not accusative.pronoun and omit != "accusative":
        phrases.append(accusative.german("acc", negated=kein == "accusative"))
    return pronouns, phrases


def _object_first(clause: Clause) -> bool:
    last = clause.accusative or clause.dative
    return last is not None and last.definite and (clause.negated or clause.frequency is not None)


def _middle(clause: Clause, *, subject: bool, omit: str = "") -> list[str]:
    kein, nicht = _negation(clause)
    pronouns, objects = _german_objects(clause, omit, kein)
    reflexive = [clause.subject.reflexive] if clause.verb.reflexive else []
    nominative = [clause.subject.german("nom")] if subject else []
    opening = [*nominative, *reflexive] if clause.subject.pronoun else [*reflexive, *nominative]
    time = [clause.time.german] if clause.time and clause.time != clause.front else []
    often = [clause.frequency.german] if clause.frequency else []
    often += ["gern"] if clause.gladly else []
    centre = [*objects, *time, *often] if _object_first(clause) else [*time, *often, *objects]
    if clause.contrast is not None:  # nicht das Buch, sondern die Zeitung
        centre, nicht = [*time, nicht, *objects], ""
    phrases = [clause.manner, *(item for item in clause.adjuncts if item != clause.front), clause.predicate]
    return [*opening, *pronouns, *centre, nicht, *(item.german for item in phrases if item)]


def _tails(clause: Clause, omit: str) -> list[str]:
    given = (("subject", clause.subject), ("dative", clause.dative), ("accusative", clause.accusative))
    tails = [phrase.tail for role, phrase in given if phrase is not None and role != omit and phrase.tail]
    if clause.contrast is not None:
        tails.append(", sondern " + clause.contrast.german("acc"))
    return tails


def german(clause: Clause, order: str = "main", omit: str = "") -> str:
    """Render in German; `order` is main, question, final or zu, `omit` a role that a relative pronoun fills."""
    finite, bracket, prefix = german_verb(clause)
    tails = _tails(clause, omit)
    if order == "zu":
        verb = clause.verb
        infinitive = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
        return _join([*_middle(clause, subject=False), infinitive, *tails])
    if order == "final":
        end = bracket + finite if prefix else f"{bracket} {finite}"
        return _join([*_middle(clause, subject=omit != "subject", omit=omit), end, *tails])
    if order == "question":
        asked = [clause.asked.german] if clause.asked else []
        return _join([*asked, finite, *_middle(clause, subject=True), bracket, *tails])
    if clause.front:
        return _join([clause.front.german, finite, *_middle(clause, subject=True), bracket, *tails])
    return _join([clause.subject.german("nom"), finite, *_middle(clause, subject=False), bracket, *tails])


@dataclass(frozen=True)
class Relative:
    """A relative clause: the phrase that it belongs to fills `role` (subject, accusative or dative) of `clause`."""

    role: str
    clause: Clause

    def english(self, phrase: NounPhrase) -> str:
        """Return the clause with who, whom or that before it."""
        person = "who" if self.role == "subject" else "whom"
        pronoun = person if phrase.noun.kind == "person" else "that"
        return f" {pronoun} {english(self.clause, omit=self.role)}"

    def german(self, phrase: NounPhrase) -> str:
        """Return the clause between commas, its pronoun in the gender of the phrase and the case of the role."""
        case = {"subject": "nom", "accusative": "acc", "dative": "dat"}[self.role]
        pronoun = inflection.RELATIVE[case][phrase.gender]
        return f", {pronoun} {german(self.clause, 'final', omit=self.role)},"


def which(clause: Clause) -> Clause:
    """Return the question for the accusative object: it opens the question (which book, welches Buch)."""
    if not isinstance(clause.accusative, NounPhrase):
        raise TypeError("which() needs a noun phrase in the accusative")
    phrase = replace(clause.accusative, determiner="which", owner=None, count=0, relative=None)
    asked = Term(phrase.english(), phrase.german("acc"))
    return replace(clause, accusative=None, asked=asked)


def _join(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)
