"""FLOPs counted from the configuration: matrix products on real tokens.

A training step counts as 3 forward passes, and a multiply-accumulate as 2 FLOPs. Recomputation in the backward pass is
not counted.
"""

from numbers import Integral

from variations.configuration.transformer import TransformerConfig as Config
from variations.models import model_class
from variations.models.doors import call
from variations.models.network import Tokens
from variations.system.errors import UserError


def forward_macs(config: Config, tokens: Tokens, vocabulary: int) -> int:
    """Multiply-accumulates of one forward pass over a batch, logits included.

    Raises:
        UserError: The network's class is of another package, and cannot count them.
    """
    name = config.model.kind
    kind = model_class(name)
    found = call("model.kind", name, "forward_macs fails", lambda: kind.forward_macs(config, tokens, vocabulary))
    if not isinstance(found, Integral) or found < 0:
        raise UserError(
            f"model.kind={name}: forward_macs returned {found!r:.60}; it must return the multiply-accumulates of a "
            "forward pass, a whole number that is not negative."
        )
    return int(found)


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
