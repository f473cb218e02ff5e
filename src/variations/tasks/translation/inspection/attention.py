"""Attention weights of a network for one sentence: softmax(q kᵀ / √d_k) of every layer and head."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from variations.models import SequenceToSequence
from variations.models.transformer.attention import Heads, KeyValue


@dataclass(frozen=True)
class Weights:
    """Weights of one sub-layer."""

    part: str
    """`encoder`, `decoder` (self-attention) or `cross`."""
    layer: int
    """Counted from 1."""
    values: Tensor
    """(B, h, T, S)."""


@contextmanager
def recording(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """In this context, each call of a module of attention heads also stores its weights (B, h, T, S) under its name.

    The network computes as before: each object's `attend` is wrapped, and the weights are what the same `attend`
    returns for one-hot values, so that a variant's mask and scores are not implemented twice. Use it in evaluation
    mode: with attention dropout, the stored weights would be another draw.
    """
    found: dict[str, list[Tensor]] = {}
    heads = {name: module for name, module in model.named_modules() if isinstance(module, Heads)}
    for name, module in heads.items():
        _wrap(module, found.setdefault(name, []))
    try:
        yield found
    finally:
        for module in heads.values():
            vars(module).pop("attend", None)


def _wrap(module: Heads, store: list[Tensor]) -> None:
    attend = module.attend

    def attend_and_store(q: Tensor, seen: KeyValue, mask: Tensor | None, *, causal: bool) -> Tensor:
        vars(module).pop("attend")  # `weights` attends too
        try:
            store.append(module.weights(q, seen, mask, causal=causal).detach())
        finally:
            vars(module)["attend"] = attend_and_store
        return attend(q, seen, mask, causal=causal)

    vars(module)["attend"] = attend_and_store


@torch.no_grad()
def attention_weights(model: SequenceToSequence, source: Sequence[int], target: Sequence[int]) -> list[Weights]:
    """Weights of every attention sub-layer of `model` while it reads `source` and predicts `target`.

    Args:
        model: In training or evaluation mode, which is restored.
        source: S sub-words, the end of sentence included.
        target: T sub-words; position t reads the sub-words before target[t].

    Returns:
        Encoder self-attention (1, h, S, S), then by layer decoder self-attention (1, h, T, T) and cross-attention
        (1, h, T, S). Heads in other places, which only a model of one's own has, are left out.
    """
    device = next(model.parameters()).device
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with recording(model) as found:
            model(torch.tensor([list(source)], device=device), torch.tensor([list(target)], device=device))
    finally:
        for module, mode in training.items():
            module.training = mode
    placed = ((_place(name), values) for name, values in found.items() if values)
    return [Weights(*place, values[0].float().cpu()) for place, values in placed if place is not None]


def _place(name: str) -> tuple[str, int] | None:
    """The part and layer of `encoder.0.self_heads`; None: a model of one's own has heads in another place."""
    place = re.match(r"(encoder|decoder)\.(\d+)\.(self|cross)", name)
    if place is None:
        return None
    return "cross" if place[3] == "cross" else place[1], int(place[2]) + 1
