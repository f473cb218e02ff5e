"""Greedy decoding: beam search with one beam, without the bookkeeping that one beam does not need.

It is a separate search because beam search with beam 1 would not be greedy: it also continues with the second-best
token if EOS is best. It is also a fast way to measure BLEU during training, because rows are never reordered.

Shapes: B sentences still in the batch, L longest output, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from variations.tasks.sequences.decoding.protocol import Decodable, Hypothesis, hypotheses_from_lists, length_penalty
from variations.tasks.sequences.decoding.step import best_tokens, log_probabilities, look_interval

LEAVE_SHARE = 8
"""Finished rows are removed once they are an eighth of the batch, because removal copies the cache of all others."""


def greedy_search(
    model: Decodable, source: Tensor, limits: Sequence[int], *, alpha: float, eos: int, never: Sequence[int]
) -> list[list[Hypothesis]]:
    """Take the most probable token until EOS or the length limit.

    Args:
        model: the model.
        source: (B, S) int64, padded.
        limits: longest output of each sentence, EOS included.
        alpha: exponent of the length penalty of the reported score.
        eos: identifier that ends an output.
        never: identifiers that are not generated.

    Returns:
        One list with one hypothesis for each sentence.
    """
    rows = _Rows(limits, source.device, eos)
    cache = model.start_cache(source)
    tokens = torch.full((source.size(0),), model.start_id, device=source.device)
    interval = look_interval(source.device)
    for step in range(1, max(limits) + 1):
        tokens = rows.append(log_probabilities(model.decode_step(tokens, cache), never))
        if step % interval and step < max(limits):
            continue
        done = rows.done.tolist()
        if all(done):
            break
        if sum(done) * LEAVE_SHARE >= len(done):
            stay = torch.tensor([row for row, is_done in enumerate(done) if not is_done], device=source.device)
            rows.leave(stay)
            cache.select(stay, stay)
            tokens = tokens[stay]
    return rows.hypotheses(alpha)


class _Rows:
    """One output for each sentence; removed sentences keep their place in the full-size tensors."""

    def __init__(self, limits: Sequence[int], device: torch.device, eos: int) -> None:
        count, longest = len(limits), max(limits)
        self.eos = eos
        self.step = 0
        self.place = torch.arange(count, device=device)  # (B,) the sentence of each row
        self.limit = torch.tensor(limits, device=device)  # (B,)
        self.done = torch.zeros(count, dtype=torch.bool, device=device)  # (B,)
        self.tokens = torch.zeros(count, longest, dtype=torch.int64, device=device)
        self.words = torch.zeros(count, dtype=torch.int64, device=device)
        self.log_p = torch.zeros(count, dtype=torch.float64, device=device)
        self.ended = torch.zeros(count, dtype=torch.bool, device=device)

    def append(self, log_p: Tensor) -> Tensor:
        """Take the best token of each row.

        Args:
            log_p: (B, V).

        Returns:
            (B,) the tokens taken.
        """
        value, token = (best[:, 0] for best in best_tokens(log_p, 1))
        open_ = ~self.done
        impossible = value.isneginf()
        ends = token.eq(self.eos) & ~impossible
        self.tokens[self.place, self.step] = token
        self.step += 1
        self.words[self.place] += (open_ & ~ends).long()
        self.log_p[self.place] += value.masked_fill(self.done, 0.0)
        self.ended[self.place] |= open_ & ends
        self.done = self.done | ends | impossible | self.limit.le(self.step)
        return token

    def leave(self, stay: Tensor) -> None:
        """Keep only the rows in `stay`, (B',)."""
        self.place, self.limit, self.done = self.place[stay], self.limit[stay], self.done[stay]

    def hypotheses(self, alpha: float) -> list[list[Hypothesis]]:
        """All outputs, in the order of the sentences."""
        found = []
        for tokens, words, log_p, ended in zip(
            self.tokens.tolist(), self.words.tolist(), self.log_p.tolist(), self.ended.tolist(), strict=True
        ):
            score = log_p / length_penalty(words + ended, alpha)
            found.append(hypotheses_from_lists([tokens], [words], [score], [log_p], [ended]))
        return found
