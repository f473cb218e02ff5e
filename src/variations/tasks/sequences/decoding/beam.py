"""Batched beam search with a key/value cache (Wu et al. 2016, section 7, without the coverage term).

The algorithm is that of the code behind Vaswani et al. 2017: the 2·beam best continuations of `beam` alive hypotheses
are taken; those that end in EOS compete for the finished set, and the best `beam` others stay alive, so that an EOS
never reduces the number of alive hypotheses. A sentence is complete when no alive hypothesis can beat the worst
finished one to be returned: log P only falls, so its bound is log P / lp(longest output). The sentence then leaves the
batch.

Everything is a tensor over all sentences and beams. The host synchronises once a step on CPU, once in four steps on an
accelerator (`step.LOOK_EVERY`), and when a sentence reaches its length limit, which is known in advance. Sums of
log-probabilities are in float64. Of equal candidates that are kept, the better beam is first, then the smaller id;
which of them are kept, if there is no room for all, depends only on their values (`step.best_tokens`).

Shapes: B sentences still in the batch, K beams, n hypotheses to return, L longest output, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from variations.tasks.sequences.decoding.greedy import greedy_search
from variations.tasks.sequences.decoding.protocol import (
    BOS,
    EOS,
    PAD,
    Decodable,
    Hypothesis,
    hypotheses_from_lists,
    length_penalty,
)
from variations.tasks.sequences.decoding.step import best_tokens, log_probabilities, look_interval, output_limits

__all__ = ["Hypothesis", "beam_search", "length_penalty"]

IMPOSSIBLE = float("-inf")


@torch.no_grad()
def beam_search(
    model: Decodable,
    source: Tensor,
    *,
    beam: int,
    alpha: float,
    max_extra: int,
    nbest: int = 1,
    eos: int = EOS,
    pad: int = PAD,
    bos: int | None = BOS,
    max_length: int | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch.

    Padding and BOS are never generated. The result for a sentence does not depend on the others in the batch, except
    through the model's own arithmetic.

    Args:
        model: the model, in evaluation mode.
        source: (B, S) int64, padded at the end with `pad`.
        beam: K; 1 is greedy.
        alpha: exponent of the length penalty ((5+|Y|)/6)^alpha, at least 0.
        max_extra: the longest output has the sentence's own source length plus this many tokens, EOS included.
        nbest: n, at most `beam`.
        eos: identifier that ends an output.
        pad: identifier of the padding.
        bos: identifier that is never generated, if there is one.
        max_length: longest output of any sentence, EOS included (rows of a learned position table).

    Returns:
        For each sentence 1 to `nbest` hypotheses, best score first: finished ones, or if there are none within the
        length limit the best unfinished ones, or if every output has probability 0 an empty one.

    Raises:
        ValueError: beam, alpha, max_extra, nbest or max_length is out of range.
    """
    if beam < 1 or alpha < 0 or max_extra < 0 or not 1 <= nbest <= beam or (max_length is not None and max_length < 1):
        raise ValueError(
            "beam search needs beam >= 1, alpha >= 0, max_extra >= 0, 1 <= nbest <= beam and max_length >= 1, not "
            f"beam={beam}, alpha={alpha}, max_extra={max_extra}, nbest={nbest}, max_length={max_length}"
        )
    if source.size(0) == 0:
        return []
    limits = output_limits(source, pad=pad, max_extra=max_extra, max_length=max_length)
    never = [pad] if bos is None else [pad, bos]
    if beam == 1:
        return greedy_search(model, source, limits, alpha=alpha, eos=eos, never=never)

    search = _Search(limits, source.device, beam=beam, alpha=alpha, nbest=nbest, eos=eos)
    cache = model.start_cache(source)
    tokens = torch.full((source.size(0),), model.start_id, device=source.device)
    while True:
        rows, sentences = search.advance(log_probabilities(model.decode_step(tokens, cache), never))
        if not search.places:
            return search.results
        if rows is not None:
            cache.select(rows, sentences)
        tokens = search.last_tokens()


