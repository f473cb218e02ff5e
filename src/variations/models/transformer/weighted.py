"""The Weighted Transformer (Ahmed et al. 2017): branched attention instead of multi-head attention and FFN.

By default each encoder layer branches its self-attention and each decoder layer the attention that precedes the FFN,
cross-attention (docs/departures.md says why). The branched sub-layer includes the FFN, so a layer has one sub-layer
fewer.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from variations.configuration.transformer import BranchConfig, ModelConfig, PositionsConfig
from variations.configuration.transformer import TransformerConfig as Config
from variations.models.kernels import Reference
from variations.models.kernels.segments import Mask
from variations.models.network import BRANCH_WEIGHTS, MAIN, Tokens
from variations.models.transformer import branched, flops
from variations.models.transformer.attention import Concatenate, heads
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.layers import IncrementalLayer, LayerState, Residual
from variations.models.transformer.transformer import Transformer


class Branched(nn.Module):
    """A branched sub-layer: residual and norm around the sum over branches."""

    def __init__(self, config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> None:
        super().__init__()
        self.feed_forward = branched.build(config, branch, kernels, weights)
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


class WeightedDecoderLayer(IncrementalLayer):
    """Masked self-attention and cross-attention, one of them or both branched (`branch.decoder`)."""

    def __init__(
        self,
        config: ModelConfig,
        branch: BranchConfig,
        kernels: Reference,
        weights: Callable[[], BranchWeights],
    ) -> None:
        super().__init__()
        self.branched_self = Branched(config, branch, kernels, weights()) if branch.on_self else None
        self.branched_cross = Branched(config, branch, kernels, weights()) if branch.on_cross else None
        if branch.decoder == "both_shared_ffn" and self.branched_self and self.branched_cross:
            self.branched_cross.feed_forward.share_ffn(self.branched_self.feed_forward)
        M = branch.branches(config)
        self.self_heads = heads(config, kernels, cross=False, h=M if branch.on_self else config.h)
        self.cross_heads = heads(config, kernels, cross=True, h=M if branch.on_cross else config.h)
        if not branch.on_self:
            self.self_output, self.self_residual = Concatenate(config), Residual(config, kernels)
        if not branch.on_cross:
            self.cross_output, self.cross_residual = Concatenate(config), Residual(config, kernels)

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

    varlen = True

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
        kernels, M = kernels or Reference(), branch.branches(config)
        shared: dict[int, BranchWeights] = {}

        def weights(i: int) -> BranchWeights:
            """κ and α of a sub-layer of layer i."""
            own = BranchWeights(branch, M)  # drawn even if unused, so that stored runs have the same initial weights
            return own if branch.scope == "sublayer" else shared.setdefault(i, own)

        def encoder_layer(i: int) -> nn.Module:
            return WeightedEncoderLayer(config, branch, kernels, weights(i))

        def decoder_layer(i: int) -> nn.Module:
            return WeightedDecoderLayer(config, branch, kernels, lambda: weights(i))

        super().__init__(
            config,
            positions,
            vocabulary,
            pad=pad,
            bos=bos,
            kernels=kernels,
            encoder_layer=encoder_layer if branch.encoder else None,
            decoder_layer=decoder_layer if branch.on_self or branch.on_cross else None,
        )
        self.branch, self.M = branch, M
        for index, module in enumerate(WeightedTransformer.branch_weights(self).values()):
            module.index = index

    @classmethod
    def from_config(cls, config: Config, vocabulary: int, kernels: Reference) -> Self:
        """See `Network.from_config`."""
        return cls(config.model, config.positions, config.branch, vocabulary, kernels=kernels)

    @classmethod
    def forward_macs(cls, config: Config, tokens: Tokens, vocabulary: int) -> int:
        """See `SequenceToSequence.forward_macs`."""
        return flops.weighted_macs(config.model, config.branch, tokens, vocabulary)

    def branch_weights(self) -> dict[str, BranchWeights]:
        """The weights of every branched sub-layer by a readable name, such as `encoder.0.self`; shared ones once."""
        places: dict[str, Branched | None] = {}
        for i, layer in enumerate(self.encoder):
            places[f"encoder.{i}.self"] = layer.branched if isinstance(layer, WeightedEncoderLayer) else None
        for i, layer in enumerate(self.decoder):
            if isinstance(layer, WeightedDecoderLayer):
                places |= {f"decoder.{i}.self": layer.branched_self, f"decoder.{i}.cross": layer.branched_cross}
        found: dict[str, BranchWeights] = {}
        for name, sub_layer in places.items():
            if sub_layer is not None and sub_layer.feed_forward.weights not in found.values():
                found[name] = sub_layer.feed_forward.weights
        return found

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """κ and α, and all other parameters."""
        branch = [parameter for weights in self.branch_weights().values() for parameter in weights.parameters()]
        apart = {id(parameter) for parameter in branch}
        return {MAIN: [p for p in self.parameters() if id(p) not in apart], BRANCH_WEIGHTS: branch}

    def metrics(self) -> dict[str, Any]:
        """Effective κ and α of every branched sub-layer, and the number of branches with κ = 0 or α = 0.

        Weights that are drawn anew for each batch are left out: a further draw would be none that was used.
        """
        found: dict[str, Any] = {}
        drawn = self.branch.train_mode == "random_per_step"
        for name, weights in self.branch_weights().items() if not drawn else ():
            kappa, alpha = weights.values()
            found |= {f"branch/{name}.kappa": kappa.detach().tolist(), f"branch/{name}.alpha": alpha.detach().tolist()}
        return found | {"branch/dead": sum(weights.dead() for weights in self.branch_weights().values())}

    @torch.no_grad()
    def adjust_gradients(self) -> None:
        """Subtract the mean from the gradients of κ and of α (`branch.center_grad`)."""
        if self.branch.center_grad:
            for parameter in self.parameter_groups()[BRANCH_WEIGHTS]:
                if parameter.grad is not None:
                    parameter.grad -= parameter.grad.mean()

    def after_update(self, *, frozen: bool) -> None:
        """Restore the constraint on κ and α after an update."""
        if not frozen:
            self.constrain()

    def constrain(self) -> None:
        """Restore the constraint on κ and α in every branched sub-layer."""
        for weights in self.branch_weights().values():
            weights.constrain()
