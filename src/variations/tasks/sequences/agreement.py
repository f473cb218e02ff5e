"""A check before training that a network of another package decodes consistently with its training."""

import re
import traceback
from typing import Any

import torch
from torch import Tensor, nn

from variations.configuration.own_classes import module_files
from variations.configuration.transformer import TransformerConfig
from variations.models.network import SequenceToSequence
from variations.system.errors import UserError
from variations.system.exceptions import raised

TOLERANCE = 1e-3
"""Largest difference of two logits, relative to the largest logit; rounding in float32 stays far below it."""
SEE = 'see "A model" in docs/adding-a-variation.md'


def foreign(config: TransformerConfig) -> str | None:
    """The keys that name classes of other packages, `model.kind=my_model:MyModel`; None without any."""
    named = {
        "model.kind": config.model.kind,
        "model.attention": config.model.attention,
        "positions.kind": config.positions.kind,
    }
    return ", ".join(f"{key}={name}" for key, name in named.items() if ":" in name) or None


@torch.no_grad()
def check(network: SequenceToSequence, keys: str) -> None:
    """Compare `forward` with `decode_step` on two tiny pairs, without affecting training's random numbers.

    Also compared: decoding after the cache's rows were swapped and repeated, and a padded sentence with the same alone.

    Args:
        network: The network, on its device.
        keys: Configuration keys for messages.

    Raises:
        UserError: They differ in shape or in value, or the network's own code raises an exception.
    """
    device, training = network.output.device, network.training
    top = min(network.vocabulary, len(network.output)) - 1  # the target's vocabulary may be another
    source = torch.tensor([[5, 6, 2], [4, 2, network.pad]], device=device).clamp(max=top)
    target = torch.tensor([[4, 3, 2], [3, 5, 4]], device=device).clamp(max=top)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        network.eval()
        what = "two tiny pairs"
        try:
            if "positions.kind=" in keys:
                _positions(network, keys)
            hidden = network.forward(source, target)
            _expect(keys, "forward", hidden, "hidden states (B, T, d)", (2, 3, network.output.shape[1]))
            wanted = network.logits(hidden)  # (B, T, V)
            _expect(keys, "logits", wanted, "logits (B, T, V)", (2, 3, len(network.output)))
            _steps(network, keys, source, target, wanted)
            alone = network.logits(network.forward(source[1:, :2], target[1:]))
            if difference := _difference(alone, wanted[1:]):
                raise UserError(
                    f"{keys}: forward gives a padded sentence other logits than the same sentence without padding: "
                    f"they differ by up to {difference:.2g}; padding must have no effect: {_advice(keys)}"
                )
            what += ", whose rows the cache's select(rows, sentences) swaps and repeats"
            _selection(network, keys, source, target)
        except UserError:
            raise
        except Exception as error:
            raise fault(network, keys, what, error) from error
        finally:
            network.train(training)


def fault(network: nn.Module, keys: str, what: str, error: Exception) -> UserError:
    """The fault of a class of another package, whose code has raised `error` while the network processed `what`."""
    files = module_files(re.findall(r"=([\w.]+):", keys))
    return UserError(f"{keys}: cannot process {what}{_module(network, error)}: {raised(error, files)}.")


def _module(network: nn.Module, error: BaseException) -> str:
    """The innermost module of the network that was at work when an exception was raised: `, in encoder.0.ffn`."""
    names = {id(module): name for name, module in network.named_modules() if name}
    selves = (id(frame.f_locals.get("self")) for frame, _ in traceback.walk_tb(error.__traceback__))
    found = [names[module] for module in selves if module in names]
    return f", in {found[-1]}" if found else ""


