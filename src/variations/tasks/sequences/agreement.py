"""A check before training that a network of another package decodes consistently with its training."""

import torch
from torch import Tensor

from variations.configuration.transformer import TransformerConfig
from variations.models.network import SequenceToSequence
from variations.system.errors import UserError

TOLERANCE = 1e-3
"""Largest difference of two logits, relative to the largest logit; rounding in float32 stays far below it."""
SEE = "see the table of members in docs/adding-a-variation.md"


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

    Args:
        network: The network, on its device.
        keys: Configuration keys for messages.

    Raises:
        UserError: They differ in shape or in value.
    """
    device, training = network.output.device, network.training
    top = network.vocabulary - 1
    source = torch.tensor([[5, 6, 2], [4, 2, network.pad]], device=device).clamp(max=top)
    target = torch.tensor([[4, 3, 2], [3, 5, 4]], device=device).clamp(max=top)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        network.eval()
        try:
            hidden = network.forward(source, target)
            _expect(keys, "forward", hidden, "hidden states (B, T, d)", (2, 3, network.output.shape[1]))
            wanted = network.logits(hidden)  # (B, T, V)
            _expect(keys, "logits", wanted, "logits (B, T, V)", (2, 3, network.vocabulary))
            cache, tokens = network.start_cache(source), torch.full((2,), network.start_id, device=device)
            for position in range(target.shape[1]):
                found = network.decode_step(tokens, cache)
                _expect(keys, "decode_step", found, "logits (R, V)", (2, network.vocabulary))
                difference = float((found - wanted[:, position]).abs().max())
                if not difference <= TOLERANCE * max(1.0, float(wanted.abs().max())):
                    raise UserError(
                        f"{keys}: decode_step and forward disagree about target token {position + 1}: their logits "
                        f"differ by up to {difference:.2g}; both must predict it from the tokens before it: {SEE}."
                    )
                tokens = target[:, position]
        finally:
            network.train(training)


def _expect(keys: str, member: str, found: Tensor, what: str, shape: tuple[int, ...]) -> None:
    if not isinstance(found, Tensor) or tuple(found.shape) != shape:
        given = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise UserError(f"{keys}: {member} must return {what}, here {shape}, but returned {given}: {SEE}.")
