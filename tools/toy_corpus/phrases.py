"""Noun phrases: one meaning, rendered in English and, in a given case, in German."""

from dataclasses import dataclass
from typing import Protocol

from toy_corpus import inflection
from toy_corpus.nouns import Noun
from toy_corpus.words import Adjective, Term, number


class Clausal(Protocol):
    """A relative clause, which agrees with the phrase that it belongs to."""

    def english(self, phrase: "NounPhrase") -> str:
        """Return the clause with its relative pronoun."""
        ...

    def german(self, phrase: "NounPhrase") -> str:
        """Return the clause with its commas and its relative pronoun."""
        ...


@dataclass(frozen=True)
class NounPhrase:
    """A noun with what belongs to it.

    `determiner` is the, a, no, this, every, which, many, all, my, his, her, our, their, or none (mass and bare plural;
    also before the number words of `count`). `relative_last` puts the German relative clause to the end of its clause.
    """

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjective: Adjective | None = None
    count: int = 0
    owner: "NounPhrase | Name | None" = None
    relative: Clausal | None = None
    relative_last: bool = False

    pronoun = False
    reflexive = "sich"

    @property
    def gender(self) -> str:
        """German gender, p in the plural."""
        return "p" if self.plural else self.noun.gender

    @property
    def english_plural(self) -> bool:
        """Whether English agrees in the plural (the trousers are)."""
        return self.gender == "p" or self.noun.pair

    @property
    def english_agreement(self) -> str:
        """One of I, he, we."""
        return "we" if self.english_plural else "he"

    @property
    def agreement(self) -> str:
        """One of I, he, we: the German person and number."""
        return "we" if self.gender == "p" else "he"

    @property
    def definite(self) -> bool:
        """Whether negation leaves the article alone (nicht, not kein)."""
        return self.owner is not None or self.count > 0 or self.determiner not in ("a", "none")

    @property
    def substitute(self) -> str:
        """Key of the pronoun that stands for this thing (it, they)."""
        return "they" if self.english_plural and self.gender == "p" else f"it {self.gender}"

    def english(self, *, object_form: bool = False) -> str:
        """Return the English phrase."""
        del object_form
        words = [self.adjective.english] if self.adjective else []
        words.append(self.noun.english_plural if self.english_plural else self.noun.english)
        text = " ".join([*self._english_determiner(words[0]), *words])
        return text + (self.relative.english(self) if self.relative else "")

    def _english_determiner(self, following: str) -> list[str]:
        if self.owner is not None:
            owner = self.owner.english()
            return [owner + ("'" if self.owner.english_agreement == "we" and owner.endswith("s") else "'s")]
        if self.count:
            return [*([self.determiner] if self.determiner != "none" else []), number(self.count).english]
        if self.determiner == "none":
            return []
        if self.determiner == "a":
            return [inflection.article(following)]
        if self.determiner == "this" and self.english_plural:
            return ["these"]
        return ["all", "the"] if self.determiner == "all" else [self.determiner]

    def german(self, case: str, *, negated: bool = False) -> str:
        """Return the German phrase; `negated` gives kein to a phrase without a definite determiner."""
        determiner, declension = self._german_determiner(case, negated)
        words = [determiner] if determiner else []
        if isinstance(self.owner, Name):
            words, declension = [self.owner.name + "s"], "strong"
        if self.count:
            words.append(number(self.count).german)
        if self.adjective:
            words.append(self.adjective.stem + inflection.ADJECTIVE_ENDINGS[declension][case][self.gender])
        words.append(self.german_noun(case))
        if isinstance(self.owner, NounPhrase):
            words.append(self.owner.german("gen"))
        text = " ".join(words)
        return text + (self.relative.german(self) if self.relative and not self.relative_last else "")

    def german_noun(self, case: str) -> str:
        """Return the noun in its case."""
        if self.gender == "p":
            return inflection.dative_plural(self.noun.german_plural) if case == "dat" else self.noun.german_plural
        if case == "gen":
            return self.noun.genitive
        return self.noun.german if case == "nom" else self.noun.oblique

    def _german_determiner(self, case: str, negated: bool) -> tuple[str, str]:
        """Return the declined determiner and the declension of the adjective after it."""
        gender = self.gender
        if isinstance(self.owner, NounPhrase) or self.determiner == "the":
            return inflection.THE[case][gender], "weak"
        if self.determiner == "no" or (negated and not self.definite):
            return "kein" + inflection.EIN[case][gender], "mixed"
        if self.determiner == "none":
            return "", "strong"
        if self.determiner == "a":
            return "ein" + inflection.EIN[case][gender], "mixed"
        if self.determiner in inflection.POSSESSIVES:
            return inflection.POSSESSIVES[self.determiner] + inflection.EIN[case][gender], "mixed"
        stem = {"this": "dies", "every": "jed", "which": "welch", "many": "viel", "all": "all"}[self.determiner]
        return stem + inflection.STRONG[case][gender], "strong" if self.determiner == "many" else "weak"

    @property
    def tail(self) -> str:
        """The German relative clause that stands at the end of the clause, or nothing."""
        return self.relative.german(self) if self.relative and self.relative_last else ""