def _steps(network: SequenceToSequence, keys: str, source: Tensor, target: Tensor, wanted: Tensor) -> None:
    """Decode `target`, and compare each position."""
    cache, tokens = network.start_cache(source), torch.full_like(target[:, 0], network.start_id)
    for position in range(target.shape[1]):
        found = network.decode_step(tokens, cache)
        _expect(keys, "decode_step", found, "logits (R, V)", (2, len(network.output)))
        if difference := _difference(found, wanted[:, position]):
            raise UserError(
                f"{keys}: decode_step and forward disagree about target token {position + 1}: their logits "
                f"differ by up to {difference:.2g}; both must predict it from the tokens before it: "
                f"{_advice(keys, decoding=True)}"
            )
        tokens = target[:, position]


def _selection(network: SequenceToSequence, keys: str, source: Tensor, target: Tensor) -> None:
    """Decode two continuations of each sentence, in rows that are swapped and repeated on the way."""
    cache = network.start_cache(source)
    if not callable(select := getattr(cache, "select", None)):
        kind = type(cache).__name__
        raise UserError(
            f"{keys}: start_cache returned {kind}, which has no method select(rows, sentences=None): {SEE}."
        )
    index = lambda *rows: torch.tensor(rows, device=source.device)  # noqa: E731
    rows = index(1, 1, 0, 0)
    targets = target[rows]
    targets[1::2, 0] = targets[1::2, 1]  # the second row of each sentence begins with another token
    wanted = network.logits(network.forward(source[rows], targets))
    network.decode_step(torch.full_like(target[:, 0], network.start_id), cache)
    select(index(1, 0), index(1, 0))  # the sentences change places
    select(index(0, 0, 1, 1))  # each has two rows
    second = network.decode_step(targets[:, 0], cache)
    swap = index(1, 0, 3, 2)
    select(swap)
    third = network.decode_step(targets[swap, 1], cache)
    for found, expected, what in (
        (second, wanted[:, 1], "swapped two sentences and repeated their rows"),
        (third, wanted[swap, 2], "swapped the two rows of a sentence"),
    ):
        _expect(keys, "decode_step", found, "logits (R, V)", (4, len(network.output)))
        if difference := _difference(found, expected):
            raise UserError(
                f"{keys}: after the cache's select(rows, sentences) has {what}, decode_step and forward disagree: "
                f"their logits differ by up to {difference:.2g}; row i must become the former row rows[i], with all "
                f"that is kept of it: {SEE}."
            )


def _positions(network: SequenceToSequence, keys: str) -> None:
    """See that position encodings have the right shape."""
    for name in ("source_positions", "target_positions"):
        codes: Any = getattr(network, name, None)
        for start, length in ((0, 3), (2, 1)) if codes is not None else ():
            found, shape = codes(start, length), (length, network.output.shape[1])
            if not isinstance(found, Tensor) or tuple(found.shape) != shape:
                raise UserError(
                    f"{keys}: forward(start, length) must return encodings (length, d_model), here {shape} of "
                    f"forward({start}, {length}), but returned {_given(found)}."
                )


def _difference(found: Tensor, wanted: Tensor) -> float:
    """The largest difference of two logits; 0 if it is small."""
    difference = float((found - wanted).abs().max())
    return 0.0 if difference <= TOLERANCE * max(1.0, float(wanted.abs().max())) else difference


def _advice(keys: str, *, decoding: bool = False) -> str:
    """Where to look for the mistake."""
    if "model.kind=" in keys:
        return f"{SEE}."
    asked = []
    if "model.attention=" in keys:
        asked.append("does its attend apply `mask` and `causal`?")
        if decoding:
            asked.append("does it use distances? Then it needs `self_only = True`, which excludes cross-attention.")
    if "positions.kind=" in keys:
        asked.append("does its forward(start, length) encode the positions from `start`?")
    return " ".join(asked) or f"{SEE}."


def _expect(keys: str, member: str, found: Tensor, what: str, shape: tuple[int, ...]) -> None:
    if not isinstance(found, Tensor) or tuple(found.shape) != shape:
        raise UserError(f"{keys}: {member} must return {what}, here {shape}, but returned {_given(found)}: {SEE}.")


def _given(found: object) -> str:
    return f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
