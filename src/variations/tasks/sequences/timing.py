"""The cost of validation, decoding and scoring of a run, measured with an untrained network.

An untrained network does not know when to stop, so each output is forced to the length of its reference, which is about
that of a trained network's outputs. Early in training, outputs may be longer.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from variations.data.batching import TokenBatchSampler, collate
from variations.tasks.base import Place
from variations.tasks.sequences.data import Pairs
from variations.tasks.sequences.decoding.beam import beam_search
from variations.tasks.sequences.decoding.protocol import EOS
from variations.tasks.sequences.decoding.translator import batches, pad_sources

SURE = 1e4
"""Added to the logit of EOS where a sentence must end, and subtracted where it must continue."""
LOOKS = 4
"""Largest number of batches of each kind that are timed."""


@dataclass
class _Cache:
    inner: Any
    ends: Tensor
    """(R,) the step at which each row ends."""
    step: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        self.inner.select(rows, sentences)
        self.ends = self.ends.index_select(0, rows)


@dataclass
class Paced:
    """A wrapper of a model that forces the lengths of outputs."""

    model: Any
    lengths: Sequence[int]
    """Sub-words of each sentence's output, EOS included."""

    @property
    def start_id(self) -> int:
        """The model's start token."""
        return int(self.model.start_id)

    def start_cache(self, source: Tensor) -> _Cache:
        """The model's cache, with the step at which each sentence ends."""
        return _Cache(self.model.start_cache(source), torch.tensor(self.lengths, device=source.device))

    def decode_step(self, tokens: Tensor, cache: _Cache) -> Tensor:
        """The model's logits with that of EOS changed."""
        logits: Tensor = self.model.decode_step(tokens, cache.inner)
        cache.step += 1
        logits[:, EOS] += torch.where(cache.ends <= cache.step, SURE, -SURE).to(logits.dtype)
        return logits


class Timing:
    """Seconds for the parts of a test, each estimated from a few batches.

    Args:
        experiment: A `SequenceExperiment` whose task decodes by `config.decode`.
        place: Where it computes.
        limit: Seconds for all parts together, roughly.
    """

    def __init__(self, experiment: Any, place: Place, limit: float) -> None:
        self.experiment, self.place, self.limit = experiment, place, limit
        self.config: Any = experiment.config

    def testing(self, sets: Sequence[Pairs], scoring: Callable[[], object]) -> tuple[float, float]:
        """Seconds of a validation, and of everything after training.

        Args:
            sets: The sets that are decoded and scored in the test.
            scoring: Scores all of them.
        """
        trainer, decode, data = self.config.trainer, self.config.decode, self.experiment.data
        dev = self.loss(data.dev_tokens, None, data.tokens_per_batch, trainer.limit_val_batches)
        validation = dev + self.decoding(data.dev_tokens, trainer.val_bleu, 1)
        test = sum(self.decoding(pairs, trainer.limit_test, decode.beam) for pairs in sets)
        test += self.loss(data.test_tokens, trainer.limit_test, decode.batch_tokens // decode.beam, None)
        began = time.perf_counter()
        scoring()
        return validation, test + dev + time.perf_counter() - began  # the dev loss is measured once more

    def loss(self, pairs: Pairs, first: int | None, budget: int, most: int | None) -> float:
        """Seconds to evaluate a set's first pairs, or its first `most` batches."""
        count, targets = len(pairs) if first is None else min(first, len(pairs)), pairs.target_lengths
        sampler = TokenBatchSampler(pairs.source_lengths[:count], targets[:count], max(1, budget), shuffle=False)
        groups = list(sampler)[:most]
        sizes = [len(group) * max(int(targets[i]) for i in group) for group in groups]

        def work(group: Sequence[int]) -> None:
            self.experiment.evaluate(collate([pairs[i] for i in group]).to(self.place.device))

        return self._whole(groups, sizes, work)

    def decoding(self, pairs: Pairs, first: int | None, beam: int) -> float:
        """Seconds to decode a set's first pairs."""
        count = len(pairs) if first is None else min(first, len(pairs))
        lengths = [int(n) for n in pairs.source_lengths[:count]]
        decode = self.config.decode
        groups = list(batches(lengths, decode.batch_tokens, beam))

        def work(group: Sequence[int]) -> None:
            _, sources, targets = zip(*(pairs[i] for i in group), strict=True)
            paced = Paced(self.experiment.network, [len(target) for target in targets])
            padded = pad_sources(sources).to(self.place.device)
            beam_search(paced, padded, beam=beam, alpha=decode.alpha, max_extra=decode.max_extra)

        # In small batches, rows matter less than steps, but groups have similar rows times length.
        return self._whole(groups, [len(group) * max(lengths[i] for i in group) for group in groups], work)

    def _whole(self, groups: list[Any], sizes: list[int], work: Callable[[Any], object]) -> float:
        """Seconds for all groups, extrapolated from some."""
        looks = min(LOOKS, len(groups))
        chosen = [int((i + 0.5) * len(groups) / looks) for i in range(looks)]  # evenly spaced
        seconds = paid = 0.0
        with torch.inference_mode(), self.place.precision():
            for number, i in enumerate([*chosen[:1], *chosen]):  # the first one is a warm-up
                began = time.perf_counter()
                work(groups[i])
                if self.place.device.type == "cuda":
                    torch.cuda.synchronize()
                if number:
                    seconds, paid = seconds + time.perf_counter() - began, paid + sizes[i]
                if paid and seconds > self.limit / 4:
                    break
        return seconds / paid * sum(sizes) if paid else 0.0
