"""Parameters, work and memory of a network over pairs of sequences, counted without weights and without data.

Parameters are counted on torch's meta device. The memory kept for the backward pass is counted by running the
network on torch's fake tensors, which have shapes but no contents, with hooks that report every saved tensor; on real
tensors the same hooks give the same number of bytes.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from variations.configuration.transformer import TransformerConfig as Config
from variations.models import build, count_parameters, rows_of
from variations.models.flops import Tokens, training_flops
from variations.models.loss import chunk_elements
from variations.models.network import BRANCH_WEIGHTS
from variations.system.errors import UserError
from variations.tasks.base import Size
from variations.tasks.counting import kept_bytes
from variations.tasks.sequences import agreement

T2T_ROWS, T2T_TASK_VECTORS = 40_960, 32
"""Embedding rows and task vectors of the code behind Vaswani et al. 2017 (tensor2tensor of June 2017)."""
T2T_VOCABULARY = 37_000
"""Its number of sub-words, padded to T2T_ROWS."""


def counted(config: Config, vocabulary: int | None, lengths: tuple[int, int], *, memory: bool) -> Size:
    """Count a run as if batches had no padding and all pairs had the same lengths.

    Args:
        config: A complete configuration.
        vocabulary: Rows of the vocabulary; None: `data.vocabulary`.
        lengths: Tokens of a source and of a target.
        memory: Whether to count the memory kept for the backward pass, which takes some seconds.
    """
    size = vocabulary if vocabulary is not None else config.data.vocabulary
    (s, t), tokens = lengths, config.recipe.batch_tokens
    longest = max(lengths)
    batch = Tokens(*(tokens * n // longest for n in (s, t, s * s, t * t, s * t)))
    parameters, weights = _parameters(config, size)
    t2t = None
    if size == T2T_VOCABULARY and config.model.task_vectors == 0:
        model = replace(config.model, task_vectors=T2T_TASK_VECTORS)
        t2t, _ = _parameters(replace(config, model=model), T2T_ROWS)
    kept = None
    if memory:
        share = max(1, tokens // (config.trainer.devices * config.trainer.nodes))
        at_once = min(config.trainer.tokens_per_batch or share, share)
        kept = activation_bytes(config, size, max(1, at_once // longest), s, t)
    further = {
        "vocabulary": size,
        "parameters_t2t": t2t,
        "published_params_millions": config.variation.published.get("params_millions"),
        "branch_weights": weights,
        "reproduced": _reproduced(config, parameters),
        "reproduced_t2t": _reproduced(config, t2t),
    }
    flops = training_flops(config, batch, rows_of(size, config.data.vocabulary_pad_to))
    return Size(parameters, config.trainer.max_steps * flops, kept, further)


def remarks(tables: Mapping[str, Sequence[Size]]) -> list[str]:
    """Conventions, and how many printed counts are reproduced."""
    said = []
    if any(size.further["parameters_t2t"] for sizes in tables.values() for size in sizes):
        said.append(
            "Parameters: biases in attention and FFN, one matrix for both embeddings and the output, no output bias. "
            "The second count has the 40,960 embedding rows and 32 task vectors of the code behind Vaswani et al."
        )
    for title, sizes in tables.items():
        compared = [size.further for size in sizes if size.further["reproduced_t2t"] is not None]
        if compared:
            padded, plain = (sum(bool(each[key]) for each in compared) for key in ("reproduced_t2t", "reproduced"))
            said.append(
                f"{title}: {padded} of {len(compared)} printed counts are the second count rounded, {plain} the first."
            )
    return said


def _reproduced(config: Config, parameters: int | None) -> bool | None:
    """Whether a count rounds to the printed one; None if none is printed, or widths are not the paper's."""
    printed = config.variation.published.get("params_millions")
    whole = config.recipe.scale.width == config.recipe.scale.depth == 1
    return round(parameters / 1e6) == printed if parameters and printed is not None and whole else None


def _parameters(config: Config, vocabulary: int) -> tuple[int, int]:
    """The number of all parameters, and that of κ and α."""
    with torch.device("meta"):
        network = build(config, vocabulary)
    weights = network.parameter_groups().get(BRANCH_WEIGHTS, [])
    return count_parameters(network), sum(p.numel() for p in weights)


UNCOUNTABLE = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)
"""Raised by operations that need tensors with contents."""
SMALL = (2, 3)
"""Numbers of pairs from which larger batches are extrapolated; kernels split large batches into many parts."""


class _Answers(TorchDispatchMode):
    """Provides values that the network reads: every position is a real token, every number is 1."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 1.0 if args[0].dtype.is_floating_point else 1
        return func(*args, **(kwargs or {}))


def activation_bytes(config: Config, vocabulary: int, pairs: int, source: int, target: int) -> int | None:
    """Bytes that a forward pass over one batch keeps for the backward pass, without weights.

    They are linear in the number of pairs, so two small batches determine them. None for a network whose operations
    need tensor values, such as a recurrent one with packed sequences.

    Args:
        config: A complete configuration.
        vocabulary: Sub-words.
        pairs: B; each pair has `source` and `target` sub-words.

    Raises:
        UserError: A class of another package cannot process the batch.
    """
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # the exception is enough
    bf16, double = (config.trainer.precision == name for name in ("bf16-mixed", "64-true"))
    usual = torch.get_default_dtype()
    with FakeTensorMode(), _Answers(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        torch.set_default_dtype(torch.float64 if double else usual)  # Module.double() fails on fake tensors
        try:
            network = build(config, vocabulary, "cpu" if config.trainer.accelerator == "cpu" else "cuda").train()
            if pairs <= max(SMALL):
                kept = _kept(network, config, pairs, source, target)
            else:
                few, more = (_kept(network, config, number, source, target) for number in SMALL)
                kept = few + (pairs - SMALL[0]) * (more - few) // (SMALL[1] - SMALL[0])
        except UNCOUNTABLE:
            return None
        finally:
            torch.set_default_dtype(usual)
    return kept + _loss_bytes(config, vocabulary, pairs * target)


def _kept(network: nn.Module, config: Config, pairs: int, source: int, target: int) -> int:
    batch = (torch.ones(pairs, length, dtype=torch.int64) for length in (source, target))
    try:
        return kept_bytes(network, lambda: network(*batch))
    except (*UNCOUNTABLE, UserError):
        raise
    except Exception as error:
        if keys := agreement.foreign(config):
            raise agreement.fault(network, keys, "a batch", error) from error
        raise


def _loss_bytes(config: Config, vocabulary: int, tokens: int) -> int:
    """Bytes of the loss: gradients of the hidden states and of the output matrix, and two chunks of logits."""
    d, piece = config.model.d_model, chunk_elements("cpu" if config.trainer.accelerator == "cpu" else "cuda")
    width = 8 if config.trainer.precision == "64-true" else 4
    return width * (tokens * d + vocabulary * d + 2 * min(piece, tokens * vocabulary))