@dataclass(frozen=True)
class Name:
    """A person's name; `gender` m or f."""

    name: str
    gender: str

    pronoun = False
    reflexive = "sich"
    english_agreement = "he"
    agreement = "he"
    definite = True
    tail = ""

    def english(self, *, object_form: bool = False) -> str:
        """Return the name."""
        del object_form
        return self.name

    def german(self, case: str, *, negated: bool = False) -> str:
        """Return the name, the same in all cases but the genitive."""
        del negated
        return self.name + ("s" if case == "gen" else "")


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun by its key in the table of pronouns."""

    key: str

    pronoun = True
    definite = True
    tail = ""

    @property
    def agreement(self) -> str:
        """One of I, he, we."""
        return inflection.PRONOUNS[self.key].agreement

    @property
    def english_agreement(self) -> str:
        """One of I, he, we."""
        return self.agreement

    @property
    def reflexive(self) -> str:
        """The German reflexive pronoun."""
        return inflection.PRONOUNS[self.key].reflexive

    def english(self, *, object_form: bool = False) -> str:
        """Return the subject or the object form."""
        pronoun = inflection.PRONOUNS[self.key]
        return pronoun.english_object if object_form else pronoun.english

    def german(self, case: str, *, negated: bool = False) -> str:
        """Return the form of the case."""
        del negated
        pronoun = inflection.PRONOUNS[self.key]
        return {"nom": pronoun.nom, "acc": pronoun.acc, "dat": pronoun.dat}[case]


@dataclass(frozen=True)
class Fixed:
    """A phrase that is fixed in both languages, third person singular: who (a `pronoun`), the weekend."""

    words: Term
    pronoun: bool = False

    agreement = "he"
    english_agreement = "he"
    reflexive = "sich"
    definite = True
    tail = ""

    def english(self, *, object_form: bool = False) -> str:
        """Return the English words."""
        del object_form
        return self.words.english

    def german(self, case: str, *, negated: bool = False) -> str:
        """Return the German words."""
        del case, negated
        return self.words.german


Phrase = NounPhrase | Name | Pronoun | Fixed


def with_preposition(preposition: str, phrase: str) -> str:
    """Join a German preposition and a phrase, contracted before a plain article: im, zur, vom."""
    first, _, rest = phrase.partition(" ")
    joined = inflection.CONTRACTIONS.get((preposition, first))
    return f"{joined} {rest}" if joined else f"{preposition} {phrase}"


def prepositional(english: str, german: str, case: str, phrase: Phrase) -> Term:
    """Return a prepositional phrase of both languages; the German preposition governs `case`."""
    text = with_preposition(german, phrase.german(case))
    return Term(f"{english} {phrase.english(object_form=True)}", text)
