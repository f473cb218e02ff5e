"""Gates: a sum over k of the M branches (Ahmed et al. 2017, section 4.5)."""

import torch
from torch import Tensor, nn

from variations.configuration.transformer import GateConfig


def _chosen(scores: Tensor, k: int) -> Tensor:
    """1 at the k largest of the last axis (the first of equals), 0 elsewhere."""
    index = scores.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(scores).scatter(-1, index, 1.0)


class TopK(nn.Module):
    """The k largest α of the sub-layer, the same for every token."""

    def __init__(self, config: GateConfig) -> None:
        super().__init__()
        self.config = config

    def _apply_mask(self, weights: Tensor, chosen: Tensor) -> Tensor:
        kept = weights * chosen  # (M,) or (n, M)
        if self.config.renormalise:
            kept = kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-9)
        if self.config.gradient == "straight_through":
            # Straight-through: gated weights in the forward pass, ungated gradients.
            return weights + (kept - weights).detach()
        return kept

    def forward(self, alpha: Tensor, x: Tensor) -> Tensor:
        """α (M,) and the tokens x (n, d) to the effective weights (1, M)."""
        return self._apply_mask(alpha, _chosen(alpha.detach(), self.config.k))[None]


class TopKPerInput(TopK):
    """k branches per token, chosen by a learned gate x W_g and weighted by its softmax times M·α.

    With k = M and an untrained gate (W_g = 0) the weights are α, so that training starts from the plain sum.
    """

    def __init__(self, config: GateConfig, d_model: int, M: int) -> None:
        super().__init__(config)
        self.gate = nn.Parameter(torch.zeros(d_model, M))

    def forward(self, alpha: Tensor, x: Tensor) -> Tensor:
        """α (M,) and the tokens x (n, d) to the effective weights (n, M)."""
        gate = (x @ self.gate).softmax(dim=-1).to(alpha.dtype)  # (n, M)
        weights = alpha * gate * gate.size(-1)  # (n, M)
        return self._apply_mask(weights, _chosen(weights.detach(), self.config.k))


def build(config: GateConfig, d_model: int, M: int) -> TopK | None:
    """The gate that the configuration names; None for the plain weighted sum."""
    if config.kind == "topk":
        return TopK(config)
    if config.kind == "topk_input":
        return TopKPerInput(config, d_model, M)
    return None
