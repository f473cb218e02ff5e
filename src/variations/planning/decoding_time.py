"""What validation, decoding and scoring of a run cost, measured with an untrained network.

An untrained network does not know when to stop, so each sentence is made to end where its reference ends; a trained
one's outputs are about as long. Early in training outputs may be longer.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from variations.data.batching import TokenBatchSampler, collate
from variations.planning.sample import evenly
from variations.tasks.translation.config import TranslationConfig as Config
from variations.tasks.translation.data.module import TranslationData
from variations.tasks.translation.decoding.beam import beam_search
from variations.tasks.translation.decoding.protocol import EOS
from variations.tasks.translation.decoding.translator import batches, pad_sources
from variations.tasks.translation.scoring.ladder import score_all

SURE = 1e4
"""Added to the logit of EOS where a sentence shall end, and taken from it where it shall go on."""
LOOKS = 4
"""Batches of each kind that are timed, at most."""


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
    """A model whose outputs have given lengths."""

    model: Any
    lengths: Sequence[int]
    """Sub-words of each sentence's output, EOS included."""

    @property
    def start_id(self) -> int:
        """The model's own."""
        return int(self.model.start_id)

    def start_cache(self, source: Tensor) -> _Cache:
        """The model's own, with the place where each sentence ends."""
        return _Cache(self.model.start_cache(source), torch.tensor(self.lengths, device=source.device))

    def decode_step(self, tokens: Tensor, cache: _Cache) -> Tensor:
        """The model's own logits but that of EOS."""
        logits: Tensor = self.model.decode_step(tokens, cache.inner)
        cache.step += 1
        logits[:, EOS] += torch.where(cache.ends <= cache.step, SURE, -SURE).to(logits.dtype)
        return logits


def measure(config: Config, step: Any, data: TranslationData, limit: float) -> dict[str, float]:
    """Seconds of one validation and of the test, reckoned from a few batches of each kind."""
    trainer, beam, device = config.trainer, config.decode.beam, step.device
    step.eval()

    def first(tokens: Any, sentences: int | None) -> int:
        return len(tokens) if sentences is None else min(sentences, len(tokens))

    def loss(tokens: Any, sentences: int | None, budget: int, most: int | None) -> float:
        """To evaluate a set's first sentences, or its first `most` batches."""
        count, targets = first(tokens, sentences), tokens.target_lengths
        sampler = TokenBatchSampler(tokens.source_lengths[:count], targets[:count], max(1, budget), shuffle=False)
        groups = list(sampler)[:most]
        sizes = [len(group) * max(int(targets[i]) for i in group) for group in groups]
        return whole(
            groups, sizes, lambda group: step.experiment.evaluate(collate([tokens[i] for i in group]).to(device))
        )

    def decode(tokens: Any, sentences: int | None, beam: int) -> float:
        """To translate a set's first sentences."""
        lengths = [int(n) for n in tokens.source_lengths[: first(tokens, sentences)]]
        groups = list(batches(lengths, config.decode.batch_tokens, beam))

        def search(group: Sequence[int]) -> None:
            _, sources, targets = zip(*(tokens[i] for i in group), strict=True)
            paced = Paced(step.model, [len(target) for target in targets])
            alpha, extra = config.decode.alpha, config.decode.max_extra
            beam_search(paced, pad_sources(sources).to(device), beam=beam, alpha=alpha, max_extra=extra)

        # Rows matter less than steps while a batch is small, but groups are alike in rows times length.
        return whole(groups, [len(group) * max(lengths[i] for i in group) for group in groups], search)

    def whole(groups: list[Any], sizes: list[int], work: Callable[[Any], object]) -> float:
        chosen = evenly(range(len(groups)), LOOKS)
        seconds = paid = 0.0
        with torch.inference_mode(), step.place.precision():
            for number, i in enumerate([*chosen[:1], *chosen]):  # the first time warms up
                began = time.perf_counter()
                work(groups[i])
                if device.type == "cuda":
                    torch.cuda.synchronize()
                if number:
                    seconds, paid = seconds + time.perf_counter() - began, paid + sizes[i]
                if paid and seconds > limit / 4:
                    break
        return seconds / paid * sum(sizes) if paid else 0.0

    test_budget = config.decode.batch_tokens // beam
    found = {
        "dev_seconds": loss(data.dev_tokens, None, data.tokens_per_batch, trainer.limit_val_batches),
        "greedy_seconds": decode(data.dev_tokens, trainer.val_bleu, 1),
        "test_seconds": sum(decode(data.tokens(name), trainer.limit_test, beam) for name in config.decode.sets),
        "test_loss_seconds": loss(data.test_tokens, trainer.limit_test, test_budget, None),
        "score_seconds": _scoring(config, data),
    }
    step.train()
    return found


def _scoring(config: Config, data: TranslationData) -> float:
    """Seconds to score all sets; the references stand for the translations."""
    if not hasattr(data, "corpus"):
        return 0.0
    sets = data.corpus.sets()
    began = time.perf_counter()
    for name in config.decode.sets:
        references = sets[name].read()[1][: config.trainer.limit_test]
        score_all(references, references, config.data.target)
    return time.perf_counter() - began
