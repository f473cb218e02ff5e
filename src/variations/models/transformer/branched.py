"""The sum over branches of branched attention (Ahmed et al. 2017, eqs. 3 to 7).

    h̄_i = κ_i · head_i W_O^i          out = Σ_i α_i FFN(h̄_i)

`LiteralBranches` evaluates these equations directly, with M passes of the FFN. `ComposedBranches` computes the same
values and gradients with 0.89 times the plain layer's products (derived in docs/paper.md). Both have the same
parameters, so that a run can continue with either.

Shapes: n = B·T tokens, M branches, d_v a head's width, d = d_model, f the FFN's width.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variations.configuration.transformer import BranchConfig, ModelConfig
from variations.models.kernels import Reference
from variations.models.transformer.branch_weights import BranchWeights
from variations.models.transformer.gates import build as build_gate

RESCALE = {"none": 0, "M": 1, "M2": 2}


class BranchedFeedForward(nn.Module):
    """W_O^i, the FFN of the branches, κ and α; subclasses evaluate the sum in different ways.

    The FFN's matrices are shared by all branches (`branch.ffn=shared`), or have a leading axis M and width f = d_ff
    (`full`) or d_ff / M (`split`).
    """

    def __init__(self, config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> None:
        super().__init__()
        self.config, self.branch, self.kernels, self.weights = config, branch, kernels, weights
        self.M = weights.M
        d, f, (_, d_v) = config.d_model, branch.ffn_width(config), config.head_widths
        self.output = nn.Parameter(torch.empty(self.M, d_v, d))  # W_O^i
        nn.init.xavier_uniform_(self.output.view(self.M * d_v, d))
        bias_rows = {"none": 0, "single": 1, "per_branch": self.M}[branch.wo_bias]
        self.output_bias = nn.Parameter(torch.zeros(bias_rows, d)) if bias_rows else None
        self.inner_norm = nn.LayerNorm(d, eps=config.norm_eps) if branch.inner_norm else None
        self.gate = build_gate(branch.gate, d, self.M)
        self.scale = float(self.M ** RESCALE[branch.rescale])
        own = () if branch.ffn == "shared" else (self.M,)
        self.W1, self.b1 = _matrix(*own, d, f), _bias(*own, f) if config.ffn_bias else None
        self.W2, self.b2 = _matrix(*own, f, d), _bias(*own, d) if config.ffn_bias else None

    def share_ffn(self, other: "BranchedFeedForward") -> None:
        """Use the FFN of another branched sub-layer (`branch.decoder=both_shared_ffn`)."""
        self.W1, self.b1, self.W2, self.b2 = other.W1, other.b1, other.W2, other.b2

    def forward(self, heads: Tensor, x: Tensor) -> Tensor:
        """Heads (B, M, T, d_v) and the sub-layer's input x (B, T, d) to the sum over branches (B, T, d)."""
        B, M, T, d_v = heads.shape
        kappa, alpha = self.weights.values()  # (M,) each
        alpha = alpha[None] if self.gate is None else self.gate(alpha, x.reshape(B * T, -1))  # (1 or n, M)
        head = heads.transpose(0, 1).reshape(M, B * T, d_v)  # (M, n, d_v)
        out = self.branch_sum(head, x.reshape(B * T, -1), kappa, alpha)  # (n, d)
        out = out if self.scale == 1 else out * self.scale
        return out.view(B, T, -1)

    def branch_sum(self, head: Tensor, x: Tensor, kappa: Tensor, alpha: Tensor) -> Tensor:
        """Σ_i α_i FFN(h̄_i).

        Args:
            head: (M, n, d_v).
            x: (n, d), the sub-layer's input.
            kappa: (M,).
            alpha: (1 or n, M), equal for all tokens or not.

        Returns:
            (n, d).
        """
        raise NotImplementedError

    def scaled_head(self, head: Tensor, x: Tensor, kappa: Tensor, i: int) -> Tensor:
        """h̄_i = κ_i · head_i W_O^i (n, d); x + h̄_i with `branch.residual=per_branch_into_ffn`."""
        u = head[i] @ self.output[i]
        if self.output_bias is not None:
            u = u + self.output_bias[min(i, self.output_bias.size(0) - 1)]
        u = kappa[i] * u
        return x + u if self.branch.residual == "per_branch_into_ffn" else u


