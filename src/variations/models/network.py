"""The interface of a network for training, decoding and planning: base classes for ours and those of other packages.

`Network` is for every task; `SequenceToSequence` adds what translation and parsing need. A network of another
package derives from one of them and is named in a configuration as `package.module:Class`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn
from torch.nn import functional as F

from variations.configuration.transformer import TransformerConfig as Config
from variations.models.kernels import Reference
from variations.models.kernels.segments import Packed

MAIN = "main"
"""Parameter group of all weights that follow the recipe's schedule."""
BRANCH_WEIGHTS = "branch_weights"
"""Parameter group of κ and α, which have their own schedule and no weight decay."""


class Network(nn.Module):
    """A network that can be trained, with hooks for updates, which by default do nothing."""

    @classmethod
    def from_config(cls, config: Config, vocabulary: int, kernels: Reference) -> Self:
        """The network that `config` describes.

        Args:
            config: A complete configuration.
            vocabulary: Rows of the embedding.
            kernels: Kernels for the device that it will run on; they need not be used.
        """
        raise NotImplementedError(f"{cls.__name__} has no from_config")

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Each parameter, learned or constant, in one group.

        The name chooses the schedule: `main`, `branch_weights`; any other follows that of `main`.
        """
        return {MAIN: list(self.parameters())}

    def metrics(self) -> dict[str, Any]:
        """Quantities of the weights that are recorded in addition to the losses: numbers, or lists of numbers."""
        return {}

    def adjust_gradients(self) -> None:
        """Change the gradients of an update in place, before clipping; they are means over its tokens."""

    def after_update(self, *, frozen: bool) -> None:
        """Restore the parameters' constraints.

        Args:
            frozen: The update was one of the last, in which parameters with their own schedule stay constant.
        """


@dataclass(frozen=True)
class Tokens:
    """Sizes of a batch of pairs: numbers of real tokens, and sums over pairs of products of their lengths s and t."""

    source: int
    target: int
    source_squared: int
    """Σ s²."""
    target_squared: int
    """Σ t²."""
    product: int
    """Σ s·t."""

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.source + other.source,
            self.target + other.target,
            self.source_squared + other.source_squared,
            self.target_squared + other.target_squared,
            self.product + other.product,
        )


class SequenceToSequence(Network, ABC):
    """A network that reads a source and predicts a target, token by token.

    Decoding needs what `variations.tasks.sequences.decoding.protocol` defines.

    Shapes: B sentences, S source and T target positions, width d, V rows of the vocabulary.
    """

    varlen: ClassVar[bool] = False
    """Whether `forward` accepts batches of concatenated sentences (`packed`). A subclass does not inherit it: layers of
    its own may mix all positions of a row."""
    kernels: Reference
    pad: int
    """The id of padding."""
    start_id: int
    """The first input token of the decoder."""
    vocabulary: int
    """V."""
    output: Tensor
    """(V, d): the output projection; logits are its products with hidden states."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Make `varlen` False unless the class itself says otherwise."""
        super().__init_subclass__(**keywords)
        cls.varlen = vars(cls).get("varlen", False)

    @abstractmethod
    def forward(self, source: Tensor, target: Tensor, packed: Packed | None = None) -> Tensor:
        """Hidden states (B, T, d) that predict `target` (B, T), each from the tokens before it.

        Source and target may each be concatenated into one row; `packed` then gives the sentence boundaries.
        """

    @abstractmethod
    def start_cache(self, source: Tensor) -> Any:
        """Encode `source` (B, S) and prepare to decode one row per sentence."""

    @abstractmethod
    def decode_step(self, tokens: Tensor, cache: Any) -> Tensor:
        """Logits (R, V) of the position after `tokens` (R,), the last ones decoded (`start_id` at first)."""

    @classmethod
    @abstractmethod
    def forward_macs(cls, config: Config, tokens: Tokens, vocabulary: int) -> int:
        """Multiply-accumulates of one forward pass over a batch, logits included, from the configuration alone."""

    def logits(self, hidden: Tensor) -> Tensor:
        """h Eᵀ, no bias: (…, d) to (…, V)."""
        return F.linear(hidden, self.output)
