"""A built-in treebank of generated English-like sentences, for tests and first steps.

It contains what makes parsing difficult on a small scale: attachment that depends on words (of: noun, with: verb),
relative clauses, coordination, unary chains, particles and punctuation.
"""

import random

from variations.tasks.parsing.trees import Tree

NOUNS = ("cat", "dog", "mat", "house", "river", "girl", "teacher", "boat", "apple", "garden")
NAMES = ("Ada", "Bela", "Cora", "Dan")
VERBS = ("saw", "found", "painted", "carried", "liked")
IDLE = ("slept", "laughed", "arrived", "waited")
ADJECTIVES = ("old", "small", "green", "quiet")
ADVERBS = ("slowly", "often", "yesterday")
DEEPEST = 4


def generate(number: int, seed: int) -> list[Tree]:
    """Return `number` trees; the same for the same seed."""
    rng = random.Random(seed)  # noqa: S311 - a corpus, no secret
    return [_sentence(rng) for _ in range(number)]


def _leaf(rng: random.Random, tag: str, words: tuple[str, ...]) -> Tree:
    return Tree(tag, word=rng.choice(words))


def _sentence(rng: random.Random) -> Tree:
    clause = (_noun_phrase(rng, 0), _verb_phrase(rng, 0))
    if rng.random() < 0.15:
        adverb = Tree("ADVP", (_leaf(rng, "RB", ADVERBS),))
        return Tree("S", (adverb, Tree(",", word=","), *clause, Tree(".", word=".")))
    if rng.random() < 0.1:
        both = Tree("S", clause), Tree("CC", word="and"), Tree("S", (_noun_phrase(rng, 1), _verb_phrase(rng, 1)))
        return Tree("S", (*both, Tree(".", word=".")))
    return Tree("S", (*clause, Tree(".", word=".")))


def _noun_phrase(rng: random.Random, depth: int) -> Tree:
    if rng.random() < 0.2:
        return Tree("NP", (_leaf(rng, "NNP", NAMES),))
    adjective = (_leaf(rng, "JJ", ADJECTIVES),) if rng.random() < 0.3 else ()
    simple = Tree("NP", (Tree("DT", word=rng.choice(("the", "a"))), *adjective, _leaf(rng, "NN", NOUNS)))
    draw = rng.random() if depth < DEEPEST else 1.0
    if draw < 0.2:
        return Tree("NP", (simple, Tree("PP", (Tree("IN", word="of"), _noun_phrase(rng, depth + 1)))))
    if draw < 0.3:
        relative = Tree("SBAR", (Tree("WHNP", (Tree("WDT", word="that"),)), Tree("S", (_verb_phrase(rng, depth + 1),))))
        return Tree("NP", (simple, relative))
    if draw < 0.4:
        return Tree("NP", (simple, Tree("CC", word="and"), _noun_phrase(rng, depth + 1)))
    return simple


def _verb_phrase(rng: random.Random, depth: int) -> Tree:
    if rng.random() < 0.35:
        verb: tuple[Tree, ...] = (_leaf(rng, "VBD", IDLE),)
    else:
        verb = (_leaf(rng, "VBD", VERBS), _noun_phrase(rng, depth + 1))
    draw = rng.random() if depth < DEEPEST else 1.0
    if draw < 0.2:
        return Tree("VP", (*verb, Tree("PP", (Tree("IN", word="with"), _noun_phrase(rng, depth + 1)))))
    if draw < 0.35:
        return Tree("VP", (*verb, Tree("ADVP", (_leaf(rng, "RB", ADVERBS),))))
    if draw < 0.45:
        return Tree("VP", (*verb, Tree("PRT", (Tree("RP", word="up"),))))
    return Tree("VP", verb)
