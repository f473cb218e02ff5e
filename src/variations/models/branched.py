"""The branched sub-layer of the Weighted Transformer (Ahmed et al. 2017, eqs. 3 to 7; SPEC section 3).

    h̄_i = κ_i · head_i W_O^i          out = Σ_i α_i FFN(h̄_i)

Three evaluations give the same values and gradients: `naive` (M passes of the FFN), `sum_first` (the sum over
branches before W_2, which is common) and `composed` (W_O^i and W_1 multiplied together once per step: 0.89 times the
plain layer's products). Shapes: n = B·T tokens, M branches, d_v a head's width, d = d_model, f the FFN's width.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variations.config import BranchConfig, ModelConfig
from variations.models.branch_weights import BranchWeights
from variations.models.gates import build as build_gate
from variations.models.kernels import Reference

RESCALE = {"none": 0, "M": 1, "M2": 2}


class BranchedFeedForward(nn.Module):
    """M branches through one shared FFN (`branch.ffn=shared`)."""

    def __init__(self, config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> None:
        super().__init__()
        self.config, self.branch, self.kernels, self.weights = config, branch, kernels, weights
        self.M = weights.M
        d, d_v = config.d_model, config.d_v or config.d_model // config.h
        self.output = nn.Parameter(torch.empty(self.M, d_v, d))  # W_O^i
        nn.init.xavier_uniform_(self.output.view(self.M * d_v, d))
        bias_rows = {"none": 0, "single": 1, "per_branch": self.M}[branch.wo_bias]
        self.output_bias = nn.Parameter(torch.zeros(bias_rows, d)) if bias_rows else None
        self.inner_norm = nn.LayerNorm(d, eps=config.norm_eps) if branch.inner_norm else None
        self.gate = build_gate(branch.gate, d, self.M)
        self.scale = float(self.M ** RESCALE[branch.rescale])
        self._fold: tuple[object, Tensor, Tensor | None] | None = None
        self._make_ffn()

    def _make_ffn(self) -> None:
        d, f, bias = self.config.d_model, self.config.d_ff, self.config.ffn_bias
        self.W1, self.b1 = self._matrix(d, f), nn.Parameter(torch.zeros(f)) if bias else None
        self.W2, self.b2 = self._matrix(f, d), nn.Parameter(torch.zeros(d)) if bias else None

    @staticmethod
    def _matrix(*shape: int) -> nn.Parameter:
        matrix = nn.Parameter(torch.empty(*shape))
        with torch.no_grad():
            for one in matrix if matrix.dim() == 3 else [matrix]:
                nn.init.xavier_uniform_(one)
        return matrix

    def share_ffn(self, other: "BranchedFeedForward") -> None:
        """Use the FFN of another branched sub-layer (`branch.decoder=both_shared_ffn`)."""
        self.W1, self.b1, self.W2, self.b2 = other.W1, other.b1, other.W2, other.b2

    # What the FFN of branch i is made of; `split` and `full` differ only here and in `finish`.

    def first(self, u: Tensor, i: int) -> Tensor:
        """u W_1 + b_1 of branch i: (n, d) to (n, f)."""
        z = u @ self.W1
        return z if self.b1 is None else z + self.b1

    def second(self, hidden: Tensor, i: int) -> Tensor:
        """hidden W_2 + b_2 of branch i: (n, f) to (n, d)."""
        y = hidden @ self.W2
        return y if self.b2 is None else y + self.b2

    def first_matrices(self) -> Tensor:
        """W_1 of every branch, (M, d, f), or (d, f) where all have the same."""
        return self.W1

    def first_bias(self) -> Tensor | None:
        """b_1 of every branch, broadcastable to (M, f)."""
        return None if self.b1 is None else self.b1[None]

    def finish(self, z_heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
        """Σ_i α_i (relu(head_i C_i + bias_i + base) W_2 + b_2), the sum taken before W_2.

        Args:
            z_heads: (M, n, ·) inputs of the first matrices.
            C: (M, ·, f).
            bias: (1 or M, f).
            base: (n, f), added to every branch.
            alpha: (1 or n, M).
        """
        dropout = self.config.relu_dropout if self.training else 0.0
        g = self.kernels.branch_sum(z_heads, C, bias, base, alpha, dropout)
        out = g @ self.W2
        return out if self.b2 is None else out + alpha.sum(-1, keepdim=True) * self.b2

    def forward(self, heads: Tensor, x: Tensor) -> Tensor:
        """Heads (B, M, T, d_v) and the sub-layer's input x (B, T, d) to the sum over branches (B, T, d)."""
        B, M, T, d_v = heads.shape
        kappa, alpha = self.weights.values()
        alpha_n = alpha[None] if self.gate is None else self.gate(alpha, x.reshape(B * T, -1))
        flat = heads.transpose(0, 1).reshape(M, B * T, d_v)
        evaluate = {"naive": self._naive, "sum_first": self._sum_first, "composed": self._composed}[self.branch.impl]
        out: Tensor = evaluate(flat, x.reshape(B * T, -1), kappa, alpha_n)
        out = out if self.scale == 1 else out * self.scale
        return out.view(B, T, -1)

    def _branch_input(self, head: Tensor, x: Tensor, kappa: Tensor, i: int) -> Tensor:
        u = head @ self.output[i]
        if self.output_bias is not None:
            u = u + self.output_bias[min(i, self.output_bias.size(0) - 1)]
        u = kappa[i] * u
        if self.branch.residual == "per_branch_into_ffn":
            u = x + u
        return u

    def _naive(self, heads: Tensor, x: Tensor, kappa: Tensor, alpha: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for i in range(self.M):
            u = self._branch_input(heads[i], x, kappa, i)
            v = u if self.inner_norm is None else self.inner_norm(u)
            hidden = F.relu(self.first(v, i))
            if self.training:
                hidden = self.kernels.dropout(hidden, self.config.relu_dropout)
            y = self.second(hidden, i)
            if self.branch.residual == "outer+inner":
                y = v + y
            total = total + alpha[:, i, None] * y
        return total

    def _sum_first(self, heads: Tensor, x: Tensor, kappa: Tensor, alpha: Tensor) -> Tensor:
        u = torch.stack([self._branch_input(heads[i], x, kappa, i) for i in range(self.M)])  # (M, n, d)
        out = self.finish(u, self.first_matrices().expand(self.M, -1, -1), self.first_bias(), None, alpha)
        return out if self.branch.residual != "outer+inner" else out + torch.einsum("nm,mnd->nd", alpha, u)

    def _composed(self, heads: Tensor, x: Tensor, kappa: Tensor, alpha: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self._fold = None  # an update may follow, and fused optimisers do not count versions up
            C, bias = self.compose(kappa)
        else:
            C, bias = self._folded(kappa)
        base = None
        if self.branch.residual == "per_branch_into_ffn":
            base = self.first_of_residual(x)
        out = self.finish(heads, C, bias, base, alpha)
        if self.branch.residual == "outer+inner":
            for i in range(self.M):
                out = out + alpha[:, i, None] * self._branch_input(heads[i], x, kappa, i)
        return out

    def _folded(self, kappa: Tensor) -> tuple[Tensor, Tensor | None]:
        """`compose`, done once for as long as the weights stay as they are: each step of decoding needs it."""
        device = self.output.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        # Every change of a parameter in place counts its version up; a move to another device changes its address.
        key = (self.training, dtype, *((p._version, p.data_ptr()) for p in self.parameters()))
        if self._fold is None or self._fold[0] != key or self.branch.train_mode == "random_per_step":
            with torch.autocast(device, enabled=False):  # once, so it may as well be exact
                C, bias = self.compose(kappa)
            self._fold = key, C.to(dtype or C.dtype), bias
        return self._fold[1:]

    def compose(self, kappa: Tensor) -> tuple[Tensor, Tensor | None]:
        """C_i = κ_i W_O^i W_1 (M, d_v, f) and the bias κ_i b_O^i W_1 + b_1 (1 or M, f)."""
        C = _per_branch(kappa[:, None, None] * self.output, self.first_matrices())
        bias = self.first_bias()
        if self.output_bias is not None:
            extra = _per_branch(kappa[:, None, None] * self.output_bias[:, None, :], self.first_matrices())[:, 0]
            bias = extra if bias is None else extra + bias
        return C, bias

    def first_of_residual(self, x: Tensor) -> Tensor:
        """x W_1, the residual's part of every branch's first product; (n, d) to (n, f)."""
        return x @ self.W1


class FullFeedForward(BranchedFeedForward):
    """Every branch has an FFN of its own, of width d_ff (`branch.ffn=full`)."""

    def width(self) -> int:
        """Width f of one branch's FFN."""
        return self.config.d_ff

    def _make_ffn(self) -> None:
        d, f, M, bias = self.config.d_model, self.width(), self.M, self.config.ffn_bias
        self.W1, self.b1 = self._matrix(M, d, f), nn.Parameter(torch.zeros(M, f)) if bias else None
        self.W2, self.b2 = self._matrix(M, f, d), nn.Parameter(torch.zeros(M, d)) if bias else None

    def first(self, u: Tensor, i: int) -> Tensor:
        """See `BranchedFeedForward.first`."""
        z = u @ self.W1[i]
        return z if self.b1 is None else z + self.b1[i]

    def second(self, hidden: Tensor, i: int) -> Tensor:
        """See `BranchedFeedForward.second`."""
        y = hidden @ self.W2[i]
        return y if self.b2 is None else y + self.b2[i]

    def first_matrices(self) -> Tensor:
        """See `BranchedFeedForward.first_matrices`."""
        return self.W1

    def first_bias(self) -> Tensor | None:
        """See `BranchedFeedForward.first_bias`."""
        return self.b1

    def finish(self, z_heads: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor) -> Tensor:
        """Σ_i α_i (relu(z_i) W_2^i + b_2^i): the slices side by side, then one product of width M·f."""
        z = z_heads @ C
        if bias is not None:
            z = z + bias[:, None]
        if base is not None:
            z = z + base.unflatten(-1, (self.M, -1)).transpose(0, 1)
        hidden = F.relu(z)
        if self.training:
            hidden = self.kernels.dropout(hidden, self.config.relu_dropout)
        weighted = hidden * alpha.t()[:, :, None].to(hidden.dtype)
        out = weighted.transpose(0, 1).flatten(1) @ self.W2.flatten(0, 1)
        return out if self.b2 is None else out + alpha.to(out.dtype) @ self.b2.to(out.dtype)

    def first_of_residual(self, x: Tensor) -> Tensor:
        """x W_1 of all branches side by side: (n, d) to (n, M·f)."""
        return x @ self.W1.transpose(0, 1).flatten(1)


class SplitFeedForward(FullFeedForward):
    """Every branch has an FFN of its own, of width d_ff / M (`branch.ffn=split`): a block-diagonal first layer."""

    def width(self) -> int:
        """Width f of one branch's FFN."""
        return self.config.d_ff // self.M


def _per_branch(a: Tensor, matrices: Tensor) -> Tensor:
    """a_i times the matrix of branch i: (M, r, d) and (M, d, f), or a common (d, f), to (M, r, f).

    A common matrix takes one product of M·r rows; broadcast, its gradient would be M matrices and then their sum.
    """
    if matrices.dim() == 3:
        return torch.matmul(a, matrices)
    together: Tensor = a.flatten(0, 1) @ matrices
    return together.view(*a.shape[:2], -1)


KINDS = {"shared": BranchedFeedForward, "full": FullFeedForward, "split": SplitFeedForward}
