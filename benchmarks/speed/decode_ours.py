"""Our beam search, with EOS forbidden before the last position and forced there."""

from collections.abc import Callable

import numpy as np
import torch
from decode_contestant import ALPHA, BEAM, LENGTH, main
from torch import Tensor
from workloads import EOS, VOCABULARY, WORKLOADS

from variations import models
from variations.configuration.transformer import ModelConfig
from variations.tasks.sequences.decoding.beam import beam_search
from variations.tasks.translation.config import TranslationConfig
from variations.training import performance


class Forced:
    """A model whose outputs have LENGTH tokens, EOS included."""

    def __init__(self, net: models.Transformer) -> None:
        self.net, self.step = net, 0

    def start_cache(self, source: Tensor) -> object:
        """Begin a batch."""
        self.step = 0
        return self.net.start_cache(source)

    def decode_step(self, tokens: Tensor, cache: object) -> Tensor:
        """The model's logits, with only EOS or without it."""
        logits = self.net.decode_step(tokens, cache)
        self.step += 1
        if self.step < LENGTH:
            logits[:, EOS] = float("-inf")
        else:
            logits[:, :EOS] = logits[:, EOS + 1 :] = float("-inf")
        return logits

    def __getattr__(self, name: str) -> object:
        return getattr(self.net, name)


def make() -> Callable[[np.ndarray], list[int]]:
    """W2's model."""
    performance.apply("auto", "cpu", None, {})
    torch.manual_seed(1)
    w = WORKLOADS["W2"]
    shape = ModelConfig(N=w.N, d_model=w.d_model, d_ff=w.d_ff, h=w.h, dropout=0.1)
    net = Forced(models.build(TranslationConfig(model=shape), VOCABULARY).eval())

    def translate(source: np.ndarray) -> list[int]:
        found = beam_search(net, torch.from_numpy(source), beam=BEAM, alpha=ALPHA, max_extra=LENGTH)
        return [len(nbest[0].tokens) + 1 for nbest in found]

    return translate


if __name__ == "__main__":
    main(make)
