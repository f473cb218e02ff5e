"""FLOPs counted from the configuration: matrix products on real tokens.

A training step counts as 3 forward passes, and a multiply-accumulate as 2 FLOPs. Recomputation in the backward pass is
not counted.
"""

from variations.configuration.transformer import TransformerConfig as Config
from variations.models import model_class
from variations.models.network import Tokens


def forward_macs(config: Config, tokens: Tokens, vocabulary: int) -> int:
    """Multiply-accumulates of one forward pass over a batch, logits included."""
    return model_class(config.model.kind).forward_macs(config, tokens, vocabulary)


def training_flops(config: Config, tokens: Tokens, vocabulary: int) -> int:
    """FLOPs of forward and backward over a batch: 3 × 2 × MACs."""
    return 6 * forward_macs(config, tokens, vocabulary)


__all__ = ["Tokens", "forward_macs", "training_flops"]
