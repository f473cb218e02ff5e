"""Position encodings (Vaswani et al. 2017, section 3.5)."""

import torch
from torch import Tensor, nn

from variations.configuration.transformer import PositionsConfig
from variations.models.doors import construct, resolve


def sinusoids(length: int, d_model: int, form: str = "paper") -> Tensor:
    """Fixed sinusoidal position encoding.

    Args:
        length: Number of positions, from 0.
        d_model: Width; even.
        form: `paper`: PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(same). `t2t`: all sines, then all cosines,
            with time scales 10000^(i / (d/2 - 1)), as in the code behind the paper.

    Returns:
        (length, d_model), float32.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    half = d_model // 2
    i = torch.arange(half, dtype=torch.float64)
    if form == "t2t":
        angle = position * 10000.0 ** (-i / max(half - 1, 1))  # (length, d/2)
        code = torch.cat([angle.sin(), angle.cos()], dim=1)
    else:
        angle = position * 10000.0 ** (-2 * i / d_model)  # (length, d/2)
        code = torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)
    return code.float()


class Positions(nn.Module):
    """The position encoding of one side. A class of another package is also constructed with `(config, d_model)`."""

    def __init__(self, config: PositionsConfig, d_model: int) -> None:
        super().__init__()
        self.config, self.d_model = config, d_model

    def forward(self, start: int, length: int) -> Tensor:
        """(length, d_model): encodings of positions start … start + length - 1, without limit."""
        raise NotImplementedError


class Sinusoidal(Positions):
    """Sinusoidal positions; the table grows on demand and is not a parameter."""

    table: Tensor

    def __init__(self, config: PositionsConfig, d_model: int) -> None:
        super().__init__(config, d_model)
        self.register_buffer("table", sinusoids(256, d_model, config.form), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """See `Positions.forward`."""
        if start + length > self.table.size(0):
            table = sinusoids(2 * (start + length), self.d_model, self.config.form)
            self.table = table.to(self.table.device, self.table.dtype)
        return self.table[start : start + length]


class Learned(Positions):
    """A learned table (Table 3, row E); positions beyond its end use its last row."""

    def __init__(self, config: PositionsConfig, d_model: int) -> None:
        super().__init__(config, d_model)
        self.table = nn.Parameter(torch.empty(config.max_length, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Tensor:
        """See `Positions.forward`."""
        rows = torch.arange(start, start + length, device=self.table.device)
        return self.table[rows.clamp(max=self.table.size(0) - 1)]


POSITIONS: dict[str, type[Positions]] = {"sinusoidal": Sinusoidal, "learned": Learned}
"""Values of `positions.kind`."""


def build(config: PositionsConfig, d_model: int) -> Positions:
    """The position encoding that the configuration names, for one side.

    Raises:
        UserError: The class that `positions.kind` names is not available, or cannot be constructed.
    """
    kind = resolve("positions.kind", config.kind, POSITIONS, Positions)
    return construct("positions.kind", config.kind, lambda: kind(config, d_model))
