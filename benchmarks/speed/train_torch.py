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


def build(w: Workload) -> tuple[Loss, list[nn.Parameter]]:
    """The model with embeddings and output shared."""
    net = nn.Transformer(w.d_model, w.h, w.N, w.N, w.d_ff, dropout=0.1, batch_first=True)
    embed = nn.Embedding(VOCABULARY, w.d_model, padding_idx=PAD)
    nn.init.normal_(embed.weight, std=w.d_model**-0.5)
    table, drop = positions(512, w.d_model), nn.Dropout(0.1)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    def represent(ids: Tensor) -> Tensor:
        return drop(embed(ids) * math.sqrt(w.d_model) + table[: ids.size(1)])

    def loss(source: Tensor, target: Tensor) -> Tensor:
        given = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
        hidden = net(
            represent(source),
            represent(given),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.size(1)),
            src_key_padding_mask=source.eq(PAD),
            memory_key_padding_mask=source.eq(PAD),
            tgt_is_causal=True,
        )
        logits = hidden @ embed.weight.t()
        return criterion(logits.flatten(0, 1), target.flatten())

    return loss, [*net.parameters(), *embed.parameters()]


if __name__ == "__main__":
    main(build)
