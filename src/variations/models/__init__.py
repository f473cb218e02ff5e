"""The networks; they know nothing of data, training or Lightning.

`transformer/` follows the papers, `kernels/` has its numerical kernels, and `network.py` defines the interface of a
network.
"""

from torch import nn

from variations.configuration.transformer import TransformerConfig as Config
from variations.models.doors import construct, resolve
from variations.models.kernels import choose
from variations.models.network import Network, SequenceToSequence
from variations.models.transformer.transformer import Transformer
from variations.models.transformer.weighted import WeightedTransformer
from variations.system.errors import UserError

MODELS: dict[str, type[SequenceToSequence]] = {"transformer": Transformer, "weighted": WeightedTransformer}
"""Values of `model.kind`."""
ATTRIBUTES = ("output", "pad", "start_id", "vocabulary")
"""Members of every network that its class need not have."""


def rows_of(vocabulary: int, pad_to: int) -> int:
    """Embedding rows of a vocabulary, rounded up to a multiple of `pad_to`."""
    return -(-vocabulary // pad_to) * pad_to


def model_class(kind: str) -> type[SequenceToSequence]:
    """The class of a `model.kind`: a key of `MODELS`, or `package.module:Class`.

    Raises:
        UserError: There is no such class, or it is not a `SequenceToSequence`.
    """
    # mypy does not yet accept an abstract class as a value of its own type.
    return resolve("model.kind", kind, MODELS, SequenceToSequence)  # type: ignore[type-abstract]


def build(config: Config, vocabulary: int, device: str = "cpu") -> SequenceToSequence:
    """The network that the configuration names.

    Args:
        config: A complete configuration.
        vocabulary: Sub-words; `data.vocabulary_pad_to` rounds the embedding rows up.
        device: Device type it will run on; chooses the kernels, unless `profile=reference`.

    Raises:
        UserError: The class that `model.kind` names is not available or cannot be constructed, or its
            networks lack a member.
    """
    rows, kernels = rows_of(vocabulary, config.data.vocabulary_pad_to), choose(config.profile, device)
    kind = config.model.kind
    made = model_class(kind)
    network = construct("model.kind", kind, lambda: made.from_config(config, rows, kernels))
    if missing := [name for name in ATTRIBUTES if not hasattr(network, name)]:
        raise UserError(
            f"model.kind={kind}: its networks lack {', '.join(missing)}: define all members of "
            "variations.models.network:SequenceToSequence."
        )
    return network


def count_parameters(model: nn.Module) -> int:
    """The number of learned and constant parameters, shared ones counted once; buffers are not counted."""
    return sum(parameter.numel() for parameter in model.parameters())


__all__ = [
    "Network",
    "SequenceToSequence",
    "Transformer",
    "WeightedTransformer",
    "build",
    "count_parameters",
    "model_class",
    "rows_of",
]