class _Search:
    """Alive and finished hypotheses of all sentences that are still in the batch."""

    def __init__(
        self, limits: Sequence[int], device: torch.device, *, beam: int, alpha: float, nbest: int, eos: int
    ) -> None:
        B, L = len(limits), max(limits)
        self.beam, self.alpha, self.nbest, self.eos = beam, alpha, nbest, eos
        self.results: list[list[Hypothesis]] = [[] for _ in limits]
        self.places = list(range(B))
        self.limits = list(limits)
        self.interval = look_interval(device)
        self.step = 0
        penalties = [length_penalty(limit, alpha) for limit in limits]
        self.final_penalty = torch.tensor(penalties, dtype=torch.float64, device=device)  # (B,)
        # Alive: one hypothesis per sentence before the first token, `beam` after it.
        self.alive = torch.zeros(B, 1, dtype=torch.float64, device=device)  # log P
        self.tokens = torch.zeros(B, beam, L, dtype=torch.int64, device=device)
        # Finished: sorted by score; free places have score -inf.
        self.score = torch.full((B, nbest), IMPOSSIBLE, dtype=torch.float64, device=device)
        self.log_p = self.score.clone()
        self.words = torch.zeros(B, nbest, dtype=torch.int64, device=device)
        self.finished_tokens = torch.zeros(B, nbest, L, dtype=torch.int64, device=device)

    def last_tokens(self) -> Tensor:
        """(B·K,) the newest token of each alive hypothesis."""
        return self.tokens[:, :, self.step - 1].flatten()

    def advance(self, log_p: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Extend every hypothesis by one token and remove complete sentences.

        Args:
            log_p: (B·width, V), where width is 1 at the first step and K later.

        Returns:
            (B'·K,) the cache rows that continue, or None if all stay unchanged; (B',) the sentences that continue, or
            None if all do.
        """
        candidates, parents, tokens = self._expand(log_p)
        ends = tokens.eq(self.eos)
        self._finish(candidates.masked_fill(~ends, IMPOSSIBLE), parents)
        width = self.alive.size(1)
        parents = self._continue(candidates.masked_fill(ends, IMPOSSIBLE), parents, tokens)
        stay, same = self._look(parents, width)
        if stay is not None:
            self._leave(stay)
            parents = parents[stay]
            first = stay[:, None] * width
        else:
            first = torch.arange(parents.size(0), device=parents.device)[:, None] * width
        return None if same else (first + parents).flatten(), stay

    def _expand(self, log_p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2K best continuations: log P, parent beam and token, each (B, 2K), best first."""
        B, width = self.alive.shape
        wanted = 2 * self.beam
        k = min(wanted, log_p.size(1))
        values, tokens = best_tokens(log_p, k)  # (B·width, k)
        candidates = (self.alive[:, :, None] + values.view(B, width, k)).flatten(1)
        tokens = tokens.view(B, width * k)
        lacking = max(0, wanted - width * k)  # a vocabulary smaller than the beam
        if lacking:
            candidates = torch.nn.functional.pad(candidates, (0, lacking), value=IMPOSSIBLE)
            tokens = torch.nn.functional.pad(tokens, (0, lacking), value=self.eos)
        candidates, order = candidates.sort(dim=1, descending=True, stable=True)
        order = order[:, :wanted]
        parents = order.div(k, rounding_mode="floor").clamp(max=width - 1)
        return candidates[:, :wanted], parents, tokens.gather(1, order)

    def _finish(self, ended: Tensor, parents: Tensor) -> None:
        """Merge the candidates that end, (B, 2K) log P or -inf, with the finished hypotheses."""
        if ended.is_cpu and bool(ended.isneginf().all()):
            return
        score = torch.cat([self.score, ended / length_penalty(self.step + 1, self.alpha)], dim=1)
        score, order = score.sort(dim=1, descending=True, stable=True)  # the earlier of two equals stays ahead
        order = order[:, : self.nbest]
        self.score = score[:, : self.nbest]
        self.log_p = torch.cat([self.log_p, ended], dim=1).gather(1, order)
        self.words = torch.cat([self.words, torch.full_like(parents, self.step)], dim=1).gather(1, order)
        origin = torch.cat([torch.arange(self.nbest, device=order.device).expand_as(order), parents + self.nbest], 1)
        pool = torch.cat([self.finished_tokens, self.tokens], dim=1)  # (B, n + K, L)
        self.finished_tokens = _take(pool, origin.gather(1, order))

    def _continue(self, open_: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        """Keep the K best candidates that do not end, (B, 2K) log P or -inf; their parents, (B, K)."""
        alive, order = open_.sort(dim=1, descending=True, stable=True)
        order = order[:, : self.beam]
        self.alive = alive[:, : self.beam]
        parents = parents.gather(1, order)
        if self.step:
            self.tokens[:, :, : self.step] = _take(self.tokens[:, :, : self.step], parents)
        self.tokens[:, :, self.step] = tokens.gather(1, order)
        self.step += 1
        return parents

    def _look(self, parents: Tensor, width: int) -> tuple[Tensor | None, bool]:
        """Store complete sentences; return which of the B stay (None: all), and whether cache rows are unchanged."""
        if self.step % self.interval and self.step not in self.limits:
            return None, False
        beams = torch.arange(self.beam, device=parents.device)
        same = (parents == beams).all(dim=1) if width == self.beam else parents.new_zeros(len(parents)).bool()
        complete = self.score[:, -1] >= self.alive[:, 0] / self.final_penalty
        flags = torch.stack([complete, same]).tolist()  # the only host synchronisation
        done = [flag or limit <= self.step for flag, limit in zip(flags[0], self.limits, strict=True)]
        if not any(done):
            return None, all(flags[1])
        self._store(torch.tensor([row for row, is_done in enumerate(done) if is_done], device=parents.device))
        stay = torch.tensor([row for row, is_done in enumerate(done) if not is_done], dtype=torch.int64)
        return stay.to(parents.device), False

    def _store(self, rows: Tensor) -> None:
        """Store the hypotheses of the sentences in `rows`: finished ones, or else alive ones."""
        none = self.score[rows, :1].isneginf()  # (rows, 1)
        alive = self.alive[rows, : self.nbest]
        score = torch.where(none, alive / length_penalty(self.step, self.alpha), self.score[rows]).tolist()
        log_p = torch.where(none, alive, self.log_p[rows]).tolist()
        words = self.words[rows].masked_fill(none, self.step).tolist()
        alive_tokens = self.tokens[rows, : self.nbest, : self.step]
        tokens = torch.where(none[:, :, None], alive_tokens, self.finished_tokens[rows, :, : self.step]).tolist()
        finished = (~none[:, 0]).tolist()
        for row, place in enumerate(rows.tolist()):
            ended = [finished[row]] * self.nbest
            self.results[self.places[place]] = hypotheses_from_lists(
                tokens[row], words[row], score[row], log_p[row], ended
            )

    def _leave(self, stay: Tensor) -> None:
        """Keep only the sentences in `stay`, (B',)."""
        self.places = [self.places[row] for row in stay.tolist()]
        self.limits = [self.limits[row] for row in stay.tolist()]
        self.final_penalty, self.alive, self.tokens = self.final_penalty[stay], self.alive[stay], self.tokens[stay]
        self.score, self.log_p, self.words = self.score[stay], self.log_p[stay], self.words[stay]
        self.finished_tokens = self.finished_tokens[stay]


def _take(sequences: Tensor, rows: Tensor) -> Tensor:
    """(B, K, L) sequences, (B, K') rows of each sentence -> (B, K', L)."""
    return sequences.gather(1, rows[:, :, None].expand(-1, -1, sequences.size(2)))
