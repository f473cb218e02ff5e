"""Small models in which every probability is a known function of the source and the prefix."""

from itertools import product

import torch
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2
STATES = 997


class HashCache:
    """One running hash per row represents source and prefix."""

    def __init__(self, state: Tensor) -> None:
        self.state = state
        self.selects = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        self.state = self.state[rows]
        self.selects += 1


class HashModel:
    """The next token's logits are a random function of the source and all previous tokens."""

    def __init__(
        self, seed: int, vocabulary: int = 5, *, spread: float = 1.5, dtype: torch.dtype = torch.float32
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = (spread * torch.randn(STATES, vocabulary, generator=generator)).to(dtype)
        self.start_id = PAD
        self.rows: list[int] = []

    def hash_source(self, source: list[int]) -> int:
        state = 7
        for token in source:
            state = state if token == PAD else (state * 31 + token + 1) % STATES
        return state

    def start_cache(self, source: Tensor) -> HashCache:
        states = torch.tensor([self.hash_source(row) for row in source.tolist()], device=source.device)
        self.cache = HashCache(states)
        return self.cache

    def decode_step(self, tokens: Tensor, cache: HashCache) -> Tensor:
        assert tokens.shape == cache.state.shape
        assert int(tokens.min()) >= 0 and int(tokens.max()) < self.table.size(1)
        self.rows.append(len(tokens))
        cache.state = (cache.state * 37 + tokens + 11) % STATES
        return self.table.to(tokens.device)[cache.state]

    def logits(self, source: list[int], prefix: list[int]) -> Tensor:
        state = self.hash_source(source)
        for token in [self.start_id, *prefix]:
            state = (state * 37 + token + 11) % STATES
        return self.table[state]

    def log_p(self, source: list[int], prefix: list[int], token: int) -> float:
        return float(self.logits(source, prefix).double().log_softmax(-1)[token])


class PrefixCache:
    """The complete source and prefix of each row."""

    def __init__(self, source: Tensor) -> None:
        self.source, self.prefix = source.tolist(), [[] for _ in source]
        self.sentences = len(source)

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        kept = list(range(self.sentences)) if sentences is None else sentences.tolist()
        before, after = len(self.prefix) // self.sentences, len(rows) // len(kept)
        assert [row // before for row in rows.tolist()] == [sentence for sentence in kept for _ in range(after)]
        self.sentences = len(kept)
        self.source = [self.source[row] for row in rows.tolist()]
        self.prefix = [list(self.prefix[row]) for row in rows.tolist()]


class RecomputingModel:
    """The same function as a HashModel, recomputed from the complete prefix at each step."""

    def __init__(self, model: HashModel) -> None:
        self.model, self.start_id = model, model.start_id

    def start_cache(self, source: Tensor) -> PrefixCache:
        return PrefixCache(source)

    def decode_step(self, tokens: Tensor, cache: PrefixCache) -> Tensor:
        for prefix, token in zip(cache.prefix, tokens.tolist(), strict=True):
            prefix.append(token)
        return torch.stack([self.model.logits(s, p[1:]) for s, p in zip(cache.source, cache.prefix, strict=True)])


class ScriptedModel(HashModel):
    """Probabilities by prefix; the remainder goes to padding, which is never generated."""

    def __init__(self, script: dict[tuple[int, ...], dict[int, float]], vocabulary: int = 8) -> None:
        self.script, self.vocabulary, self.start_id = script, vocabulary, PAD

    def start_cache(self, source: Tensor) -> PrefixCache:
        self.cache = PrefixCache(source)
        return self.cache

    def logits(self, source: list[int], prefix: list[int]) -> Tensor:
        chances = torch.zeros(self.vocabulary, dtype=torch.float64)
        for token, chance in self.script.get(tuple(prefix), {}).items():
            chances[token] = chance
        chances[PAD] = 1 - chances.sum()
        return chances.log()

    decode_step = RecomputingModel.decode_step  # type: ignore[assignment]

    @property
    def model(self) -> "ScriptedModel":
        return self


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def exhaustive(model: HashModel, source: list[int], limit: int, alpha: float) -> list[tuple[list[int], float, float]]:
    """Return all complete outputs of at most `limit` tokens: tokens without EOS, score, log P; best score first."""
    words = [token for token in range(model.table.size(1)) if token not in (PAD, EOS)]
    found = []
    for length in range(limit):
        for tokens in product(words, repeat=length):
            whole = [*tokens, EOS]
            log_p = sum(model.log_p(source, whole[:at], token) for at, token in enumerate(whole))
            found.append((list(tokens), log_p / penalty(len(whole), alpha), log_p))
    return sorted(found, key=lambda item: -item[1])


def plain_beam_search(
    model: HashModel, source: list[int], limit: int, alpha: float, beam: int
) -> tuple[list[tuple[list[int], float]], list[tuple[list[int], float]]]:
    """Run the same search hypothesis by hypothesis, without early stop: finished (score) and alive (log P)."""
    usable = [token for token in range(model.table.size(1)) if token != PAD]
    alive: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[tuple[list[int], float]] = []
    for _ in range(limit):
        candidates = [
            ([*tokens, token], log_p + model.log_p(source, tokens, token))
            for tokens, log_p in alive
            for token in usable
        ]
        candidates = sorted(candidates, key=lambda item: -item[1])[: 2 * beam]
        finished += [(t[:-1], log_p / penalty(len(t), alpha)) for t, log_p in candidates if t[-1] == EOS]
        alive = [(t, log_p) for t, log_p in candidates if t[-1] != EOS][:beam]
    return sorted(finished, key=lambda item: -item[1]), alive
