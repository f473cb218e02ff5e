"""The grammar behind the built-in English–German corpus: correct sentences of both languages by seed.

Some 550 lexemes (pairs of an English and a German dictionary word or fixed adverbial; `describe` counts them) make
about 1,300 English and 1,800 German word forms in 21,000 sentences. The phenomena that make translation hard are all
there: gender, case and number agreement, verb-second and verb-final order, separable verbs, compounds, negation,
numbers, relative clauses, and words that only their context tells apart. The English sentence determines the German
one.
"""

from itertools import islice

from toy_corpus.corpus import Sentence, stream
from toy_corpus.dictionary import dictionary

__all__ = ["Sentence", "describe", "dictionary", "generate", "sentences"]


def sentences(count: int, seed: int = 1) -> list[Sentence]:
    """Return the first `count` sentences of a seed with the phenomena that they show."""
    return list(islice(stream(seed), count))


def generate(train: int = 20_000, dev: int = 500, test: int = 500, seed: int = 1) -> dict[str, list[tuple[str, str]]]:
    """Return the splits as pairs (English, German).

    The same seed gives the same corpus on every machine, and the same dev and test split for every size of training
    split. No sentence occurs twice, within a split or across splits, also when case and punctuation are ignored.

    Raises:
        ValueError: more sentences are asked for than the grammar has.
    """
    made = [(item.source, item.target) for item in islice(stream(seed), dev + test + train)]
    return {"train": made[dev + test :], "dev": made[:dev], "test": made[dev : dev + test]}


def describe(count: int = 2_000, seed: int = 1) -> dict[str, dict[str, int]]:
    """Return counts over the first sentences: in how many each phenomenon and each kind of sentence occurs."""
    phenomena: dict[str, int] = {}
    kinds: dict[str, int] = {}
    lexemes: dict[str, int] = {}
    for item in sentences(count, seed):
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
        for tag in item.tags:
            phenomena[tag] = phenomena.get(tag, 0) + 1
        for lexeme in item.lexemes:
            lexemes[lexeme] = lexemes.get(lexeme, 0) + 1
    return {"phenomena": phenomena, "kinds": kinds, "lexemes": lexemes}
