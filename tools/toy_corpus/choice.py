"""Random choices that use all words about equally often."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

CANDIDATES = 5
"""From so many random candidates the one used least so far is taken."""


class Keyed(Protocol):
    """Anything with the name of a lexeme."""

    @property
    def key(self) -> str:
        """Name of the lexeme."""
        ...


K = TypeVar("K", bound=Keyed)
V = TypeVar("V")


class Choice:
    """Random choices for one corpus after another; equal seeds give equal choices on every machine.

    `lexemes` and `tags` name the words and the phenomena of the sentence under way (dicts: sets without an order would
    make runs differ).
    """

    def __init__(self, seed: int) -> None:
        # Not for secrets: a corpus must be the same for the same seed.
        self.random = random.Random(seed)  # noqa: S311
        self.counts: dict[str, int] = {}
        self.lexemes: dict[str, None] = {}
        self.tags: dict[str, None] = {}

    def begin(self) -> None:
        """Start a new sentence."""
        self.lexemes = {}
        self.tags = {}

    def tag(self, *names: str) -> None:
        """Note phenomena of the sentence."""
        self.tags.update(dict.fromkeys(names))

    def use(self, item: K) -> K:
        """Note a word of the sentence, and return it."""
        self.lexemes[item.key] = None
        self.counts[item.key] = self.counts.get(item.key, 0) + 1
        return item

    def word(self, pool: Sequence[K]) -> K:
        """Return one of `pool`: not yet in this sentence where possible, rather a rare than a frequent one."""
        candidates = [pool[int(self.random.random() * len(pool))] for _ in range(CANDIDATES)]
        return self.use(min(candidates, key=lambda item: (item.key in self.lexemes, self.counts.get(item.key, 0))))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def one(self, pool: Sequence[V]) -> V:
        """Return one of `pool`, all alike."""
        return pool[int(self.random.random() * len(pool))]

    def weighted(self, table: Sequence[tuple[V, float]]) -> V:
        """Return one of the first elements with a probability in proportion to the second."""
        point = self.random.random() * sum(weight for _, weight in table)
        for item, weight in table:
            point -= weight
            if point < 0:
                return item
        return table[-1][0]


Maker = Callable[[Choice], V]