class LiteralBranches(BranchedFeedForward):
    """The equations evaluated literally (`branch.impl=naive`)."""

    def branch_sum(self, head: Tensor, x: Tensor, kappa: Tensor, alpha: Tensor) -> Tensor:
        """See `BranchedFeedForward.branch_sum`."""
        total = torch.zeros_like(x)
        for i in range(self.M):
            W1, b1, W2, b2 = self.ffn(i)
            u = self.scaled_head(head, x, kappa, i)  # (n, d)
            u = u if self.inner_norm is None else self.inner_norm(u)
            hidden = F.relu(_affine(u, W1, b1))  # (n, f)
            if self.training:
                hidden = self.kernels.dropout(hidden, self.config.relu_dropout)
            y = _affine(hidden, W2, b2)  # (n, d)
            if self.branch.residual == "outer+inner":
                y = u + y
            total = total + alpha[:, i, None] * y
        return total

    def ffn(self, i: int) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """W_1 (d, f), b_1 (f,), W_2 (f, d) and b_2 (d,) of branch i."""
        if self.branch.ffn == "shared":
            return self.W1, self.b1, self.W2, self.b2
        b1, b2 = (None if bias is None else bias[i] for bias in (self.b1, self.b2))
        return self.W1[i], b1, self.W2[i], b2


