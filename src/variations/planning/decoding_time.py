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


def measure(config: Config, task: Any, data: TranslationData, limit: float) -> dict[str, Any]:
    """Seconds of one validation and of the test: `dev`, `greedy`, `sets`, `test_loss`, `score`."""
    task.eval()
    timer = _Timer(config, task, data, limit / 4)
    trainer = config.trainer
    sets = {
        name: timer.decode(data.tokens(name), trainer.limit_test, config.decode.beam) for name in config.decode.sets
    }
    found = {
        "dev_seconds": timer.loss(data.dev_tokens, None, data.tokens_per_batch, trainer.limit_val_batches),
        "greedy_seconds": timer.decode(data.dev_tokens, trainer.val_bleu, 1) if trainer.val_bleu else 0.0,
        "test_seconds": sum(sets.values()),
        "test_loss_seconds": timer.loss(
            data.test_tokens, trainer.limit_test, config.decode.batch_tokens // config.decode.beam, None
        ),
        "score_seconds": _scoring(config, data),
    }
    task.train()
    return found


class _Timer:
    """Times a few of many batches, and reckons the whole by tokens."""

    def __init__(self, config: Config, task: Any, data: TranslationData, limit: float) -> None:
        self.config, self.task, self.data, self.limit = config, task, data, limit

    def loss(self, tokens: Any, sentences: int | None, budget: int, most: int | None) -> float:
        """Seconds to evaluate a set, or its first `most` batches."""
        chosen = range(len(tokens) if sentences is None else min(sentences, len(tokens)))
        lengths = tokens.source_lengths[: len(chosen)], tokens.target_lengths[: len(chosen)]
        groups = list(TokenBatchSampler(*lengths, max(1, budget), shuffle=False))[:most]

        def work(group: Sequence[int]) -> None:
            self.task.evaluate(collate([tokens[i] for i in group]).to(self.task.device))

        return self._whole(groups, lambda group: len(group) * max(int(lengths[1][i]) for i in group), work)

    def decode(self, tokens: Any, sentences: int | None, beam: int) -> float:
        """Seconds to translate a set."""
        decode, chosen = self.config.decode, len(tokens) if sentences is None else min(sentences, len(tokens))
        lengths = [int(n) for n in tokens.source_lengths[:chosen]]
        groups = list(batches(lengths, decode.batch_tokens, beam))

        def work(group: Sequence[int]) -> None:
            pairs = [tokens[i] for i in group]
            paced = Paced(self.task.model, [len(target) for _, _, target in pairs])
            source = pad_sources([source for _, source, _ in pairs]).to(self.task.device)
            beam_search(paced, source, beam=beam, alpha=decode.alpha, max_extra=decode.max_extra)

        # Rows matter less than steps while a batch is small, but groups are alike in rows times length.
        return self._whole(groups, lambda group: len(group) * max(lengths[i] for i in group), work)

    def _whole(self, groups: list[Any], size: Callable[[Any], float], work: Callable[[Any], None]) -> float:
        if not groups:
            return 0.0
        chosen = evenly(groups, LOOKS)
        seconds = paid = 0.0
        with torch.inference_mode(), self.task.trainer.precision_plugin.forward_context():
            for number, group in enumerate([chosen[0], *chosen] if len(groups) > 1 else chosen):
                began = time.perf_counter()
                work(group)
                if self.task.device.type == "cuda":
                    torch.cuda.synchronize()
                if number or len(groups) == 1:  # the first time warms up
                    seconds, paid = seconds + time.perf_counter() - began, paid + size(group)
                if seconds > self.limit:
                    break
        return seconds / paid * sum(map(size, groups)) if paid else time.perf_counter() - began


def _scoring(config: Config, data: TranslationData) -> float:
    """Seconds to score all sets; the references stand for the translations."""
    if not hasattr(data, "corpus"):
        return 0.0
    corpus = data.corpus
    pairs = {"dev": corpus.dev, "test": corpus.test, **corpus.others}
    began = time.perf_counter()
    for name in config.decode.sets:
        if name in pairs:
            references = pairs[name].read()[1][: config.trainer.limit_test]
            score_all(references, references, config.data.target)
    return time.perf_counter() - began
