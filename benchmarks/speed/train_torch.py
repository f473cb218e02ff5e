"""A plain loop around torch.nn.Transformer, as in its tutorial."""

import math

import torch
from contestant import Loss, main
from torch import Tensor, nn
from workloads import BOS, PAD, VOCABULARY, Workload


def positions(length: int, d_model: int) -> Tensor:
    """Sinusoids, (length, d_model)."""
    position = torch.arange(length)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.zeros(length, d_model)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
    return table


class Translator(nn.Module):
    """torch.nn.Transformer with embeddings and output shared, and sinusoidal positions."""

    def __init__(self, w: Workload, vocabulary: int = VOCABULARY, dropout: float = 0.1) -> None:
        super().__init__()
        self.net = nn.Transformer(w.d_model, w.h, w.N, w.N, w.d_ff, dropout=dropout, batch_first=True)
        self.embed = nn.Embedding(vocabulary, w.d_model, padding_idx=PAD)
        nn.init.normal_(self.embed.weight, std=w.d_model**-0.5)
        self.drop = nn.Dropout(dropout)
        self.table: Tensor
        self.register_buffer("table", positions(512, w.d_model))

    def represent(self, ids: Tensor) -> Tensor:
        """(B, T) ids to (B, T, d_model)."""
        out: Tensor = self.drop(self.embed(ids) * math.sqrt(self.embed.embedding_dim) + self.table[: ids.size(1)])
        return out

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        """Logits, (B, T, V)."""
        hidden = self.net(
            self.represent(source),
            self.represent(given),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(given.size(1), device=given.device),
            src_key_padding_mask=source.eq(PAD),
            memory_key_padding_mask=source.eq(PAD),
            tgt_is_causal=True,
        )
        out: Tensor = hidden @ self.embed.weight.t()
        return out


def build(w: Workload) -> tuple[Loss, list[nn.Parameter]]:
    """The model and the label-smoothed loss of its logits."""
    net = Translator(w)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    def loss(source: Tensor, target: Tensor) -> Tensor:
        given = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        return criterion(net(source, given).flatten(0, 1), target.flatten())

    return loss, list(net.parameters())


if __name__ == "__main__":
    main(build)
