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


def uncounted(config: Config) -> list[str]:
    """What is counted in place of the user's own classes, as sentences without a full stop."""
    kind, attention, found = model_class(config.model.kind), config.model.attention, []
    owner = next(each for each in kind.__mro__ if "forward_macs" in vars(each))
    if ":" in config.model.kind and owner.__module__.startswith("variations."):
        found.append(f"FLOPs are counted as those of {owner.__name__}, because {kind.__name__} has no forward_macs")
    if ":" in attention:
        found.append(f"FLOPs are counted with dot-product attention in place of {attention.partition(':')[2]}")
    return found


__all__ = ["Tokens", "forward_macs", "training_flops", "uncounted"]
