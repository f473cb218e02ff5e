"""Branch weights κ and α, and their projection on the simplex (Ahmed et al. 2017, section 3)."""

import torch
from torch import Tensor, nn

from variations.configuration.transformer import BranchConfig


def project(v: Tensor) -> Tensor:
    """Euclidean projection of `v` (…, M) on the simplex {w : w ≥ 0, Σw = 1}, in float32 or wider.

    Sort descending to u; ρ is the last j with u_j > (Σ_{r≤j} u_r - 1) / j; subtract τ = (Σ_{r≤ρ} u_r - 1) / ρ and
    clip at 0. Adding a constant to v changes nothing, so the maximum is subtracted first, which keeps sums small.
    """
    wide = v if v.dtype == torch.float64 else v.float()
    wide = wide - wide.amax(dim=-1, keepdim=True)
    u = wide.sort(dim=-1, descending=True).values  # (…, M)
    excess = u.cumsum(dim=-1) - 1  # (…, M)
    j = torch.arange(1, v.size(-1) + 1, device=v.device, dtype=wide.dtype)  # (M,)
    rho = (u * j > excess).sum(dim=-1, keepdim=True).clamp_min(1)  # (…, 1); 0 if v has a NaN
    tau = excess.gather(-1, rho - 1) / rho  # (…, 1)
    return (wide - tau).clamp_min(0).to(v.dtype)


class BranchWeights(nn.Module):
    """κ and α of one branched sub-layer, M scalars each.

    `kappa` and `alpha` are the free parameters; `values()` gives the weights. With the constraints `project` and
    `renormalise`, the parameters are the weights, and `constrain()` restores the simplex after each update; with
    `softmax` and `sigmoid`, the parameters are logits.
    """

    def __init__(self, config: BranchConfig, M: int) -> None:
        super().__init__()
        self.config, self.M = config, M
        self.kappa = nn.Parameter(self._initial(), requires_grad=self._learned(config.kappa))
        self.alpha = nn.Parameter(self._initial(), requires_grad=self._learned(config.alpha))
        with torch.no_grad():
            for free, parameter in ((config.kappa, self.kappa), (config.alpha, self.alpha)):
                if not self._learned(free):
                    parameter.copy_(self._logits(torch.full((M,), 1 / M)))

    def _learned(self, free: bool) -> bool:
        return free and self.config.train_mode == "learned"

    def _initial(self) -> Tensor:
        if self.config.init == "uniform":
            return self._logits(torch.full((self.M,), 1 / self.M))
        drawn = torch.rand(self.M)
        return self._logits(drawn / drawn.sum())

    def _logits(self, weights: Tensor) -> Tensor:
        """Parameters whose constrained values are `weights`, or M times that with `softmax_xM`."""
        match self.config.constraint:
            case "softmax" | "softmax_xM":
                return weights.log()
            case "sigmoid":
                return weights.logit()
            case _:
                return weights

    def _constrained(self, parameter: Tensor) -> Tensor:
        match self.config.constraint:
            case "softmax":
                return parameter.softmax(dim=-1)
            case "softmax_xM":
                return parameter.softmax(dim=-1) * self.M
            case "sigmoid":
                return parameter.sigmoid()
            case _:
                return parameter

    @torch.no_grad()
    def constrain(self) -> None:
        """Restore the constraint after an update of the parameters; weights that satisfy it do not change."""
        for parameter in (self.kappa, self.alpha):
            if not parameter.requires_grad:
                continue
            if self.config.constraint == "project":
                parameter.copy_(project(parameter))
            elif self.config.constraint == "renormalise":
                positive = parameter.clamp_min(1e-6)
                parameter.copy_(positive / positive.sum())

    def values(self) -> tuple[Tensor, Tensor]:
        """Effective κ and α, (M,) each: by `train_mode` in training, by `eval_mode` otherwise.

        Substitutes for learned weights have their sum on the simplex: 1, or M with `softmax_xM`. Weights that no
        projection keeps there (`constraint` `sigmoid` or `none`) may have learned another sum.
        """
        mode = self.config.train_mode if self.training else self.config.eval_mode
        if not self.training and mode == "learned":
            # The default for a test: the learned weights, or the mean of the weights used in training.
            mode = "learned" if self.config.train_mode == "learned" else "uniform"
        if mode == "uniform":
            uniform = torch.full_like(self.kappa, self._total() / self.M)
            return uniform, uniform
        if mode == "random_per_step":
            return self._draw(torch.rand_like(self.kappa)), self._draw(torch.rand_like(self.alpha))
        if mode in ("random_uniform", "random_dirichlet"):
            return self._test_draw("kappa"), self._test_draw("alpha")
        return self._constrained(self.kappa), self._constrained(self.alpha)

    def _total(self) -> float:
        return float(self.M) if self.config.constraint == "softmax_xM" else 1.0

    def _draw(self, positive: Tensor) -> Tensor:
        return positive * (self._total() / positive.sum())

    def _test_draw(self, which: str) -> Tensor:
        """One draw for the whole test, the same on every device, different in every sub-layer."""
        generator = torch.Generator().manual_seed(
            self.config.eval_seed * 1_000_003 + 7919 * self.index + (which == "alpha")
        )
        u = torch.rand(self.M, generator=generator)
        if self.config.eval_mode == "random_dirichlet":
            u = -torch.log1p(-u)  # exponential draws, normalised, are Dirichlet(1)
        return self._draw(u).to(self.kappa)

    index: int = 0
    """Number of the sub-layer in the model, so that test draws differ between sub-layers."""

    @torch.no_grad()
    def dead(self) -> int:
        """The number of branches whose κ or α is 0, which the projection can reach."""
        kappa, alpha = self._constrained(self.kappa), self._constrained(self.alpha)
        return int(((kappa == 0) | (alpha == 0)).sum())
