"""Parameters, work and memory of a row, counted without weights (on torch's meta device) and without data."""

from dataclasses import dataclass, replace

import torch

from variations.models import build, count_parameters
from variations.models.flops import Tokens, training_flops
from variations.models.network import BRANCH_WEIGHTS
from variations.planning.activations import activation_bytes, state_bytes
from variations.planning.shape import telling
from variations.tasks.translation.config import TranslationConfig as Config

T2T_ROWS, T2T_TASK_VECTORS = 40_960, 32
"""Embedding rows and task vectors of the code behind Vaswani et al. 2017 (tensor2tensor of June 2017)."""
T2T_VOCABULARY = 37_000
"""Its sub-words, padded to T2T_ROWS."""
SENTENCE = 30
"""Sub-words of a sentence, for the attention scores' part of the work."""


@dataclass(frozen=True)
class Count:
    """Sizes of one row."""

    vocabulary: int
    parameters: int
    parameters_t2t: int | None
    """With 40,960 embedding rows and 32 task vectors; None for another vocabulary than the 37,000 sub-words."""
    branch_weights: int
    """Scalars κ and α among the parameters."""
    flops: int
    """Of the whole training, if batches had no padding and sentences 30 sub-words on each side."""


def count(config: Config, vocabulary: int | None = None) -> Count:
    """Count one row.

    Args:
        config: A complete configuration.
        vocabulary: Sub-words; None: `data.vocabulary`.
    """
    size = vocabulary if vocabulary is not None else config.data.vocabulary
    parameters, weights = _parameters(config, size)
    t2t = None
    if size == T2T_VOCABULARY and config.model.task_vectors == 0:
        model = replace(config.model, task_vectors=T2T_TASK_VECTORS)
        t2t, _ = _parameters(replace(config, model=model), T2T_ROWS)
    tokens = config.recipe.batch_tokens
    squares = tokens * SENTENCE
    step = training_flops(config, Tokens(tokens, tokens, squares, squares, squares), size)
    return Count(size, parameters, t2t, weights, config.trainer.max_steps * step)


@dataclass(frozen=True)
class Memory:
    """Bytes on one device, counted."""

    state: int
    """Weights, gradients, Adam's moments, the moving average."""
    activations: int
    """What the backward pass keeps of one batch."""

    @property
    def total(self) -> int:
        """Both."""
        return self.state + self.activations


_KNOWN: dict[str, Memory] = {}


def memory(config: Config, vocabulary: int | None = None) -> Memory:
    """Count the memory of one update on one device, for a batch of sentences of 30 sub-words.

    A network takes some seconds, so rows that differ in rates and names alone are counted once.
    """
    size = vocabulary if vocabulary is not None else config.data.vocabulary
    share = max(1, config.recipe.batch_tokens // (config.trainer.devices * config.trainer.nodes))
    tokens = min(config.trainer.tokens_per_batch or share, share)
    key = repr((telling(config), size, tokens))
    if key not in _KNOWN:
        kept = activation_bytes(config, size, max(1, tokens // SENTENCE), SENTENCE, SENTENCE)
        _KNOWN[key] = Memory(state_bytes(config, _parameters(config, size)[0]), kept)
    return _KNOWN[key]


def _parameters(config: Config, vocabulary: int) -> tuple[int, int]:
    """All parameters, and κ and α among them."""
    with torch.device("meta"):
        network = build(config, vocabulary)
    weights = network.parameter_groups().get(BRANCH_WEIGHTS, [])
    return count_parameters(network), sum(p.numel() for p in weights)