class ComposedBranches(BranchedFeedForward):
    """The same with C_i = κ_i W_O^i W_1 composed once per step, and W_2 applied to the sum (`branch.ffn=shared`).

    Σ_i α_i FFN(h̄_i) = (Σ_i α_i relu(head_i C_i + κ_i b_O^i W_1 + b_1)) W_2 + (Σ_i α_i) b_2
    """

    def __init__(self, config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> None:
        super().__init__(config, branch, kernels, weights)
        self._fold: tuple[object, Tensor, Tensor | None] | None = None

    def branch_sum(self, head: Tensor, x: Tensor, kappa: Tensor, alpha: Tensor) -> Tensor:
        """See `BranchedFeedForward.branch_sum`."""
        if torch.is_grad_enabled():
            self._fold = None  # an update may follow, and fused optimisers do not increment version counters
            C, bias = self.compose(kappa)  # (M, d_v, f), (1 or M, f)
        else:
            C, bias = self._folded(kappa)
        base = self.first_product(x) if self.branch.residual == "per_branch_into_ffn" else None
        out = self.second_product(head, C, bias, base, alpha)  # (n, d)
        if self.branch.residual == "outer+inner":
            for i in range(self.M):
                out = out + alpha[:, i, None] * self.scaled_head(head, x, kappa, i)
        return out

    def compose(self, kappa: Tensor) -> tuple[Tensor, Tensor | None]:
        """C_i = κ_i W_O^i W_1 (M, d_v, f) and the bias κ_i b_O^i W_1 + b_1 (1 or M, f)."""
        C = _per_branch(kappa[:, None, None] * self.output, self.W1)
        bias = self.b1 if self.b1 is None or self.b1.dim() == 2 else self.b1[None]
        if self.output_bias is not None:
            extra = _per_branch(kappa[:, None, None] * self.output_bias[:, None, :], self.W1)[:, 0]  # (M, f)
            bias = extra if bias is None else extra + bias
        return C, bias

    def _folded(self, kappa: Tensor) -> tuple[Tensor, Tensor | None]:
        """`compose`, cached while the weights do not change, because each decoding step needs it."""
        device = self.output.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        if torch.compiler.is_compiling():  # the key would make a program for each state of the weights
            return self._in_full_precision(kappa, device, dtype)
        # In-place changes increment a parameter's version; a move to another device changes its address.
        key = (self.training, dtype, *((p._version, p.data_ptr()) for p in self.parameters()))
        if self._fold is None or self._fold[0] != key or self.branch.train_mode == "random_per_step":
            self._fold = key, *self._in_full_precision(kappa, device, dtype)
        return self._fold[1:]

    def _in_full_precision(self, kappa: Tensor, device: str, dtype: torch.dtype | None) -> tuple[Tensor, Tensor | None]:
        """`compose` without autocast, then C in its type."""
        with torch.autocast(device, enabled=False):
            C, bias = self.compose(kappa)
        return C.to(dtype or C.dtype), bias

    def first_product(self, x: Tensor) -> Tensor:
        """x W_1, the residual's contribution to every branch's first product; (n, d) to (n, f)."""
        return x @ self.W1

    def second_product(
        self, head: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor
    ) -> Tensor:
        """Σ_i α_i (relu(head_i C_i + bias_i + base) W_2 + b_2), with the sum before W_2.

        Args:
            head: (M, n, d_v).
            C: (M, d_v, f).
            bias: (1 or M, f).
            base: (n, f), added to every branch.
            alpha: (1 or n, M).

        Returns:
            (n, d).
        """
        dropout = self.config.relu_dropout if self.training else 0.0
        g = self.kernels.branch_sum(head, C, bias, base, alpha, dropout)  # (n, f)
        out = g @ self.W2
        return out if self.b2 is None else out + alpha.sum(-1, keepdim=True) * self.b2


class ComposedOwnBranches(ComposedBranches):
    """The same if every branch has its own FFN (`branch.ffn=split`, `branch.ffn=full`).

    With `split` the first layer is block-diagonal: M blocks (d_v, d_ff / M).
    """

    def first_product(self, x: Tensor) -> Tensor:
        """x W_1 of all branches, concatenated: (n, d) to (n, M·f)."""
        return x @ self.W1.transpose(0, 1).flatten(1)

    def second_product(
        self, head: Tensor, C: Tensor, bias: Tensor | None, base: Tensor | None, alpha: Tensor
    ) -> Tensor:
        """Σ_i α_i (relu(head_i C_i + bias_i + base_i) W_2^i + b_2^i): one product of width M·f."""
        z = head @ C  # (M, n, f)
        if bias is not None:
            z = z + bias[:, None]
        if base is not None:
            z = z + base.unflatten(-1, (self.M, -1)).transpose(0, 1)
        hidden = F.relu(z)
        if self.training:
            hidden = self.kernels.dropout(hidden, self.config.relu_dropout)
        weighted = hidden * alpha.t()[:, :, None].to(hidden.dtype)  # (M, n, f)
        out = weighted.transpose(0, 1).flatten(1) @ self.W2.flatten(0, 1)  # (n, M·f) (M·f, d)
        return out if self.b2 is None else out + alpha.to(out.dtype) @ self.b2.to(out.dtype)


def build(config: ModelConfig, branch: BranchConfig, kernels: Reference, weights: BranchWeights) -> BranchedFeedForward:
    """The class that `branch.impl` and `branch.ffn` select."""
    if branch.impl == "naive":
        return LiteralBranches(config, branch, kernels, weights)
    kind = ComposedBranches if branch.ffn == "shared" else ComposedOwnBranches
    return kind(config, branch, kernels, weights)


def _matrix(*shape: int) -> nn.Parameter:
    """(r, c) with Xavier initialisation, or M such matrices, each initialised separately."""
    matrix = nn.Parameter(torch.empty(*shape))
    with torch.no_grad():
        for one in matrix if matrix.dim() == 3 else [matrix]:
            nn.init.xavier_uniform_(one)
    return matrix


def _bias(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*shape))


def _affine(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    y = x @ W
    return y if b is None else y + b


def _per_branch(a: Tensor, matrices: Tensor) -> Tensor:
    """a_i times the matrix of branch i: (M, r, d) and (M, d, f), or a shared (d, f), to (M, r, f).

    A shared matrix takes one product of M·r rows; with broadcasting, its gradient would be a sum of M matrices.
    """
    if matrices.dim() == 3:
        return torch.matmul(a, matrices)
    together: Tensor = a.flatten(0, 1) @ matrices  # (M·r, f)
    return together.view(*a.shape[:2], -1)
