"""Parameters and work of a row, counted without weights (on torch's meta device) and without data."""

from dataclasses import dataclass, replace

import torch

from variations.models import build, count_parameters
from variations.models.flops import Tokens, training_flops
from variations.models.network import BRANCH_WEIGHTS
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
        with_vectors = replace(config, model=replace(config.model, task_vectors=T2T_TASK_VECTORS))
        t2t, _ = _parameters(with_vectors, T2T_ROWS)
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


_SEEN: dict[str, Memory] = {}


def memory(config: Config, vocabulary: int | None = None) -> Memory:
    """Count the memory of one update on one device, for a batch of sentences of 30 sub-words."""
    from variations.planning.activations import activation_bytes, state_bytes

    size = vocabulary if vocabulary is not None else config.data.vocabulary
    world = config.trainer.devices * config.trainer.nodes
    share = max(1, config.recipe.batch_tokens // world)
    tokens = min(config.trainer.tokens_per_batch or share, share)
    model = config.model
    zero = [rate > 0 for rate in (model.dropout, model.attention_dropout, model.relu_dropout)]
    branch = config.branch if model.kind == "weighted" else None
    precision = (config.trainer.precision, config.trainer.accelerator, config.profile, config.recipe.ema > 0)
    rated = replace(model, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
    key = repr((rated, zero, config.positions, branch, config.data.vocabulary_pad_to, precision, size, tokens))
    if key not in _SEEN:
        parameters, _ = _parameters(config, size)
        kept = activation_bytes(config, size, max(1, tokens // SENTENCE), SENTENCE, SENTENCE)
        _SEEN[key] = Memory(state_bytes(config, parameters), kept)
    return _SEEN[key]


_KNOWN: dict[tuple[str, int], tuple[int, int]] = {}


def _parameters(config: Config, vocabulary: int) -> tuple[int, int]:
    """Return all parameters, and κ and α among them; rows that differ in dropout alone are counted once."""
    model = replace(config.model, dropout=0.0, attention_dropout=0.0, relu_dropout=0.0)
    shape = replace(config, model=model)
    parts = (model, config.positions, config.branch if model.kind == "weighted" else None)
    key = (repr((*parts, config.data.vocabulary_pad_to)), vocabulary)
    if key not in _KNOWN:
        with torch.device("meta"):
            network = build(shape, vocabulary)
        weights = network.parameter_groups().get(BRANCH_WEIGHTS, [])
        _KNOWN[key] = count_parameters(network), sum(p.numel() for p in weights)
    return _KNOWN[key]
