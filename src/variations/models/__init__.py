"""The networks; they know nothing of data, training or Lightning."""

from variations.config import TransformerConfig as Config
from variations.models.kernels import choose
from variations.models.transformer import Transformer
from variations.models.weighted import WeightedTransformer


def rows_of(vocabulary: int, pad_to: int) -> int:
    """Embedding rows of a vocabulary, rounded up to a multiple of `pad_to`."""
    return -(-vocabulary // pad_to) * pad_to


def build(config: Config, vocabulary: int, device: str = "cpu") -> Transformer:
    """The network that the configuration names.

    Args:
        config: A complete configuration.
        vocabulary: Sub-words; `data.vocabulary_pad_to` rounds the embedding rows up.
        device: Device type it will run on; chooses the kernels under `profile=auto`.
    """
    rows, kernels = rows_of(vocabulary, config.data.vocabulary_pad_to), choose(config.profile, device)
    if config.model.kind == "weighted":
        return WeightedTransformer(config.model, config.positions, config.branch, rows, kernels=kernels)
    return Transformer(config.model, config.positions, rows, kernels=kernels)


def count_parameters(model: Transformer) -> int:
    """Learned and fixed parameters, shared ones once (buffers are not counted)."""
    return sum(parameter.numel() for parameter in model.parameters())


__all__ = ["Transformer", "WeightedTransformer", "build", "count_parameters", "rows_of"]
