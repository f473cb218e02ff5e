"""Position-wise feed-forward network (Vaswani et al. 2017, section 3.3)."""

from torch import Tensor, nn
from torch.nn import functional as F

from variations.configuration.transformer import ModelConfig
from variations.models.kernels import Reference


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (eq. 2)."""

    def __init__(self, config: ModelConfig, kernels: Reference) -> None:
        super().__init__()
        self.kernels, self.dropout = kernels, config.relu_dropout
        self.inner = nn.Linear(config.d_model, config.d_ff, config.ffn_bias)
        self.outer = nn.Linear(config.d_ff, config.d_model, config.ffn_bias)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(…, d) to (…, d)."""
        hidden = F.relu(self.inner(x))  # (…, d_ff)
        if self.training:
            hidden = self.kernels.dropout(hidden, self.dropout)
        out: Tensor = self.outer(hidden)
        return out
