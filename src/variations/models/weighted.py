"""The Weighted Transformer (Ahmed et al. 2017): branched attention in place of multi-head attention and FFN.

By default each encoder layer branches its self-attention and each decoder layer the attention that precedes the FFN,
cross-attention (docs/departures.md says why). The branched sub-layer takes in the FFN, so a layer has one sub-layer
fewer.
"""

from collections.abc import Callable

from torch import Tensor, nn

from variations.config import BranchConfig, ModelConfig, PositionsConfig
from variations.models.attention import Concatenate, heads
from variations.models.branch_weights import BranchWeights
from variations.models.branched import KINDS
from variations.models.kernels import Reference
from variations.models.layers import DecoderLayer, EncoderLayer, LayerState, Residual
from variations.models.segments import Mask
from variations.models.transformer import Transformer


class Branched(nn.Module):
    """A branched sub-layer: residual and norm around the sum over branches."""

    def __init__(self, config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> None:
        super().__init__()
        self.feed_forward = KINDS[branch.ffn](config, branch, kernels, weights)
        self.residual = Residual(config, kernels)
        self.keep = branch.residual in ("outer", "outer+inner")

    def forward(self, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, T, d) to (B, T, d); `attend` gives the heads (B, M, T, d_v) of its argument."""
        out: Tensor = self.residual(x, lambda y: self.feed_forward(attend(y), y), keep=self.keep)
        return out


class WeightedEncoderLayer(nn.Module):
    """Branched self-attention."""

    def __init__(self, config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> None:
        super().__init__()
        self.self_heads = heads(config, kernels, cross=False, h=weights.M)
        self.branched = Branched(config, branch, kernels, weights)

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        """See `EncoderLayer.forward`."""
        out: Tensor = self.branched(x, lambda y: self.self_heads.self_attend(y, mask, causal=False)[0])
        return out


class WeightedDecoderLayer(DecoderLayer):
    """Masked self-attention and cross-attention, one of them or both branched (`branch.decoder`)."""

    def __init__(
        self,
        config: ModelConfig,
        branch: BranchConfig,
        kernels: Reference,
        weights: Callable[[], BranchWeights],
    ) -> None:
        nn.Module.__init__(self)
        on_self = branch.decoder in ("self", "both", "both_shared_ffn")
        on_cross = branch.decoder in ("cross", "both", "both_shared_ffn")
        self.branched_self = Branched(config, branch, kernels, weights()) if on_self else None
        self.branched_cross = Branched(config, branch, kernels, weights()) if on_cross else None
        if branch.decoder == "both_shared_ffn" and self.branched_self and self.branched_cross:
            self.branched_cross.feed_forward.share_ffn(self.branched_self.feed_forward)
        self.self_heads = heads(config, kernels, cross=False, h=self._heads(self.branched_self))
        self.cross_heads = heads(config, kernels, cross=True, h=self._heads(self.branched_cross))
        if not on_self:
            self.self_output, self.self_residual = Concatenate(config), Residual(config, kernels)
        if not on_cross:
            self.cross_output, self.cross_residual = Concatenate(config), Residual(config, kernels)

    @staticmethod
    def _heads(branched: Branched | None) -> int | None:
        return None if branched is None else branched.feed_forward.M

    def forward(self, x: Tensor, state: LayerState, mask: Mask) -> Tensor:
        """See `DecoderLayer.forward`."""

        def self_attend(y: Tensor) -> Tensor:
            return self.self_attend(y, state, mask)

        def cross_attend(y: Tensor) -> Tensor:
            return self.cross_heads.cross_attend(y, state.memory, mask)

        if self.branched_self is not None:
            x = self.branched_self(x, self_attend)
        else:
            x = self.self_residual(x, lambda y: self.self_output(self_attend(y)))
        if self.branched_cross is not None:
            x = self.branched_cross(x, cross_attend)
        else:
            x = self.cross_residual(x, lambda y: self.cross_output(cross_attend(y)))
        return x


class WeightedTransformer(Transformer):
    """The Transformer with branched sub-layers and their weights κ and α."""

    def __init__(
        self,
        config: ModelConfig,
        positions: PositionsConfig,
        branch: BranchConfig,
        vocabulary: int,
        *,
        pad: int = 0,
        bos: int = 1,
        kernels: Reference | None = None,
    ) -> None:
        self.branch, self.M = branch, branch.M or config.h
        self._shared: dict[int, BranchWeights] = {}
        super().__init__(config, positions, vocabulary, pad=pad, bos=bos, kernels=kernels)
        self._shared.clear()
        for index, weights in enumerate(self.branch_weights().values()):
            weights.index = index

    def _weights(self, i: int) -> BranchWeights:
        if self.branch.scope == "sublayer":
            return BranchWeights(self.branch, self.M)
        return self._shared.setdefault(i, BranchWeights(self.branch, self.M))

    def encoder_layer(self, i: int) -> nn.Module:
        """See `Transformer.encoder_layer`."""
        if not self.branch.encoder:
            return EncoderLayer(self.config, self.kernels)
        return WeightedEncoderLayer(self.config, self.branch, self.kernels, self._weights(i))

    def decoder_layer(self, i: int) -> nn.Module:
        """See `Transformer.decoder_layer`."""
        if self.branch.decoder == "none":
            return DecoderLayer(self.config, self.kernels)
        return WeightedDecoderLayer(self.config, self.branch, self.kernels, lambda: self._weights(i))

    def branch_weights(self) -> dict[str, BranchWeights]:
        """The weights of every branched sub-layer by a readable name, as `encoder.0.self`; shared ones once."""
        found: dict[str, BranchWeights] = {}
        for name, module in self.named_modules():
            if isinstance(module, BranchWeights) and all(module is not other for other in found.values()):
                stack, layer, *rest = name.split(".")
                found[f"{stack}.{layer}.{'cross' if 'branched_cross' in rest else 'self'}"] = module
        return found

    def constrain(self) -> None:
        """Put κ and α back under their constraint; call it after every update."""
        for weights in self.branch_weights().values():
            weights.constrain()
